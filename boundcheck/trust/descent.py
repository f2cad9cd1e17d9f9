"""Descent on λ with values that are only as accurate as a step needs.

`step_rules` judges a step. Only if the decrease of f is not significant compared with the errors of the two values,
both are computed again, more accurately. After a step that was clear, the requested accuracy becomes lower again.
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

ASKED = 0.5  # the first θ: the allowed relative error of a hypergradient
TIGHTER = 0.25  # θ is multiplied by this if a decrease is not significant
TIGHTEST = 1e-8  # the smallest θ
SHORTEST = 1e-12  # stop shortening a step at this fraction of the first one at a point; λ does not move any more
FINER = 3  # improve only f this many times if a decrease is not significant; after that, the hypergradients too
CREDIBLE = 10.0  # E(w) − f may be at most this many times as large as f at the start of the step, or as E(w)
MEMORY = 5  # a step has to go below the largest of this many values of f


class Stuck(Exception):  # noqa: N818 - not an error, but one way in which a descent may end
    """No step from the current point decreases f."""


@dataclass(eq=False)
class Descent:
    """The state of a run: the requested accuracy, the step size, and the points so far."""

    problem: Problem
    evaluate: Evaluate
    coordinates: Coordinates
    atol: float
    rule: str
    outer_step: float | None
    tell: Callable[[Trial], object]
    asked: float = ASKED
    most: float = ASKED  # the largest value to which `asked` may grow again
    history: list[Trial] = field(default_factory=list)
    recent: list[OuterValue] = field(default_factory=list)
    best: OuterValue | None = None
    alpha: float = 0.0

    def start(self) -> OuterValue:
        """Compute the value at the problem's own λ, and choose a first step size from the length of the coordinates."""
        w0 = self.problem.w0
        here = self.value(self.problem.lam, Start(w0, torch.zeros_like(w0)), needed=True)
        if math.isinf(here.error):
            self.refuse(self.problem.lam)
        self.note(here, 0.0, accepted=True)
        length = max(1.0, float(self.coordinates.position(here.lam).norm()))
        self.alpha = self.outer_step or step_rules.FIRST * length / max(self.size(here), self.atol)
        return here

    def refuse(self, lam: Tensor) -> None:
        """Run Newton's method from w_0, which raises the cause if w(λ) or its derivative does not exist."""
        reference(quick(self.problem), lam[None])

    def value(
        self, lam: Tensor, start: Start, *, show: bool = False, f_atol: float = math.inf, needed: bool = False
    ) -> OuterValue:
        """f and ∇f at λ to the current relative error; `needed` if the run cannot continue without this value."""
        scale = self.coordinates.scale(lam)
        request = RequestedAccuracy(self.asked, self.atol, lambda g: float((scale * g).norm()), show, f_atol)
        try:
            return self.evaluate(quick(replace(self.problem, lam=lam)), start, request)
        except DivergenceError:
            if needed:
                self.refuse(lam)
            raise

    def needed_value(self, point: OuterValue, *, show: bool = False, f_atol: float = math.inf) -> OuterValue:
        """Compute the value at the same point more accurately; the run cannot continue without it."""
        return self.value(point.lam, Start(point.w, point.v, point.g), show=show, f_atol=f_atol, needed=True)

    def size(self, point: OuterValue) -> float:
        """‖g‖ in the coordinates of the run."""
        return float(self.coordinates.gradient(point.lam, point.g).norm())

    def improved(self, point: OuterValue, f_atol: float = math.inf) -> OuterValue:
        """The same point again: f to the error `f_atol`, or g to the current accuracy, shown by a strict correction."""
        better = self.needed_value(point, show=math.isinf(f_atol), f_atol=f_atol)
        self.note(better, 0.0, accepted=False)
        return better

    def with_shown_error(self, here: OuterValue) -> OuterValue:
        """The current point, with an error that a strict correction has shown."""
        if not here.shown:
            here = self.recent[-1] = self.improved(here)
        return here

    def more_accurate(self, point: OuterValue) -> OuterValue:
        """The same point with a smaller error, which the run requests from now on."""
        self.asked = max(self.asked * TIGHTER, TIGHTEST)
        self.most = self.asked
        better = self.recent[-1] = self.improved(point)
        return better

    @property
    def steps(self) -> int:
        """The number of accepted steps."""
        return sum(trial.accepted for trial in self.history) - 1

    def note(self, point: OuterValue, alpha: float, *, accepted: bool) -> None:
        size = self.size(point)
        row = Trial(
            point.f, point.f_error, size, self.asked, point.error / size if size else 0.0, point.t, point.k,
            point.products, alpha, accepted,
        )  # fmt: skip
        self.history.append(row)
        if accepted:
            self.recent = [*self.recent, point][-MEMORY:]
            if self.best is None or point.f + point.f_error <= self.best.f + self.best.f_error:
                self.best = point
        self.tell(row)

    def step(self, here: OuterValue) -> OuterValue:
        """The next point: try shorter and shorter steps along −g until one decreases f enough."""
        first = self.alpha
        while self.alpha > SHORTEST * first:
            there = self.try_step(here)
            if there is None:
                self.alpha /= 4
                continue
            here, there, decrease = self.judged(here, there)
            if not is_credible(here, there):
                self.note(there, self.alpha, accepted=False)
                self.alpha /= 4
                continue
            if decrease is Decrease.ENOUGH:
                self.note(there, self.alpha, accepted=True)
                self.alpha = self.next_alpha(here, there)
                self.asked = min(self.most, 2 * self.asked)
                return there
            self.note(there, self.alpha, accepted=False)
            slope = self.size(here) ** 2
            self.alpha = step_rules.shorter(self.alpha, here.f - there.f, slope)
        raise Stuck

    def try_step(self, here: OuterValue) -> OuterValue | None:
        """The value at the end of the step; None if λ is outside of the domain, or if w(λ) cannot be computed."""
        step = -self.alpha * self.coordinates.gradient(here.lam, here.g)
        lam = self.coordinates.move(here.lam, step)
        domain = self.problem.domain
        if not bool(torch.isfinite(lam).all()) or (domain is not None and not bool(domain.holds(lam))):
            return None
        try:
            there = self.value(lam, Start(here.w, here.v, here.g))
        except (DivergenceError, AssumptionError):
            return None
        if math.isinf(there.error) or not is_credible(here, there):
            self.note(there, self.alpha, accepted=False)
            return None
        return there

    def judged(self, here: OuterValue, there: OuterValue) -> tuple[OuterValue, OuterValue, Decrease]:
        """Whether the step decreases f enough; the values are improved as long as this is not clear.

        f is improved first, which takes a correction or two; the hypergradients only if this does not help.
        """
        for _ in range(FINER):
            compared = self.compare(here, there)
            if compared.decrease is not Decrease.UNCLEAR:
                return here, there, compared.decrease
            if there.f - here.f > here.f_error + there.f_error:  # f surely increases: try a shorter step at once
                return here, there, Decrease.TOO_LITTLE
            enough = abs(compared.gain - compared.needed) / 3
            if there.f_error >= compared.doubt / 2:
                self.note(there, self.alpha, accepted=False)
                there = self.needed_value(there, f_atol=enough)
            else:
                here = self.improved(here, f_atol=enough)
                self.recent = [here]  # the other values are still inaccurate
        while True:
            compared = self.compare(here, there)
            if compared.decrease is not Decrease.UNCLEAR:
                return here, there, compared.decrease
            if self.asked <= TIGHTEST:
                return here, there, self.by_slope(here, there)
            self.asked *= TIGHTER
            self.note(there, self.alpha, accepted=False)
            here, there = self.improved(here), self.needed_value(there, show=True)
            self.recent = [here]

    def compare(self, here: OuterValue, there: OuterValue) -> ValueComparison:
        size = self.size(here)
        theta = min(here.error / size, 0.9) if size else 0.0
        highest = max(self.recent, key=lambda point: point.f)
        doubt = highest.f_error + there.f_error
        return ValueComparison(highest.f - there.f, doubt, step_rules.SHARE * (1 - theta) * self.alpha * size**2)

    def by_slope(self, here: OuterValue, there: OuterValue) -> Decrease:
        """Judge a step whose decrease is below the rounding of f, by the slope at its end."""
        before, after = (self.coordinates.gradient(point.lam, point.g) for point in (here, there))
        steep = float(before @ before)
        return Decrease.ENOUGH if float(after @ before) >= -(1 - 2 * step_rules.SHARE) * steep else Decrease.TOO_LITTLE

    def next_alpha(self, here: OuterValue, there: OuterValue) -> float:
        if self.rule == "backtracking":
            return self.outer_step or 2 * self.alpha
        before, after = (self.coordinates.gradient(point.lam, point.g) for point in (here, there))
        moved = -self.alpha * before
        return step_rules.barzilai_borwein(self.alpha, float(moved @ moved), float(moved @ (after - before)))


def is_credible(here: OuterValue, there: OuterValue) -> bool:
    """Whether E(w) − f is not far larger than f at the start of a step and E(w). Otherwise w is far from w(λ)."""
    return abs(there.shift) <= CREDIBLE * max(abs(here.f), abs(there.f + there.shift))
