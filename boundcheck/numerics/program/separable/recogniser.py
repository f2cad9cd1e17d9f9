"""Translate recorded operations to a sum of separable parts. An operation that leaves this form is declined by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from boundcheck.numerics.program.enclosure import chain as chains
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY, Elementary, power, soft_plus
from boundcheck.numerics.program.enclosure.linear_rules import AFFINE, alpha_of_sum, without_layout
from boundcheck.numerics.program.recorded_program import MATRIX, Declined, Operation, Program, Ref
from boundcheck.numerics.program.separable.affine import Affine
from boundcheck.numerics.program.separable.terms import Entries, LogSums, Mix

Known = Affine | Entries | LogSums | Mix
# moves of one tensor: every entry of the result is an entry of the argument, without zeros or data
REARRANGED = frozenset((
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand",
    "select", "slice", "clone", "alias", "contiguous", "_to_copy", "lift_fresh", "index", "index_select", "gather",
    "diagonal", "flip", "roll", "repeat", "movedim", "flatten", "take", "rot90", "unflatten", "narrow",
))  # fmt: skip


def recognise(program: Program, d: int, n: int, dtype: torch.dtype) -> Mix:
    """Return the program as a sum of separable parts.

    Parameters
    ----------
    program : Program
        A program with a scalar output.
    d, n : int
        The lengths of w and λ.
    dtype : torch.dtype
        The precision of w and λ.

    Returns
    -------
    Mix
        The sum, as a tensor with one entry.

    Raises
    ------
    Declined
        If the program has another form. The message names the operation and its line.
    """
    results: list[Any] = [Affine.of_input("w", d), Affine.of_input("lam", n)]
    for operation in program.operations[2:]:
        args, kwargs = tree_map(
            lambda x: _argument(x, results), (operation.args, operation.kwargs), is_leaf=lambda x: isinstance(x, Ref)
        )
        try:
            if kwargs.get("dtype") not in (None, torch.float64, dtype):
                raise Declined(f"aten.{operation.name} to {kwargs['dtype']}, which is not the identity")
            result = _result(operation, args, kwargs)
            if result.shape != operation.shapes[0]:
                raise Declined(f"aten.{operation.name} of these shapes")
            results.append(result)
        except Declined as why:
            place = f", {operation.line}" if operation.line else ""
            raise Declined(f"{why}{place}") from why
        except (TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
            raise Declined(f"aten.{operation.name}: not of a separable form ({error})") from error
    if program.output.item or program.shape.numel() != 1:
        raise Declined("the value is not one number")
    return Mix.of(results[program.output.node])


def _argument(x: Any, results: list[Any]) -> Any:
    if isinstance(x, Ref):
        if x.item:
            raise Declined("an operation with several results")
        return results[x.node]
    if not isinstance(x, Tensor):
        return x
    return x.to(device="cpu", dtype=torch.float64) if x.is_floating_point() else x.to(device="cpu")


def _is_known(x: Any) -> bool:
    return isinstance(x, Known)


def _result(operation: Operation, args: Any, kwargs: Any) -> Known:
    name = operation.name
    varying = [x for x in tree_leaves((args, kwargs), is_leaf=_is_known) if _is_known(x)]
    if name == MATRIX:
        if not isinstance(args[0], Affine):
            raise Declined("a product of a sparse matrix with more than entries of w")
        return args[0].multiplied(args[1].by_rows())
    if name in REARRANGED and len(varying) == 1 and _is_known(args[0]):
        function = without_layout(operation)
        named = {k: v for k, v in kwargs.items() if k not in ("dtype", "memory_format", "layout", "device")}
        return _moved(args[0], lambda t: function(t, *args[1:], **named))
    if name in ("sum", "mean"):
        return _summed(operation, args, kwargs)
    if name in AFFINE or name in ("add", "sub", "mul"):
        return _arithmetic(name, args, kwargs)
    if name in ("mm", "mv", "dot", "vdot", "matmul"):
        return _product(name, args)
    if name in ELEMENTARY:
        return _applied(ELEMENTARY[name], args[0])
    if name == "log_sigmoid_forward":
        return _applied(ELEMENTARY["log_sigmoid"], args[0])
    if name == "softplus" and len(args) == 1:
        inner, outer = _entries(args[0]), _applied(soft_plus(1.0), args[0])
        return outer if inner is None else replace(outer, limits=(*outer.limits, inner.chain))
    if name == "pow" and isinstance(args[1], int | float) and args[1] >= 0:
        return _applied(power(args[1]), args[0])
    if name == "logsumexp" and isinstance(args[0], Affine) and args[0].slot == "w":
        return _log_sum(*args, **kwargs)
    raise Declined(f"aten.{name} leaves a sum of functions of one number of a linear map")


def _moved(x: Known, move: Callable[[Tensor], Tensor]) -> Known:
    if isinstance(x, Affine):
        return x.moved(move)
    return Mix.of(x).moved(move)


def _entries(x: Known) -> Entries | None:
    return Entries.of(x) if isinstance(x, Affine) else x if isinstance(x, Entries) else None


def _applied(function: Elementary, x: Known) -> Entries:
    entries = _entries(x)
    if entries is None:
        raise Declined("a function of one number of a sum of others")
    return replace(entries, chain=chains.applied(function, entries.chain))


def _summed(operation: Operation, args: Any, kwargs: Any) -> Mix:
    mix = Mix.of(args[0])
    shape = mix.shape
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    listed = list(range(len(shape))) if not dims and dims != 0 else [dims] if isinstance(dims, int) else list(dims)
    reduced = [dim % max(1, len(shape)) for dim in listed]
    reduced_shape = torch.Size([1 if i in reduced else length for i, length in enumerate(shape)])
    target = torch.arange(reduced_shape.numel()).reshape(reduced_shape).expand(shape).reshape(-1)
    count = shape.numel() // max(1, reduced_shape.numel())
    total = mix.summed(target, operation.shapes[0])
    return total if operation.name == "sum" else total.scaled(torch.tensor(1 / count, dtype=torch.float64))


def _number(x: Any) -> Tensor:
    return torch.as_tensor(x, dtype=torch.float64)


def _arithmetic(name: str, args: Any, kwargs: Any) -> Known:
    if name == "neg":
        return _scaled(args[0], _number(-1.0))
    x, y = args[0], args[1]
    if name == "div":
        if kwargs.get("rounding_mode") is not None or _is_known(y):
            raise Declined("aten.div by something that varies")
        number = _number(y)
        exact = bool((torch.frexp(number).mantissa.abs() == 0.5).all())  # a power of two
        return _scaled(x if exact or isinstance(x, Affine) else Mix.of(x), 1 / number)  # a Mix allows rounding
    if name == "mul":
        if _is_known(x) and _is_known(y):
            return _times(x, y)
        return _scaled(x, _number(y)) if _is_known(x) else _scaled(y, _number(x))
    alpha = float(alpha_of_sum(args, kwargs))
    if abs(alpha) != 1:
        raise Declined(f"aten.{name} with a factor")
    first, second = (1.0, alpha) if name == "add" else (1.0, -alpha) if name == "sub" else (-alpha, 1.0)
    if _is_known(x) and _is_known(y):
        return Mix.of(_scaled(x, _number(first))).plus(Mix.of(_scaled(y, _number(second))))
    varying, factor, number = (x, first, second * _number(y)) if _is_known(x) else (y, second, first * _number(x))
    return _shifted(_scaled(varying, _number(factor)), number)


def _scaled(x: Known, factor: Tensor) -> Known:
    if isinstance(x, Affine):
        return x.scaled(factor)
    wider = torch.broadcast_shapes(x.shape, factor.shape) != x.shape  # type: ignore[no-untyped-call]
    if isinstance(x, Entries) and not wider:
        return replace(x, chain=chains.scaled(x.chain, factor, torch.zeros((), dtype=torch.float64)))
    return Mix.of(x).scaled(factor)


def _shifted(x: Known, number: Tensor) -> Known:
    if isinstance(x, Affine):
        return x.shifted(number)
    shape = torch.broadcast_shapes(x.shape, number.shape)  # type: ignore[no-untyped-call]
    if isinstance(x, Entries) and shape == x.shape:
        return replace(x, chain=chains.scaled(x.chain, torch.ones((), dtype=torch.float64), number))
    return Mix.of(x).expanded(shape)


def _times(x: Known, y: Known) -> Known:
    """Return a product of a function of w and a function of λ, or of two functions of the same z."""
    one, two = _entries(x), _entries(y)
    if x is y and one is not None:
        return _applied(power(2), one)
    if one is not None and two is not None and one.z is two.z:
        return Entries(one.z, chains.multiplied(one.chain, two.chain), (*one.limits, *two.limits))
    for a, b in ((x, y), (y, x)):
        if _of_lam_alone(a):
            return Mix.of(b).weighted(Mix.of(a))
    for mix, entries in ((x, two), (y, one)):
        if isinstance(mix, Mix) and entries is not None:
            return mix.times_entries(entries)
    raise Declined("aten.mul of two tensors that vary with w")


def _of_lam_alone(x: Known) -> bool:
    if isinstance(x, Mix):
        return all(part.phi is None for part in x.parts)
    return x.slot == "lam" if isinstance(x, Affine) else x.z.slot == "lam"


def _product(name: str, args: Any) -> Known:
    x, y = args
    if x is y and name in ("dot", "vdot"):
        entries = _applied(power(2), x)
        return Mix.of(entries).summed(torch.zeros(entries.shape.numel(), dtype=torch.long), torch.Size())
    if name in ("dot", "vdot"):
        both = _times(x, y) if _is_known(x) and _is_known(y) else _scaled(*((x, y) if _is_known(x) else (y, x)))
        mix = Mix.of(both)
        return mix.summed(torch.zeros(mix.shape.numel(), dtype=torch.long), torch.Size())
    if isinstance(y, Affine) and isinstance(x, Tensor) and x.dim() == 2:
        return y.multiplied(x.numpy())
    if isinstance(x, Affine) and isinstance(y, Tensor) and y.dim() == 2 and len(x.shape) == 2:
        return x.moved(lambda t: t.T).multiplied(y.T.numpy()).moved(lambda t: t.T)
    raise Declined(f"aten.{name} of tensors that vary")


def _log_sum(x: Affine, dims: Any, keepdim: bool = False) -> Mix:
    listed = [dims] if isinstance(dims, int) else list(dims)
    if len(listed) != 1:
        raise Declined("aten.logsumexp over several axes")
    axis = listed[0] % len(x.shape)
    mix = Mix.of(LogSums(x.moved(lambda t: t.movedim(axis, -1))))
    return mix.moved(lambda t: t.unsqueeze(axis)) if keepdim else mix
