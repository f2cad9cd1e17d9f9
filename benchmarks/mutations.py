"""Every rule of the enclosures made wrong by a factor of 0.9, one at a time: ``python benchmarks/mutations.py``.

A rule that is wrong has to be caught: some program of `tight_programs.py` has a sample that contradicts what is said.
Rounding is left out, since no sample in the same precision shows it; tests with mpmath do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

from tight_programs import FORMULAS, PROGRAMS
from torch import Tensor

from boundcheck.numerics.program import cholesky_certificate
from boundcheck.numerics.program.enclosure import (
    affine_norm,
    bilinear,
    bilinear_sizes,
    bilinear_value,
    calm,
    chain,
    curvature_form,
    dependence,
    elementary,
    elementwise,
    farthest,
    forms,
    groups,
    intervals,
    linear,
    log_sum_exp,
    map,
    normalised,
    piecewise,
    scalar,
    sparse_derivative,
    value,
)

FACTOR = 0.9
PACKAGE = "boundcheck.numerics.program"
Change = Callable[[Any], Any]
# how the names of programs begin that show a wrong rule, by its name, by function or else by where it is
HINTS: dict[str, tuple[str, ...]] = {
    "power": ("x^",),
    "huber": ("huber",),
    "power_of_fold": ("max(x, 0)^", "|x|^"),
    "soft_plus": ("softplus",),
    "summed": ("x² +",),
    "multiplied": ("x³ e",),
    "_as_one_tensor": ("third",),
    "frobenius": ("the Frob",),
    "_loose": ("what",),
    "Normalised.third, slack": ("unit number of what",),
    "_cross_slack": ("unit number of what",),
    "weighted_norm": ("the norm of a slope",),
    "row_norms": ("the norms of rows",),
    "line_norms": ("the norm of a line",),
    "largest_eigenvalue_of_sparse": ("the largest eigenvalue of a sparse",),
    "_of_product": ("w times",),
    "norm_by_blocks": ("map of e^x",),
    "LogSumExp": ("logsumexp",),
    "log_sum_exp": ("logsumexp",),
    "Bilinear": ("e^(e^w", "mm", "dot"),
    "bilinear": ("mm",),
    "bilinear_sizes": ("mm",),
    "bilinear_value": ("mm",),
    "Linear": ("number", "a lin"),
    "linear": ("number", "a lin"),
    "Elementwise": ("e^(e^w",),
    "elementwise": ("e^(e^w",),
    "chain": ("e^(",),
    "Chain": ("e^(",),
    "Normalised": ("unit",),
    "normalised": ("unit",),
    "MapBounds": ("tanh of",),
    "map": ("tanh of",),
}


def less(x: Any) -> Any:
    """A bound times 0.9: each number in it, but not the matrices that bounds are of."""
    if isinstance(x, bool) or x is None:
        return x
    if isinstance(x, float | Tensor):
        return FACTOR * x
    if isinstance(x, intervals.Interval):
        return intervals.Interval(FACTOR * x.lo, FACTOR * x.hi)
    if isinstance(x, curvature_form.Curvature):
        return curvature_form.Curvature(less(x.lo), less(x.up), less(x.slack))
    if isinstance(x, forms.Trilinear):
        return replace(x, c=less(x.c), slack=less(x.slack))
    if isinstance(x, value.Bend):
        return value.Bend(less(x.terms), less(x.rest), less(x.rest_norm), less(x.most))
    if isinstance(x, value.Term):
        return replace(x, c=less(x.c))
    if isinstance(x, value.Slope):
        return value.Slope(x.held, less(x.slip), less(x.rows))
    if isinstance(x, chain.Chain):
        return replace(x, jets=lambda z: less(x.jets(z)))
    if isinstance(x, tuple | list):
        return type(x)(less(y) for y in x)
    if isinstance(x, dict):
        return {key: less(y) for key, y in x.items()}
    if is_dataclass(x):
        return type(x)(**{f.name: less(getattr(x, f.name)) for f in fields(x)})
    raise TypeError(type(x))


def less_of(field: str) -> Change:
    """Only one field of what is returned."""
    return lambda x: replace(x, **{field: less(getattr(x, field))})


def _slopes(field: str) -> Change:
    def change(x: value.Value) -> value.Value:
        slopes = {slot: replace(slope, **{field: less(getattr(slope, field))}) for slot, slope in x.slopes.items()}
        return replace(x, slopes=slopes)

    return change


def _ends(x: tuple[float, float]) -> tuple[float, float]:
    return x[0] + 0.1 * abs(x[0]), x[1] - 0.1 * abs(x[1])


@dataclass(frozen=True, eq=False)
class Mutation:
    """A function or method, and what becomes of what it returns."""

    name: str
    owner: Any
    attribute: str
    change: Change = less

    @property
    def hint(self) -> tuple[str, ...]:
        """How the names of programs begin that may show it; the others come later."""
        owner = self.owner.__name__.rpartition(".")[2]
        return HINTS.get(self.name) or HINTS.get(self.attribute) or HINTS.get(owner, ())

    @contextmanager
    def made(self) -> Iterator[None]:
        """The rule is wrong inside of it."""
        original = self.owner.__dict__[self.attribute]
        wrong = _wrong(original, self.change)
        if not isinstance(self.owner, ModuleType):
            setattr(self.owner, self.attribute, wrong)
            if isinstance(wrong, cached_property):
                wrong.__set_name__(self.owner, self.attribute)
            try:
                yield
            finally:
                setattr(self.owner, self.attribute, original)
            return
        ours = [module for name, module in list(sys.modules.items()) if name.startswith(PACKAGE)]
        users = [module for module in ours if module.__dict__.get(self.attribute) is original]
        for module in users:
            setattr(module, self.attribute, wrong)
        try:
            yield
        finally:
            for module in users:
                setattr(module, self.attribute, original)


def _wrong(original: Any, change: Change) -> Any:
    if isinstance(original, cached_property):
        return cached_property(lambda self: change(original.func(self)))
    if isinstance(original, property):
        return property(lambda self: change(original.fget(self)))  # type: ignore[misc]
    if not callable(original):
        return change(original)

    def wrong(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        return _each(result, change) if isinstance(result, Iterator) else change(result)

    return wrong


def _each(results: Iterator[Any], change: Change) -> Iterator[Any]:
    for x in results:  # what goes back is a pair of a value and its adjoint
        yield (x[0], change(x[1])) if isinstance(x, tuple) else change(x)


@dataclass(frozen=True, eq=False)
class OfTable:
    """A function of the table of elementary functions, one of whose derivatives is wrong."""

    name: str
    key: str
    order: int

    @property
    def hint(self) -> tuple[str, ...]:
        """How the names of programs begin that show it."""
        return (f"{self.key} ",)

    @contextmanager
    def made(self) -> Iterator[None]:
        """The rule is wrong inside of it."""
        original = elementary.ELEMENTARY[self.key]
        elementary.ELEMENTARY[self.key] = with_wrong(original, self.order)
        try:
            yield
        finally:
            elementary.ELEMENTARY[self.key] = original


def with_wrong(function: elementary.Elementary, order: int) -> elementary.Elementary:
    """The function with one derivative that is wrong."""
    derivatives = list(function.derivatives)
    right = derivatives[order]
    derivatives[order] = lambda x: FACTOR * right(x)
    return replace(function, derivatives=tuple(derivatives))


def _order(order: int) -> Change:
    """Of a chain, one order of its jets; of jets, one of them; of a function, one derivative."""

    def change(x: Any) -> Any:
        if isinstance(x, chain.Chain):
            return replace(x, jets=lambda z: change(x.jets(z)))
        if isinstance(x, elementary.Elementary):
            return with_wrong(x, order)
        return tuple(less(y) if i == order else y for i, y in enumerate(x))

    return change


ZERO = {(name, order) for name in ("sign", "sgn") for order in (1, 2, 3)}  # derivatives that are 0
ZERO |= {("square", 3), ("abs", 2), ("abs", 3), ("relu", 2), ("relu", 3), ("huber", 3)}
NEVER_RECORDED = {"square"}  # PyTorch runs pow in its place
ORDERS = range(4)


def mutations() -> list[Mutation | OfTable]:
    """All of them."""
    every: list[Mutation | OfTable] = [
        OfTable(f"{name}, derivative {order}", name, order)
        for name in elementary.ELEMENTARY
        for order in ORDERS
        if (name, order) not in ZERO and name not in NEVER_RECORDED
    ]

    def add(owner: Any, *names: str, change: Change = less, of: str = "") -> None:
        where = owner.__name__.rpartition(".")[2]
        every.extend(Mutation(f"{where}.{name}{of}", owner, name, change) for name in names)

    for order in ORDERS:
        of = f", derivative {order}"
        add(elementary, "power", "soft_plus", change=_order(order), of=of)
        if ("huber", order) not in ZERO:
            add(piecewise, "huber", change=_order(order), of=of)
        add(piecewise, "power_of_fold", change=_order(order), of=of)
        add(chain, "applied", "scaled", "summed", "multiplied", change=_order(order), of=of)
        add(chain.Chain, "jet", change=_order(order), of=of)
    rules = (
        linear.Linear, elementwise.Elementwise, bilinear.Bilinear, log_sum_exp.LogSumExp, normalised.Normalised,
    )  # fmt: skip
    for rule in rules:
        add(rule, "backward", "bend")
        for field in ("terms", "rest", "rest_norm", "most"):
            if (rule, field) != (log_sum_exp.LogSumExp, "most"):  # which is infinite: it says nothing
                add(rule, "bend", change=less_of(field), of=f", {field}")
        if rule is not linear.Linear:
            add(rule, "curvature", "third")
            for field in ("lo", "up", "slack"):
                add(rule, "curvature", change=less_of(field), of=f", {field}")
            for field in ("c", "slack"):
                add(rule, "third", change=less_of(field), of=f", {field}")
    add(forms.Factor, "sizes", "norm", "gram")
    add(log_sum_exp.LogSumExp, "h", "s3")
    add(normalised.Normalised, "first", "second", "third_size", "moved", "slope_at_centre", "_parts")
    add(normalised.Normalised, "root", change=lambda x: intervals.Interval(x.lo / FACTOR, x.hi / FACTOR))
    add(normalised, "SECOND", "THIRD")
    for module, name in (
        (linear, "linear_value"), (elementwise, "elementwise_value"), (bilinear_value, "bilinear_value"),
        (log_sum_exp, "log_sum_exp_value"), (normalised, "normalised_value"), (value, "refined"),
    ):  # fmt: skip
        for field in ("centre", "box", "bends"):
            add(module, name, change=less_of(field), of=f", {field}")
        for field in ("held", "rows"):
            add(module, name, change=_slopes(field), of=f", {field}")
    add(linear.Linear, "norm_of")
    add(bilinear.Bilinear, "_size", "_unknown_rows", "_most", "norm_of")
    add(bilinear_sizes, "joint_norms")
    for field in ("whole", "loose"):
        add(bilinear_sizes, "joint_norms", change=lambda x, f=field: x if x is None else less_of(f)(x), of=f", {field}")
    add(bilinear_sizes, "of_lines", "size_of_pair")
    add(log_sum_exp, "S3", "softmax", "_bend_size", "_centred")
    add(groups.Groups, "_cross_slack", "_loose", "_sizes")
    add(elementwise, "cross_slack", "slack_by_norm", "weighted_norm", "_cube", "products")
    add(forms, "trilinear_norm", "_paired", "_hadamard", "_as_one_tensor", "block_norms")
    add(forms, "sum_of_products")
    add(curvature_form, "norm_of", "congruence")
    add(curvature_form, "ends_of", change=_ends)
    add(value.Slope, "norms", "reach", "norm", "weighted_norm")
    add(sparse_derivative.Sparse, "row_norms", "norm", "line_norms")
    add(value.Term, "sizes")
    add(value.Bend, "norm")
    add(value.Value, "off", "remainder", "slope_norm")
    add(intervals.Interval, "size", "rad")
    add(intervals, "norm", "row_norms", "total", "euclidean")
    add(cholesky_certificate, "spectral_norm", "largest_eigenvalue", "largest_eigenvalue_of_sparse", "frobenius")
    add(farthest, "farthest")
    add(affine_norm, "affine_norm")
    add(scalar.Derivatives, "gradient_norm")
    add(scalar.ScalarBounds, "_ends", change=_ends)
    add(scalar.ScalarBounds, "gradient", "cross", "third", "third_cross", "_affine_cross")
    add(map, "norm_of_slope")
    add(map.MapBounds, "slope", "lam_slope", "bend", "lam_bend", "calm")
    add(calm, "calm_sizes", "_through", "_of_product")
    add(dependence, "norm_by_blocks")
    return every


QUEUE = [*FORMULAS, *PROGRAMS]


def caught_by(mutation: Mutation | OfTable) -> str:
    """The program and the statement that show that a rule is wrong; empty if none does."""
    with mutation.made():
        for program in sorted(QUEUE, key=lambda program: not program.name.startswith(mutation.hint)):
            if false := program.false():
                QUEUE.remove(program)
                QUEUE.insert(0, program)  # the next rule is mostly caught by the same
                return f"{program.name}: {false[0]}"
    return ""


def main() -> None:
    """Print what catches each."""
    false = [f"{program.name}: {program.false()}" for program in PROGRAMS if program.false()]
    print("\n".join(false) or "nothing is false as it is")
    missed = 0
    for mutation in mutations():
        by = caught_by(mutation)
        missed += not by
        print(f"{mutation.name:45s} {by or 'NOT CAUGHT'}", flush=True)
    print(f"{len(mutations())} mutations, {missed} not caught")


if __name__ == "__main__":
    main()
