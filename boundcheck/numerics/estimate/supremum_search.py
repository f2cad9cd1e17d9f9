"""Search for the supremum of a function over a region: a lower bound on it.

F is ∂₁Φ, ∂₂Φ, ∇₁E or ∇₂E. Looked for is sup ‖F(w)‖, or calmness at w*, sup ‖F(w) − F(w*)‖/‖w − w*‖. As w tends to w*
along a the latter is the derivative of F at w*, T[v, u, a], whose norm is found by improving one of its vectors at a
time; from there, and from many other starts, w climbs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.derivative_pairings import Derivative
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.ascent import (
    Climb,
    FiniteWatch,
    NormalDraws,
    Slopes,
    Supremum,
    ascend,
    starts,
    top,
    unit,
)
from boundcheck.numerics.estimate.derivative_field import DerivativeField
from boundcheck.numerics.solvers import lower_level


@dataclass(frozen=True)
class Budget:
    """How a search divides its products: lengths of its loops, and when it stops."""

    cells: int = 4_000_000  # numbers in the vectors of all rows, at most; there are two rows even so
    top: int = 10  # steps of conjugate gradients in v, in a round
    steps: int = 15  # steps of ascent in w, in a round
    cycles: int = 8  # over the vectors of T, before it is seen whether that still helps
    limit_share: int = 3  # the norm of T may take one product in this many
    informed: int = 8  # one row in this many starts from the best directions of T
    rounds: int = 4  # keep only as many rows as can afford this many more rounds …
    fewest: int = 4  # … but at least this many
    iterates: int = 16  # of the lower level, of which w_1, w_2, w_4, … are starts
    close: float = 1e-3  # of the largest distance from w*: nearer to it, differences would be rounding
    rtol: float = 1e-7  # a round that improves the best value by less is the last one …
    others: float = 1e-4  # … unless a row that is behind gains more than this, relative to the best value
    fixed: int = 13  # products of a row in the first round that do not depend on the lengths of the loops
    least: int = 40  # products of a row if all loops have length 1; with fewer, one point is evaluated
    one_look: int = 5  # products of that look, at most, besides those that improve v

    @property
    def limit(self) -> int:
        """Products of a row in the first cycles over the vectors of T, at most."""
        return self.cycles * 3 * 4 + 4

    @property
    def needed(self) -> int:
        """Products of a row in the first cycles and the first round, at most."""
        return self.limit + (self.top + 1) * 4 + (self.steps + 1) * 5


BUDGET = Budget()


@dataclass(frozen=True)
class Effort:
    """Rows that climb (fewer where vectors are very long), products at most, and the seed of the random starts."""

    starts: int = 32
    budget: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise InputError(f"starts must be at least 1 (got {self.starts})")
        if self.budget < 1:
            raise InputError(f"budget must be at least 1 product (got {self.budget})")

    def shortened(self, steps: int) -> int:
        """Of a loop of so many steps, those that the budget leaves for a single start."""
        return max(1, min(steps, steps * (self.budget - BUDGET.fixed) // (BUDGET.needed - BUDGET.fixed)))


@dataclass(frozen=True, eq=False)
class Limit:
    """‖T[v, ·, a]‖ for unit rows v and a, the highest first."""

    a: Tensor
    v: Tensor
    value: Tensor


class Search:
    """Rows of points w, with unit vectors v, that climb: `start`, then `round` until `is_over`, then `result`.

    Parameters
    ----------
    derivative : Derivative
        F.
    problem : Problem
    prepared : Prepared
        For one λ, or for a row of it.
    region : Region
    w_star : Tensor, optional
        A start if it is given; needed if `calm`.
    effort : Effort
    calm : bool
        Look for sup ‖F(w) − F(w*)‖/‖w − w*‖, not for sup ‖F(w)‖.

    Raises
    ------
    InputError
        If the region has no finite radius, or does not hold w*.
    """

    def __init__(
        self, derivative: Derivative, problem: Problem, prepared: Prepared, region: Region, w_star: Tensor | None,
        effort: Effort, *, calm: bool,
    ) -> None:  # fmt: skip
        if not 0 <= region.radius < math.inf:
            raise InputError(f"radius = {region.radius} of the region is not a radius; give a finite number from 0")
        self._problem, self._region, self._w_star, self._effort = problem, region, w_star, effort
        self._prepared = Prepared(problem, prepared.lams[None]) if prepared.lams.dim() == 1 else prepared
        what = f"the difference of {derivative.value} from that at w*" if calm else derivative.value
        self._watch = FiniteWatch(problem.name, what, region)
        self._field = DerivativeField(derivative, problem, self._prepared, self._watch)
        self._draws = NormalDraws(effort.seed, region.point)
        rows_that_fit = max(2, BUDGET.cells // self._field.longest)
        self._count = max(1, min(effort.starts, effort.budget // BUDGET.needed, rows_that_fit))

        self._base = w_star if calm else None
        self._origin = region.point if self._base is None else self._base
        eps = torch.finfo(problem.dtype).eps
        apart, size = torch.stack(((self._origin - region.point).norm(), self._origin.norm())).cpu().tolist()
        if apart > region.radius + eps**0.5 * size:
            raise InputError(
                f"{problem.name}: w* is at distance {apart:.3g} from the centre of the region, whose radius is "
                f"{region.radius:.3g}; give a region that holds w*"
            )
        self._rtol = max(BUDGET.rtol, 8 * eps)
        self._reach = region.radius + apart
        self._floor = max(BUDGET.close * self._reach, eps**0.5 * size) or 1.0
        self._best, self._median = -math.inf, -math.inf
        self._converged = self._exhausted = False

    @property
    def is_over(self) -> bool:
        """Did the last round bring nothing, or would another one cost more than is left?"""
        return self._converged or self._exhausted

    def run(self) -> Supremum:
        """The whole search."""
        if self._effort.budget < BUDGET.least:
            return self.one_look()
        self.start()
        while not self.is_over:
            self.round()
        return self.result()

    def one_look(self) -> Supremum:
        """The value at one point, with v improved as far as the budget goes."""
        w, v = self._draws.points(self._region, 1), self._draws.directions(1, self._field.width)
        products_per_step = 2 if self._base is None else 4
        steps = (self._effort.budget - BUDGET.one_look) // products_per_step - 1
        if self._field.width and steps > 0:
            v = top(partial(self._field.squared, w, base=self._base), v, steps)
        (value,) = self._watch.check(self._objective(w, v).value[0])
        return Supremum(value, 0.0, 1, self._field.spent, False)

    def start(self) -> None:
        """Put the rows at points that are known to matter, and at random ones."""
        region, draws, count, width = self._region, self._draws, self._count, self._field.width
        limit = self._limit(draws.directions(count, self._problem.d), draws.directions(count, width))
        directions = max(1, count // BUDGET.informed)
        w = starts(region, count, self._informed(self._reach * limit.a[:directions]), draws)
        if self._base is not None:
            too_close = (w - self._base).norm(dim=-1, keepdim=True) < self._floor
            w = torch.where(too_close, draws.points(region, count), w)
        self._kept = torch.arange(count, device=w.device)  # the starts that the rows come from
        v = limit.v[self._kept % directions] + draws.directions(count, width) / 2
        self._values = torch.zeros_like(limit.value) if self._base is None else limit.value  # the best of each start
        step = torch.full_like(w[:, :1], region.radius / 2)
        self._rows = Climb(w, v, step, torch.full_like(limit.value, -math.inf))

    def round(self) -> None:
        """Improve v, then w and v together; the lowest rows do not go on."""
        field, rows, budget, spent = self._field, self._rows, self._effort.budget, self._field.spent
        v = rows.v
        if field.width:
            v = top(partial(field.squared, rows.w, base=self._base), v, self._effort.shortened(BUDGET.top))
        steps = self._effort.shortened(BUDGET.steps)
        climb = ascend(self._objective, rows.w, v, self._region, rows.step, steps)
        highest = torch.maximum(self._values[self._kept], climb.value)
        self._values = self._values.index_copy(0, self._kept, highest)
        before, gained = self._best, (climb.value - rows.value).max()
        self._best, self._median, gain = self._watch.check(self._values.max(), self._values.median(), gained)
        self._converged = self._best - before <= self._rtol * self._best and gain <= BUDGET.others * self._best

        round_cost = (field.spent - spent) // len(rows.w)
        affordable = (budget - field.spent) // (BUDGET.rounds * round_cost)
        order = climb.value.argsort(descending=True)[: max(BUDGET.fewest, affordable)]
        self._kept = self._kept[order]
        self._rows = Climb(climb.w[order], climb.v[order], climb.step[order], climb.value[order])
        self._exhausted = field.spent + len(order) * round_cost > budget

    def result(self) -> Supremum:
        """The best value so far."""
        spread = (self._best - self._median) / self._best if self._best else 0.0
        return Supremum(self._best, spread, self._count, self._field.spent, self._converged)

    def _objective(self, w: Tensor, v: Tensor) -> Slopes:
        """‖F(w)ᵀv‖, or the difference from w* over the distance; nearer than the floor, over that, which is less."""
        slopes = self._field.slopes(w, v, self._base)
        if self._base is None:
            return slopes
        away = w - self._base
        r = away.norm(dim=-1, keepdim=True)
        R = r.clamp(min=self._floor)
        lost = torch.where(r > self._floor, slopes.value[:, None] / R**3, 0) * away
        return Slopes(slopes.value / R[:, 0], slopes.by_w / R - lost, slopes.by_v / R)

    def _limit(self, a: Tensor, v: Tensor) -> Limit:
        """The norm of the derivative T of F at the origin: in turn each of u, a and v is made the best for the others.

        Unless T itself is looked for, rows where it is not finite stay as they came.
        """
        field, effort, drawn = self._field, self._effort, (a, v)
        w, cycles = self._origin.expand(len(a), -1), effort.shortened(BUDGET.cycles)
        best, settled = -math.inf, False
        while not settled:
            if field.width:
                for _ in range(cycles):
                    u = unit(field.slots(w, v, None, a).by_u)
                    a = unit(field.slots(w, v, u, a).by_a, otherwise=a)
                    v = unit(field.slots(w, v, u, a).by_v, otherwise=v)
            else:
                a = top(partial(field.squared_slope, w, v), a, cycles)
            value = field.slots(w, v, None, a).by_u.norm(dim=-1)
            finite = torch.isfinite(value)
            if self._base is not None:
                self._watch.look(value, w)
            value = torch.where(finite, value, 0)
            a, v = (torch.where(finite[:, None], x, x_drawn) for x, x_drawn in zip((a, v), drawn, strict=True))
            before, best = best, self._on_host(value.max())
            is_over = field.spent + len(a) * BUDGET.limit > effort.budget // BUDGET.limit_share
            settled = best - before <= self._rtol * best or is_over
        order = value.argsort(descending=True)
        return Limit(a[order], v[order], value[order])

    def _on_host(self, value: Tensor) -> float:
        """A value of T as a number; if T is looked for, the error where it was not finite."""
        numbers: list[float] = value[None].cpu().tolist() if self._base is None else self._watch.check(value)
        return numbers[0]

    def _informed(self, a: Tensor) -> list[Tensor]:
        """Starts that are known to matter, along the directions a and from the iterates of the lower level."""
        origin = self._origin
        if self._base is None:
            points = [origin, origin + a[:1], origin - a[:1]]
        else:
            points = [origin + a, origin - a, origin + a / 2]
        known = [] if self._w_star is None else [self._w_star]
        return [*points, *known, self._problem.w0, _iterates(self._problem, self._prepared)]


def _iterates(problem: Problem, prepared: Prepared) -> Tensor:
    """w_1, w_2, w_4, …"""
    z = problem.dynamics.start(problem.w0)[None]
    states = list(lower_level.many(problem, prepared, z, BUDGET.iterates))
    chosen = [states[2**i - 1] for i in range(int(math.log2(BUDGET.iterates)) + 1)]
    return problem.dynamics.iterate(torch.cat(chosen))
