"""Explanations in words: the ranges of an operation over the ball, why its bound is large, and what may help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from boundcheck.numerics.program.enclosure.bilinear import Bilinear
from boundcheck.numerics.program.enclosure.elementwise import Elementwise
from boundcheck.numerics.program.enclosure.intervals import Interval
from boundcheck.numerics.program.enclosure.linear import Linear
from boundcheck.numerics.program.enclosure.log_sum_exp import NEAR, LogSumExp
from boundcheck.numerics.program.enclosure.normalised import Normalised
from boundcheck.numerics.program.enclosure.value import LAM, Value, W

Names = Mapping[int, tuple[str, str]]  # the operation and line of a value, by its id
LOOSE = 10  # a hint is given if a bound is more than this many times its value at the centre
INPUT = {W: "w", LAM: "λ"}
PRIMES = ("φ", "φ'", "φ''", "φ'''")
SMOOTH = {
    **dict.fromkeys(("relu", "leaky_relu", "elu", "celu"), "use softplus or silu, which are smooth"),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh"), "use sigmoid, tanh or softplus, which are smooth"),
    "abs": "use sqrt(z² + ε), which is smooth",
    "huber_loss": "use a smooth loss, such as log cosh or sqrt(z² + δ²)",
    "smooth_l1_loss": "use a smooth loss, such as log cosh or sqrt(z² + δ²)",
}
SMALLER = "a smaller ball helps: a start nearer to w*, or the local ball"


@dataclass(frozen=True, eq=False)
class Reading:
    """The values of one operation on one line, and the derivative that is bounded.

    Attributes
    ----------
    values : sequence of Value
        The results of the operation.
    order : int
        The order of the derivative.
    slots : tuple of str
        The inputs of the derivative.
    names : Names
        The names of values.
    weight : float or None
        Upper bound of |∂f/∂y| for a scalar f and a result y; None for a map.
    """

    values: Sequence[Value]
    order: int
    slots: tuple[str, ...]
    names: Names
    weight: float | None

    def name(self, value: Value) -> str:
        """Return the name of the operation that computes a value, or of the input of which it is a part."""
        value = unmoved(value)
        if value.name in INPUT:
            return INPUT[value.name]
        return self.names.get(id(value), ("", ""))[0] or "z"


def unmoved(value: Value) -> Value:
    """Return the value before moves of its entries, such as changes of shape or order."""
    while isinstance(value.rule, Linear) and value.rule.moves and len(value.rule.inputs) == 1:
        value = value.rule.inputs[0]
    return value


def note(reading: Reading) -> str:
    """Return a note with the ranges and sizes that determine the bound."""
    first = reading.values[0]
    kinds: dict[type, Callable[[Reading], Iterator[str]]] = {
        Elementwise: _of_function, Bilinear: _of_product, LogSumExp: _of_log_sum_exp, Normalised: _of_norm,
    }  # fmt: skip
    words = list(kinds.get(type(first.rule), _of_affine)(reading))
    if reading.weight is not None and isinstance(first.rule, Elementwise | LogSumExp | Bilinear | Normalised):
        words.append(f"weight ≤ {short(reading.weight)}")
    return "; ".join(words)


def _of_function(reading: Reading) -> Iterator[str]:
    rules = [value.rule for value in reading.values if isinstance(value.rule, Elementwise)]
    yield f"z = {reading.name(rules[0].base)} {_in([rule.base.box for rule in rules])}"
    jets = [rule.jet[reading.order] for rule in rules]
    symbol = PRIMES[reading.order]
    if reading.order == 2:
        yield f"{symbol} {_in(jets)}"
    else:
        size = max(float(jet.size.max()) for jet in jets)
        yield f"{symbol} = 0" if size < 1e-290 else f"|{symbol}| ≤ {short(size)}"
        if reading.order == 3 and any((W, W) in rule.base.bends for rule in rules):
            yield f"|φ''| ≤ {short(max(float(rule.jet[2].size.max()) for rule in rules))}"
    yield from _slopes(reading, "z", [rule.base for rule in rules])


def _of_product(reading: Reading) -> Iterator[str]:
    rules = [value.rule for value in reading.values if isinstance(value.rule, Bilinear)]
    for letter, factors in (("x", [rule.p for rule in rules]), ("y", [rule.q for rule in rules])):
        yield f"{letter} = {reading.name(factors[0])} {_in([factor.box for factor in factors])}"
        yield from _slopes(reading, letter, factors)


def _of_log_sum_exp(reading: Reading) -> Iterator[str]:
    rules = [value.rule for value in reading.values if isinstance(value.rule, LogSumExp)]
    change = max(float(rule.x.off().reshape(-1, rule.k).norm(dim=1).max()) for rule in rules)
    yield f"groups of {rules[0].k} entries of z = {reading.name(rules[0].x)} move by up to {short(change)}"
    h = torch.cat([rule.h for rule in rules])
    far = torch.cat([rule.centre[1] > NEAR * rule.h for rule in rules])
    if bool(far.any()) and reading.order == 2:
        yield f"{int(far.sum())} of {len(far)} so far that only 0 ⪯ φ'' ⪯ {short(float(h[far].max()))} is used"
    yield from _slopes(reading, "z", [rule.x for rule in rules])


def _of_norm(reading: Reading) -> Iterator[str]:
    rules = [value.rule for value in reading.values if isinstance(value.rule, Normalised)]
    change = max(float(rule.gap.max()) for rule in rules)
    yield f"groups of {rules[0].k} entries of z = {reading.name(rules[0].x)} move by up to {short(change)}"
    yield f"length of a group {_in([rule.root for rule in rules])}"
    yield from _slopes(reading, "z", [rule.x for rule in rules])


def _of_affine(reading: Reading) -> Iterator[str]:
    value = unmoved(reading.values[0])
    if value.name in INPUT:
        yield f"{INPUT[value.name]} itself"
    else:
        yield "affine in w"
        yield from _slopes(reading, "y", reading.values)


def _slopes(reading: Reading, letter: str, values: Sequence[Value]) -> Iterator[str]:
    """Yield bounds of the derivatives of a tensor by the inputs in `reading.slots`."""
    for slot in reading.slots:
        varying = [value for value in values if slot in value.slopes]
        if varying and unmoved(varying[0]).name not in INPUT:
            size = max(value.slopes[slot].norm + value.remainder(slot) for value in varying)
            yield f"‖∂{letter}/∂{INPUT[slot]}‖ ≤ {short(size)}"


def _in(boxes: Sequence[Interval]) -> str:
    lo, hi = min(float(box.lo.min()) for box in boxes), max(float(box.hi.max()) for box in boxes)
    size = max(abs(lo), abs(hi))
    lo, hi = (0.0 if abs(x) < 1e-9 * size < math.inf else x for x in (lo, hi))  # rounding
    return f"= {short(lo)}" if short(lo) == short(hi) else f"in [{short(lo)}, {short(hi)}]"


def short(x: float) -> str:
    """Return a number with three digits, without a minus before 0."""
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    return f"{0.0 if abs(x) < 1e-12 else x:.3g}".replace("-", "−")


def hint(reading: Reading, value: float, at_centre: float, *, least: bool) -> str:
    """Return advice if the bound is infinite or far from its value at the centre; otherwise an empty string."""
    if not math.isfinite(value):
        return _about_infinity(reading)
    is_loose = value < at_centre / LOOSE if least else value > LOOSE * max(at_centre, 0.0)
    if not is_loose or not at_centre:
        return ""
    if least:
        finding = f"the curvature is {short(at_centre)} at the centre and falls over the ball"
    else:
        finding = f"{short(value / at_centre)} times its value at the centre"
    if isinstance(reading.values[0].rule, Bilinear):
        return f"{finding}: a product of two tensors that vary, each at its worst over the ball; {SMALLER}"
    return f"{finding}: the range of z is wide; {SMALLER}, or smaller data"


def _about_infinity(reading: Reading) -> str:
    for value in reading.values:
        if breaks(value, reading.order):
            name = reading.names.get(id(value), ("", ""))[0]
            if name in SMOOTH:
                return f"a kink of {name} is inside the range of z; {SMOOTH[name]}, or keep z away from the kink"
            return f"{name} is not smooth everywhere in the range of z; keep z away from there; {SMALLER}"
    for value in reading.values:
        for x in _read_by(value):
            if breaks(x, reading.order):
                return f"infinite through {reading.name(x)}{_place(x)}, which it reads"
    return "infinite through an operation that reads it"


def _read_by(value: Value) -> Iterator[Value]:
    """Yield every value from which a value is computed, each once."""
    pending, visited = [value], {id(value)}
    while pending:
        rule = pending.pop().rule
        for x in rule.inputs if rule is not None else ():
            if id(x) not in visited:
                visited.add(id(x))
                pending.append(x)
                yield x


def _place(value: Value) -> str:
    return f", {value.line}" if value.line else ""


def breaks(value: Value, order: int) -> bool:
    """Return True if the value is a function of one number without a bound on a derivative up to this order."""
    rule = value.rule
    return isinstance(rule, Elementwise) and any(
        not bool(torch.isfinite(rule.jet[i].size).all()) for i in range(order + 1)
    )


def culprit(values: Sequence[Value], order: int) -> str:
    """Return the first operation without a bound on a derivative, with its line; empty if there is none."""
    names = names_of(values)
    for value in values:
        if breaks(value, order):
            name, line = names[id(value)]
            return f"aten.{name} is not smooth on all of the ball{f', {line}' if line else ''}"
    return ""


def names_of(values: Sequence[Value]) -> Names:
    """Return operation and line of each value. Intermediate values of an operation have the names of the operation."""
    names: dict[int, tuple[str, str]] = {}
    for value in reversed(values):
        if value.name:
            names[id(value)] = value.name, value.line
        for x in value.rule.inputs if value.rule is not None else ():
            names.setdefault(id(x), names.get(id(value), ("", "")))
    return names
