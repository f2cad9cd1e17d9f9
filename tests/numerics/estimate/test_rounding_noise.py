"""What random arithmetic shows of rounding: what cancelled on the way, and nothing where there is nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from pieces import normal
from small import small

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_noise
from boundcheck.numerics.solvers.reference import reference

EPS = torch.finfo(torch.float64).eps


def test_cancellation_is_seen() -> None:
    big = 1e8
    problem = Problem.from_map(
        lambda w, lam: w / 2 + ((big + lam) - big), lambda w, lam: w.sum(), normal(1) * 0, normal(1), symmetric=True
    )
    found = rounding_noise.measured(problem, problem.w0 + 1, problem.w0 + 2)
    assert big * EPS < found.w < 100 * big * EPS
    assert found.g < 100 * EPS * 2  # ∂₂Φ = 1 has none of it


@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_it_is_above_the_rounding_of_a_ridge_regression(shift: float) -> None:
    """A centred feature against targets far from 0: Xᵀ(Xw − y) cancels inside a product; the truth in fractions."""
    X = normal(50, 1)
    X[-1] -= X.sum()
    y = shift + 2 * X[:, 0] + normal(50, seed=1)
    problem = Problem.from_map(
        lambda w, lam: w - 0.01 * (X.T @ (X @ w - y) + lam * w), lambda w, lam: ((w - 1) ** 2).sum() / 2, normal(1) * 0,
        normal(1) * 0 + 1, symmetric=True,
    )  # fmt: skip
    w, alpha = normal(1, seed=2), Fraction(0.01)
    xs, ys, at = [Fraction(float(x)) for x in X[:, 0]], [Fraction(float(z)) for z in y], Fraction(float(w))
    truth = alpha * (sum(x * (x * at - z) for x, z in zip(xs, ys, strict=True)) + at)
    here = float(w - problem.phi_at(w, problem.prepare(problem.lam)))
    found = rounding_noise.measured(problem, w, w)
    assert abs(here - float(truth)) <= found.w
    assert found.w < 1e-10 * (1 + shift)


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr", "eqm"])
def test_it_is_small_on_the_problems_that_we_have(name: str) -> None:
    problem = small(name)
    found = reference(problem, problem.lam[None])
    noise = rounding_noise.measured(problem, found.w[0], found.v[0])
    scale = float(found.w.norm() + found.v.norm() + found.value.norm())
    assert 0 < noise.w < 1e-11 * (1 + scale)
    assert 0 <= noise.v < 1e-10 * (1 + scale)
    assert 0 < noise.g < 1e-10 * (1 + scale)
    assert noise == rounding_noise.measured(problem, found.w[0], found.v[0])  # from its seed


def test_zeros_without_memory_that_autograd_makes_are_left_alone() -> None:
    """The second derivative of |w| is one; to multiply it ends the process."""
    problem = Problem.from_loss(
        lambda w, lam: (w * w / 4 + w * w * w.abs() / 60 - lam * w).sum(), lambda w, lam: w.sum(), normal(2), normal(2),
        1.0,
    )  # fmt: skip
    found = rounding_noise.measured(problem, problem.w0, problem.w0)
    assert 0 < found.w < 100 * EPS * (1 + float(problem.w0.norm() + problem.lam.norm()))


HILBERT = 1 / (torch.arange(10.0, dtype=torch.float64)[:, None] + torch.arange(10) + 1)
BIG = 1e8


def sum_inside(lam: torch.Tensor) -> torch.Tensor:
    """λ by a sum of 2·10⁸ + λ, −10⁸ and −10⁸, in one operation."""
    return torch.stack((2 * BIG + lam, 0 * lam - BIG, 0 * lam - BIG)).sum(0)


def complex_inside(lam: torch.Tensor) -> torch.Tensor:
    """λ by the real part of (10⁸ + λ + i)·1, less 10⁸."""
    return (torch.complex(BIG + lam, torch.ones_like(lam)) - BIG).real


INSIDE = {
    "solve": (lambda lam: torch.linalg.solve(HILBERT, lam), 1.0),  # truth 323 of [0, 0.66]
    "sum": (sum_inside, BIG * EPS),
    "dot": (lambda lam: lam * (lam.new_tensor([BIG, -BIG, 1.0]) @ lam.new_tensor([1 / 3, 1 / 3, 1.0])), BIG * EPS),
    "in place": (lambda lam: lam.clone().add_(BIG).sub_(BIG), BIG * EPS),
    "complex": (complex_inside, BIG * EPS),
    "fourier": (lambda lam: torch.fft.ifft(torch.fft.fft(lam + BIG)).real - BIG, BIG * EPS),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_what_cancels_inside_of_an_operation_is_seen(name: str) -> None:
    function, least = INSIDE[name]
    lam = torch.arange(1.0, 11.0, dtype=torch.float64)
    problem = Problem.from_map(lambda w, lam: w / 2 + function(lam), lambda w, lam: (w * w).sum() / 2, 0 * lam, lam)
    found = rounding_noise.measured(problem, lam, lam)
    assert found.w > least
    if name != "solve":
        assert found.w < 1e3 * least


def test_a_factorisation_that_rounding_breaks_says_nothing() -> None:
    """A matrix that is positive definite by a hair: some runs have no Cholesky factor."""
    A = torch.ones(4, 4, dtype=torch.float64) + EPS * torch.eye(4, dtype=torch.float64)
    problem = Problem.from_map(
        lambda w, lam: w / 2 + torch.linalg.cholesky(A) @ lam, lambda w, lam: w.sum(), normal(4), normal(4)
    )
    assert rounding_noise.measured(problem, normal(4), normal(4)).w == float("inf")
