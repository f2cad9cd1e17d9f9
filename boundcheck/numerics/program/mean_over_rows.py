"""Prove from the operations of a function of a minibatch that it is the mean of a function of single examples.

The function is recorded for several numbers n of examples, such as 1, b and N. If the programs are equal except for
sizes, every value gets a kind (`row_kinds.py`): no example enters; or it has an entry for each example, the same
function of that example alone; or it is nᵖ times the sum of such a function over all examples. If the value of the
function is of the last kind with p = −1, it is (1/n) Σ g(example i) with one function g for these n, for every
w, every λ and all data of that shape. A derivative by w or λ is then the mean of the derivatives of g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.operations import leaves as leaves_of
from boundcheck.numerics.program.recorded_program import CUT, MATRIX, Declined, Operation, Program, Ref
from boundcheck.numerics.program.row_kinds import ExampleRows, ExampleSum, NoExamples, RowKind, Sized, fits
from boundcheck.numerics.program.row_moves import MOVES, VIEWS
from boundcheck.numerics.program.row_rules import RULES
from boundcheck.numerics.program.row_step import RowOperation
from boundcheck.numerics.program.separate_terms import lam_apart

COPIES = frozenset(("clone", "alias", "contiguous", "lift_fresh"))
LIKE_RESULTS = frozenset(
    (
        "split",
        "split_with_sizes",
        "unbind",
        "sort",
        "topk",
        "max",
        "min",
        "median",
        "cummax",
        "cummin",
    )
)  # all results have the same kind; for other operations the rules give only the kind of the first result
ARITHMETIC = frozenset(("add", "sub", "rsub", "mul", "div"))  # their rules allow numbers that change with n
SIZED = frozenset(("view", "expand"))  # their sizes may change with n; their rules compare the shapes
DATA = 2  # index of the first data input, after w and λ
KINDS = {
    ExampleRows: "it has an entry for each example; take .mean()",
    NoExamples: "it does not depend on the examples",
    ExampleSum: "it is a sum over the examples; divide by their number, as .mean() does",
}


@dataclass(frozen=True)
class MeanProof:
    """The facts that are proved about a function of examples.

    Attributes
    ----------
    doubt : str
        The reason why the proof that the function is a mean over its examples fails; empty if the proof succeeds.
    uses_data : bool
        Whether an example enters the value.
    lam_apart : bool
        Whether it is proved that λ and the examples enter the value in separate terms.
    """

    doubt: str
    uses_data: bool = True
    lam_apart: bool = False


def mean_over_rows(
    function: Callable[..., Tensor], w: Tensor, lam: Tensor, data: Sequence[Tensor], sizes: Sequence[int]
) -> MeanProof:
    """Prove that a function of w, λ and examples is the mean over the examples of one function of each.

    Parameters
    ----------
    function : callable (w, lam, *data) -> Tensor
        The function. Every data tensor has one row for each example.
    w, lam : Tensor
        The point at which the function is recorded. The proof holds for all w and λ.
    data : sequence of Tensor
        All examples.
    sizes : sequence of int
        The numbers of examples for which to prove it.

    Returns
    -------
    MeanProof
        The proof, or the reason why it fails.
    """
    counts = sorted({*sizes} if len({*sizes}) > 1 else {*sizes, 1, 2})
    try:
        programs = [capture(function, w, lam, {}, data=_first(data, n)) for n in counts]
    except Declined as why:
        return MeanProof(str(why))
    uses_data = _uses(programs[-1], range(DATA, DATA + len(data)))
    try:
        kind = _KindInterpreter(tuple(map(_plain, programs)), tuple(counts), data).output()
    except Declined as why:
        return MeanProof(str(why), uses_data)
    if kind != ExampleSum(-1) and kind != NoExamples():
        of_other_power = "it changes with the number of examples"
        return MeanProof(KINDS[type(kind)] if kind.power == 0 else of_other_power, uses_data)
    return MeanProof("", uses_data, lam_apart(programs[-1]))


def _first(data: Sequence[Tensor], n: int) -> list[Tensor]:
    """Return the first n examples, starting again from the first one if there are fewer than n."""
    rows = torch.arange(n, device=data[0].device) % len(data[0])
    return [leaf if n == len(leaf) else leaf[rows] for leaf in data]


def _uses(program: Program, inputs: range) -> bool:
    return any(ref.node in inputs for operation in program.operations for ref in operation.refs())


def _plain(program: Program) -> Program:
    """Return the program without copies, which depend on strides, and with one name for all changes of shape."""
    new_refs: dict[Ref, Ref] = {}
    operations: list[Operation] = []
    for node, operation in enumerate(program.operations):
        args, kwargs = changed(lambda x: new_refs[x] if isinstance(x, Ref) else x, operation.args, operation.kwargs)
        if operation.name in COPIES and isinstance(args[0], Ref):
            new_refs[Ref(node)] = args[0]
            continue
        for item in range(len(operation.shapes)):
            new_refs[Ref(node, item)] = Ref(len(operations), item)
        name = "view" if operation.name in VIEWS else operation.name
        operations.append(replace(operation, args=args, kwargs=kwargs, name=name))
    return Program(tuple(operations), new_refs[program.output], program.shape)


class _KindInterpreter:
    """Derives the kinds of all values of the programs recorded for several n."""

    def __init__(self, programs: tuple[Program, ...], counts: tuple[int, ...], data: Sequence[Tensor]) -> None:
        self._programs, self._counts, self._data = programs, counts, data
        self._kinds: list[list[Sized]] = []
        self._varies: set[int] = {0, 1}
        self._numbers: dict[Ref, Tensor] = {}

    def output(self) -> RowKind:
        first, *others = self._programs
        for other in others:
            if len(other.operations) != len(first.operations) or other.output != first.output:
                raise Declined("the operations change with the number of examples")
        for node, operations in enumerate(zip(*(p.operations for p in self._programs), strict=True)):
            if any(operation.name != operations[0].name for operation in operations):
                raise Declined("the operations change with the number of examples")
            self._kinds.append(self._results(node, operations))
        output = first.output
        return self._kinds[output.node][output.item].kind

    def _results(self, node: int, operations: tuple[Operation, ...]) -> list[Sized]:
        """Return the kinds of the results of one operation. An error names the operation."""
        shapes = list(zip(*(operation.shapes for operation in operations), strict=True))
        if operations[0].name == "input":
            kind: RowKind = NoExamples() if node < DATA else ExampleRows()
            return [Sized(kind, shapes[0])]
        if any(ref.node in self._varies for ref in operations[0].refs()):
            self._varies.add(node)
        several = operations[0].name in LIKE_RESULTS
        try:
            self._refuse_other_arguments(operations)
            kind = self._kind(RowOperation(operations, self._of, self._counts, self._of_data))
            if not all(fits(kind, shape, self._counts) for shape in (shapes if several else shapes[:1])):
                raise Declined("its shape does not have one row for each example")
        except Declined as why:
            name, line = operations[0].name, operations[0].line
            raise Declined(f"aten.{name}: {why}{', ' + line if line else ''}") from None
        return [Sized(kind, shape) for shape in (shapes if several else shapes[:1])]

    def _refuse_other_arguments(self, operations: tuple[Operation, ...]) -> None:
        """Decline an operation that reads different values or numbers for different numbers of examples.

        Numbers may change if a rule takes account of it: in arithmetic, and as sizes.
        """
        name = operations[0].name
        arguments = [leaves_of(operation.args, operation.kwargs) for operation in operations]
        if len({len(leaves) for leaves in arguments}) != 1:
            raise Declined("its arguments change with the number of examples")
        for leaves in zip(*arguments, strict=True):
            first = leaves[0]
            if any(type(x) is not type(first) for x in leaves):
                raise Declined("its arguments change with the number of examples")
            if isinstance(first, Tensor):
                same = all(x.shape != first.shape or torch.equal(x, first) for x in leaves)
                same = same or (name in ARITHMETIC and first.numel() == 1)
            else:
                same = all(x == first for x in leaves) or (name in ARITHMETIC | SIZED and not isinstance(first, Ref))
                same = same or (name == "slice" and self._takes_all(operations, leaves))
            if not same:
                raise Declined("a value that it reads changes with the number of examples")

    def _takes_all(self, operations: tuple[Operation, ...], ends: tuple[Any, ...]) -> bool:
        """Return True if a slice along the axis of the examples ends at the last example, for every n."""
        args = operations[0].args
        if len(args) < 4 or not isinstance(args[0], Ref):
            return False
        x = self._of(args[0])
        if not isinstance(x.kind, ExampleRows) or args[1] not in (x.kind.axis, x.kind.axis - x.rank):
            return False
        sizes = tuple(shape[x.kind.axis] for shape in x.shapes)
        return ends == sizes and tuple(operation.args[3] for operation in operations) == ends

    def _kind(self, step: RowOperation) -> RowKind:
        if step.name == CUT:
            return self._cut(step)
        if step.name == MATRIX:
            return self._matrix_product(step)
        if step.name != "view" and any(other.func is not step.operations[0].func for other in step.operations):
            raise Declined("the operation changes with the number of examples")
        rule = MOVES.get(step.name) or RULES.get(step.name)
        if rule is not None:
            kind = rule(step)
            step.refuse_unread()
            return kind
        if all(isinstance(x.kind, NoExamples) and x.kind.power == 0 for x in step.read()):
            return NoExamples()
        raise Declined("no rule for this operation on examples")

    def _cut(self, step: RowOperation) -> RowKind:
        refs = [operation.args[0] for operation in step.operations]
        if refs[0].node in self._varies:
            raise Declined("detach() cuts a derivative")
        return self._of(refs[0]).kind

    def _matrix_product(self, step: RowOperation) -> RowKind:
        """Return the kind of a product with a matrix that is not a tensor. The matrix must be the same for every n."""
        matrices = [operation.args[1] for operation in step.operations]
        kind = self._of(step.operations[0].args[0]).kind
        if isinstance(kind, ExampleRows) or any(matrix is not matrices[0] for matrix in matrices):
            raise Declined("a product with a sparse matrix that acts on examples or changes with their number")
        return kind

    def _of(self, ref: Ref) -> Sized:
        if ref.item >= len(self._kinds[ref.node]):
            raise Declined(f"result {ref.item} of aten.{self._programs[0].operations[ref.node].name} has no rule")
        return self._kinds[ref.node][ref.item]

    def _of_data(self, ref: Ref) -> Tensor:
        """Return the numbers of a value that depends only on the data, for all examples.

        They come from the last program, which has the most examples.
        """
        if ref.node in self._varies:
            raise Declined("classes that depend on w or λ")
        if ref.node < DATA + len(self._data):
            return _first(self._data, self._counts[-1])[ref.node - DATA]
        if ref not in self._numbers:
            operation = self._programs[-1].operations[ref.node]
            if operation.name == CUT:
                return self._of_data(operation.args[0])
            args, kwargs = changed(
                lambda x: self._of_data(x) if isinstance(x, Ref) else x, operation.args, operation.kwargs
            )
            result: Any = operation.func(*args, **kwargs)
            self._numbers[ref] = result[ref.item] if isinstance(result, tuple | list) else result
        return self._numbers[ref]
