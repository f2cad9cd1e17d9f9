"""Contributions of the operations of a map to a bound of its derivatives, for the explanation of a bound.

For second derivatives, the value of an operation is the bound with all other operations taken as linear. For first
derivatives, Φ is a linear function of its inputs and of the results of nonlinear operations. The value of one of them
is the bound if all the others are constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.explanation import Contribution
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.linear import Linear, linear_value
from boundcheck.numerics.program.enclosure.map import MapBounds, norm_of_slope
from boundcheck.numerics.program.enclosure.scalar import values_before
from boundcheck.numerics.program.enclosure.site_notes import Reading, names_of
from boundcheck.numerics.program.enclosure.sites import is_bent, sites_of, sorted_rows
from boundcheck.numerics.program.enclosure.value import LAM, Bend, Pair, Rule, Value, W, refined


def contributions(bounds: MapBounds, at: MapBounds, quantity: str) -> list[Contribution]:
    """Return the contributions of operations to the attribute `quantity` of `bounds`, the largest first.

    `at` has the bounds at the centre.
    """
    values, at_values = values_before(bounds.output), values_before(at.output)
    names = names_of(values)
    slot = LAM if quantity.startswith("lam") else W
    second = quantity.endswith("bend")
    if second:
        places = [i for i, value in enumerate(values) if is_bent(value) and W in value.slopes]
    else:
        ends = {id(x) for x in _ends(bounds.output)}
        places = [i for i, value in enumerate(values) if id(value) in ends and slot in value.slopes]
    rows = []
    for site in sites_of(values, names, places):
        over, centre = (frozenset(id(order[i]) for i in site.places) for order in (values, at_values))
        if second:
            value, at_centre = _bend(bounds.output, over, (W, slot)), _bend(at.output, centre, (W, slot))
            slots = (W,) if slot == W else (W, LAM)
        else:
            value, at_centre, slots = _slope(bounds.output, over, slot), _slope(at.output, centre, slot), (slot,)
        reading = Reading([values[i] for i in site.places], 2 if second else 1, slots, names, None)
        rows.append(site.row(value, at_centre, reading))
    return sorted_rows(rows)


def _ends(output: Value) -> Iterator[Value]:
    """Yield the values of which Φ is a linear function: results of nonlinear operations, and inputs."""
    pending = [output]
    while pending:
        value = pending.pop()
        if isinstance(value.rule, Linear):
            pending += value.rule.inputs
        else:
            yield value


@torch.no_grad()
def _slope(output: Value, ends: frozenset[int], slot: str) -> float:
    """Return an upper bound of ‖J‖ of the output by an input, if only these ends depend on the input."""
    memory: dict[int, Value] = {}

    def alone(value: Value) -> Value:
        if id(value) in ends:
            return value
        if id(value) not in memory:
            rule = value.rule
            if isinstance(rule, Linear):
                inputs = [alone(x) for x in rule.inputs]
                again = linear_value(inputs, rule.f, rule.size, rule.offset, moves=rule.moves, terms=rule.terms)
                memory[id(value)] = refined(again, value.radius)
            else:
                memory[id(value)] = replace(value, slopes={}, bends={}, _second={}, _norms={})
        return memory[id(value)]

    return norm_of_slope(alone(output), slot)


@torch.no_grad()
def _bend(output: Value, operations: frozenset[int], pair: Pair) -> float:
    """Return an upper bound of the norm of the second derivative, if only these operations are nonlinear."""
    bends: dict[int, Bend | None] = {}
    for value in values_before(output):
        bends[id(value)] = None
        if value.rule is None or pair not in value.bends:
            continue
        is_nonlinear = id(value) in operations
        if is_nonlinear or any(bends[id(x)] is not None for x in value.rule.inputs):
            inputs = {id(x): _input(x, bends[id(x)], pair, with_slopes=is_nonlinear) for x in value.rule.inputs}
            bends[id(value)] = _with_inputs(value.rule, inputs).bend(pair)
    bend = bends[id(output)]
    return 0.0 if bend is None else min(bend.norm(output.shape), norm(_sizes(bend, output)))


def _sizes(bend: Bend, value: Value) -> Tensor:
    """Return upper bounds of the norms of D²x_i, from the terms and the rest."""
    sizes = bend.rest
    for term in bend.terms:
        sizes = sizes + term.sizes(value.shape)
    return sizes * UP


def _input(x: Value, bend: Bend | None, pair: Pair, *, with_slopes: bool) -> Value:
    """Return an input of an operation with this second derivative, and with or without its first derivatives."""
    bends = {} if bend is None else {pair: torch.minimum(_sizes(bend, x), x.bends[pair])}
    norms = {slot: x.remainder(slot) for slot in x.slopes} if with_slopes else {}
    slopes = x.slopes if with_slopes else {}
    return replace(x, slopes=slopes, bends=bends, _second={} if bend is None else {pair: bend}, _norms=norms)


def _with_inputs(rule: Rule, inputs: dict[int, Value]) -> Any:
    """Return the same rule with other inputs."""
    changes: dict[str, Any] = {}
    for field in fields(rule):  # type: ignore[arg-type]
        x = getattr(rule, field.name)
        if isinstance(x, Value):
            changes[field.name] = inputs[id(x)]
        elif isinstance(x, tuple) and x and all(isinstance(y, Value) for y in x):
            changes[field.name] = tuple(inputs[id(y)] for y in x)
    return replace(rule, **changes)  # type: ignore[type-var]
