"""Solve systems with A = I − ∂₁Φ to a relative error of the solution, not of the residual.

A small residual says little if A has small singular values: ‖s − A⁻¹b‖ ≤ ‖b − As‖/σ, where σ is the least singular
value. So σ is tracked along a run by inverse iteration, which starts from the last vector, and a solve continues until
‖b − As‖ ≤ `LEFT`·σ‖s‖. This is an estimate, because inverse iteration approaches σ from above.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.errors import AssumptionError
from boundcheck.numerics.bilevel.derivatives import Linearisation
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import conjugate_gradient, normal_equations

LEFT = 0.3  # the allowed relative error of a solution
MOST_STEPS = 2000  # the largest number of steps in one solve
MOST_ROUNDS = 10  # the largest number of solves, each from the last result, until the error is small enough
FIRST = 3  # inverse iterations at the first λ
LOOSE = 0.1  # the relative residual of an inverse iteration
TIGHTEST = 1e-10  # the smallest relative residual


class LinearSolver:
    """CG, or CG on the normal equations if ∂₁Φ is not symmetric, with the current estimate of σ."""

    def __init__(self) -> None:
        self.symmetric: bool | None = None
        self.sigma = 1.0
        self._z: Tensor | None = None  # a unit vector in the direction in which A is smallest
        self._ratio = {False: 1.0, True: 1.0}  # ‖s‖/‖b‖ of the last solve with A, and with Aᵀ

    def follow(self, problem: Problem, linearised: Linearisation) -> int:
        """Update σ by a step of inverse iteration at a new λ, or by the first steps; returns the number of products."""
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
        """Test once whether ∂₁Φ is symmetric; returns the number of products."""
        if self.symmetric is not None:
            return 0
        self.symmetric = _is_symmetric(problem, linearised)
        return 2 if problem.symmetric is None else 0

    def solve(
        self, linearised: Linearisation, b: Tensor, residual: float | None, *, transposed: bool
    ) -> tuple[Tensor, int]:
        """A⁻¹b or A⁻ᵀb to residual·‖b‖, or to a relative error of `LEFT` if `residual` is None; and the products."""
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
            except AssumptionError:  # symmetric but not definite: use the normal equations
                self.symmetric = False
        first_map, second_map = (d1_T, d1) if transposed else (d1, d1_T)
        solved = normal_equations.solve(first_map, second_map, b, MOST_STEPS, start, tol)
        return solved.v, 2 * solved.k + 1 + first


def _is_symmetric(problem: Problem, linearised: Linearisation) -> bool:
    """Whether ∂₁Φ is symmetric, from the problem or from two random products."""
    if problem.symmetric is not None:
        return problem.symmetric
    try:
        conjugate_gradient.refuse_unless_symmetric(linearised, problem)
    except AssumptionError:
        return False
    return True
