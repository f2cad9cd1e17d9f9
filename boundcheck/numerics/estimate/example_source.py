"""The source of bounds of single examples: the closed form of a built-in problem, or recorded programs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import RAISED_BY, ClosedForms
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import example_bounds, example_programs
from boundcheck.numerics.estimate.example_bounds import ExampleBounds, StepRange
from boundcheck.numerics.estimate.example_losses import of_losses
from boundcheck.numerics.estimate.example_maps import of_maps
from boundcheck.numerics.estimate.example_programs import ExamplePrograms
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.estimate.step_constant import step_constant, step_rounding
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.side import Side

FEW = 20  # number of examples that are measured if nothing can be proved
MOST_WORK = 2e10  # limit on N·d³, the work for the matrices of all examples
EXAMPLES = "examples"  # the key under which a source is stored
LARGER = 1.3  # stored bounds are used if their ball is at most this many times as large


@dataclass(frozen=True, eq=False)
class _StoredBounds:
    """Bounds on a ball that were computed before."""

    centre: Tensor
    radius: float
    bounds: ExampleBounds


@dataclass(frozen=True, eq=False)
class ExampleSource:
    """Bounds of the examples of a problem on any ball. If there are none, `doubt` says why."""

    problem: Problem
    programs: ExamplePrograms | None
    step: StepRange | None
    doubt: str
    _stored: list[_StoredBounds] = field(default_factory=list, init=False)  # the last bounds

    @classmethod
    def of(cls, setting: Setting) -> ExampleSource:
        """Record the examples, unless the problem has a closed form. The result is stored until the programs change."""
        known = setting.program.shared.known  # cleared when a function, its data or λ changes
        if EXAMPLES not in known:
            known[EXAMPLES] = cls._recorded(setting.problem)
        source: ExampleSource = known[EXAMPLES]
        return source

    @classmethod
    def _recorded(cls, problem: Problem) -> ExampleSource:
        finite_sum = problem.finite_sum
        step = _step(problem)
        if finite_sum is not None and finite_sum.slopes is not None and finite_sum.lam_apart and step is not None:
            return cls(problem, None, step, "")
        try:
            return cls(problem, example_programs.record(problem, has_step=step is not None), step, "")
        except Declined as why:
            return cls(problem, None, step, str(why))

    def on_some(self, centre: Tensor, radius: float, doubt: str) -> ExampleBounds | str:
        """Return bounds of a few examples, as estimates for the reason `doubt`, or the reason for having none."""
        few = self
        finite_sum, programs = self.problem.finite_sum, self.programs
        if programs is not None and finite_sum is not None:
            stride = len(programs.whole) // max(FEW, finite_sum.batch)
            if stride > 1:
                sample = replace(programs, whole=programs.whole[::stride], own=programs.own[::stride])
                few = replace(self, programs=sample)
        bounds = few._on(centre, radius)
        return bounds if isinstance(bounds, str) else replace(bounds, doubt=doubt)

    def on(self, centre: Tensor, radius: float) -> ExampleBounds | str:
        """Return bounds on a ball, or on a slightly larger ball if these are stored, or the reason for having none."""
        for stored in self._stored:
            if torch.equal(stored.centre, centre) and radius <= stored.radius <= LARGER * radius:
                return stored.bounds
        bounds = self._on(centre, radius)
        if not isinstance(bounds, str):
            self._stored[:] = [_StoredBounds(centre.detach().clone(), radius, bounds)]
        return bounds

    def _on(self, centre: Tensor, radius: float) -> ExampleBounds | str:
        try:
            if self.programs is None:
                if self.step is None:
                    return "the step is not known exactly"
                return example_bounds.from_slopes(self.problem, self.step, centre, radius)
            return self._from_programs(self.programs, centre, radius)
        except Declined as why:
            return str(why)

    def _from_programs(self, programs: ExamplePrograms, centre: Tensor, radius: float) -> ExampleBounds:
        N, d = len(programs.whole), self.problem.d
        if N * d**3 > MOST_WORK:
            raise Declined(f"{N} examples with d = {d} would take too long")
        if not programs.is_loss:
            bounds = of_maps(self.problem, programs, centre, radius)
        elif self.step is None or not math.isfinite(self.step.off):
            raise Declined("the step is not known exactly")
        else:
            bounds = of_losses(self.problem, programs, self.step, centre, radius)
        numbers = torch.stack((bounds.moves, bounds.low, bounds.high))
        if not bool(numbers.isfinite().all()) or not math.isfinite(bounds.variance_above + bounds.m_1):
            raise Declined("a derivative of an example is not bounded")
        return bounds


def _step(problem: Problem) -> StepRange | None:
    """Return the step α if it is known exactly, from the problem or in closed form."""
    if isinstance(problem.known, ClosedForms):
        closed = {constant.name: constant for constant in problem.known.everywhere(problem.lam)}
        alpha = closed.get("alpha")
        if alpha is None or alpha.side is not Side.EXACT or problem.inner_at is None:
            return None
        slope = closed.get("grad_alpha")
        frozen = slope is None or slope.value == 0
        L, margin = closed.get("L"), RAISED_BY * torch.finfo(problem.dtype).eps
        top = L.value * (1 + margin) if L is not None and L.side in (Side.EXACT, Side.UPPER) else math.inf
        return StepRange(alpha.value, margin * alpha.value, frozen, top)
    alpha = step_constant(problem)
    if alpha is None or alpha.side is not Side.EXACT:
        return None
    return StepRange(alpha.value, step_rounding(problem), bool(problem.frozen_step))
