"""The degree of a program as a polynomial in w, derived from the operations that it runs.

Every tensor has two degrees: the degree of its value in w, and the degree in w of its derivative by λ. Linear
operations, products and integer powers have rules. Any other operation on a tensor that depends on w gives degree ∞.
A finite degree is therefore a proof about the program, in exact arithmetic, at this λ; nothing is sampled.

Tensors are identified by their storage, so views and in-place operations are followed: a write into a storage raises
the degree of all tensors that share the storage. A value that leaves PyTorch (`.item()`, a shape that depends on w, an
error that the function may catch) may come back unnoticed, so it sets every degree to ∞.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LARGEST_POWER = 64
RAISES = frozenset(("_linalg_check_errors", "_assert_async"))  # operations that raise an error for some numbers
NONE = -1.0  # the degree of a derivative by λ that is zero


@dataclass(frozen=True)
class Degree:
    """Degrees in w of a value and of its derivative by λ (`NONE` if the value does not depend on λ)."""

    value: float
    by_lam: float

    @property
    def depends(self) -> bool:
        """Whether the value may depend on w."""
        return self.value > 0


DATA = Degree(0, NONE)
UNKNOWN = Degree(math.inf, math.inf)


def _largest(degrees: Iterable[Degree]) -> Degree:
    """Return the degree of a sum, or of any function that is linear in all its inputs together."""
    terms = (DATA, *degrees)
    return Degree(max(d.value for d in terms), max(d.by_lam for d in terms))


def _product(*degrees: Degree) -> Degree:
    """Return the degree of a product, which is linear in each factor."""
    value = sum(d.value for d in degrees)
    by_lam = [value - d.value + d.by_lam for d in degrees if d.by_lam > NONE and not math.isinf(d.value)]
    unknown = any(math.isinf(d.value) and d.by_lam > NONE for d in degrees)
    return Degree(value, math.inf if unknown else max(by_lam, default=NONE))


def _quotient(x: Degree, y: Degree) -> Degree:
    return _anything((x, y)) if y.depends else _product(x, y)


def _anything(degrees: Iterable[Degree]) -> Degree:
    """Return the degree of an operation without a rule: 0 if its inputs do not depend on w, otherwise ∞."""
    largest = _largest(degrees)
    if not largest.depends:
        return Degree(0, 0 if largest.by_lam > NONE else NONE)
    return Degree(math.inf, math.inf if largest.by_lam > NONE else NONE)


class Degrees(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the degree of every tensor while it is active. `leaked` is True once a value has left PyTorch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._degrees: dict[int, Degree] = {}
        self._storages: list[object] = []  # kept alive, so that no address is used twice
        self.leaked = False

    def set(self, x: Tensor, degree: Degree) -> None:
        """Raise the degree of x, and of all tensors that share its storage, to at least this degree."""
        key, owner = _key(x)
        if key in self._degrees:
            degree = _largest((degree, self._degrees[key]))
        self._degrees[key] = degree
        self._storages.append(owner)

    def of(self, x: Any) -> Degree:
        """Return the degree of a tensor. A tensor without a stored degree is data."""
        if not isinstance(x, Tensor):
            return DATA
        return UNKNOWN if self.leaked else self._degrees.get(_key(x)[0], DATA)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        degrees = [self.of(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        depends = any(d.depends for d in degrees)
        name = func.overloadpacket.__name__
        if depends and (name in RAISES or makes_index(name, kwargs)):
            self.leaked = True
        try:
            result = func(*args, **kwargs)
        except Exception:  # the function may catch it and take another branch than at other points
            self.leaked = True
            raise
        if not degrees:
            return result
        rule = RULES.get(func.overloadpacket.__name__.removesuffix("_")) if func.namespace == "aten" else None
        degree = None if rule is None else rule(self.of, args, kwargs, result)
        if degree is None and depends and _leaves_torch(func):
            self.leaked = True
        unruled = _anything(degrees)
        degree = unruled if degree is None else degree
        for x in tree_leaves(result):
            if isinstance(x, Tensor):
                self.set(x, degree if _keeps_numbers(x, args) else unruled)
        if func._schema.is_mutable:  # an operation that writes into an argument
            for argument, x in zip(func._schema.arguments, args, strict=False):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    for tensor in tree_leaves(x):
                        self.set(tensor, degree)
        return result


def _key(x: Tensor) -> tuple[int, object]:
    """Return a key that identifies the memory of x, and an object to keep alive while the key is in use."""
    try:
        with torch._C.DisableTorchFunction():  # a function mode refuses `untyped_storage` to users
            storage = x.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors have no storage
        return id(x), x
    return storage._cdata, storage


def _keeps_numbers(result: Tensor, args: Any) -> bool:
    """Return True if the result is floating-point and at least as precise as the inputs.

    Rounding to integers or to a lower precision is a step function, not a polynomial.
    """
    sizes = [x.element_size() for x in tree_leaves(args) if isinstance(x, Tensor) and x.is_floating_point()]
    return result.is_floating_point() and result.element_size() >= max(sizes, default=0)


def makes_index(name: str, kwargs: dict[str, Any]) -> bool:
    """Return True if an operation casts to integers, which may be used as indices that are out of range."""
    dtype = kwargs.get("dtype")
    return name == "_to_copy" and dtype is not None and not dtype.is_floating_point and dtype is not torch.bool


def _leaves_torch(func: Any) -> bool:
    return not {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}.isdisjoint(func.tags)


Of = Callable[[Any], Degree]
Rule = Callable[[Of, Any, Any, Any], "Degree | None"]  # None: no rule for these arguments


def _linear(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    return _largest(degree_of(x) for x in tree_leaves((args, kwargs)))


def _creation(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    """`zeros_like` and similar functions, which depend only on the shape of x."""
    return DATA


def _bilinear(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    return _product(degree_of(args[0]), degree_of(args[1]))


def _sum_with_product(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    """a + b·c, in any of its forms."""
    return _largest((degree_of(args[0]), _product(degree_of(args[1]), degree_of(args[2]))))


def _division(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree | None:
    return None if kwargs.get("rounding_mode") is not None else _quotient(degree_of(args[0]), degree_of(args[1]))


def _power(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree | None:
    x, exponent = args[0], args[1]
    if not isinstance(x, Tensor) or isinstance(exponent, Tensor):
        return None
    if not 0 <= exponent <= LARGEST_POWER or exponent != int(exponent):
        return None
    return _product(*[degree_of(x)] * int(exponent)) if exponent else DATA


def _selection(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree | None:
    """Entries of x, and of tensors written into it, at places that do not depend on w or λ."""
    x, *others = tree_leaves((args, kwargs))
    values = [y for y in others if isinstance(y, Tensor) and y.is_floating_point()]
    places = [y for y in others if isinstance(y, Tensor) and not y.is_floating_point()]
    if any(degree_of(y) != DATA for y in places):
        return None
    return _largest(degree_of(y) for y in (x, *values))


def _choice(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree | None:
    """`where` with a mask that does not depend on w or λ."""
    mask, *values = args
    return None if degree_of(mask) != DATA else _largest(degree_of(x) for x in values)


def _view(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree | None:
    """The same numbers in another shape. A view as another dtype has the same bits but other numbers: no rule."""
    return degree_of(args[0]) if result.dtype == args[0].dtype else None


def _squared_error(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    difference = _largest((degree_of(args[0]), degree_of(args[1])))
    return _product(difference, difference)


def _convolution(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    return _largest((_product(degree_of(args[0]), degree_of(args[1])), degree_of(args[2])))


def _solution(degree_of: Of, args: Any, kwargs: Any, result: Any) -> Degree:
    """A⁻¹b or bA⁻¹, which is linear in b."""
    return _quotient(degree_of(args[1]), degree_of(args[0]))


LINEAR = (
    "add", "sub", "rsub", "neg", "positive", "clone", "alias", "detach", "copy", "fill", "_to_copy", "_to_dense",
    "contiguous", "lift_fresh", "lift_fresh_copy", "resolve_conj", "resolve_neg", "_unsafe_view", "reshape",
    "_reshape_alias", "expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "select", "slice", "as_strided",
    "diagonal", "unbind", "split", "split_with_sizes", "chunk", "unfold", "narrow", "movedim", "swapaxes", "flatten",
    "unflatten", "view_copy", "expand_copy", "permute_copy", "select_copy", "slice_copy", "select_scatter",
    "slice_scatter", "diagonal_scatter", "sum", "mean", "cumsum", "trace", "diag", "diag_embed", "tril", "triu", "flip",
    "roll", "rot90", "repeat", "constant_pad_nd", "cat", "stack", "avg_pool2d", "_adaptive_avg_pool2d",
)  # fmt: skip
CREATIONS = (
    "zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_empty", "new_full", "zero",
)  # fmt: skip
SELECTIONS = (
    "index", "index_select", "gather", "take", "index_put", "index_add", "index_copy", "scatter_add",
)  # fmt: skip
RULES: dict[str, Rule] = {
    **dict.fromkeys(LINEAR, _linear),
    **dict.fromkeys(CREATIONS, _creation),
    **dict.fromkeys(("mul", "mm", "mv", "dot", "bmm", "_sparse_mm"), _bilinear),
    **dict.fromkeys(("addmm", "addmv", "addr", "baddbmm", "addbmm", "addcmul"), _sum_with_product),
    **dict.fromkeys(SELECTIONS, _selection),
    "_linalg_solve_ex": _solution,
    "div": _division,
    "pow": _power,
    "where": _choice,
    "view": _view,
    "mse_loss": _squared_error,
    "convolution": _convolution,
}
