"""What each operation of a map adds to a bound of its derivatives: computed when a person asks why.

The value of an operation is the bound with all other operations taken as linear. As for first derivatives, Φ is a
linear function of its inputs and of results of operations that bend; the value of one of them is the bound where it
alone moves.
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
    """What operations add to a bound, an attribute of `bounds`; `at` has those at the centre; the largest first."""
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
    """The values that Φ is a linear function of: results of operations that bend, and inputs."""
    waiting = [output]
    while waiting:
        value = waiting.pop()
        if isinstance(value.rule, Linear):
            waiting += value.rule.inputs
        else:
            yield value


@torch.no_grad()
def _slope(output: Value, chosen: frozenset[int], slot: str) -> float:
    """At least ‖J‖ of the output by an input, where only the chosen ends depend on it."""
    memory: dict[int, Value] = {}

    def alone(value: Value) -> Value:
        if id(value) in chosen:
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
def _bend(output: Value, chosen: frozenset[int], pair: Pair) -> float:
    """At least the norm of the second derivative of the output, where only the chosen operations bend."""
    bends: dict[int, Bend | None] = {}
    for value in values_before(output):
        bends[id(value)] = None
        if value.rule is None or pair not in value.bends:
            continue
        own = id(value) in chosen
        if own or any(bends[id(x)] is not None for x in value.rule.inputs):
            inputs = {id(x): _seen(x, bends[id(x)], pair, with_slopes=own) for x in value.rule.inputs}
            bends[id(value)] = _with_inputs(value.rule, inputs).bend(pair)
    bend = bends[id(output)]
    return 0.0 if bend is None else min(bend.norm(output.shape), norm(_sizes(bend, output)))


def _sizes(bend: Bend, value: Value) -> Tensor:
    """At least the norm of D²x_i by the terms and the rest."""
    sizes = bend.rest
    for term in bend.terms:
        sizes = sizes + term.sizes(value.shape)
    return sizes * UP


def _seen(x: Value, bend: Bend | None, pair: Pair, *, with_slopes: bool) -> Value:
    """An input as the operation sees it: with this second derivative, and with its first ones or without."""
    bends = {} if bend is None else {pair: torch.minimum(_sizes(bend, x), x.bends[pair])}
    norms = {slot: x.remainder(slot) for slot in x.slopes} if with_slopes else {}
    slopes = x.slopes if with_slopes else {}
    return replace(x, slopes=slopes, bends=bends, _second={} if bend is None else {pair: bend}, _norms=norms)


def _with_inputs(rule: Rule, inputs: dict[int, Value]) -> Any:
    """The same rule on other values."""
    changed: dict[str, Any] = {}
    for field in fields(rule):  # type: ignore[arg-type]
        x = getattr(rule, field.name)
        if isinstance(x, Value):
            changed[field.name] = inputs[id(x)]
        elif isinstance(x, tuple) and x and all(isinstance(y, Value) for y in x):
            changed[field.name] = tuple(inputs[id(y)] for y in x)
    return replace(rule, **changed)  # type: ignore[type-var]
