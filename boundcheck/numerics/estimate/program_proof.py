"""Constants that are proved from the program of a problem: its losses or its map, operation by operation.

The functions are recorded (`program/capture.py`), the recorded programs are compared with the functions
(`program/replay.py`), and enclosed over a ball (`program/enclosure/`). An operation without a rule is declined by its
name, and the estimates are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.derivatives import DENSE
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.anchor import Anchor
from boundcheck.numerics.estimate.calm_hessian import calm_hessian
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.last_ball import LastBall, enclosures_of
from boundcheck.numerics.estimate.mean_contraction import NearbyStep
from boundcheck.numerics.estimate.recorded_functions import AtPoints, Shared, functions, has_changed, recorded_functions
from boundcheck.numerics.estimate.separable_bounds import SeparableBounds
from boundcheck.numerics.estimate.step_constant import step_rounding
from boundcheck.numerics.program.enclosure.interpreter import OfLam
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import Derivatives, ScalarBounds
from boundcheck.numerics.program.enclosure.value import LAM, MOST_NUMBERS, Pair, W
from boundcheck.numerics.program.recorded_program import Declined, Program
from boundcheck.side import Side

SMALLEST = 1e-250  # constants up to this size are rounding of 0
DEFAULT_SPEND = Spend(1e-3, 0)
KEPT = 2  # number of points of each level whose bounds are stored, often 0 and w*
MOST_SHARED = 200_000  # the most numbers in an enclosure that is stored for other calls
MOST_LAM = 20_000  # the most entries of λ for which derivatives by λ are formed


@dataclass(frozen=True, eq=False)
class ProgramProof:
    """The programs of a problem at its λ. If one is None, `declined` says why."""

    problem: Problem
    lower: Program | None  # the inner loss, or the map if there is no loss
    outer: Program | None
    declined: dict[str, str]
    spend: Spend = DEFAULT_SPEND
    shared: Shared = field(default_factory=Shared)
    last: LastBall = field(default_factory=LastBall)
    _at: AtPoints = field(default_factory=dict, init=False)
    _of_lam: dict[str, OfLam] = field(default_factory=dict, init=False)  # by level, parts that all balls share
    _near: dict[float, tuple[Tensor, ScalarBounds]] = field(default_factory=dict, init=False)  # around w*, by radius

    @classmethod
    @torch.no_grad()
    def of(cls, problem: Problem) -> ProgramProof:
        """Record the functions of a problem, or reuse earlier records after comparing them with the functions."""
        recorded = recorded_functions(problem)
        if any(has_changed(problem, level, recorded) for level in recorded.programs):
            recorded_functions.cache_clear()
            recorded = recorded_functions(problem)
        programs = recorded.programs
        proof = cls(problem, programs.get("lower"), programs.get("outer"), dict(recorded.declined))
        if set(recorded.snapshots) != set(programs):  # compared at some points only
            return proof
        return replace(proof, shared=recorded.shared.at_lam(problem.lam))

    @property
    def has_loss(self) -> bool:
        """Whether the lower level is a gradient step on a loss."""
        return self.problem.inner_at is not None and self.problem.step_at is not None

    def lower_bounds(self, centre: Tensor, radius: float) -> ScalarBounds | MapBounds:
        """Return bounds of the derivatives of the lower level over a ball."""
        return self._bounds("lower", centre, radius)

    def outer_bounds(self, centre: Tensor, radius: float) -> ScalarBounds:
        """Return bounds of the derivatives of E over a ball."""
        bounds = self._bounds("outer", centre, radius)
        assert isinstance(bounds, ScalarBounds)
        return bounds

    def _bounds(self, level: str, centre: Tensor, radius: float) -> ScalarBounds | MapBounds:
        program = self.lower if level == "lower" else self.outer
        if program is None:
            raise Declined(self.declined[level])
        if radius == 0:
            return self._at_point(level, program, centre)
        lam, ball = self.problem.lam, partial(self._over_ball, level, program, centre, radius)
        return self.last.bounds(program, lam, centre, radius, ball)

    def _over_ball(self, level: str, program: Program, centre: Tensor, radius: float) -> ScalarBounds | MapBounds:
        lam, with_lam = self.problem.lam, self.problem.n <= MOST_LAM
        of_lam = self._of_lam.setdefault(level, {})
        if level == "lower" and not self.has_loss:
            return MapBounds(program, centre, lam, radius, with_lam=with_lam, of_lam=of_lam)

        def at_centre() -> Derivatives:
            bounds = self._at_point(level, program, centre)
            assert isinstance(bounds, ScalarBounds)
            return bounds.over

        return ScalarBounds(program, centre, lam, radius, with_lam=with_lam, at_centre=at_centre, of_lam=of_lam)

    def separable(self, level: str, centre: Tensor, radius: float) -> SeparableBounds | None:
        """Return bounds of a loss of many unknowns without matrices; None if matrices can be formed."""
        program = self.lower if level == "lower" else self.outer
        d = self.problem.d
        if program is None or d <= DENSE or (level == "lower" and not self.has_loss):
            return None
        try:
            return SeparableBounds(program, centre, self.problem.lam, radius, self.spend)
        except Declined as why:
            if d * d <= MOST_NUMBERS:
                return None
            raise Declined(f"d = {d} is too large for matrices, and without them {why}") from why

    def _at_point(self, level: str, program: Program, centre: Tensor) -> ScalarBounds | MapBounds:
        """Return the bounds at one point, which all balls around it share. Those of the last points are stored."""
        for w, at_w in self._at.get(level, []) + self.shared.at.get(level, []):
            if torch.equal(w, centre):
                return at_w
        lam, with_lam = self.problem.lam, self.problem.n <= MOST_LAM
        kind = MapBounds if level == "lower" and not self.has_loss else ScalarBounds
        of_lam = self._of_lam.setdefault(level, {})
        bounds = kind(program, centre, lam, 0.0, with_lam=with_lam, of_lam=of_lam)
        kept = (self.shared.at if enclosures_of(bounds).numbers <= MOST_SHARED else self._at).setdefault(level, [])
        kept.append((centre.detach().clone(), bounds))
        del kept[:-KEPT]
        return bounds

    def on(
        self, region: Region, alpha: Constant | None, solution: Anchor | None = None,
        names: Collection[str] | None = None,
    ) -> list[Constant]:  # fmt: skip
        """Return the constants on a region that the programs prove; with `names`, only these.

        With `solution`, a bound on the position of w*, η₁ and η₂ need to hold only between w* and a w of the region.
        """
        constants: list[Constant] = []
        parts: dict[str, Callable[[], Iterator[Constant]]] = {
            "lower": lambda: self._of_lower(region, alpha, solution, names),
            "outer": lambda: self._of_outer(region, solution, names),
        }
        for level, prove in parts.items():
            try:
                constants += list(prove())
            except Declined as why:
                self.declined.setdefault(level, f"{self.called(level)}: {why}")
        return constants

    def called(self, level: str) -> str:
        """Return the user's name for the function of a level."""
        return functions(self.problem)[level][0]

    def _of_lower(
        self, region: Region, alpha: Constant | None, solution: Anchor | None, names: Collection[str] | None
    ) -> Iterator[Constant]:
        bounds = self.separable("lower", region.point, region.radius) or self.lower_bounds(region.point, region.radius)
        named = _Named(region, bounds, names, self.spend)
        by_lam = self.problem.n <= MOST_LAM or isinstance(bounds, SeparableBounds)
        if isinstance(bounds, MapBounds):
            yield from self._of_map(bounds, named, solution, by_lam)
            return
        yield from named("mu", lambda: bounds.smallest, "the smallest eigenvalue of ∇²₁ℓ", Side.LOWER)
        yield from named("L", lambda: bounds.largest, "the largest eigenvalue of ∇²₁ℓ")

        def third() -> float:
            return self.third(bounds, region, solution)

        def third_is() -> str:
            return "‖D³ℓ‖ by w" if math.isfinite(bounds.third) else "‖∇²₁ℓ(w) − ∇²₁ℓ(w*)‖/‖w − w*‖"

        yield from named("hat_rho_1", third, third_is)
        if by_lam:
            yield from named("hat_rho_2", lambda: bounds.third_cross, "‖D³ℓ‖ by w twice and λ once")
        if alpha is None or alpha.side is not Side.EXACT:
            return
        step = NearbyStep(alpha.value, step_rounding(self.problem))
        a = step.longest
        yield from named("q", lambda: step.slope(bounds.smallest, bounds.largest), "max(1 − αμ, αL − 1)")
        yield from named("nu_1", lambda: a * third(), lambda: f"α{third_is()}")
        if self.problem.frozen_step and by_lam:
            yield from named("L_Phi", lambda: a * bounds.cross, "α‖∇²₂₁ℓ‖")
            yield from named("nu_2", lambda: a * bounds.third_cross, "α‖D³ℓ‖ by w twice and λ once")

    def _of_map(self, bounds: MapBounds, named: _Named, solution: Anchor | None, by_lam: bool) -> Iterator[Constant]:
        anchor = solution if solution is not None and solution.is_in(named.region) else None
        words = "the derivative of {} by w" if anchor is None else "{}(w) − {}(w*), over ‖w − w*‖,"
        yield from named("q", lambda: bounds.slope, "‖∂₁Φ‖")
        of_w, of_lam = ("the norm of " + words.format(name, name) for name in ("∂₁Φ", "∂₂Φ"))
        yield from named("nu_1", lambda: self.moves(bounds, named.region, anchor, (W, W)), of_w)
        if by_lam:
            yield from named("L_Phi", lambda: bounds.lam_slope, "‖∂₂Φ‖")
            yield from named("nu_2", lambda: self.moves(bounds, named.region, anchor, (W, LAM)), of_lam)

    def moves(self, bounds: MapBounds, region: Region, solution: Anchor | None, pair: Pair) -> float:
        """Return a bound on the norm of the derivative of ∂₁Φ or ∂₂Φ by w.

        With `solution`, the bound is on the difference of ∂₁Φ or ∂₂Φ from its value at w*, divided by ‖w − w*‖.
        """
        if solution is None or not solution.is_in(region):
            return bounds.bend if pair == (W, W) else bounds.lam_bend
        at_w_star = self.lower_bounds(solution.w, 0.0)
        assert isinstance(at_w_star, MapBounds)
        return bounds.calm(at_w_star, solution.distance, pair)

    def third(self, bounds: ScalarBounds | SeparableBounds, region: Region, solution: Anchor | None) -> float:
        """Return a bound on ‖D³ℓ‖ by w; if it is infinite, one on ‖∇²₁ℓ(w) − ∇²₁ℓ(w*)‖/‖w − w*‖."""
        if math.isfinite(bounds.third) or solution is None or isinstance(bounds, SeparableBounds):
            return bounds.third

        def around(radius: float) -> ScalarBounds:
            stored = self._near.get(radius)
            if stored is None or not torch.equal(stored[0], solution.w):
                over_ball = self.lower_bounds(solution.w, radius)
                assert isinstance(over_ball, ScalarBounds)
                stored = self._near[radius] = solution.w.detach().clone(), over_ball
            return stored[1]

        away = norm(solution.w.cpu().double() - region.point.cpu().double())
        return calm_hessian(bounds, around, (region.radius + away) * UP, solution.distance)

    def _of_outer(self, region: Region, solution: Anchor | None, names: Collection[str] | None) -> Iterator[Constant]:
        separable = self.separable("outer", region.point, region.radius)
        if separable is not None:
            named = _Named(region, separable, names, self.spend)
            yield from named("L_E", lambda: separable.gradient, "‖∇₁E‖")
            yield from named("eta_1", lambda: separable.hessian, "‖∇²₁E‖")
            yield from named("eta_2", lambda: separable.cross, "‖∇²₁₂E‖")
            return
        bounds = self.outer_bounds(region.point, region.radius)
        named = _Named(region, bounds, names, self.spend)
        yield from named("L_E", lambda: bounds.gradient, "‖∇₁E‖")
        calm = None if solution is None else self.outer_bounds(solution.w, 0.0)
        mean = 0.0 if solution is None else solution.mean_distance(region)

        def least(over: float, at: Callable[[ScalarBounds], float], slope: Callable[[], float]) -> float:
            """Return the smaller of the supremum over the region and a bound on the mean between w* and its points."""
            return over if calm is None else min(over, (at(calm) + mean * slope()) * UP)

        def eta_2() -> float:
            value = least(bounds.cross, lambda b: b.cross, lambda: bounds.third_cross)
            if solution is None or not value > 0:
                return value
            return min(value, bounds.mean_cross(solution.w, solution.distance))

        mean_of = "" if calm is None else "the mean on the way to w* of "
        yield from named(
            "eta_1",
            lambda: least(bounds.hessian, lambda b: b.hessian, lambda: bounds.third),
            f"{mean_of}‖∇²₁E‖",
        )
        if self.problem.n <= MOST_LAM:
            yield from named("eta_2", eta_2, f"{mean_of}‖∇²₁₂E‖")


@dataclass(frozen=True, eq=False)
class _Named:
    """Turns bounds over a region into constants."""

    region: Region
    bounds: ScalarBounds | MapBounds | SeparableBounds
    names: Collection[str] | None  # the wanted constants; None for all
    spend: Spend

    def __call__(
        self, name: str, value: Callable[[], float], what: str | Callable[[], str], side: Side = Side.UPPER
    ) -> Iterator[Constant]:
        if self.names is not None and name not in self.names:
            return
        number = value()
        if not math.isfinite(number):
            return
        if abs(number) <= SMALLEST:
            number, side = 0.0, Side.EXACT
        about = what if isinstance(what, str) else what()
        how = "; ".join((f"{about} over the ball, from the program", *self._notes()))
        delta = self.bounds.delta if isinstance(self.bounds, SeparableBounds) and number else 0.0
        if delta:
            provenance = Provenance(how, "program", seed=self.spend.seed, delta=delta, ball=self.region.ball)
            yield Constant(name, number, Side.HIGH_PROBABILITY, provenance)
        else:
            yield Constant(name, number, side, Provenance(how, "program", ball=self.region.ball))

    def _notes(self) -> Collection[str]:
        if isinstance(self.bounds, SeparableBounds):
            return self.bounds.notes
        return self.bounds.over.notes if isinstance(self.bounds, MapBounds) else self.bounds.over.enclosures.notes
