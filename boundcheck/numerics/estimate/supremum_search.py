"""Search for a supremum over a region. The result is a lower bound on the supremum.

F is ∂₁Φ, ∂₂Φ, ∇₁E or ∇₂E. The search is for sup ‖F(w)‖, or for calmness at w*: sup ‖F(w) − F(w*)‖/‖w − w*‖. As w tends
to w* along a direction a, the quotient tends to the derivative T[v, u, a] of F at w*. Its norm is maximised over one
vector at a time. The ascent in w starts near w* along the best directions, and at many other points.
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
    """The lengths of the loops of a search, and its stopping criteria."""

    cells: int = 4_000_000  # the most numbers in the vectors of all rows; there are always at least two rows
    top: int = 10  # steps of conjugate gradients in v in each round
    steps: int = 15  # steps of ascent in w in each round
    cycles: int = 8  # cycles over the vectors of T between two tests of convergence
    limit_share: int = 3  # the norm of T may use at most 1/limit_share of the products
    informed: int = 8  # one row in this many starts from the best directions of T
    rounds: int = 4  # keep only as many rows as can afford this many more rounds
    fewest: int = 4  # but keep at least this many rows
    iterates: int = 16  # number of iterates of the lower level, of which w_1, w_2, w_4, … are starts
    close: float = 1e-3  # least distance of starts from w*, relative to the largest; closer, differences are rounding
    rtol: float = 1e-7  # a round that improves the best value by less than this is the last one
    others: float = 1e-4  # but the search continues if another row gains more than this, relative to the best value
    fixed: int = 13  # products of a row in the first round that do not depend on the lengths of the loops
    least: int = 40  # products of a row if all loops have length 1; with fewer, one point is evaluated
    one_look: int = 5  # the most products for the evaluation of one point, besides those that improve v

    @property
    def limit(self) -> int:
        """The most products of a row in the first cycles over the vectors of T."""
        return self.cycles * 3 * 4 + 4

    @property
    def needed(self) -> int:
        """The most products of a row in the first cycles and the first round."""
        return self.limit + (self.top + 1) * 4 + (self.steps + 1) * 5


BUDGET = Budget()


@dataclass(frozen=True)
class Effort:
    """The number of starts (fewer are used if vectors are very long), the most products, and the random seed."""

    starts: int = 32
    budget: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise InputError(f"starts must be at least 1 (got {self.starts})")
        if self.budget < 1:
            raise InputError(f"budget must be at least 1 product (got {self.budget})")

    def shortened(self, steps: int) -> int:
        """Return the number of steps of a loop that the budget allows for a single start, at most `steps`."""
        return max(1, min(steps, steps * (self.budget - BUDGET.fixed) // (BUDGET.needed - BUDGET.fixed)))


@dataclass(frozen=True, eq=False)
class Limit:
    """‖T[v, ·, a]‖ for unit rows v and a, sorted with the largest first."""

    a: Tensor
    v: Tensor
    value: Tensor


class Search:
    """Ascent of rows of points w and unit vectors v: `start`, then `round` until `is_over`, then `result`.

    Parameters
    ----------
    derivative : Derivative
        The derivative F.
    problem : Problem
        The problem.
    prepared : Prepared
        The prepared λ: one vector, or one row.
    region : Region
        The region over which the supremum is taken.
    w_star : Tensor, optional
        A start if given; required if `calm` is True.
    effort : Effort
        The number of starts, the budget and the seed.
    calm : bool
        If True, search for sup ‖F(w) − F(w*)‖/‖w − w*‖, otherwise for sup ‖F(w)‖.

    Raises
    ------
    InputError
        If the radius of the region is not finite, or if the region must contain w* and does not.
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
        distance, size = torch.stack(((self._origin - region.point).norm(), self._origin.norm())).cpu().tolist()
        if distance > region.radius + eps**0.5 * size:
            raise InputError(
                f"{problem.name}: w* is at distance {distance:.3g} from the centre of the region, whose radius is "
                f"{region.radius:.3g}; give a region that holds w*"
            )
        self._rtol = max(BUDGET.rtol, 8 * eps)
        self._reach = region.radius + distance
        self._floor = max(BUDGET.close * self._reach, eps**0.5 * size) or 1.0
        self._best, self._median = -math.inf, -math.inf
        self._converged = self._exhausted = False

    @property
    def is_over(self) -> bool:
        """Whether the last round gave no improvement, or the budget is too small for another round."""
        return self._converged or self._exhausted

    def run(self) -> Supremum:
        """Run the whole search."""
        if self._effort.budget < BUDGET.least:
            return self.one_look()
        self.start()
        while not self.is_over:
            self.round()
        return self.result()

    def one_look(self) -> Supremum:
        """Evaluate one point, and improve v within the budget."""
        w, v = self._draws.points(self._region, 1), self._draws.directions(1, self._field.width)
        products_per_step = 2 if self._base is None else 4
        steps = (self._effort.budget - BUDGET.one_look) // products_per_step - 1
        if self._field.width and steps > 0:
            v = top(partial(self._field.squared, w, base=self._base), v, steps)
        (value,) = self._watch.check(self._objective(w, v).value[0])
        return Supremum(value, 0.0, 1, self._field.spent, False)

    def start(self) -> None:
        """Place the rows at informed starts and at random points."""
        region, draws, count, width = self._region, self._draws, self._count, self._field.width
        limit = self._limit(draws.directions(count, self._problem.d), draws.directions(count, width))
        directions = max(1, count // BUDGET.informed)
        w = starts(region, count, self._informed(self._reach * limit.a[:directions]), draws)
        if self._base is not None:
            too_close = (w - self._base).norm(dim=-1, keepdim=True) < self._floor
            w = torch.where(too_close, draws.points(region, count), w)
        self._start_of_row = torch.arange(count, device=w.device)  # the index of the start of each row
        v = limit.v[self._start_of_row % directions] + draws.directions(count, width) / 2
        self._values = torch.zeros_like(limit.value) if self._base is None else limit.value  # the best of each start
        step = torch.full_like(w[:, :1], region.radius / 2)
        self._rows = Climb(w, v, step, torch.full_like(limit.value, -math.inf))

    def round(self) -> None:
        """Improve v, then w and v together, and drop the rows with the smallest values."""
        field, rows, budget, spent = self._field, self._rows, self._effort.budget, self._field.spent
        v = rows.v
        if field.width:
            v = top(partial(field.squared, rows.w, base=self._base), v, self._effort.shortened(BUDGET.top))
        steps = self._effort.shortened(BUDGET.steps)
        climb = ascend(self._objective, rows.w, v, self._region, rows.step, steps)
        highest = torch.maximum(self._values[self._start_of_row], climb.value)
        self._values = self._values.index_copy(0, self._start_of_row, highest)
        before, gained = self._best, (climb.value - rows.value).max()
        self._best, self._median, gain = self._watch.check(self._values.max(), self._values.median(), gained)
        self._converged = self._best - before <= self._rtol * self._best and gain <= BUDGET.others * self._best

        round_cost = (field.spent - spent) // len(rows.w)
        affordable = (budget - field.spent) // (BUDGET.rounds * round_cost)
        order = climb.value.argsort(descending=True)[: max(BUDGET.fewest, affordable)]
        self._start_of_row = self._start_of_row[order]
        self._rows = Climb(climb.w[order], climb.v[order], climb.step[order], climb.value[order])
        self._exhausted = field.spent + len(order) * round_cost > budget

    def result(self) -> Supremum:
        """Return the best value so far."""
        spread = (self._best - self._median) / self._best if self._best else 0.0
        return Supremum(self._best, spread, self._count, self._field.spent, self._converged)

    def _objective(self, w: Tensor, v: Tensor) -> Slopes:
        """Return ‖F(w)ᵀv‖, or with a base w* ‖(F(w) − F(w*))ᵀv‖/max(‖w − w*‖, floor).

        The floor makes the quotient smaller, so it remains a lower estimate.
        """
        slopes = self._field.slopes(w, v, self._base)
        if self._base is None:
            return slopes
        away = w - self._base
        r = away.norm(dim=-1, keepdim=True)
        R = r.clamp(min=self._floor)
        lost = torch.where(r > self._floor, slopes.value[:, None] / R**3, 0) * away
        return Slopes(slopes.value / R[:, 0], slopes.by_w / R - lost, slopes.by_v / R)

    def _limit(self, a: Tensor, v: Tensor) -> Limit:
        """Return ‖T‖ for the derivative T of F at the origin, by maximising over u, a and v in turn.

        If the search is for sup ‖F(w)‖, rows whose value is not finite keep their initial vectors. If it is for
        calmness, such a value is an error.
        """
        field, effort, initial = self._field, self._effort, (a, v)
        w, cycles = self._origin.expand(len(a), -1), effort.shortened(BUDGET.cycles)
        best, finished = -math.inf, False
        while not finished:
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
            a, v = (torch.where(finite[:, None], x, x_drawn) for x, x_drawn in zip((a, v), initial, strict=True))
            before, best = best, self._on_host(value.max())
            is_over = field.spent + len(a) * BUDGET.limit > effort.budget // BUDGET.limit_share
            finished = best - before <= self._rtol * best or is_over
        order = value.argsort(descending=True)
        return Limit(a[order], v[order], value[order])

    def _on_host(self, value: Tensor) -> float:
        """Return a value of T as a number. If the search is for calmness, raise an error if T was not finite."""
        numbers: list[float] = value[None].cpu().tolist() if self._base is None else self._watch.check(value)
        return numbers[0]

    def _informed(self, a: Tensor) -> list[Tensor]:
        """Return informed starts: along the directions a, w*, w_0 and iterates of the lower level."""
        origin = self._origin
        if self._base is None:
            points = [origin, origin + a[:1], origin - a[:1]]
        else:
            points = [origin + a, origin - a, origin + a / 2]
        solution = [] if self._w_star is None else [self._w_star]
        return [*points, *solution, self._problem.w0, _iterates(self._problem, self._prepared)]


def _iterates(problem: Problem, prepared: Prepared) -> Tensor:
    """Return the iterates w_1, w_2, w_4, …"""
    z = problem.dynamics.start(problem.w0)[None]
    states = list(lower_level.many(problem, prepared, z, BUDGET.iterates))
    selected = [states[2**i - 1] for i in range(int(math.log2(BUDGET.iterates)) + 1)]
    return problem.dynamics.iterate(torch.cat(selected))
