"""From recorded operations to enclosures: which rule each operation of PyTorch has.

An operation that is not in these tables is declined by its name. To add one: a row in a table, an expansion in
`expansions.py`, or a function in `elementary.py`; and a case in `tests/numerics/program/enclosure/enclosure_cases.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from boundcheck.numerics.program.capture import CUT, MATRIX, Declined, Operation, Program, Ref
from boundcheck.numerics.program.enclosure import chain as chains
from boundcheck.numerics.program.enclosure.bilinear import bilinear_value
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY, Elementary, Jet, power, soft_plus
from boundcheck.numerics.program.enclosure.elementwise import elementwise_value
from boundcheck.numerics.program.enclosure.intervals import Interval, outward, point
from boundcheck.numerics.program.enclosure.linear import linear_value
from boundcheck.numerics.program.enclosure.log_sum_exp import log_sum_exp_value
from boundcheck.numerics.program.enclosure.norm_pattern import Norm, norm_of
from boundcheck.numerics.program.enclosure.normalised import normalised_value
from boundcheck.numerics.program.enclosure.piecewise import clamp, elu, huber, leaky_relu
from boundcheck.numerics.program.enclosure.sparse_derivative import of_factors, of_product, of_sum
from boundcheck.numerics.program.enclosure.value import LAM, Value, W, input_value, refined
from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.operations import leaves as leaves_of

OfLam = dict[int, list[Value]]  # by the place of an operation, its values where they depend on λ only
MOST_NUMBERS = 60_000_000  # in all derivatives together: half a gigabyte

# operations that only move numbers
MOVES = frozenset((
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand",
    "select", "slice", "split", "split_with_sizes", "unbind", "chunk", "clone", "alias", "contiguous", "_to_copy",
    "lift_fresh", "cat", "stack", "index", "index_select", "gather", "diagonal", "flip", "roll", "tril", "triu", "diag",
    "diag_embed", "repeat", "movedim", "flatten", "where", "take", "rot90", "unflatten", "narrow",
    "constant_pad_nd", "unfold", "select_scatter", "slice_scatter", "im2col",
))  # fmt: skip
SUMS = frozenset(
    (
        "sum",
        "mean",
        "cumsum",
        "trace",
        "add",
        "sub",
        "rsub",
        "_adaptive_avg_pool2d",
        "avg_pool2d",
        "index_add",
        "scatter_add",
    )
)
PRODUCTS = frozenset(("mul", "mm", "mv", "dot", "vdot", "bmm", "matmul", "outer", "convolution"))
AFFINE = frozenset(("add", "sub", "rsub", "mul", "div", "neg"))  # entry by entry, with a number beside


class Enclosures:
    """The value of every operation of a program, enclosed over the ball of radius `radius` around `centre`."""

    def __init__(
        self, program: Program, centre: Tensor, lam: Tensor, radius: float, *, with_lam: bool = True,
        of_lam: OfLam | None = None,
    ) -> None:  # fmt: skip
        """`of_lam` keeps what depends on λ only, which is the same on every ball of one program and λ."""
        self.program = program
        self.radius = radius
        self._dtypes = {torch.float64, centre.dtype}  # a cast to another one rounds, or cuts off
        centre, lam = (x.detach().to(device="cpu", dtype=torch.float64) for x in (centre, lam))
        self.notes: dict[str, None] = {}  # what is to be said with every bound, in order
        self._results: list[list[Value]] = []
        self._of_w = {0}  # the places of what depends on w
        self._numbers = 0
        w = input_value(centre, W, radius)
        fixed = input_value(lam, LAM, 0.0)
        fixed = fixed if with_lam else Value(fixed.centre, fixed.box, {}, {}, name=LAM)
        self._results += [[w], [fixed] if of_lam is None else of_lam.setdefault(1, [fixed])]
        with torch.no_grad():
            for place, operation in enumerate(program.operations[2:], 2):
                known = None if of_lam is None else of_lam.get(place)
                if known is not None:
                    self._count(known, operation)
                    self._results.append(known)
                    continue
                self._reads_w, said = False, len(self.notes)
                values = [self._kept(value, operation) for value in self._interpreted(operation)]
                self._results.append(values)
                if self._reads_w:
                    self._of_w.add(place)
                elif of_lam is not None and len(self.notes) == said:
                    of_lam[place] = values

    @property
    def numbers(self) -> int:
        """How many numbers are kept in all derivatives together."""
        return self._numbers

    @property
    def output(self) -> Value:
        """The value of the program."""
        return self[self.program.output]

    @property
    def values(self) -> list[Value]:
        """All values, in the order in which they were computed."""
        return [value for values in self._results for value in values]

    def __getitem__(self, ref: Ref) -> Value:
        return self._results[ref.node][ref.item]

    def _count(self, values: Sequence[Value], operation: Operation) -> None:
        self._numbers += sum(slope.numbers for value in values for slope in value.slopes.values())
        if self._numbers > MOST_NUMBERS:
            raise Declined(f"{operation.name}: the derivatives would take more than {MOST_NUMBERS} numbers")

    def _kept(self, value: Value, operation: Operation) -> Value:
        self._count((value,), operation)
        if not value.rule:
            return value
        value.name, value.line = operation.name, operation.line
        return refined(value, self.radius)

    def _interpreted(self, operation: Operation) -> list[Value]:
        args, kwargs = changed(self._argument, operation.args, operation.kwargs)
        if kwargs.get("dtype") not in {None, *self._dtypes}:
            place = f", {operation.line}" if operation.line else ""
            raise Declined(f"aten.{operation.name} to {kwargs['dtype']}, which is not the identity{place}")
        kwargs = {
            k: v for k, v in kwargs.items() if k not in ("dtype", "memory_format", "layout", "device", "pin_memory")
        }
        try:
            return self._by_rule(operation, args, kwargs)
        except Declined as declined:
            place = f", {operation.line}" if operation.line else ""
            raise Declined(f"{declined}{place}") from declined
        except (TypeError, ValueError, IndexError, RuntimeError, AttributeError, ArithmeticError) as error:
            text = " ".join(str(error).split())[:120]
            raise Declined(f"aten.{operation.name}: the rule does not take these arguments ({text})") from error

    def _argument(self, x: Any) -> Any:
        if isinstance(x, Ref):
            if x.item >= len(self._results[x.node]):
                operation = self.program.operations[x.node]
                raise Declined(f"aten.{operation.name}: another result than the first is used, {operation.line}")
            self._reads_w |= x.node in self._of_w
            return self[x]
        if not isinstance(x, Tensor):
            return x
        return x.to(device="cpu", dtype=torch.float64) if x.is_floating_point() else x.to(device="cpu")

    def _by_rule(self, operation: Operation, args: Any, kwargs: Any) -> list[Value]:
        name = operation.name
        if (inside := self._square_of_a_norm(operation)) is not None:
            return [linear_value([inside], lambda t: t, lambda t: t, None, moves=True, terms=1)]
        if (found := norm_of(self.program, operation)) is not None:
            return [self._normalised(found)]
        if name in ELEMENTARY:
            return [elementwise(ELEMENTARY[name], args[0])]
        if name in SPECIAL:
            result = SPECIAL[name](*args, **kwargs)
            if name == "softplus" and _is_cut_off(*args, **kwargs):
                self.notes[CUT_OFF] = None
            if result is not None:
                return result if isinstance(result, list) else [result]
        varying = [x for x in leaves_of(args, kwargs) if isinstance(x, Value)]
        if name in AFFINE and len(varying) == 1:
            return [_affine(operation, args, kwargs, varying[0])]
        if name in MOVES or name in SUMS:
            count = len(operation.shapes)
            return [
                _linear(operation, args, kwargs, item if count > 1 or name in SEVERAL else None)
                for item in range(count)
            ]
        if name in PRODUCTS:
            return [_product(operation, args, kwargs, varying)]
        if name == MATRIX:
            return [_matrix_product(*args)]
        if name == CUT:
            raise Declined("detach() or .data cuts a derivative")
        raise Declined(f"aten.{name} has no rule")

    def _square_of_a_norm(self, operation: Operation) -> Value | None:
        """Σx² for (√Σx²)², which is smooth where the root is not; None for anything else."""
        root = self._made_by(operation, "pow", 2)
        total = None if root is None else self._made_by(root, "sqrt")
        squares = None if total is None else self._made_by(total, "sum")
        if root is None or squares is None or self._made_by(squares, "pow", 2) is None:
            return None
        return self[root.args[0]]

    def _normalised(self, found: Norm) -> Value:
        """x/√(sΣx² + ε) over some axes, which are moved to the end and joined."""
        x, dims = self[found.x], found.dims
        order = [*(dim for dim in range(len(x.shape)) if dim not in dims), *dims]
        shape, k = [x.shape[dim] for dim in order], math.prod(x.shape[dim] for dim in dims)
        back = [order.index(dim) for dim in range(len(order))]

        def joined(t: Tensor) -> Tensor:
            return t.permute(order).reshape(-1, k)

        def parted(t: Tensor) -> Tensor:
            return t.reshape(shape).permute(back)

        groups = refined(linear_value([x], joined, joined, None, moves=True, terms=1), self.radius)
        m, kappa = math.sqrt(1 / found.scale), math.sqrt(found.epsilon / found.scale)
        result = refined(normalised_value(groups, m, kappa, self.radius), self.radius)
        return linear_value([result], parted, parted, None, moves=True, terms=1)

    def _made_by(self, operation: Operation, name: str, exponent: float | None = None) -> Operation | None:
        """The operation whose first result this one takes first, if this one has that name and exponent."""
        if operation.name != name or not operation.args or not isinstance(operation.args[0], Ref):
            return None
        if exponent is not None and operation.args[1:] != (exponent,):
            return None
        return self.program.operations[operation.args[0].node]


CUT_OFF = "for softplus = log(1 + e^x), from which PyTorch's is 2e-9 away beyond its threshold"
EDGE = 1.001e-12  # of binary_cross_entropy: PyTorch's derivative has x(1 − x) no smaller than 1e-12
SEVERAL = frozenset(("split", "split_with_sizes", "unbind", "chunk"))  # operations that return a list


def _is_value(x: Any) -> bool:
    return isinstance(x, Value)


def elementwise(function: Elementary, x: Value) -> Value:
    """φ(x), entry by entry, joined to the chain that x ends."""
    return elementwise_value(chains.applied(function, chains.chain_of(x)))


def _linear(operation: Operation, args: Any, kwargs: Any, item: int | None = None) -> Value:
    """An operation that is linear in all the tensors that vary, with numbers beside them as an offset."""
    name = operation.name
    if name in ("where", "cat", "stack"):  # whole numbers among them are numbers too
        args = (*args[: name == "where"], *tree_map(_as_float, args[name == "where" :], is_leaf=_is_value))
    leaves, spec = tree_flatten((args, kwargs), is_leaf=_is_value)
    places = [i for i, x in enumerate(leaves) if isinstance(x, Value)]
    inputs = [leaves[i] for i in places]
    function = _reshaping(operation)

    def run(xs: Any, numbers: Callable[[Any], Any]) -> Tensor:
        filled = [numbers(x) for x in leaves]
        for i, x in zip(places, xs, strict=True):
            filled[i] = x
        some, named = tree_unflatten(filled, spec)
        result = function(*some, **named)
        chosen: Tensor = result if item is None else result[item]
        return chosen

    def nothing(x: Any) -> Any:
        return torch.zeros_like(x) if isinstance(x, Tensor) and x.is_floating_point() else x

    additive = name in ("add", "sub", "rsub")
    if additive:
        alpha = _alpha(args, kwargs)
        signs = (1.0, alpha) if name == "add" else (1.0, -alpha) if name == "sub" else (-alpha, 1.0)
        return _sum_of_two(args[0], args[1], signs)
    zeros = [torch.zeros(x.shape, dtype=torch.float64) for x in inputs]
    has_numbers = any(isinstance(x, Tensor) and x.is_floating_point() for x in leaves)
    offset = run(zeros, lambda x: x) if has_numbers else None
    terms = max(x.box.lo.numel() for x in inputs)

    def added(*xs: Tensor) -> Tensor:
        return run(xs, nothing)

    coefficients = None
    if name in ("sum", "mean") and len(inputs) == 1:
        shape = inputs[0].shape
        share = 1.0 if name == "sum" else operation.shapes[0].numel() / max(shape.numel(), 1)
        coefficients = partial(of_sum, added, shape, share)
    return linear_value(inputs, added, added, offset, moves=name in MOVES, terms=terms, coefficients=coefficients)


def _as_float(x: Any) -> Any:
    return x.to(torch.float64) if isinstance(x, Tensor) else x


def _alpha(args: Any, kwargs: Any) -> float:
    """The factor of the second term of a sum; some overloads take it by its place."""
    factor: float = args[2] if len(args) > 2 else kwargs.get("alpha", 1)
    return factor


def _reshaping(operation: Operation) -> Callable[..., Any]:
    """The operation itself, but without demands on how numbers lie in memory."""
    if operation.name in ("view", "_unsafe_view", "_reshape_alias"):
        return lambda x, shape, *rest: x.reshape(shape)
    if operation.name in ("_to_copy", "clone", "alias", "contiguous", "lift_fresh"):
        return lambda x, *rest, **more: x
    if operation.name == "index":
        return lambda x, indices: operation.func(x, _without_masks(indices))
    function: Callable[..., Any] = operation.func
    return function


def _without_masks(indices: Any) -> list[Any]:
    """The same selection without truth values, of which vmap does not know how many are true."""
    return [part for index in indices for part in (index.nonzero().unbind(1) if _is_mask(index) else (index,))]


def _is_mask(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype == torch.bool


def _expanded(x: Value, shape: torch.Size) -> Value:
    if x.shape == shape:
        return x
    return linear_value([x], lambda t: t.expand(shape), lambda t: t.expand(shape), None, moves=True, terms=1)


def _sum_of_two(x: Any, y: Any, signs: tuple[float, float]) -> Value:
    """a·x + b·y with numbers a and b; x or y may be a number."""
    shape = _common_shape(_shape(x), _shape(y))
    if isinstance(x, Value) and isinstance(y, Value):
        one, two = chains.chain_of(x), chains.chain_of(y)
        if one.base is two.base and one.bent + two.bent and signs[0] == 1 and x.shape == y.shape:
            return elementwise_value(chains.summed(one, two, signs[1]))
    values, factors = [], []
    offset = torch.zeros((), dtype=torch.float64)
    for z, sign in ((x, signs[0]), (y, signs[1])):
        if isinstance(z, Value):
            values.append(z)
            factors.append(float(sign))
        else:
            offset = offset + sign * torch.as_tensor(z, dtype=torch.float64)
    offset_or_none = None if len(values) == 2 else offset.expand(shape)
    plain = all(abs(factor) == 1 for factor in factors)

    def f(*xs: Tensor) -> Tensor:
        return _added([factor * t if factor != 1 else t for factor, t in zip(factors, xs, strict=True)], shape)

    def size(*xs: Tensor) -> Tensor:
        return _added([abs(factor) * t for factor, t in zip(factors, xs, strict=True)], shape)

    moves = plain and len(values) == 1 and all(factor == 1 for factor in factors)
    coefficients = None
    if len(values) == 1:
        coefficients = partial(of_factors, torch.tensor(factors[0], dtype=torch.float64), values[0].shape, shape)
    return linear_value(values, f, size, offset_or_none, moves=moves, terms=2, coefficients=coefficients)


def _added(parts: list[Tensor], shape: torch.Size) -> Tensor:
    whole = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return whole.expand(shape)


def _common_shape(one: torch.Size, two: torch.Size) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(one, two)  # type: ignore[no-untyped-call]
    return shape


def _shape(x: Any) -> torch.Size:
    return x.shape if isinstance(x, Value | Tensor) else torch.Size()


def _affine(operation: Operation, args: Any, kwargs: Any, x: Value) -> Value:
    """One tensor that varies, with numbers: a·x + b entry by entry, which a chain goes through."""
    name = operation.name
    if name == "div" and (kwargs.get("rounding_mode") is not None):
        raise Declined("aten.div with a rounding mode")
    if name == "div" and isinstance(args[1], Value):  # a number over a tensor
        inverse = elementwise(ELEMENTARY["reciprocal"], args[1])
        return _scaled(inverse, torch.as_tensor(args[0], dtype=torch.float64))
    if name == "neg":
        minus = partial(of_factors, torch.tensor(-1.0, dtype=torch.float64), x.shape, x.shape)
        result = linear_value([x], torch.neg, lambda t: t, None, moves=False, terms=1, coefficients=minus)
        centre = -x.centre
        result = replace(result, centre=centre, box=centre if x.at_point else -x.box)
        factor, offset = -1.0, torch.zeros((), dtype=torch.float64)
    elif name in ("mul", "div"):
        number = torch.as_tensor(args[1] if isinstance(args[0], Value) else args[0], dtype=torch.float64)
        return _scaled(x, number) if name == "mul" else _divided(x, number)
    else:
        result = _linear(operation, args, kwargs)
        alpha = _alpha(args, kwargs)
        other = torch.as_tensor(args[1] if isinstance(args[0], Value) else args[0], dtype=torch.float64)
        first = isinstance(args[0], Value)
        if name == "add":
            factor, offset = (1.0, alpha * other) if first else (alpha, other)
        elif name == "sub":
            factor, offset = (1.0, -alpha * other) if first else (-alpha, other)
        else:
            factor, offset = (-alpha, other) if first else (1.0, -alpha * other)
    if result.shape == x.shape and abs(_alpha(args, kwargs)) == 1:  # so that nothing rounds
        result.chain = chains.scaled(chains.chain_of(x), torch.tensor(float(factor), dtype=torch.float64), offset)
    return result


def _scaled(x: Value, number: Tensor) -> Value:
    """x times numbers."""
    shape = _common_shape(x.shape, number.shape)
    size = number.abs()
    result = linear_value(
        [x], lambda t: (t * number).expand(shape), lambda t: (t * size).expand(shape), None, moves=False, terms=1,
        coefficients=partial(of_factors, number, x.shape, shape),
    )  # fmt: skip
    if shape == x.shape:
        result.chain = chains.scaled(chains.chain_of(x), number, torch.zeros((), dtype=torch.float64))
    return result


def _divided(x: Value, number: Tensor) -> Value:
    """x over numbers; 1/number is within a unit of rounding, which the rule for a product of two terms covers."""
    shape = _common_shape(x.shape, number.shape)
    size = number.abs()
    result = linear_value(
        [x], lambda t: (t / number).expand(shape), lambda t: (t / size).expand(shape), None, moves=False, terms=2
    )
    exact = bool((torch.frexp(number).mantissa.abs() == 0.5).all())  # a power of two
    if shape == x.shape and exact:
        result.chain = chains.scaled(chains.chain_of(x), 1 / number, torch.zeros((), dtype=torch.float64))
    return result


def _product(operation: Operation, args: Any, kwargs: Any, varying: list[Value]) -> Value:
    name = operation.name
    if len(varying) == 1:
        return _product_with_numbers(operation, args, kwargs, varying[0])
    if len(varying) != 2 or not (isinstance(args[0], Value) and isinstance(args[1], Value)):
        raise Declined(f"aten.{name} of more than two tensors that vary")
    p, q = args[0], args[1]
    if name == "mul":
        return _entrywise(p, q)
    if name in ("dot", "vdot") and p is q:
        squares = elementwise(power(2), p)
        return linear_value([squares], torch.sum, torch.sum, None, moves=False, terms=p.box.lo.numel())
    if name == "convolution":
        if len(args) > 2 and args[2] is not None:
            raise Declined("aten.convolution with a bias that is not added by itself")
        rest = args[3:]

        def B(x: Tensor, y: Tensor) -> Tensor:
            convolved: Tensor = operation.func(x, y, None, *rest)
            return convolved

        return bilinear_value(p, q, B, entrywise=False, terms=q.box.lo.numel())
    terms = p.shape[-1]
    return bilinear_value(p, q, operation.func, entrywise=False, terms=terms)


def _entrywise(p: Value, q: Value) -> Value:
    one, two = chains.chain_of(p), chains.chain_of(q)
    if p is q:
        return elementwise(power(2), p)
    if one.base is two.base and p.shape == q.shape:
        return elementwise_value(chains.multiplied(one, two))
    shape = _common_shape(p.shape, q.shape)
    return bilinear_value(_expanded(p, shape), _expanded(q, shape), torch.mul, entrywise=True, terms=1)


def _product_with_numbers(operation: Operation, args: Any, kwargs: Any, x: Value) -> Value:
    if operation.name == "convolution" and len(args) > 2 and isinstance(args[2], Value):
        raise Declined("aten.convolution with a bias that varies")
    place = 0 if isinstance(args[0], Value) else 1
    if not isinstance(args[place], Value):
        raise Declined(f"aten.{operation.name} with these arguments")
    other = args[1 - place]
    rest = list(args[2:])
    bias = rest[0] if operation.name == "convolution" else None
    if operation.name == "convolution":
        rest[0] = None

    def run(t: Tensor, number: Tensor) -> Tensor:
        two = (t, number) if place == 0 else (number, t)
        result: Tensor = operation.func(*two, *rest, **kwargs)
        return result

    offset = None
    if bias is not None:
        offset = bias.reshape(1, -1, *[1] * (x.box.lo.dim() - 2)).expand(operation.shapes[0])
    terms = x.box.lo.numel() if operation.name == "convolution" else x.shape[-1] if place == 0 else other.shape[-1]
    coefficients = None
    if operation.name in ("mm", "mv", "dot", "vdot", "matmul"):
        coefficients = partial(of_product, other, x.shape, place == 0)
    return linear_value(
        [x], lambda t: run(t, other), lambda t: run(t, other.abs()), offset, moves=False, terms=max(terms, 1),
        coefficients=coefficients,
    )  # fmt: skip


def _matrix_product(x: Value, matrix: Any) -> Value:
    """The product with a matrix that PyTorch does not see, which is formed."""
    rows = matrix.by_rows()
    if rows.shape[0] * rows.shape[1] > MOST_NUMBERS // 10:
        raise Declined(f"a matrix of {rows.shape[0]} × {rows.shape[1]} is too large to be formed")
    X = torch.from_numpy(rows.toarray() if hasattr(rows, "toarray") else rows)
    size = X.abs()
    return linear_value([x], lambda t: X @ t, lambda t: size @ t, None, moves=False, terms=X.shape[1])


def _power(x: Any, exponent: Any) -> Value | None:
    if isinstance(x, Value) and isinstance(exponent, int | float):
        if exponent == 1:
            return x
        if exponent < 0 and exponent == int(exponent):
            return elementwise(power(-exponent), elementwise(ELEMENTARY["reciprocal"], x))
        return elementwise(power(exponent), x)
    if isinstance(exponent, Value) and isinstance(x, int | float) and x > 0:
        raise Declined("aten.pow with an exponent that varies; write exp(log(base) * exponent)")
    raise Declined("aten.pow with these arguments")


def _log_sum_exp(x: Value, dims: Any, keepdim: bool = False) -> Value:
    listed = [dims] if isinstance(dims, int) else list(dims)
    if len(listed) != 1:
        raise Declined("aten.logsumexp over several axes")
    dim = listed[0] % max(1, len(x.shape))
    last = len(x.shape) - 1
    if dim != last:
        x = linear_value([x], lambda t: t.movedim(dim, -1), lambda t: t.movedim(dim, -1), None, moves=True, terms=1)
    result = log_sum_exp_value(x)
    if keepdim:
        return linear_value([result], lambda t: t.unsqueeze(dim), lambda t: t.unsqueeze(dim), None, moves=True, terms=1)
    return result


def _quotient(x: Any, y: Any, rounding_mode: Any = None) -> Value | None:
    """One tensor that varies over another."""
    if rounding_mode is not None:
        raise Declined("aten.div with a rounding mode")
    if isinstance(x, Value) and isinstance(y, Value):
        return _entrywise(x, elementwise(ELEMENTARY["reciprocal"], y))
    return None


def _soft_plus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + e^(βx))/β, which PyTorch computes up to βx = `threshold` only: beyond it, it returns x."""
    if _is_beyond(x.centre, beta, threshold):
        raise Declined(
            f"aten.softplus beyond its threshold of {threshold:g} at the centre of the ball, where PyTorch returns its "
            "argument; write -logsigmoid(-x)"
        )
    if threshold < 20 and _is_cut_off(x, beta, threshold):
        raise Declined(f"aten.softplus crosses its threshold of {threshold:g}, where it jumps; write -logsigmoid(-x)")
    return elementwise(soft_plus(float(beta)), x)


def _is_cut_off(x: Value, beta: float = 1, threshold: float = 20) -> bool:
    """May the argument of a softplus be beyond its threshold somewhere on the ball?"""
    return _is_beyond(x.box, beta, threshold)


def _is_beyond(x: Interval, beta: float, threshold: float) -> bool:
    return not bool((torch.maximum(x.lo * beta, x.hi * beta) <= threshold).all())  # β may be negative


def _bce(x: Any, y: Any, weight: Any = None, reduction: int = 1) -> Value:
    """−(y·log x + (1 − y)·log(1 − x)); next to 0 and 1 PyTorch bounds the logarithms and the derivative."""
    if not isinstance(x, Value) or isinstance(y, Value) or isinstance(weight, Value):
        raise Declined("aten.binary_cross_entropy with a target or a weight that varies; write it with logarithms")
    if not bool(((x.box.lo > EDGE) & (x.box.hi < 1 - EDGE)).all()):
        raise Declined("aten.binary_cross_entropy next to 0 or 1, where PyTorch cuts it off; take the one with logits")
    inner, one = chains.chain_of(x), torch.ones((), dtype=torch.float64)
    log, log_of_rest = (chains.applied(ELEMENTARY["log"], z) for z in (inner, chains.scaled(inner, -one, one)))
    share, rest = point(-y), outward(y - 1, y - 1)

    def jets(z: Interval) -> Jet:
        a, b, c, d = (share * p + rest * q for p, q in zip(log.jets(z), log_of_rest.jets(z), strict=True))
        return a, b, c, d

    loss = elementwise_value(chains.Chain(inner.base, jets, log.bent + log_of_rest.bent))
    return _mean_or_sum(loss if weight is None else _scaled(loss, weight), reduction)


def _log_sigmoid(x: Value) -> list[Value]:
    value = elementwise(ELEMENTARY["log_sigmoid"], x)
    return [value, value]


def _leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    return elementwise(leaky_relu(float(negative_slope)), x)


def _clamp(x: Value, min: Any = None, max: Any = None) -> Value:
    if not all(end is None or isinstance(end, int | float) for end in (min, max)):
        raise Declined("aten.clamp with ends that are tensors; write maximum and minimum")
    if min is not None and max is not None and min > max:
        raise Declined("aten.clamp with ends in the wrong order")
    return elementwise(clamp(min, max), x)


def _clamp_max(x: Value, max: Any) -> Value:
    return _clamp(x, None, max)


def _hard_tanh(x: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return _clamp(x, min_val, max_val)


def _elu(x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    return elementwise(elu(alpha, scale, input_scale), x)


def _celu(x: Value, alpha: float = 1) -> Value:
    """elu with 1/α as the scale of its input, whose slope is continuous; α is a power of two, so that 1/α is exact."""
    if math.frexp(alpha)[0] != 0.5:
        raise Declined(f"aten.celu with α = {alpha:g}, of which 1/α rounds")
    return elementwise(elu(alpha, 1.0, 1 / alpha), x)


def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> None:
    """A sum with coefficients 0 and 1, or none of these rules."""
    if alpha != 1:
        raise Declined(f"aten.index_add with alpha = {alpha:g}; multiply the source by it")


def _constant_pad(x: Any, pad: Any, value: float = 0) -> None:
    """A move of numbers among zeros; other numbers are added by themselves."""
    if value != 0:
        raise Declined(f"aten.constant_pad_nd with the number {value:g}")


def _largest(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(x, dim, keepdim, 1.0)


def _least(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(x, dim, keepdim, -1.0)


def _extreme(x: Value, dim: Any, keepdim: bool, sign: float) -> Value:
    """The largest or the least entry, if it is the same one for every w of the ball."""
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if len(dims) > 1:
        raise Declined("aten.amax over several axes; take one after the other")
    over = dims[0] % max(1, len(x.shape)) if dims else 0

    def shaped(t: Tensor) -> Tensor:
        return t if dims else t.reshape(-1)

    box = x.box if sign > 0 else -x.box
    lo, hi = shaped(box.lo), shaped(box.hi)
    best = shaped(sign * x.centre.mid).argmax(over, keepdim=True)
    others = hi.scatter(over, best, -torch.inf).amax(over, keepdim=True)
    if not bool((lo.gather(over, best) > others).all()):
        raise Declined("the largest or least entry changes on the ball, which is a kink; logsumexp is smooth")

    def picked(t: Tensor) -> Tensor:
        entry = shaped(t).gather(over, best)
        return entry if keepdim and dims else entry.squeeze(over)

    return linear_value([x], picked, picked, None, moves=True, terms=1)


def _huber(x: Any, y: Any, reduction: int = 1, delta: float = 1.0) -> Value:
    return _mean_or_sum(elementwise(huber(float(delta)), _sum_of_two(x, y, (1.0, -1.0))), reduction)


def _smooth_l1(x: Any, y: Any, reduction: int = 1, beta: float = 1.0) -> Value:
    value = elementwise(huber(float(beta)), _sum_of_two(x, y, (1.0, -1.0)))
    return _mean_or_sum(_divided(value, torch.tensor(float(beta), dtype=torch.float64)), reduction)


def _mean_or_sum(x: Value, reduction: int) -> Value:
    if reduction == 0:
        return x
    n = x.box.lo.numel()
    function: Callable[[Tensor], Tensor] = torch.mean if reduction == 1 else torch.sum
    return linear_value([x], function, function, None, moves=False, terms=n)


SPECIAL: dict[str, Callable[..., Any]] = {
    "pow": _power,
    "logsumexp": _log_sum_exp,
    "div": _quotient,
    "softplus": _soft_plus,
    "log_sigmoid_forward": _log_sigmoid,
    "binary_cross_entropy": _bce,
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "leaky_relu": _leaky_relu,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp_max,
    "hardtanh": _hard_tanh,
    "elu": _elu,
    "celu": _celu,
    "index_add": _index_add,
    "constant_pad_nd": _constant_pad,
    "amax": _largest,
    "amin": _least,
}
