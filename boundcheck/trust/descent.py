"""One descent on λ with values that are no more exact than a step needs.

A step is judged by `step_rules`. Where the decrease of f is not significant against the errors of the two values, both
are computed again, more exactly; nowhere else. After a step that was clear the run asks for less again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from boundcheck.errors import AssumptionError, DivergenceError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.solvers.reference import reference
from boundcheck.report.minimum import Trial
from boundcheck.trust import step_rules
from boundcheck.trust.coordinates import Coordinates
from boundcheck.trust.outer_value import Evaluate, OuterValue, RequestedAccuracy, Start
from boundcheck.trust.step_rules import Decrease, ValueComparison

ASKED = 0.5  # θ at first: the relative error that a hypergradient may have
TIGHTER = 0.25  # times the relative error, where a decrease is not significant against the errors
TIGHTEST = 1e-8
SHORTEST = 1e-12  # a step of this part of the first one that was tried at a point does not move λ any more
FINER = 3  # times that only f is made more exact where a decrease is not significant
MEMORY = 5  # values of f, the largest of which a step has to go below


class Stuck(Exception):  # noqa: N818 - no error: how a descent may end
    """No step from here takes f down."""


@dataclass(eq=False)
class Descent:
    """The state of a run: where it is, how exact values are asked for, and what was tried."""

    problem: Problem
    evaluate: Evaluate
    coordinates: Coordinates
    atol: float
    rule: str
    outer_step: float | None
    tell: Callable[[Trial], object]
    asked: float = ASKED
    most: float = ASKED  # up to which it asks for less again
    history: list[Trial] = field(default_factory=list)
    recent: list[OuterValue] = field(default_factory=list)
    best: OuterValue | None = None
    alpha: float = 0.0

    def start(self) -> OuterValue:
        """The value at the problem's own λ, and a first step size: a part of the length of the coordinates."""
        w0 = self.problem.w0
        here = self.value(self.problem.lam, Start(w0, torch.zeros_like(w0)), needed=True)
        if math.isinf(here.error):
            self.refuse(self.problem.lam)
        self.note(here, 0.0, accepted=True)
        length = max(1.0, float(self.coordinates.position(here.lam).norm()))
        self.alpha = self.outer_step or step_rules.FIRST * length / max(self.size(here), self.atol)
        return here

    def refuse(self, lam: Tensor) -> None:
        """Raise what Newton's method from w_0 says of λ, if it finds no w(λ) or no derivative of it, either."""
        reference(quick(self.problem), lam[None])

    def value(
        self, lam: Tensor, start: Start, *, show: bool = False, f_atol: float = math.inf, needed: bool = False
    ) -> OuterValue:
        """f and ∇f at λ, to the relative error that is asked for now; `needed` if the run cannot go on without."""
        scale = self.coordinates.scale(lam)
        asked = RequestedAccuracy(self.asked, self.atol, lambda g: float((scale * g).norm()), show, f_atol)
        try:
            return self.evaluate(quick(replace(self.problem, lam=lam)), start, asked)
        except DivergenceError:
            if needed:
                self.refuse(lam)
            raise

    def needed_value(self, at: OuterValue, *, show: bool = False, f_atol: float = math.inf) -> OuterValue:
        """The same point, more exactly."""
        return self.value(at.lam, Start(at.w, at.v, at.g), show=show, f_atol=f_atol, needed=True)

    def size(self, at: OuterValue) -> float:
        """‖g‖ in the coordinates of the run."""
        return float(self.coordinates.gradient(at.lam, at.g).norm())

    def again(self, at: OuterValue, f_atol: float = math.inf) -> OuterValue:
        """The same point: f to an error, or else g to what is asked for now, which a strict correction shows."""
        better = self.needed_value(at, show=math.isinf(f_atol), f_atol=f_atol)
        self.note(better, 0.0, accepted=False)
        return better

    def shown(self, here: OuterValue) -> OuterValue:
        """The point where the run is, with an error that was shown."""
        if not here.shown:
            here = self.recent[-1] = self.again(here)
        return here

    def more_exactly(self, at: OuterValue) -> OuterValue:
        """The same point with a smaller error, which the run asks for from now on."""
        self.asked = max(self.asked * TIGHTER, TIGHTEST)
        self.most = self.asked
        better = self.recent[-1] = self.again(at)
        return better

    @property
    def steps(self) -> int:
        """The steps that were taken."""
        return sum(trial.accepted for trial in self.history) - 1

    def note(self, at: OuterValue, alpha: float, *, accepted: bool) -> None:
        size = self.size(at)
        row = Trial(
            at.f, at.f_error, size, self.asked, at.error / size if size else 0.0, at.t, at.k, at.products, alpha,
            accepted,
        )  # fmt: skip
        self.history.append(row)
        if accepted:
            self.recent = [*self.recent, at][-MEMORY:]
            if self.best is None or at.f + at.f_error <= self.best.f + self.best.f_error:
                self.best = at
        self.tell(row)

    def step(self, here: OuterValue) -> OuterValue:
        """The next point: shorter and shorter steps along −g until one takes f down enough."""
        first = self.alpha
        while self.alpha > SHORTEST * first:
            there = self.tried(here)
            if there is None:
                self.alpha /= 4
                continue
            here, there, decrease = self.judged(here, there)
            if decrease is Decrease.ENOUGH:
                self.note(there, self.alpha, accepted=True)
                self.alpha = self.next_alpha(here, there)
                self.asked = min(self.most, 2 * self.asked)
                return there
            self.note(there, self.alpha, accepted=False)
            slope = self.size(here) ** 2
            self.alpha = step_rules.shorter(self.alpha, here.f - there.f, slope)
        raise Stuck

    def tried(self, here: OuterValue) -> OuterValue | None:
        """The value at the end of the step; None outside of the domain, or where no w(λ) is found."""
        step = -self.alpha * self.coordinates.gradient(here.lam, here.g)
        lam = self.coordinates.move(here.lam, step)
        domain = self.problem.domain
        if not bool(torch.isfinite(lam).all()) or (domain is not None and not bool(domain.holds(lam))):
            return None
        try:
            there = self.value(lam, Start(here.w, here.v, here.g))
        except (DivergenceError, AssumptionError):
            return None
        if math.isinf(there.error):
            self.note(there, self.alpha, accepted=False)
            return None
        return there

    def judged(self, here: OuterValue, there: OuterValue) -> tuple[OuterValue, OuterValue, Decrease]:
        """Whether the step takes f down enough; values are made more exact for as long as that is not clear.

        f is asked for first, which takes a correction or two: only where that does not help, the hypergradients, too.
        """
        for _ in range(FINER):
            compared = self.compare(here, there)
            if compared.decrease is not Decrease.UNCLEAR:
                return here, there, compared.decrease
            if there.f - here.f > here.f_error + there.f_error:  # up for certain: a shorter step costs no more
                return here, there, Decrease.TOO_LITTLE
            enough = abs(compared.gain - compared.needed) / 3
            if there.f_error >= compared.doubt / 2:
                self.note(there, self.alpha, accepted=False)
                there = self.needed_value(there, f_atol=enough)
            else:
                here = self.again(here, f_atol=enough)
                self.recent = [here]  # the others are as inexact as they were
        while True:
            compared = self.compare(here, there)
            if compared.decrease is not Decrease.UNCLEAR:
                return here, there, compared.decrease
            if self.asked <= TIGHTEST:
                return here, there, self.by_slope(here, there)
            self.asked *= TIGHTER
            self.note(there, self.alpha, accepted=False)
            here, there = self.again(here), self.needed_value(there, show=True)
            self.recent = [here]

    def compare(self, here: OuterValue, there: OuterValue) -> ValueComparison:
        size = self.size(here)
        theta = min(here.error / size, 0.9) if size else 0.0
        highest = max(self.recent, key=lambda at: at.f)
        doubt = highest.f_error + there.f_error
        return ValueComparison(highest.f - there.f, doubt, step_rules.SHARE * (1 - theta) * self.alpha * size**2)

    def by_slope(self, here: OuterValue, there: OuterValue) -> Decrease:
        """Where the decrease is below the rounding of f: is the slope at the end of the step small, or still down?"""
        before, after = (self.coordinates.gradient(at.lam, at.g) for at in (here, there))
        steep = float(before @ before)
        return Decrease.ENOUGH if float(after @ before) >= -(1 - 2 * step_rules.SHARE) * steep else Decrease.TOO_LITTLE

    def next_alpha(self, here: OuterValue, there: OuterValue) -> float:
        if self.rule == "backtracking":
            return self.outer_step or 2 * self.alpha
        before, after = (self.coordinates.gradient(at.lam, at.g) for at in (here, there))
        moved = -self.alpha * before
        return step_rules.barzilai_borwein(self.alpha, float(moved @ moved), float(moved @ (after - before)))
