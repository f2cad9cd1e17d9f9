"""Translate the operations of a recorded program to expressions, with one rule for each kind of operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from boundcheck.numerics.program.recognise import elementary, matrix_rules
from boundcheck.numerics.program.recognise.algebra import Algebra, Node, Total
from boundcheck.numerics.program.recognise.expression import Expression, LogSoftmax
from boundcheck.numerics.program.recognise.stage import Held, Stage, Unknown, Value, example, is_expression_of
from boundcheck.numerics.program.recorded_program import CUT, Operation, Program, Ref

MOVES = frozenset((
    "view", "_unsafe_view", "reshape", "t", "transpose", "permute", "unsqueeze", "squeeze", "select", "slice", "expand",
    "alias", "clone", "contiguous", "flatten", "narrow", "movedim", "diagonal", "index_select", "flip",
))  # fmt: skip
SPLITS = frozenset(("split", "split_with_sizes", "unbind", "chunk"))
MEAN = 1  # ATen's number of this reduction; 2 is a sum, 0 none


def replayed(operation: Operation) -> Callable[..., Any]:
    """Return the function of an operation for tensors whose memory layout may differ from that at recording."""
    if operation.name == CUT:
        return torch.detach
    if operation.name in ("view", "_unsafe_view") and operation.func._overloadname in ("default", ""):
        return torch.reshape
    function: Callable[..., Any] = operation.func
    return function


def on_stage(stage: Stage, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute an operation on values that depend only on λ. Return its results as a tuple of values."""
    leaves, spec = tree_flatten((args, kwargs), is_leaf=lambda x: isinstance(x, Held))
    function = replayed(operation)

    def run(*leaves: Any) -> Any:
        args, kwargs = tree_unflatten(list(leaves), spec)
        return function(*args, **kwargs)

    result = stage.compute(run, *leaves)
    several = isinstance(example(result), tuple | list)
    results = tuple(stage.compute(itemgetter(i), result) for i in range(len(example(result)))) if several else (result,)
    algebra = stage.algebra
    if algebra is None or any(isinstance(x, Held) and x.of_lam is None for x in leaves):
        return results
    nodes = [x.of_lam if isinstance(x, Held) else x for x in leaves]
    try:
        expressions = Interpreter(algebra).operation(operation, *tree_unflatten(nodes, spec))
    except Exception:  # without a rule that takes these arguments, the value has no expression
        return results
    return tuple(
        replace(x, of_lam=node) if isinstance(x, Held) and is_expression_of(node, x) else x
        for x, node in zip(results, expressions, strict=False)
    )


class Interpreter:
    """Derives the expressions of a program's values."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra, self.stage = algebra, algebra.stage

    def output(self, program: Program) -> Any:
        """Return the expression of the program's value."""
        values: list[tuple[Any, ...]] = [(self.algebra.variable(),), (self.stage.lam,)]
        for operation in program.operations[2:]:
            args, kwargs = _with_values(operation, values)
            if not any(isinstance(x, Expression | Total | LogSoftmax) for x in _leaves((args, kwargs))):
                values.append(on_stage(self.stage, operation, args, kwargs))
                continue
            try:
                values.append(self.operation(operation, args, kwargs))
            except Unknown as why:
                where = f", {operation.line}" if operation.line else ""
                raise Unknown(f"{operation.name} of {why}{where}") from why
        return values[program.output.node][program.output.item]

    def operation(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the results of one operation with an argument that depends on w."""
        name, algebra = operation.name, self.algebra
        if name in MOVES:
            function = replayed(operation)
            return (algebra.moved(_node(args[0]), lambda x: function(x, *args[1:], **kwargs)),)
        if name in SPLITS:
            count = len(operation.shapes)
            node = _node(args[0])

            def part(i: int) -> Callable[[Tensor], Tensor]:
                return lambda x: operation.func(x, *args[1:], **kwargs)[i]

            return tuple(algebra.moved(node, part(i)) for i in range(count))
        if name == "log_sigmoid_forward":  # −log(1 + e⁻ᵘ)
            minus = algebra.number(-1.0)
            inside = algebra.scale(_node(args[0]), minus)
            return algebra.scale(algebra.apply(inside, elementary.LOGISTIC), minus), None
        if name == "cat":
            return (matrix_rules.joined(algebra, list(args[0]), *args[1:] or (0,)),)
        rule = RULES.get(name)
        if rule is not None:
            return (rule(algebra, *args, **kwargs),)
        if (elementwise := elementary.named(name, args[1:], kwargs)) is not None:
            return (algebra.apply(_node(args[0]), elementwise),)
        if name == "nll_loss_forward":
            return _nll_loss(algebra, *args, **kwargs), None
        raise Unknown("a function of w")


def _with_values(operation: Operation, values: list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    leaves, spec = tree_flatten((operation.args, operation.kwargs), is_leaf=lambda x: isinstance(x, Ref))
    args, kwargs = tree_unflatten([values[x.node][x.item] if isinstance(x, Ref) else x for x in leaves], spec)
    return args, kwargs


def _leaves(tree: Any) -> list[Any]:
    return tree_flatten(tree, is_leaf=lambda x: isinstance(x, Held | Expression | Total | LogSoftmax))[0]


def _node(x: Any) -> Node:
    if not isinstance(x, Expression | Total):
        raise Unknown("a function of w")
    return x


def _value(algebra: Algebra, x: Any) -> Value:
    """Return a number, data, or a value that depends only on λ, in the precision of w; decline if this loses digits."""
    if isinstance(x, int | float) and not isinstance(x, bool):
        return algebra.number(float(x))
    if not isinstance(x, Tensor | Held):
        raise Unknown("a function of w")
    dtype = example(x).dtype
    if dtype == algebra.w.dtype:
        return x
    if isinstance(x, Held) or torch.promote_types(dtype, algebra.w.dtype) != algebra.w.dtype:
        raise Unknown(f"numbers in {dtype}")
    return x.to(algebra.w.dtype)


def _add(algebra: Algebra, x: Any, y: Any, *, alpha: Any = 1) -> Node:
    if alpha != 1:
        is_node = isinstance(y, Expression | Total)
        y = _mul(algebra, y, alpha) if is_node else algebra.stage.mul(_value(algebra, y), algebra.number(alpha))
    if not isinstance(x, Expression | Total):
        x, y = y, x
    return algebra.add(_node(x), y if isinstance(y, Expression | Total) else _value(algebra, y))


def _sub(algebra: Algebra, x: Any, y: Any, *, alpha: Any = 1) -> Node:
    return _add(algebra, x, y, alpha=-alpha)


def _rsub(algebra: Algebra, x: Any, y: Any, alpha: Any = 1) -> Node:
    return _add(algebra, y, x, alpha=-alpha)


def _mul(algebra: Algebra, x: Any, y: Any) -> Node:
    if not isinstance(x, Expression | Total):
        x, y = y, x
    if isinstance(y, Expression | Total):
        return algebra.product(_node(x), y)
    return algebra.scale(_node(x), _value(algebra, y))


def _div(algebra: Algebra, x: Any, y: Any) -> Node:
    return algebra.scale(_node(x), algebra.stage.apply(elementary.PLAIN["reciprocal"], _value(algebra, y)))


def _neg(algebra: Algebra, x: Any) -> Node:
    return algebra.scale(_node(x), algebra.number(-1.0))


def _pow(algebra: Algebra, x: Any, p: Any) -> Node:
    if isinstance(p, bool) or not isinstance(p, int | float):
        raise Unknown("a power that varies")
    if p in (0, 1):  # by formula, their derivatives at 0 would be 0·∞
        raise Unknown(f"a power of {p}")
    return algebra.product(_node(x), _node(x)) if p == 2 else algebra.apply(_node(x), elementary.power(p))


def _square(algebra: Algebra, x: Any) -> Node:
    return algebra.product(_node(x), _node(x))


def _axes(axis: Any) -> tuple[int, ...]:
    return () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _sum(algebra: Algebra, x: Any, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    _same_dtype(algebra, dtype)
    return algebra.sum(_node(x), _axes(axis), keepdim)


def _mean(algebra: Algebra, x: Any, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    _same_dtype(algebra, dtype)
    node, axes = _node(x), _axes(axis)
    count = math.prod(node.shape[i] for i in axes) if axes else node.shape.numel()
    return algebra.scale(algebra.sum(node, axes, keepdim), algebra.number(1 / count))


def _same_dtype(algebra: Algebra, dtype: Any) -> None:
    if dtype is not None and dtype != algebra.w.dtype:
        raise Unknown(f"numbers in {dtype}")


def _matmul(algebra: Algebra, x: Any, y: Any) -> Node:
    if isinstance(x, Expression | Total) and isinstance(y, Expression | Total):
        if len(x.shape) == len(y.shape) == 1:
            return algebra.sum(algebra.product(x, y), (), False)
        raise Unknown("a product of two functions of w")
    if isinstance(x, Expression | Total):
        return matrix_rules.matrix_product(algebra, _value(algebra, y), x, left=False)
    return matrix_rules.matrix_product(algebra, _value(algebra, x), _node(y), left=True)


def _dot(algebra: Algebra, x: Any, y: Any) -> Node:
    return algebra.sum(_mul(algebra, x, y), (), False)


def _addmm(algebra: Algebra, b: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Node:
    product = _matmul(algebra, x, y)
    product = product if alpha == 1 else _mul(algebra, product, alpha)
    if beta != 1:
        b = _mul(algebra, b, beta) if isinstance(b, Expression) else algebra.stage.compute(lambda b: b * beta, b)
    return _add(algebra, product, b)


def _mse_loss(algebra: Algebra, x: Any, y: Any, reduction: int = MEAN) -> Node:
    residual = _sub(algebra, x, y)
    return _reduced(algebra, algebra.product(residual, residual), reduction)


def _bce(algebra: Algebra, x: Any, y: Any, weight: Any = None, pos_weight: Any = None, reduction: int = MEAN) -> Node:
    """log(1 + eᵘ) − yu."""
    if pos_weight is not None or not isinstance(y, Tensor | Held):
        raise Unknown("a function of w")
    linear = algebra.scale(_node(x), algebra.stage.compute(torch.neg, y))
    loss = algebra.add(algebra.apply(_node(x), elementary.LOGISTIC), linear)
    return _reduced(algebra, loss if weight is None else _mul(algebra, loss, weight), reduction)


def _reduced(algebra: Algebra, x: Node, reduction: int) -> Node:
    if reduction == 0:
        return x
    return _mean(algebra, x) if reduction == MEAN else algebra.sum(x, (), False)


def _log_softmax(algebra: Algebra, x: Any, axis: int, half_to_float: bool = False) -> LogSoftmax:
    node = _node(x)
    if not isinstance(node, Expression) or not node.affine or len(node.shape) != 2 or axis not in (1, -1):
        raise Unknown("a function of a function of w")
    return LogSoftmax(node)


def _nll_loss(algebra: Algebra, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Node:
    if not isinstance(x, LogSoftmax) or weight is not None or not isinstance(target, Tensor) or target.dim() != 1:
        raise Unknown("a function of w")
    if bool((target == ignore_index).any()):
        raise Unknown("ignored classes")
    classes = torch.nn.functional.one_hot(target, x.u.shape[1]).to(algebra.w)
    return _reduced(algebra, algebra.cross_entropy(x.u, classes), reduction)


def _cast(algebra: Algebra, x: Any, **kwargs: Any) -> Node:
    _same_dtype(algebra, kwargs.get("dtype"))
    return _node(x)


RULES: dict[str, Callable[..., Any]] = {
    "add": _add, "sub": _sub, "rsub": _rsub, "mul": _mul, "div": _div, "neg": _neg, "pow": _pow, "square": _square,
    "sum": _sum, "mean": _mean, "mm": _matmul, "mv": _matmul, "matmul": _matmul, "dot": _dot, "addmm": _addmm,
    "addmv": _addmm, "mse_loss": _mse_loss, "binary_cross_entropy_with_logits": _bce, "_log_softmax": _log_softmax,
    "_to_copy": _cast,
}  # fmt: skip
