"""Translate recorded operations to enclosures, with the rule of each operation of PyTorch.

An operation without a rule is declined by name. To add a rule, add an entry to a table of `linear_rules.py`,
`product_rules.py` or `special_rules.py`, an expansion to `expansions.py`, or a function to `elementary.py`. Then add a
case to `tests/numerics/program/enclosure/enclosure_cases.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY
from boundcheck.numerics.program.enclosure.elementwise import elementwise
from boundcheck.numerics.program.enclosure.linear import linear_value
from boundcheck.numerics.program.enclosure.linear_rules import (
    AFFINE,
    MOVES,
    SEVERAL,
    SUMS,
    affine_operation,
    linear_operation,
)
from boundcheck.numerics.program.enclosure.norm_pattern import Norm, norm_of
from boundcheck.numerics.program.enclosure.normalised import normalised_value
from boundcheck.numerics.program.enclosure.product_rules import PRODUCTS, matrix_product, product_operation
from boundcheck.numerics.program.enclosure.soft_threshold import soft_threshold_of, soft_threshold_value
from boundcheck.numerics.program.enclosure.special_rules import CUT_OFF, SPECIAL, is_cut_off
from boundcheck.numerics.program.enclosure.value import LAM, MOST_NUMBERS, Value, W, input_value, refined
from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.operations import leaves as leaves_of
from boundcheck.numerics.program.recorded_program import CUT, MATRIX, Declined, Operation, Program, Ref

OfLam = dict[int, list[Value]]  # values that depend only on λ, by the index of their operation


class Enclosures:
    """Enclosures of all values of a program over the ball of radius `radius` around `centre`."""

    def __init__(
        self, program: Program, centre: Tensor, lam: Tensor, radius: float, *, with_lam: bool = True,
        of_lam: OfLam | None = None,
    ) -> None:  # fmt: skip
        """Enclose all values. `of_lam` caches values that depend only on λ, which are the same on every ball."""
        self.program = program
        self.radius = radius
        self._without_lam = 0 if with_lam else lam.numel()
        self._dtypes = {torch.float64, centre.dtype}  # a cast to another dtype rounds or truncates
        centre, lam = (x.detach().to(device="cpu", dtype=torch.float64) for x in (centre, lam))
        self.notes: dict[str, None] = {}  # notes to print with every bound, in order
        self._results: list[list[Value]] = []
        self._of_w = {0}  # indices of the operations that depend on w
        self._numbers = 0
        w = input_value(centre, W, radius)
        lam_value = input_value(lam, LAM, 0.0)
        lam_value = lam_value if with_lam else Value(lam_value.centre, lam_value.box, {}, {}, name=LAM)
        self._results += [[w], [lam_value] if of_lam is None else of_lam.setdefault(1, [lam_value])]
        with torch.no_grad():
            for place, operation in enumerate(program.operations[2:], 2):
                cached = None if of_lam is None else of_lam.get(place)
                if cached is not None:
                    self._count(cached, operation)
                    self._results.append(cached)
                    continue
                self._reads_w, number_of_notes = False, len(self.notes)
                values = [self._finish(value, operation) for value in self._interpret(operation)]
                self._results.append(values)
                if self._reads_w:
                    self._of_w.add(place)
                elif of_lam is not None and len(self.notes) == number_of_notes:
                    of_lam[place] = values

    def require(self, *slots: str) -> None:
        """Decline derivatives by λ if they were not formed; a missing derivative would count as 0."""
        if LAM in slots and self._without_lam:
            raise Declined(f"λ has {self._without_lam} entries, and derivatives by so many are not formed")

    @property
    def numbers(self) -> int:
        """The number of numbers stored in all derivatives together."""
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

    def _finish(self, value: Value, operation: Operation) -> Value:
        self._count((value,), operation)
        if not value.rule:
            return value
        value.name, value.line = operation.name, operation.line
        return refined(value, self.radius)

    def _interpret(self, operation: Operation) -> list[Value]:
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
        if (norm := norm_of(self.program, operation)) is not None:
            return [self._normalised(norm)]
        if (step := soft_threshold_of(self.program, operation)) is not None:
            t = self[step.t] if isinstance(step.t, Ref) else step.t
            thresholded = soft_threshold_value(self[step.z], t)
            if thresholded is not None:
                return [thresholded]
        if name in ELEMENTARY:
            return [elementwise(ELEMENTARY[name], args[0])]
        if name in SPECIAL:
            result = SPECIAL[name](*args, **kwargs)
            if name == "softplus" and is_cut_off(*args, **kwargs):
                self.notes[CUT_OFF] = None
            if result is not None:
                return result if isinstance(result, list) else [result]
        varying = [x for x in leaves_of(args, kwargs) if isinstance(x, Value)]
        if name in AFFINE and len(varying) == 1:
            return [affine_operation(operation, args, kwargs, varying[0])]
        if name in MOVES or name in SUMS:
            count = len(operation.shapes)
            return [
                linear_operation(operation, args, kwargs, item if count > 1 or name in SEVERAL else None)
                for item in range(count)
            ]
        if name in PRODUCTS:
            return [product_operation(operation, args, kwargs, varying)]
        if name == MATRIX:
            return [matrix_product(*args)]
        if name == CUT:
            raise Declined("detach() or .data cuts a derivative")
        raise Declined(f"aten.{name} has no rule")

    def _square_of_a_norm(self, operation: Operation) -> Value | None:
        """Return Σx² for (√Σx²)², which is smooth where the root is not; None for other operations."""
        root = self._input_operation(operation, "pow", 2)
        total = None if root is None else self._input_operation(root, "sqrt")
        squares = None if total is None else self._input_operation(total, "sum")
        if root is None or squares is None or self._input_operation(squares, "pow", 2) is None:
            return None
        return self[root.args[0]]

    def _normalised(self, norm: Norm) -> Value:
        """Return x/√(sΣx² + ε) over some axes, which are moved to the end and merged."""
        x, dims = self[norm.x], norm.dims
        order = [*(dim for dim in range(len(x.shape)) if dim not in dims), *dims]
        shape, k = [x.shape[dim] for dim in order], math.prod(x.shape[dim] for dim in dims)
        back = [order.index(dim) for dim in range(len(order))]

        def grouped(t: Tensor) -> Tensor:
            return t.permute(order).reshape(-1, k)

        def ungrouped(t: Tensor) -> Tensor:
            return t.reshape(shape).permute(back)

        groups = refined(linear_value([x], grouped, grouped, None, moves=True, terms=1), self.radius)
        m, kappa = math.sqrt(1 / norm.scale), math.sqrt(norm.epsilon / norm.scale)
        result = refined(normalised_value(groups, m, kappa, self.radius), self.radius)
        return linear_value([result], ungrouped, ungrouped, None, moves=True, terms=1)

    def _input_operation(self, operation: Operation, name: str, exponent: float | None = None) -> Operation | None:
        """Return the operation that computes the first argument, if `operation` has this name and exponent."""
        if operation.name != name or not operation.args or not isinstance(operation.args[0], Ref):
            return None
        if exponent is not None and operation.args[1:] != (exponent,):
            return None
        return self.program.operations[operation.args[0].node]
