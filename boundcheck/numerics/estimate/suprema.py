"""Constants of a problem of which nothing is known but its functions: q, L_E, L_Φ, ν₁, ν₂, η₁, η₂ from below.

ν and η are calmness at w*: sup ‖F(w) − F(w*)‖/‖w − w*‖ over the w of the region. As w tends to w* along a this is the
derivative of F at w*, T[v, u, a], whose norm is found by improving one of its vectors at a time; from there, and from
many other starts, w climbs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import from_user
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.derivatives import Pairing, forms, rows, used
from boundcheck.numerics.bilevel.prepared import Cotangents, Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.ascent import Draws, Slopes, Supremum, Watch, ascend, starts, top, unit
from boundcheck.numerics.solvers import lower_level

CELLS = 4_000_000  # numbers in the rows of one vector, at most
TOP, STEPS, CYCLES = 10, 15, 8  # a round: of conjugate gradients in v and ascent in w, or over the slots of T
ROUNDS = 4  # more of them shall be affordable for the starts that go on
ITERATES = 16  # of the lower level, some of which are starts
CLOSE = 1e-3  # of the largest distance from w*: nearer to it, differences would be rounding
RTOL = 1e-7  # by which a round has to improve the best value, for another one
OTHERS = 1e-4  # of the best value: another round, too, while a start that is behind gains more than this
LIMIT = CYCLES * 3 * 4 + 4  # products for a row of the first block of cycles, at most
NEEDED = LIMIT + (TOP + 1) * 4 + (STEPS + 1) * 5  # … and of a first round
FIXED = 13  # of these, whatever the lengths of the loops
LEAST = 40  # the same with loops as short as can be; with less, there is one look only
ONE_LOOK = 5  # at most


@dataclass(frozen=True)
class Effort:
    """Rows that climb (fewer where vectors are very long), products at most, and the seed of the random starts."""

    starts: int = 32
    budget: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise InputError(f"starts = {self.starts} leaves nothing to climb; give a number from 1")
        if self.budget < 1:
            raise InputError(f"budget = {self.budget} pays for nothing; give a number of products from 1")

    def shortened(self, steps: int) -> int:
        """Of a loop of so many steps, those that the budget leaves for a single start."""
        return max(1, min(steps, steps * (self.budget - FIXED) // (NEEDED - FIXED)))


EFFORT = Effort()


def contraction(
    problem: Problem, prepared: Prepared, region: Region, w_star: Tensor | None = None, effort: Effort = EFFORT
) -> Supremum:
    """q: sup ‖∂₁Φ(w)‖ over the region, a spectral norm."""
    return _supremum("∂₁Φ", problem, prepared, region, w_star, effort)


def sensitivity_bound(
    problem: Problem, prepared: Prepared, region: Region, w_star: Tensor | None = None, effort: Effort = EFFORT
) -> Supremum:
    """L_Φ: sup ‖∂₂Φ(w)‖ over the region, a spectral norm."""
    return _supremum("∂₂Φ", problem, prepared, region, w_star, effort)


def gradient_bound(
    problem: Problem, prepared: Prepared, region: Region, w_star: Tensor | None = None, effort: Effort = EFFORT
) -> Supremum:
    """L_E: sup ‖∇₁E(w)‖ over the region."""
    return _supremum("∇₁E", problem, prepared, region, w_star, effort)


def nu_1(problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, effort: Effort = EFFORT) -> Supremum:
    """ν₁: sup ‖∂₁Φ(w) − ∂₁Φ(w*)‖/‖w − w*‖ over the region."""
    return _supremum("∂₁Φ", problem, prepared, region, w_star, effort, calm=True)


def nu_2(problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, effort: Effort = EFFORT) -> Supremum:
    """ν₂: sup ‖∂₂Φ(w) − ∂₂Φ(w*)‖/‖w − w*‖ over the region."""
    return _supremum("∂₂Φ", problem, prepared, region, w_star, effort, calm=True)


def eta_1(problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, effort: Effort = EFFORT) -> Supremum:
    """η₁: sup ‖∇₁E(w) − ∇₁E(w*)‖/‖w − w*‖ over the region."""
    return _supremum("∇₁E", problem, prepared, region, w_star, effort, calm=True)


def eta_2(problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, effort: Effort = EFFORT) -> Supremum:
    """η₂: sup ‖∇₂E(w) − ∇₂E(w*)‖/‖w − w*‖ over the region."""
    return _supremum("∇₂E", problem, prepared, region, w_star, effort, calm=True)


class _Field:
    """F(w) for rows w: ∂₁Φ or ∂₂Φ, of which v picks a combination of rows, or ∇₁E or ∇₂E; it counts its products."""

    def __init__(self, name: str, problem: Problem, prepared: Prepared, watch: Watch) -> None:
        function = problem.phi_at if name.endswith("Φ") else problem.outer_at
        self.name, self._prepared, self._watch = name, prepared, watch
        self._leaves = used(prepared.leaves, rows(function), problem.w0[None, None])
        self._form = forms(problem, self._leaves, prepared.ready)[name]
        self._by_lam = "₂" in name
        self.width = problem.d if name.endswith("Φ") else 0  # of v
        lengths = [problem.n, *(leaf.numel() for leaf in self._leaves.tensors)] if self._by_lam else []
        self.longest = max(problem.d, *lengths, 1)
        self.spent = 0

    def _pair(self, w: Tensor, v: Tensor, base: Tensor | None = None) -> Pairing:
        there = None if base is None else base.expand_as(w)[None]
        made: Pairing = from_user.call(Pairing, f"a derivative of {self.name}", self._form, w[None], v[None], there)
        self.spent += len(w) * (1 if base is None else 2)
        return made

    def _pull(self, c: Cotangents, count: int) -> Tensor:
        """From cotangents to vectors u, of length d or n."""
        if not self._by_lam:
            return c[0][0]
        return self._prepared.pull_back_rows(self._leaves, c)[0].expand(count, -1)

    def _push(self, u: Tensor) -> Cotangents:
        return self._prepared.push_rows(self._leaves, u[None]) if self._by_lam else (u[None],)

    def slopes(self, w: Tensor, v: Tensor, base: Tensor | None = None) -> Slopes:
        """‖F(w)ᵀv‖, or ‖(F(w) − F(base))ᵀv‖."""
        at = self._pair(w, v, base)
        u = self._pull(at.c, len(w))
        value = u.norm(dim=-1)
        self._watch.look(value, w)
        t = self._push(unit(u, otherwise=torch.ones_like(u)))  # at a zero of F every direction is as good
        by_w, by_v = from_user.call(at.by_w_and_v, f"a derivative of {self.name}", t)
        self.spent += len(w) * (1 + (self.width > 0) * (1 if base is None else 2))
        by_w = torch.where(torch.isfinite(by_w), by_w, 0)  # where there is no slope, w stays
        return Slopes(value, by_w[0], by_v[0])

    def squared(self, w: Tensor, v: Tensor, base: Tensor | None = None) -> Tensor:
        """F(w)F(w)ᵀv, or the same of the difference."""
        at = self._pair(w, v, base)
        product: Tensor = at.by_v(self._push(self._pull(at.c, len(w))))[0]
        self.spent += len(w) * (1 if base is None else 2)
        return product

    def slots(self, w: Tensor, v: Tensor, u: Tensor | None, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """T[v, u, ·], T[·, u, a] and T[v, ·, a], the derivative of F at w being T; without u only the last counts."""
        at = self._pair(w, v)
        t = tuple(torch.zeros_like(c) for c in at.c) if u is None else self._push(u)
        by_a, by_v, by_t = from_user.call(at.slots, f"a second derivative in {self.name}", t, a[None])
        self.spent += len(w) * (2 + (self.width > 0))
        return by_a[0], by_v[0], self._pull(by_t, len(w))

    def squared_slope(self, w: Tensor, v: Tensor, a: Tensor) -> Tensor:
        """TᵀTa for the matrix T that v leaves of the derivative."""
        u = self.slots(w, v, None, a)[2]
        return self.slots(w, v, u, a)[0]


@dataclass(frozen=True, eq=False)
class _Limit:
    """‖T[v, ·, a]‖ for unit rows v and a, the highest first."""

    a: Tensor
    v: Tensor
    value: Tensor


def _limit(
    field: _Field, point: Tensor, a: Tensor, v: Tensor, watch: Watch | None, effort: Effort, rtol: float
) -> _Limit:
    """The norm of the derivative T of F at a point: in turn each of u, a and v is made the best for the others.

    Without `watch`, rows where T is not finite stay as they came.
    """
    w, drawn, cycles = point.expand(len(a), -1), (a, v), effort.shortened(CYCLES)
    best, settled = -math.inf, False
    while not settled:
        if field.width:
            for _ in range(cycles):
                u = unit(field.slots(w, v, None, a)[2])
                a = unit(field.slots(w, v, u, a)[0], otherwise=a)
                v = unit(field.slots(w, v, u, a)[1], otherwise=v)
        else:
            a = top(partial(field.squared_slope, w, v), a, cycles)
        value = field.slots(w, v, None, a)[2].norm(dim=-1)
        finite = torch.isfinite(value)
        if watch is not None:
            watch.look(value, w)
        value = torch.where(finite, value, 0)
        a, v = (torch.where(finite[:, None], x, x0) for x, x0 in zip((a, v), drawn, strict=True))
        before, (best,) = best, value.max()[None].cpu().tolist() if watch is None else watch.check(value.max())
        settled = best - before <= rtol * best or field.spent + len(a) * LIMIT > effort.budget // 3
    order = value.argsort(descending=True)
    return _Limit(a[order], v[order], value[order])


def _supremum(
    name: str,
    problem: Problem,
    prepared: Prepared,
    region: Region,
    w_star: Tensor | None,
    effort: Effort,
    *,
    calm: bool = False,
) -> Supremum:
    if not 0 <= region.radius < math.inf:
        raise InputError(f"radius = {region.radius} of the region is no radius; give a finite number from 0")
    if prepared.lams.dim() == 1:
        prepared = Prepared(problem, prepared.lams[None])
    eps = torch.finfo(problem.dtype).eps
    rtol = max(RTOL, 8 * eps)
    watch = Watch(problem.name, f"the difference of {name} from that at w*" if calm else name, region)
    field = _Field(name, problem, prepared, watch)
    draws = Draws(effort.seed, region.point)
    count = max(1, min(effort.starts, effort.budget // NEEDED, max(2, CELLS // field.longest)))
    base = w_star if calm else None
    origin = region.point if base is None else base
    apart, size = torch.stack(((origin - region.point).norm(), origin.norm())).cpu().tolist()
    if apart > region.radius + eps**0.5 * size:
        raise InputError(
            f"{problem.name}: w* is at distance {apart:.3g} from the centre of the region, whose radius is "
            f"{region.radius:.3g}; give a region that holds w*"
        )
    reach = region.radius + apart
    floor = max(CLOSE * reach, eps**0.5 * size) or 1.0

    def objective(w: Tensor, v: Tensor) -> Slopes:
        """‖F(w)ᵀv‖, or the difference from w* over the distance; nearer than `floor`, over that, which is less."""
        here = field.slopes(w, v, base)
        if base is None:
            return here
        away = w - base
        r = away.norm(dim=-1, keepdim=True)
        R = r.clamp(min=floor)
        lost = torch.where(r > floor, here.value[:, None] / R**3, 0) * away
        return Slopes(here.value / R[:, 0], here.by_w / R - lost, here.by_v / R)

    if effort.budget < LEAST:  # a look at one point, with v improved as far as that goes
        w, v = draws.points(region, 1), draws.directions(1, field.width)
        a_step = 2 if base is None else 4
        if field.width and (steps := (effort.budget - ONE_LOOK) // a_step - 1) > 0:
            v = top(partial(field.squared, w, base=base), v, steps)
        (value,) = watch.check(objective(w, v).value[0])
        return Supremum(value, 0.0, 1, field.spent, False)

    a, v = draws.directions(count, problem.d), draws.directions(count, field.width)
    limit = _limit(field, origin, a, v, watch if calm else None, effort, rtol)
    K = max(1, count // 8)
    a = reach * limit.a[:K]
    informed = [origin + a, origin - a, origin + a / 2] if calm else [origin, origin + a[:1], origin - a[:1]]
    informed += [x for x in (w_star, problem.w0, _iterates(problem, prepared)) if x is not None]
    w = starts(region, count, informed, draws)
    if base is not None:
        w = torch.where((w - base).norm(dim=-1, keepdim=True) < floor, draws.points(region, count), w)
    v = limit.v[torch.arange(count, device=w.device) % K] + draws.directions(count, field.width) / 2
    step = torch.full_like(w[:, :1], region.radius / 2)
    values = limit.value if calm else torch.zeros_like(limit.value)
    climbed, kept = torch.full_like(values, -math.inf), torch.arange(count, device=w.device)
    best, converged = -math.inf, False
    while not converged:
        spent = field.spent
        if field.width:
            v = top(partial(field.squared, w, base=base), v, effort.shortened(TOP))
        climb = ascend(objective, w, v, region, step, effort.shortened(STEPS))
        gained = (climb.value - climbed).max()
        values = values.index_copy(0, kept, torch.maximum(values[kept], climb.value))
        before, (best, median, gain) = best, watch.check(values.max(), values.median(), gained)
        converged = best - before <= rtol * best and gain <= OTHERS * best
        round_cost = (field.spent - spent) // len(w)
        affordable = (effort.budget - field.spent) // (ROUNDS * round_cost)
        order = climb.value.argsort(descending=True)[: max(4, affordable)]  # the last do not go on
        kept, climbed, w, v, step = kept[order], climb.value[order], climb.w[order], climb.v[order], climb.step[order]
        if field.spent + len(kept) * round_cost > effort.budget:
            break
    return Supremum(best, (best - median) / best if best else 0.0, count, field.spent, converged)


def _iterates(problem: Problem, prepared: Prepared) -> Tensor:
    """w_1, w_2, w_4, …"""
    z = problem.dynamics.start(problem.w0)[None]
    found = list(lower_level.many(problem, prepared, z, ITERATES))
    chosen = [found[2**i - 1] for i in range(int(math.log2(ITERATES)) + 1)]
    return problem.dynamics.iterate(torch.cat(chosen))
