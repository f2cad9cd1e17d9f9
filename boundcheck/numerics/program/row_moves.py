"""Rules in the form of `row_rules.py` for operations that move entries, for matrix products and for layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.numerics.program.recorded_program import Declined, Ref
from boundcheck.numerics.program.row_kinds import ExampleRows, ExampleSum, NoExamples, RowKind, Sized, Zero
from boundcheck.numerics.program.row_rules import CURVED, MIXES, SEVERAL, axis_of, sum_of
from boundcheck.numerics.program.row_step import RowOperation


def reshape(step: RowOperation) -> RowKind:
    """Return the kind of a tensor with another shape and the same order of entries.

    The new axis of the examples must have as many entries before it and after it as the old one.
    """
    x, shapes = step.value("self"), step.shapes
    kind = x.kind
    if not isinstance(kind, ExampleRows):
        return kind
    entries_before = math.prod(x.shapes[0][: kind.axis])
    entries_after = kind.inner * math.prod(x.shapes[0][kind.axis + 1 :])
    for axis in range(len(shapes[0])):
        if any(axis >= len(shape) for shape in shapes):
            break
        inners = {shape[axis] / n for shape, n in zip(shapes, step.counts, strict=True)}
        inner = inners.pop()
        if inners or inner != int(inner) or math.prod(shapes[0][:axis]) != entries_before:
            continue
        if inner * math.prod(shapes[0][axis + 1 :]) == entries_after:
            return ExampleRows(kind.power, axis, int(inner))
    raise Declined("a shape in which the examples have no axis of their own")


def permutation(step: RowOperation) -> RowKind:
    """Return the kind of a permutation of the axes."""
    x = step.value("self")
    if not isinstance(x.kind, ExampleRows):
        return x.kind
    order = list(range(x.rank))
    if step.name == "permute":
        order = [axis_of(d, x.rank) for d in step.plain("dims")]
    elif step.name == "t":
        order.reverse()
    else:
        one, other = (axis_of(step.plain(name), x.rank) for name in ("dim0", "dim1"))
        order[one], order[other] = order[other], order[one]
    return replace(x.kind, axis=order.index(x.kind.axis))


def selection(step: RowOperation) -> RowKind:
    """Return the kind of `select` or `slice` along an axis."""
    x = step.value("self")
    if not isinstance(x.kind, ExampleRows):
        return x.kind
    dim = axis_of(step.plain("dim"), x.rank)
    if dim == x.kind.axis:
        if step.name == "slice" and step.shapes == x.shapes and step.plain("step") == 1:
            return x.kind
        raise Declined("it takes some of the examples")
    for name in ("index", "start", "end", "step"):
        step.plain(name)
    return replace(x.kind, axis=x.kind.axis - (step.name == "select" and dim < x.kind.axis))


def concatenation(step: RowOperation) -> RowKind:
    """Return the kind of `cat` or `stack`."""
    tensors = [x for x in step.listed("tensors") if x is not None]
    stacked = step.name == "stack"
    dim = axis_of(step.plain("dim"), tensors[0].rank + stacked)
    kind = sum_of(tensors, tensors[0].rank)
    if not isinstance(kind, ExampleRows):
        return kind
    if any(x.kind != kind for x in tensors) or (not stacked and dim == kind.axis):
        raise Declined(MIXES)
    return replace(kind, axis=kind.axis + (stacked and dim <= kind.axis))


def split(step: RowOperation) -> RowKind:
    """Return the kind of the parts into which a tensor is split along an axis."""
    x = step.value("self")
    if not isinstance(x.kind, ExampleRows):
        return x.kind
    for name in ("split_size", "split_sizes"):
        step.plain(name)
    dim = axis_of(step.plain("dim"), x.rank)
    if dim == x.kind.axis:
        raise Declined("it takes some of the examples")
    return replace(x.kind, axis=x.kind.axis - (step.name == "unbind" and dim < x.kind.axis))


def indexing(step: RowOperation) -> RowKind:
    """Return the kind of x[i], where i has integers for each example, or of x[torch.arange(n), i]."""
    x, places = step.value("self"), step.raw("indices")
    used = [axis for axis, place in enumerate(places[0]) if place is not None]
    if isinstance(x.kind, ExampleSum) or x.kind.power:
        raise Declined(CURVED)
    if len(used) == 1:
        axis = used[0]
        index = step.sized([place[axis] for place in places])
        if isinstance(x.kind, NoExamples) and isinstance(index.kind, ExampleRows):
            return ExampleRows(0, axis + index.kind.axis, index.kind.inner)
        if isinstance(index.kind, NoExamples) and isinstance(x.kind, ExampleRows) and axis != x.kind.axis:
            return replace(x.kind, axis=x.kind.axis + (index.rank - 1) * (axis < x.kind.axis))
    if used == [0, 1] and x.kind == ExampleRows() and all(_is_range(place[0]) for place in places):
        index = step.sized([place[1] for place in places])
        if index.kind == ExampleRows() and index.rank == 1:
            return ExampleRows()
    raise Declined(MIXES)


def _is_range(index: Ref | Tensor) -> bool:
    """Return True if the index is 0, 1, 2, …"""
    return isinstance(index, Tensor) and index.dim() == 1 and torch.equal(index, torch.arange(len(index)).to(index))


def gather(step: RowOperation) -> RowKind:
    """Return the kind of `gather` or `index_select`.

    Entries of an example may be picked by integers of the same example, and entries of a table by any example.
    """
    x, index = step.value("self"), step.value("index")
    if x.kind.power or isinstance(x.kind, ExampleSum):
        raise Declined(CURVED)
    dim = axis_of(step.plain("dim"), x.rank)
    if step.name == "index_select" and isinstance(x.kind, NoExamples) and isinstance(index.kind, ExampleRows):
        return ExampleRows(0, dim, index.kind.inner)
    if isinstance(x.kind, ExampleRows) and dim != x.kind.axis:
        if step.name == "index_select" and isinstance(index.kind, NoExamples):
            return x.kind
        if step.name == "gather" and index.kind == x.kind:
            return x.kind
    raise Declined(MIXES)


def contraction(x: Sized, y: Sized, x_axes: str, y_axes: str, out: str) -> RowKind:
    """Return the kind of a product that sums over the axes missing in `out`. Letters name axes, as in `einsum`."""
    power = x.kind.power + y.kind.power
    if isinstance(x.kind, Zero) or isinstance(y.kind, Zero):
        power = 0
    rows = [(z.kind, axes[z.kind.axis]) for z, axes in ((x, x_axes), (y, y_axes)) if isinstance(z.kind, ExampleRows)]
    totals = [z for z in (x, y) if isinstance(z.kind, ExampleSum)]
    if totals and (rows or len(totals) == 2):
        raise Declined(MIXES if rows else CURVED)
    if not rows:
        return ExampleSum(power) if totals else NoExamples(power)
    kind, letter = rows[0]
    if any((other.inner, name) != (kind.inner, letter) for other, name in rows):
        raise Declined(SEVERAL)
    if len(rows) == 1 and letter in x_axes and letter in y_axes:
        raise Declined("a value that does not depend on the examples has entries along their axis")
    return ExampleRows(power, out.index(letter), kind.inner) if letter in out else ExampleSum(power)


AXES = {
    "mm": ("ij", "jk", "ik"), "mv": ("ij", "j", "i"), "dot": ("i", "i", ""), "bmm": ("bij", "bjk", "bik"),
    "addmm": ("ij", "jk", "ik"), "addmv": ("ij", "j", "i"), "baddbmm": ("bij", "bjk", "bik"),
}  # fmt: skip
FACTORS = {
    "mm": ("self", "mat2"), "mv": ("self", "vec"), "dot": ("self", "tensor"), "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "baddbmm": ("batch1", "batch2"),
}  # fmt: skip


def product(step: RowOperation) -> RowKind:
    """Return the kind of a matrix product, to which a tensor may be added."""
    x, y = (step.value(name) for name in FACTORS[step.name])
    kind = contraction(x, y, *AXES[step.name])
    if not step.name.startswith(("add", "badd")):
        return kind
    for name in ("alpha", "beta"):
        step.plain(name)
    return sum_of([step.value("self"), Sized(kind, step.shapes)], len(step.shapes[0]))


def row_by_row(step: RowOperation) -> RowKind:
    """Return the kind of a layer that treats the rows of its first axis one by one, with fixed parameters."""
    first, *others = step.read()
    if first.kind == ExampleRows() and all(x.kind in (NoExamples(), Zero()) for x in others):
        return ExampleRows()
    raise Declined(MIXES)


def normalised(step: RowOperation) -> RowKind:
    """Return the kind of a layer that normalises along the last axes."""
    first, *others = step.read()
    kind, along = first.kind, len(step.plain("normalized_shape"))
    fixed = all(x.kind in (NoExamples(), Zero()) for x in others)
    if fixed and isinstance(kind, ExampleRows) and kind.power == 0 and kind.axis < first.rank - along:
        return kind
    raise Declined(MIXES)


def batch_normalisation(step: RowOperation) -> RowKind:
    """Return the kind of a batch normalisation with stored statistics, which is a function of each entry."""
    if step.name == "native_batch_norm" and step.plain("training") is False:
        return row_by_row(step)
    raise Declined("batch normalisation mixes examples; use module.eval()")


VIEWS = frozenset(("view", "_unsafe_view", "reshape", "_reshape_alias", "squeeze", "unsqueeze"))
MOVES: dict[str, Callable[[RowOperation], RowKind]] = {
    "view": reshape,
    **dict.fromkeys(("permute", "t", "transpose"), permutation),
    **dict.fromkeys(("select", "slice"), selection),
    **dict.fromkeys(("cat", "stack"), concatenation),
    **dict.fromkeys(("split", "split_with_sizes", "unbind"), split),
    "index": indexing,
    **dict.fromkeys(("gather", "index_select"), gather),
    **dict.fromkeys(AXES, product),
    **dict.fromkeys(("convolution", "avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d"), row_by_row),
    "native_layer_norm": normalised,
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), batch_normalisation),
}
