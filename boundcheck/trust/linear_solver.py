"""Solves with A = I − ∂₁Φ to a relative error of the solution, not of the residual.

A small residual says little where A has small singular values: ‖s − A⁻¹b‖ ≤ ‖b − As‖/σ with σ the least of them. So σ
is followed along a run, by steps of inverse iteration with the last vector as start, and a solve goes on until
‖b − As‖ ≤ `LEFT`·σ‖s‖. That is an estimate, as inverse iteration finds σ from above.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.errors import AssumptionError
from boundcheck.numerics.bilevel.derivatives import Linearisation
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import conjugate_gradient, normal_equations

LEFT = 0.3  # of the solution, in error
MOST_STEPS = 2000  # in one solve
MOST_ROUNDS = 10  # solves, each from where the last one ended, until the error is small enough
FIRST = 3  # inverse iterations at the start
LOOSE = 0.1  # the residual of an inverse iteration
TIGHTEST = 1e-10


class LinearSolver:
    """CG, or CG on the normal equations where ∂₁Φ is not symmetric, with what is known of σ so far."""

    def __init__(self) -> None:
        self.symmetric: bool | None = None
        self.sigma = 1.0
        self._z: Tensor | None = None  # of unit length, where A is smallest
        self._ratio = {False: 1.0, True: 1.0}  # ‖s‖/‖b‖ of the last solve with A, and with Aᵀ

    def follow(self, problem: Problem, linearised: Linearisation) -> int:
        """A step of inverse iteration at a new λ, or the first ones; how many products that took."""
        if self._z is not None:
            return self._inverse_step(linearised, self._z)
        generator = torch.Generator(device="cpu").manual_seed(0)
        z = torch.randn(problem.d, generator=generator, dtype=torch.float64, device="cpu").to(problem.w0)
        self._z = z / z.norm()
        return sum(self._inverse_step(linearised, self._z) for _ in range(FIRST))

    def _inverse_step(self, linearised: Linearisation, z: Tensor) -> int:
        z, products = self._run(linearised, z, z / self.sigma, LOOSE, transposed=False)
        size = float(z.norm())
        if size > 0:
            self._z, self.sigma = z / size, 1 / size
        return products

    def look(self, problem: Problem, linearised: Linearisation) -> int:
        """Find out once whether ∂₁Φ is symmetric; how many products that took."""
        if self.symmetric is not None:
            return 0
        self.symmetric = _is_symmetric(problem, linearised)
        return 2 if problem.symmetric is None else 0

    def solve(
        self, linearised: Linearisation, b: Tensor, residual: float | None, *, transposed: bool
    ) -> tuple[Tensor, int]:
        """A⁻¹b or A⁻ᵀb, and how many products it took: to residual·‖b‖, or if that is None to an error of `LEFT`."""
        size = float(b.norm())
        if not size > 0:
            return torch.zeros_like(b), 0
        if residual is not None:
            return self._run(linearised, b, None, residual, transposed=transposed)
        s: Tensor | None = None
        products, ratio = 0, self._ratio[transposed]
        for _ in range(MOST_ROUNDS):
            tol = max(min(LEFT, LEFT * self.sigma * ratio), TIGHTEST)
            s, more = self._run(linearised, b, s, tol, transposed=transposed)
            products += more
            ratio = float(s.norm()) / size
            if not ratio < math.inf:
                break
            self.sigma = min(self.sigma, 1 / ratio) if ratio > 0 else self.sigma
            if tol <= max(2 * LEFT * self.sigma * ratio, TIGHTEST):
                break
        self._ratio[transposed] = ratio if ratio < math.inf else 1.0
        return torch.zeros_like(b) if s is None else s, products

    def _run(
        self, linearised: Linearisation, b: Tensor, start: Tensor | None, tol: float, *, transposed: bool
    ) -> tuple[Tensor, int]:
        d1_T, d1 = linearised.d1_T, linearised.d1
        first = 0 if start is None else 1
        if self.symmetric:
            try:
                solved = conjugate_gradient.solve(d1_T, b, MOST_STEPS, start, tol)
                return solved.v, solved.k + first
            except AssumptionError:  # symmetric but not definite: the normal equations do it
                self.symmetric = False
        first_map, second_map = (d1_T, d1) if transposed else (d1, d1_T)
        solved = normal_equations.solve(first_map, second_map, b, MOST_STEPS, start, tol)
        return solved.v, 2 * solved.k + 1 + first


def _is_symmetric(problem: Problem, linearised: Linearisation) -> bool:
    """By two random products, unless the problem says so itself."""
    if problem.symmetric is not None:
        return problem.symmetric
    try:
        conjugate_gradient.refuse_unless_symmetric(linearised, problem)
    except AssumptionError:
        return False
    return True
