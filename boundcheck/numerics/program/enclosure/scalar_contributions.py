"""Contributions of the operations of a scalar program to a bound of its derivatives, for the explanation of a bound.

An operation on one line of the user's code is one row, however often that line runs. The value of the row is the bound
that this operation alone would have, with the derivative of f by its result unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from boundcheck.explanation import Contribution
from boundcheck.numerics.program.enclosure.farthest import farthest
from boundcheck.numerics.program.enclosure.intervals import UP, Interval
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.scalar import Derivatives, ScalarBounds, hessian_at
from boundcheck.numerics.program.enclosure.site_notes import Names, Reading, names_of
from boundcheck.numerics.program.enclosure.sites import Site, is_bent, sites_of, sorted_rows
from boundcheck.numerics.program.enclosure.value import LAM, Value, W

ORDER = {"gradient": 1, "third": 3, "third_cross": 3}  # order of the derivative; 2 for all other quantities
STEADY = 1e-12  # largest relative radius of an adjoint that counts as constant


@dataclass(frozen=True, eq=False)
class Calm:
    """Bounds at w*, and the mean distance to w* of the points on the segment from w* to a point of the ball."""

    bounds: ScalarBounds
    mean: float


def contributions(
    bounds: ScalarBounds, quantity: str, factor: float = 1.0, calm: Calm | None = None
) -> list[Contribution]:
    """Return the contributions of operations to the attribute `quantity` of `bounds`, times `factor`, largest first.

    With `calm`, a second derivative need only be bounded on average between w* and a point of the ball.
    """
    values = bounds.over.values
    names = names_of(values)
    if quantity == "gradient":
        return sorted_rows(_of_gradient(bounds, values, names))
    rows = []
    slots = (W, LAM) if quantity in ("cross", "third_cross") else (W,)
    for site in sites_of(values, names, [i for i, value in enumerate(values) if is_bent(value) and W in value.slopes]):
        site_bounds, centre = _SiteBounds(bounds, site), _SiteBounds(bounds, site, at_centre=True)
        value: float = getattr(site_bounds, quantity)
        if calm is not None:
            slope = site_bounds.third if quantity == "hessian" else site_bounds.third_cross
            value = min(value, (getattr(_SiteBounds(calm.bounds, site), quantity) + calm.mean * slope) * UP)
        reading = _reading(bounds.over, site, ORDER.get(quantity, 2), slots, names)
        at_centre = factor * getattr(centre, quantity)
        rows.append(site.row(factor * value, at_centre, reading, least=quantity == "smallest"))
    return sorted_rows(rows)


def _reading(over: Derivatives, site: Site, order: int, slots: tuple[str, ...], names: Names) -> Reading:
    values = [over.values[i] for i in site.places]
    weights = [float(over.adjoints[id(x)].size.max()) for x in values if id(x) in over.adjoints]
    return Reading(values, order, slots, names, max(weights, default=None))


def _without_caches(x: object, kind: type) -> dict[str, Any]:
    """Return the attributes of an object without its cached properties."""
    return {
        name: value for name, value in vars(x).items() if not isinstance(getattr(kind, name, None), cached_property)
    }


class _DerivativesOfSome(Derivatives):
    """Derivatives to which only the operations at some places contribute."""

    def __init__(self, whole: Derivatives, places: Sequence[int]) -> None:
        self.__dict__ |= _without_caches(whole, Derivatives)
        self._curvatures, self._thirds = {}, {}  # those of the whole have other parts
        self.values = [whole.values[i] for i in places]


class _SiteBounds(ScalarBounds):
    """Bounds to which only one site contributes, over the ball or at its centre."""

    def __init__(self, whole: ScalarBounds, site: Site, *, at_centre: bool = False) -> None:
        self.__dict__ |= _without_caches(whole, ScalarBounds)
        at = _DerivativesOfSome(whole.at, site.places)
        self.over = at if at_centre else _DerivativesOfSome(whole.over, site.places)
        self.__dict__["at"] = at
        self.radius = 0.0 if at_centre else whole.radius


def _of_gradient(bounds: ScalarBounds, values: Sequence[Value], names: Names) -> Iterator[Contribution]:
    """Yield the contributions to ∇₁f, a sum of the derivatives that nonlinear operations pass to values affine in w."""
    is_nonlinear = (W, W) in bounds.over.output.bends
    places = [i for i, value in enumerate(values) if _has_affine_input(value)] if is_nonlinear else [len(values) - 1]
    for site in sites_of(values, names, places):
        reading = _reading(bounds.over, site, 1, (W,), names)
        if not is_nonlinear:
            yield site.row(bounds.gradient, bounds.gradient, reading)
            continue
        first = values[site.places[0]]
        if isinstance(first.rule, Linear):  # a sum with an affine term is shown as this term
            affine = list(_affine_inputs(first))
            operation, line = names[id(affine[0])]
            site = Site(operation, line or site.line, site.places)
            reading = Reading(affine, 1, (W,), names, reading.weight)
        yield site.row(_gradient(bounds, site, bounds.radius), _gradient(bounds, site, 0.0), reading)


def _has_affine_input(value: Value) -> bool:
    return value.rule is not None and (W, W) in value.bends and any(True for _ in _affine_inputs(value))


def _affine_inputs(value: Value) -> Iterator[Value]:
    for x in value.rule.inputs if value.rule is not None else ():
        if W in x.slopes and (W, W) not in x.bends:
            yield x


@torch.no_grad()
def _gradient(bounds: ScalarBounds, site: Site, radius: float) -> float:
    """Return an upper bound of the norm of the part of ∇₁f that a site passes to values affine in w.

    It is the better of a bound over the ball and a bound by the value at the centre and its change.
    """
    over = bounds.over if radius else bounds.at
    part, is_steady = _DerivativesOfSome(over, range(len(over.values))), True
    adjoints: dict[int, Interval] = {}
    for x, piece, adjoint in _affine_parts(over, site):
        adjoints[id(x)] = adjoints[id(x)] + piece if id(x) in adjoints else piece
        is_steady = is_steady and bool((adjoint.rad <= STEADY * adjoint.size).all())
    part._affine_adjoints = adjoints
    best = part.gradient_norm()
    site_bounds = _SiteBounds(bounds, site)
    parts = site_bounds.at.curvature((W, W)) if radius and is_steady else []
    if parts and math.isfinite(site_bounds.third):  # with a constant adjoint it is the gradient of one function
        hessian = hessian_at(parts)
        affine_bound = farthest(hessian.H, _at_centre(bounds.at, site), radius)
        best = min(best, affine_bound + radius * (hessian.off + radius * site_bounds.third / 2))
    return best


def _affine_parts(over: Derivatives, site: Site) -> Iterator[tuple[Value, Interval, Interval]]:
    """Yield affine inputs of the site, the derivatives that it passes to them, and the derivatives by its results."""
    for place in site.places:
        value = over.values[place]
        adjoint = over.adjoints.get(id(value))
        if value.rule is not None and adjoint is not None:
            for x, piece in value.rule.backward(adjoint):
                if W in x.slopes and (W, W) not in x.bends:
                    yield x, piece, adjoint


def _at_centre(at: Derivatives, site: Site) -> Tensor:
    g = torch.zeros(at.output.slopes[W].F.shape[0], dtype=torch.float64)
    for x, piece, _ in _affine_parts(at, site):
        g = g + x.slopes[W].matrix.T @ piece.mid.reshape(-1)
    return g
