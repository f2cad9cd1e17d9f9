"""Rules for the kind of the result of each operation, by the name of the operation.

An operation without a rule is declined if one of its inputs depends on the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from boundcheck.numerics.program.recorded_program import Declined, Ref
from boundcheck.numerics.program.row_kinds import ExampleRows, ExampleSum, NoExamples, RowKind, Sized, Zero, varying
from boundcheck.numerics.program.row_step import RowOperation

MIXES = "it mixes examples"
CURVED = "a function of a mean over the examples that is not linear"
SEVERAL = "two values that have entries for each example, along different axes"


def axis_of(dim: int, rank: int) -> int:
    """Return a dimension counted from the left."""
    return dim + rank if dim < 0 else dim


def entrywise_kind(values: Sequence[Sized], rank: int, power: int = 0) -> RowKind:
    """Return the kind of an entrywise function of several tensors with broadcasting."""
    if any(isinstance(x.kind, ExampleSum) for x in values):
        raise Declined(CURVED)
    rows = [x for x in values if isinstance(x.kind, ExampleRows)]
    if not rows:
        return NoExamples(power)
    place, inner = rows[0].from_the_right, rows[0].kind.inner  # type: ignore[attr-defined]
    if any((x.from_the_right, x.kind.inner) != (place, inner) for x in rows):  # type: ignore[attr-defined]
        raise Declined(SEVERAL)
    for x in values:
        if not isinstance(x.kind, ExampleRows) and any(
            len(shape) >= place and shape[-place] != 1 for shape in x.shapes
        ):
            raise Declined("a value that does not depend on the examples has entries along their axis")
    return ExampleRows(power, rank - place, inner)


def entrywise(step: RowOperation) -> RowKind:
    """Return the kind of an entrywise function of all arguments."""
    return entrywise_kind(without_powers(step.read()), len(step.shapes[0]))


def without_powers(values: list[Sized]) -> list[Sized]:
    """Return the same values, for an operation that may be nonlinear. Decline sums over examples, and powers of n."""
    if any(isinstance(x.kind, ExampleSum) for x in values):
        raise Declined(CURVED)
    if any(x.kind.power != 0 for x in values):
        raise Declined("the number of examples enters it")
    return values


def addition(step: RowOperation) -> RowKind:
    """Return the kind of x + αy or of a difference."""
    step.plain("alpha")
    return sum_of([step.value("self"), step.value("other")], len(step.shapes[0]))


def sum_of(values: Sequence[Sized], rank: int) -> RowKind:
    """Return the kind of a sum, or of a concatenation: nᵖΣg_i + nᵖ⁺¹c = nᵖΣ(g_i + c)."""
    kinds = [x.kind for x in values if not isinstance(x.kind, Zero)]
    if not kinds:
        return NoExamples()
    totals = [kind for kind in kinds if isinstance(kind, ExampleSum)]
    if not totals:
        power = kinds[0].power
        if any(kind.power != power for kind in kinds):
            raise Declined("a sum of terms that scale differently with the number of examples")
        return entrywise_kind(values, rank, power)
    for kind in kinds:
        if isinstance(kind, ExampleRows):
            raise Declined(MIXES)
        if kind.power != totals[0].power + isinstance(kind, NoExamples):
            raise Declined(
                "a sum over the examples that is not divided by their number is added to a term that is, or to a term "
                "without examples"
            )
    return ExampleSum(totals[0].power)


def times(x: Sized, y: Sized, rank: int) -> RowKind:
    """Return the kind of an entrywise product."""
    power = x.kind.power + y.kind.power
    if isinstance(x.kind, Zero) or isinstance(y.kind, Zero):
        power = 0
    for one, other in ((x, y), (y, x)):
        if isinstance(one.kind, ExampleSum):
            if not isinstance(other.kind, NoExamples):
                raise Declined(CURVED if isinstance(other.kind, ExampleSum) else MIXES)
            return ExampleSum(power)
    return entrywise_kind((x, y), rank, power)


def multiplication(step: RowOperation) -> RowKind:
    """Return the kind of x·y."""
    return times(step.value("self"), step.value("other"), len(step.shapes[0]))


def division(step: RowOperation) -> RowKind:
    """Return the kind of x/y."""
    if step.plain("rounding_mode") is not None:
        return entrywise(step)
    x, y = step.value("self"), step.value("other")
    if isinstance(y.kind, ExampleSum):
        raise Declined(CURVED)
    return times(x, replace(y, kind=replace(y.kind, power=-y.kind.power)), len(step.shapes[0]))


def linear(step: RowOperation) -> RowKind:
    """Return the kind of a linear function of each entry."""
    return step.value("self").kind


def conversion(step: RowOperation) -> RowKind:
    """Return the kind of a conversion to another dtype, which is linear if that dtype is floating-point."""
    dtype = step.plain("dtype")
    if isinstance(step.value("self").kind, ExampleSum) and dtype not in (None, torch.float64):
        raise Declined("it may round the mean, and a rounded mean is not the mean of rounded values")
    return linear(step) if dtype is None or dtype.is_floating_point else entrywise(step)


def sum_or_mean(step: RowOperation) -> RowKind:
    """Return the kind of a sum or a mean."""
    x = step.value("self")
    kind = x.kind
    if not isinstance(kind, ExampleRows):
        return kind
    dims = _dims(step, x.rank)
    if kind.axis in dims:
        return ExampleSum(kind.power - (step.name == "mean"))
    return _without(kind, dims, step.plain("keepdim"))


def _dims(step: RowOperation, rank: int) -> list[int]:
    dim = step.plain("dim")
    if dim is None or dim == []:
        return list(range(rank))
    return [axis_of(d, rank) for d in ([dim] if isinstance(dim, int) else dim)]


def _without(kind: ExampleRows, dims: Sequence[int], keepdim: bool | None) -> RowKind:
    return kind if keepdim else replace(kind, axis=kind.axis - sum(d < kind.axis for d in dims))


def nonlinear_reduction(step: RowOperation) -> RowKind:
    """Return the kind of a reduction along some axes. The result has these axes, with size 1, only with `keepdim`."""
    kind = _beside(step)
    if not isinstance(kind, ExampleRows):
        return kind
    return _without(kind, _dims(step, step.value("self").rank), step.plain("keepdim"))


def along_kept_axes(step: RowOperation) -> RowKind:
    """Return the kind of a function along some axes that keeps all axes, although their sizes may change."""
    return _beside(step)


def _beside(step: RowOperation) -> RowKind:
    without_powers(step.read())
    x = step.value("self")
    if isinstance(x.kind, ExampleRows) and x.kind.axis in _dims(step, x.rank):
        raise Declined(MIXES)
    return x.kind


def entrywise_loss(step: RowOperation) -> RowKind:
    """Return the kind of an entrywise loss with a reduction: 0 none, 1 mean, 2 sum."""
    reduction = step.plain("reduction")
    values = without_powers(step.read())
    kind = entrywise_kind(values, max(x.rank for x in values))
    if reduction == 0 or not isinstance(kind, ExampleRows):
        return kind
    return ExampleSum(-1 if reduction == 1 else 0)


def negative_log_likelihood(step: RowOperation) -> RowKind:
    """Return the kind of −log p of the class of each entry.

    PyTorch's mean leaves out the class `ignore_index` and is weighted.
    """
    x, target = step.value("self"), step.value("target")
    reduction, ignored = step.plain("reduction"), step.plain("ignore_index")
    if x.kind.power or not isinstance(x.kind, ExampleRows) or not isinstance(target.kind, ExampleRows):
        raise Declined("its scores or classes do not have entries for each example")
    if (x.kind.axis, x.kind.inner) != (0, target.kind.inner) or target.kind.axis != 0:
        raise Declined(SEVERAL)
    weight = step.maybe("weight")
    if weight is not None and weight.kind != NoExamples():
        raise Declined("the examples of a minibatch enter the weights of its classes")
    if reduction == 0:
        return ExampleRows(0, 0, x.kind.inner)
    if reduction == 2:
        return ExampleSum(0)
    if weight is not None:
        raise Declined(
            "its mean is divided by the weights of the classes of a minibatch; write (weight[y] * losses).mean()"
        )
    reference = step.raw("target")[-1]
    numbers = step.of_data(reference) if isinstance(reference, Ref) else reference
    if bool((numbers == ignored).any()):
        raise Declined(f"its mean leaves out the examples of class {ignored}, so it is not the mean over all examples")
    return ExampleSum(-1)


def embedding(step: RowOperation) -> RowKind:
    """Return the kind of entries of a table, looked up by integers."""
    table, indices = step.value("weight"), step.value("indices")
    if not isinstance(table.kind, NoExamples) or table.kind.power:
        raise Declined(MIXES)
    if any(step.plain(name) for name in ("scale_grad_by_freq", "sparse")) or step.plain("padding_idx") not in (
        None,
        -1,
    ):
        raise Declined("its derivative counts how often an entry is looked up, or leaves one out")
    return indices.kind


def expansion(step: RowOperation) -> RowKind:
    """Return the kind of an expansion, which repeats entries along axes."""
    x, shapes = step.value("self"), step.shapes
    if isinstance(x.kind, ExampleRows):
        return ExampleRows(x.kind.power, len(shapes[0]) - x.from_the_right, x.kind.inner)
    if len(set(shapes)) == 1:
        return x.kind
    axis = varying(shapes, step.counts)
    place = len(shapes[0]) - axis
    if isinstance(x.kind, ExampleSum) or any(len(shape) >= place and shape[-place] != 1 for shape in x.shapes):
        raise Declined(MIXES)
    return ExampleRows(x.kind.power, axis, 1)


FUNCTIONS = """
abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu clamp
clamp_max clamp_min copysign cos cosh digamma elu eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod
frac ge gelu gt hardsigmoid hardswish hardtanh heaviside hypot isfinite isinf isnan le leaky_relu lerp lgamma log log10
log1p log2 log_sigmoid_forward logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt maximum
minimum mish ne nan_to_num polygamma pow reciprocal relu relu6 remainder round rsqrt selu sgn sigmoid sign silu sin
sinc sinh softplus softshrink special_entr special_erfcx special_i0e special_xlog1py sqrt square tan tanh threshold
trunc where xlogy addcmul addcdiv hardshrink
"""
RULES: dict[str, Callable[[RowOperation], RowKind]] = {
    **dict.fromkeys(FUNCTIONS.split(), entrywise),
    **dict.fromkeys(("neg", "positive"), linear),
    **dict.fromkeys(("add", "sub", "rsub"), addition),
    **dict.fromkeys(("sum", "mean"), sum_or_mean),
    **dict.fromkeys(
        ("amax", "amin", "prod", "var", "std", "logsumexp", "argmax", "argmin", "any", "all", "max", "min", "median",
         "linalg_vector_norm", "norm"), nonlinear_reduction,
    ),
    **dict.fromkeys(
        ("_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "topk", "flip"),
        along_kept_axes,
    ),
    **dict.fromkeys(
        ("mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
         "soft_margin_loss"), entrywise_loss,
    ),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), negative_log_likelihood),
    "mul": multiplication,
    "div": division,
    "_to_copy": conversion,
    "expand": expansion,
    "embedding": embedding,
}  # fmt: skip
