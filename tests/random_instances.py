"""Small problems with data for the random methods, and what their runs should be: exact steps, exact expectations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jacrev

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.step_schedule import StepSchedule

EXAMPLES, D, N = 6, 3, 2
Z = 5.0  # standard errors: a normal mean is further away with a probability of 6e-7


def layer(
    batch: int = 2, replacement: bool = True, dtype: torch.dtype = torch.float64, *, spread: float = 1.0
) -> Problem:
    """A layer whose derivatives vary with w, λ and the examples; E depends on λ too."""
    generator = torch.Generator().manual_seed(3)
    A = spread * torch.randn(EXAMPLES, D, D, generator=generator, dtype=torch.float64)
    B = spread * torch.randn(EXAMPLES, D, N, generator=generator, dtype=torch.float64)

    def fp_map(w: Tensor, lam: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        A, B = batch
        return 0.4 * torch.tanh(A @ w + B @ lam.exp()).mean(0)

    def outer_loss(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - 1) ** 2).sum() / 2 + (lam**2).sum() * w.sum()

    start = torch.linspace(-0.5, 0.5, D, dtype=dtype)
    lam = torch.tensor([0.3, -0.2], dtype=dtype)
    data = (A.to(dtype), B.to(dtype))
    return bc.Problem.from_map(fp_map, outer_loss, start, lam, data=data, batch=batch, replacement=replacement)


@dataclass(frozen=True)
class Point:
    """The derivatives at one w: on all examples, or on a minibatch."""

    d1: Tensor
    d2: Tensor


def derivatives(problem: Problem, w: Tensor, indices: Tensor | None = None) -> Point:
    sums = problem.finite_sum
    assert sums is not None

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        ready = problem.prepare(lam)
        return problem.phi_at(w, ready) if indices is None else sums.phi_on(w, ready, indices)

    d1, d2 = jacrev(phi, argnums=(0, 1))(w, problem.lam)
    return Point(d1, d2)


def outer_gradients(problem: Problem, w: Tensor) -> tuple[Tensor, Tensor]:
    first, second = jacrev(problem.outer, argnums=(0, 1))(w, problem.lam)
    return first, second


def expected_sid(problem: Problem, w: Tensor, k: int, steps: StepSchedule) -> Tensor:
    """E[g | w_t = w]: the mean of the chain of v is the chain with the mean of ∂₁Φ̂."""
    full, (b, outer_lam) = derivatives(problem, w), outer_gradients(problem, w)
    v = torch.zeros_like(b)
    for i in range(k):
        v = v + steps.at(i) * (full.d1.T @ v + b - v)
    return outer_lam + full.d2.T @ v


def misses(values: Tensor, expected: Tensor) -> float:
    """How many standard errors the mean of independent rows is from what is expected, in the worst entry."""
    error = (values.mean(0) - expected).abs()
    return float((error / (values.std(0) / len(values) ** 0.5)).max())
