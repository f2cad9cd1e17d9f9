"""Constants at the fixed point, where nothing is a supremum: norms of matrices, dense or by products.

Up to d = `DENSE` with matrices, certified by Cholesky (exact to rounding); above that by Golub-Kahan from a random
start, certified with probability 1 − δ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from boundcheck.constants import Ball, Constant, Provenance, Side
from boundcheck.errors import InputError
from boundcheck.estimate import spectral
from boundcheck.estimate.spectral import Extreme
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.products import DENSE, LamLinearisation, Linearisation, gradient, jacobian, rows_d2
from boundcheck.solvers.exact import Reference

MATRIX = 40_000_000  # numbers in a matrix that may be formed
STEPS = 200  # of Golub-Kahan at most


@dataclass(frozen=True)
class Spend:
    """What an estimate may cost and how it is drawn."""

    delta: float
    seed: int
    budget: int | None = None  # products

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InputError(f"delta = {self.delta} is no probability of failure; give a number between 0 and 1")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"seed = {self.seed!r} is no seed; give an integer")
        budget = self.budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
            raise InputError(f"budget = {budget} pays for nothing; give a number of products >= 1, or leave it out")

    @property
    def half(self) -> float:
        """δ of one certificate of two, so that what needs both fails with probability δ at most."""
        return self.delta / 2


def at_solution(problem: Problem, prepared: Prepared, found: Reference, spend: Spend) -> Iterator[Constant]:
    """q*, L_Φ*, W and g* at w*, as far as they can be had; `prepared` is for one λ as a row."""
    w, ready = found.w[0], prepared.leaves.at(0)
    if problem.d <= DENSE:
        yield from _dense(problem, prepared, w)
    else:
        yield from _by_products(problem, prepared, w, spend)
    b = gradient(problem.outer_at)(w, ready)
    yield _plain("g_star", b.norm(), "‖∇₁E(w*)‖ at the computed w*", problem)


def _plain(name: str, value: Tensor, how: str, problem: Problem, products: int = 1) -> Constant:
    return Constant(name, float(value), Side.EXACT, made(how, problem, products=products))


def made(
    how: str, problem: Problem, *, products: int | None = None, delta: float | None = None, seed: int | None = None,
    residual: float | None = None, samples: int | None = None, ball: Ball | None = None,
) -> Provenance:  # fmt: skip
    """How a value was obtained, and in which arithmetic."""
    dtype, device = str(problem.dtype).removeprefix("torch."), str(problem.device)
    return Provenance(how, "", products, samples, seed, delta, residual, ball, dtype, device)


def constant(name: str, found: Extreme, how: str, problem: Problem, seed: int | None = None) -> Constant:
    """A `Constant` from one end of a spectrum."""
    how += "" if found.converged else ", which has not come to rest"
    provenance = made(how, problem, products=found.products, seed=seed, delta=found.delta, residual=found.residual)
    return Constant(name, found.value, found.side, provenance)


def _dense(problem: Problem, prepared: Prepared, w: Tensor) -> Iterator[Constant]:
    d, n, ready = problem.d, problem.n, prepared.leaves.at(0)

    def norm(name: str, M: Tensor, how: str) -> Constant:
        return constant(name, replace(spectral.dense_norm(M), products=min(M.shape)), f"{how}, of the matrix", problem)

    Y = jacobian(lambda x: problem.phi_at(x, ready), w)
    yield norm("q_star", Y, "‖∂₁Φ(w*)‖")
    if d * n <= MATRIX:
        Z = rows_d2(problem.phi_at, w[None, None], prepared, prepared.leaves, d)[0, 0]
        if n > d:  # Z = RᵀQᵀ, of which Qᵀ changes no norm
            Z = torch.linalg.qr(Z.T, mode="r").R.T
        yield norm("L_Phi_star", Z, "‖∂₂Φ(w*)‖")
        yield norm(
            "W", torch.linalg.solve(torch.eye(d, dtype=w.dtype, device=w.device) - Y, Z), "‖(I − ∂₁Φ)⁻¹∂₂Φ‖ at w*"
        )


def _by_products(problem: Problem, prepared: Prepared, w: Tensor, spend: Spend) -> Iterator[Constant]:
    ready = prepared.leaves.at(0)
    at = Linearisation(problem.phi_at, w, ready)
    generator = torch.Generator(device="cpu").manual_seed(spend.seed)
    most = STEPS if spend.budget is None else max(1, min(STEPS, spend.budget // 4))
    norm = partial(spectral.norm, delta=spend.half, most=most, generator=generator, dtype=w.dtype, device=w.device)
    found = norm(at.d1_T if problem.symmetric else at.d1, at.d1_T, (problem.d, problem.d))
    yield constant("q_star", found, "‖∂₁Φ(w*)‖ by Golub-Kahan from a random start", problem, spend.seed)
    of_lam = LamLinearisation(problem.phi_at, w[None, None], prepared.leaves)

    def d2(x: Tensor) -> Tensor:
        return of_lam.d2(prepared.along(x[None]))[0, 0]

    def d2_T(v: Tensor) -> Tensor:
        return prepared.pull_back(of_lam.d2_T(v[None, None]))[0]

    found = norm(d2, d2_T, (problem.d, problem.n))
    yield constant("L_Phi_star", found, "‖∂₂Φ(w*)‖ by Golub-Kahan from a random start", problem, spend.seed)
