"""The data that the estimators of one problem at one λ share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.ball import BallKind
from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.estimate import (
    at_solution,
    constant_derivatives,
    fixed_point_certificate,
    rounding_proof_matrices,
    suprema,
)
from boundcheck.numerics.estimate.constant_derivatives import Structure
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.fixed_point_certificate import FixedPoint
from boundcheck.numerics.estimate.program_at_point import AtPoint, at_point
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.estimate.rounding_proof_matrices import OfPhi
from boundcheck.numerics.estimate.step_constant import step_constant
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress


@dataclass(frozen=True, eq=False)
class Setting:
    """A problem with its solution, and results that are computed when they are first needed."""

    problem: Problem
    prepared: Prepared  # has one row, λ
    solution: ReferenceSolution
    spend: Spend
    tell: Progress

    @cached_property
    def shape(self) -> Structure:
        """The derivatives that are the same for all w."""
        return constant_derivatives.find(self.problem)

    @cached_property
    def program(self) -> ProgramProof:
        """The recorded functions of the problem."""
        return replace(ProgramProof.of(self.problem), spend=self.spend)

    @cached_property
    def fixed_point(self) -> FixedPoint | str:
        """A proof that w* is near the computed w*, or the reason for having none."""
        return fixed_point_certificate.certify(self.program, self.solution, step_constant(self.problem))

    @cached_property
    def point(self) -> AtPoint | str:
        """The derivatives at the computed w* from the program, or the reason for having none."""
        return at_point(self.program, self.w_star, step_constant(self.problem))

    @property
    def encloses(self) -> bool:
        """Whether the matrices are small enough to be enclosed in balls."""
        return at_solution.forms_matrices(self.problem) and rounding_proof_matrices.are_small(self.problem)

    @cached_property
    def of_phi(self) -> OfPhi | NoProof | None:
        """The balls of ∂₁Φ and ∂₂Φ at w*; None if they would take too long."""
        return rounding_proof_matrices.of_phi(self.problem, self.w_star) if self.encloses else None

    @cached_property
    def least(self) -> float | None:
        """The computed smallest singular value of I − ∂₁Φ(w*); None if there is no matrix."""
        if not isinstance(self.problem.known, ClosedForms) and isinstance(self.point, AtPoint):
            return float(torch.linalg.svdvals(self.point.A.value)[-1])
        if not isinstance(self.of_phi, OfPhi):
            return None
        Y = self.of_phi.d1.mid
        return float(torch.linalg.svdvals(torch.eye(len(Y), dtype=Y.dtype) - Y)[-1])

    @property
    def w_star(self) -> Tensor:
        return self.solution.w[0]

    def supremum(self, name: str, region: Region, number: int = 0, of: int = 1) -> Constant:
        """Return a lower estimate of a constant by ascent. `number` and `of` count the constants, for the progress."""
        which = f" ({number + 1} of {of})" if of > 1 else ""
        self.tell(f"measuring constants: {name}{which}", number, of)
        problem, prepared = self._quick
        return suprema.measure(name, problem, prepared, region, self.w_star, self.spend)

    @cached_property
    def _quick(self) -> tuple[Problem, Prepared]:
        """The problem with formulas for its derivatives, which measurements use."""
        problem = quick(self.problem)
        return problem, self.prepared if problem is self.problem else Prepared(problem, problem.lam[None])

    def region(self, ball: str, peak: float, D: float, r_0: float) -> Region:
        """Return the ball of the paper or the ball around w*."""
        if ball == BallKind.PAPER:
            return Region("0", torch.zeros_like(self.w_star), 2 * D)
        return Region("w_star", self.w_star, peak * r_0)
