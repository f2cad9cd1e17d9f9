"""Bounds of the derivatives of a scalar program f(w, λ) over a ball of w.

D²f and D³f are sums over the nonlinear operations (edge pushing, in the words of Griewank and Walther). Each operation
adds its own second or third derivative, applied to the derivatives of its inputs and weighted with the derivative of f
by its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, spectral_norm
from boundcheck.numerics.program.enclosure.affine_norm import MOST_ENTRIES, affine_norm, contracted
from boundcheck.numerics.program.enclosure.curvature_form import Curvature, ends_of, norm_of
from boundcheck.numerics.program.enclosure.farthest import farthest
from boundcheck.numerics.program.enclosure.forms import Middle, Trilinear, middle_of, trilinear_norm
from boundcheck.numerics.program.enclosure.interpreter import Enclosures, OfLam
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, norm, point
from boundcheck.numerics.program.enclosure.value import LAM, Pair, Value, W, rounding
from boundcheck.numerics.program.recorded_program import Program

NEXT_TO = 1.001  # a bound within this factor of a value near the supremum is not improved further


@dataclass(frozen=True, eq=False)
class Hessian:
    """A matrix H, and an upper bound `off` of the norm of H − D²f by w."""

    H: Tensor
    off: float


class Derivatives:
    """Derivatives of a scalar program by each of its values, and the contributions of its operations to D²f and D³f."""

    def __init__(
        self, program: Program, centre: Tensor, lam: Tensor, radius: float, *, with_lam: bool,
        of_lam: OfLam | None = None,
    ) -> None:  # fmt: skip
        self.enclosures = Enclosures(program, centre, lam, radius, with_lam=with_lam, of_lam=of_lam)
        self.output = self.enclosures.output
        order = values_before(self.output)
        self.adjoints: dict[int, Interval] = {id(self.output): point(torch.ones(self.output.shape))}
        self.values = order
        self._curvatures: dict[Pair, list[Curvature]] = {}
        self._thirds: dict[tuple[str, str, str], list[Trilinear]] = {}
        # the parts of the derivatives by values affine in w that come from values not affine in w
        self._affine_adjoints: dict[int, Interval] = {}
        with torch.no_grad():
            for value in reversed(order):
                adjoint = self.adjoints.get(id(value))
                if value.rule is None or adjoint is None:
                    continue
                for x, part in value.rule.backward(adjoint):
                    if not x.depends:
                        continue
                    before = self.adjoints.get(id(x))
                    self.adjoints[id(x)] = part if before is None else before + part
                    if (W, W) in value.bends and (W, W) not in x.bends:
                        old = self._affine_adjoints.get(id(x))
                        self._affine_adjoints[id(x)] = part if old is None else old + part

    def _with_adjoints(self) -> Iterator[tuple[Value, Interval]]:
        for value in self.values:
            adjoint = self.adjoints.get(id(value))
            if value.rule is not None and adjoint is not None:
                yield value, adjoint

    @torch.no_grad()
    def curvature(self, pair: Pair) -> list[Curvature]:
        """Return the parts of D²f by two inputs."""
        self.enclosures.require(*pair)
        if pair not in self._curvatures:
            self._curvatures[pair] = [
                part
                for value, adjoint in self._with_adjoints()
                if value.rule is not None
                for part in value.rule.curvature(adjoint, pair)
            ]
        return self._curvatures[pair]

    @cached_property
    def ends(self) -> tuple[float, float]:
        """A lower bound of the smallest and an upper bound of the largest eigenvalue of ∇²₁f."""
        return ends_of(self.curvature((W, W)))

    @cached_property
    def cross(self) -> float:
        """Upper bound of ‖∇²₁₂f‖."""
        return norm_of(self.curvature((W, LAM)))

    @cached_property
    def hessian(self) -> Hessian | None:
        """∇²₁f at one point; None if all operations are linear."""
        parts = self.curvature((W, W))
        return hessian_at(parts) if parts else None

    @torch.no_grad()
    def third(self, slots: tuple[str, str, str]) -> list[Trilinear]:
        """Return the parts of D³f by three inputs."""
        self.enclosures.require(*slots)
        if slots not in self._thirds:
            self._thirds[slots] = [
                part
                for value, adjoint in self._with_adjoints()
                if value.rule is not None
                for part in value.rule.third(adjoint, slots)
            ]
        return self._thirds[slots]

    @torch.no_grad()
    def gradient_norm(self) -> float:
        """Return an upper bound of ‖∇₁f‖ over the ball, from the derivatives by values that are affine in w."""
        if (W, W) not in self.output.bends:
            slope = self.output.slopes.get(W)
            return 0.0 if slope is None else norm(slope.F) + float(slope.rows)
        d = self.output.slopes[W].F.shape[0] if W in self.output.slopes else 0
        middle, spread = torch.zeros(d, dtype=torch.float64), 0.0
        for value in self.values:
            part, slope = self._affine_adjoints.get(id(value)), value.slopes.get(W)
            if part is None or slope is None:
                continue
            mid, rad = part.mid.reshape(-1), part.rad.reshape(-1)
            F = slope.matrix.T
            middle = middle + F @ mid
            terms = len(mid) + len(self._affine_adjoints)
            loss = rounding(terms) * (mid.abs() * slope.norms.reshape(-1)).sum()
            spread += spectral_norm(F) * norm(rad) + float(loss) * UP
            spread += float((part.size * slope.rows).sum()) * UP
        return norm(middle) + spread


def values_before(output: Value) -> list[Value]:
    """Return all values that enter the output, inputs before results."""
    order: list[Value] = []
    visited: set[int] = set()
    stack: list[tuple[Value, bool]] = [(output, False)]
    while stack:
        value, has_inputs = stack.pop()
        if has_inputs:
            order.append(value)
            continue
        if id(value) in visited:
            continue
        visited.add(id(value))
        stack.append((value, True))
        if value.rule is not None:
            stack += [(x, False) for x in value.rule.inputs]
    return order


class ScalarBounds:
    """Bounds of the derivatives of f over the ball of radius `radius` around `centre`.

    Attributes
    ----------
    smallest, largest : float
        All eigenvalues of ∇²₁f over the ball lie between these numbers.
    gradient : float
        Upper bound of ‖∇₁f‖.
    cross : float
        Upper bound of ‖∇²₁₂f‖, the norm of the derivative of ∇₁f by λ.
    third : float
        Upper bound of the norm of D³f by w three times.
    third_cross : float
        Upper bound of the norm of D³f by w twice and λ once.
    """

    def __init__(
        self, program: Program, centre: Tensor, lam: Tensor, radius: float, *, with_lam: bool = True,
        at_centre: Callable[[], Derivatives] | None = None, of_lam: OfLam | None = None,
    ) -> None:  # fmt: skip
        """Enclose the program. Bounds over several balls can share `at_centre` and `of_lam`.

        `at_centre` returns the derivatives at the centre. `of_lam` caches values that depend only on λ.
        """
        self.radius = radius
        self._centre = centre
        self._at = at_centre or (lambda: Derivatives(program, centre, lam, 0.0, with_lam=with_lam, of_lam=of_lam))
        of_ball = partial(Derivatives, program, centre, lam, radius, with_lam=with_lam, of_lam=of_lam)
        self.over = of_ball() if radius else self.at

    @cached_property
    def at(self) -> Derivatives:
        """The derivatives at the centre."""
        return self._at()

    @cached_property
    def _ends(self) -> tuple[float, float]:
        low, high = self.over.ends
        if (W, W) in self.over.output.bends and self.radius:
            low_c, high_c = self.at.ends
            move = self.radius * self.third * UP
            low, high = max(low, low_c - move), min(high, high_c + move)
        return _number(low, -math.inf), _number(high, math.inf)

    @property
    def smallest(self) -> float:
        return self._ends[0]

    @property
    def largest(self) -> float:
        return self._ends[1]

    @property
    def hessian(self) -> float:
        """Upper bound of ‖∇²₁f‖."""
        return max(abs(self.smallest), abs(self.largest))

    @cached_property
    def gradient(self) -> float:
        slope = self.over.output.slopes.get(W)
        if slope is None:
            return 0.0
        from_centre = norm(slope.F) + float(slope.slip) + self.radius * self.hessian * UP
        best = min(from_centre, self.over.gradient_norm())
        hessian = self.at.hessian if self.radius else None
        if hessian is not None and math.isfinite(self.third):  # ∇f = ∇f(centre) + ∇²f(centre)s up to ½‖D³f‖‖s‖²
            rest = float(slope.slip) + self.radius * (hessian.off + self.radius * self.third / 2)
            best = min(best, farthest(hessian.H, slope.F.reshape(-1), self.radius) + rest * UP)
        return _number(best, math.inf)

    @cached_property
    def cross(self) -> float:
        if not self.radius:
            return _number(self.over.cross, math.inf)
        at_centre, change = self.at.cross, self.radius * self.third_cross * UP
        best = _number(at_centre + change, math.inf)
        best = min(best, _number(norm_of(self.over.curvature((W, LAM)), best), math.inf))
        if best > NEXT_TO * max(at_centre, change):  # the supremum is hardly ever below this maximum
            best = min(best, self._affine_cross(None, self.radius, self.radius))
        return best

    def mean_cross(self, w: Tensor, distance: float) -> float:
        """Return an upper bound of the norm of the mean of ∇²₁₂f over the segment from v to any point of the ball.

        v is a point of the ball within `distance` of w. The mean of an affine function over a segment is its value at
        the midpoint, which is within half the radius of the midpoint of centre and v.
        """
        step = w.detach().cpu().double() - self._centre.detach().cpu().double()
        away = (self.radius + norm(step) + distance) / 2 * UP  # at least the mean distance from the centre
        return self._affine_cross(step / 2, (self.radius + distance) / 2 * UP, away)

    @torch.no_grad()
    def _affine_cross(self, start: Tensor | None, radius: float, away: float) -> float:
        """Return an upper bound of ‖∇²₁₂f(centre) + T(start + s)‖ over ‖s‖ ≤ radius.

        T is D³f. The uncertainty of T counts with the distance `away` from the centre.
        """
        parts = self.at.curvature((W, LAM))
        T = self._middle
        if T is None or not parts:
            return math.inf
        C = sum((part.lo for part in parts[1:]), parts[0].lo)
        slack = math.fsum(part.slack for part in parts) + T.off * away
        slack += rounding(len(parts) + 1) * math.fsum(frobenius(part.lo) for part in parts)
        if start is not None and bool(start.any()):
            shift, error = contracted(T.tensor, start)
            C, slack = C + shift, slack + error + rounding(1) * (frobenius(C) + frobenius(shift))
        return _number(affine_norm(C, T.tensor, radius) + slack * UP, math.inf)

    @cached_property
    def _middle(self) -> Middle | None:
        return middle_of(self._third_cross, MOST_ENTRIES)

    @cached_property
    def _third_cross(self) -> list[Trilinear]:
        return self.over.third((W, W, LAM))

    @cached_property
    def third(self) -> float:
        return _number(trilinear_norm(self.over.third((W, W, W))), math.inf)

    @cached_property
    def third_cross(self) -> float:
        return _number(trilinear_norm(self._third_cross), math.inf)


def _number(x: float, unknown: float) -> float:
    return unknown if math.isnan(x) else x


def hessian_at(parts: list[Curvature]) -> Hessian:
    """Return D²f by w from its parts."""
    lo = sum((part.lo for part in parts[1:]), parts[0].lo)
    up = sum((part.up for part in parts[1:]), parts[0].up)
    slack = math.fsum(part.slack for part in parts) + frobenius(up - lo) / 2
    slack += rounding(len(parts)) * math.fsum(frobenius(part.lo) + frobenius(part.up) for part in parts)
    return Hessian(lo / 2 + up / 2, slack * UP)
