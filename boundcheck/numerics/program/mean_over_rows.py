"""Is a function of a minibatch the mean of the function of single examples? Proved from the operations it runs.

The function is recorded for several numbers n of examples, those that are asked about: 1, b and N. Where the programs
are the same but for sizes, every value gets a kind (`row_kinds.py`): no example enters; it has an entry for each
example, the same function of that one alone; or it is nᵖ times a sum of such over all of them. If the value of the
function is of the last kind with p = −1, it is (1/n) Σ g(example i) with one function g for these n, for every
w, every λ and all data of that shape. A derivative by w or λ is then the same mean of derivatives.
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
)  # all results are of the same kind; of other operations only the first has a rule
ARITHMETIC = frozenset(("add", "sub", "rsub", "mul", "div"))  # whose rules know numbers that change with n
SIZED = frozenset(("view", "expand"))  # whose sizes may change with n; their rules compare the shapes
DATA = 2  # the first input that is data
KINDS = {
    ExampleRows: "it has an entry for each example; take .mean()",
    NoExamples: "no example enters it in the end",
    ExampleSum: "it is a sum over the examples; divide by their number, as .mean() does",
}


@dataclass(frozen=True)
class MeanProof:
    """What is proved of a function of examples.

    Attributes
    ----------
    doubt : str
        Why it is not proved that the function is the mean over its examples; empty if it is.
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
    """Whether a function of w, λ and examples is the mean over the examples of one function of each.

    Parameters
    ----------
    function : callable (w, lam, *data) -> Tensor
        The function; every tensor of the data has a row for each example.
    w, lam : Tensor
        Where it is recorded; the proof is for all.
    data : sequence of Tensor
        All examples.
    sizes : sequence of int
        The numbers of examples for which it is to be proved.

    Returns
    -------
    MeanProof
        The doubt that is left, if any.
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
    """The first n examples, from the beginning again where there are fewer."""
    rows = torch.arange(n, device=data[0].device) % len(data[0])
    return [leaf if n == len(leaf) else leaf[rows] for leaf in data]


def _uses(program: Program, inputs: range) -> bool:
    return any(ref.node in inputs for operation in program.operations for ref in operation.refs())


def _plain(program: Program) -> Program:
    """The same without copies, which depend on strides, and with one name for all changes of shape."""
    moved: dict[Ref, Ref] = {}
    kept: list[Operation] = []
    for node, operation in enumerate(program.operations):
        args, kwargs = changed(lambda x: moved[x] if isinstance(x, Ref) else x, operation.args, operation.kwargs)
        if operation.name in COPIES and isinstance(args[0], Ref):
            moved[Ref(node)] = args[0]
            continue
        for item in range(len(operation.shapes)):
            moved[Ref(node, item)] = Ref(len(kept), item)
        name = "view" if operation.name in VIEWS else operation.name
        kept.append(replace(operation, args=args, kwargs=kwargs, name=name))
    return Program(tuple(kept), moved[program.output], program.shape)


class _KindInterpreter:
    """Follows the kinds of all values through the programs for several n."""

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
        """The kinds of the results of one operation; an error says which operation it is."""
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
                raise Declined("its shape is not one for each example")
        except Declined as why:
            name, line = operations[0].name, operations[0].line
            raise Declined(f"aten.{name}: {why}{', ' + line if line else ''}") from None
        return [Sized(kind, shape) for shape in (shapes if several else shapes[:1])]

    def _refuse_other_arguments(self, operations: tuple[Operation, ...]) -> None:
        """Declined if the operation reads other values, or other numbers, for another number of examples.

        Numbers may change where a rule takes account of it: in arithmetic, and as sizes.
        """
        name = operations[0].name
        every = [leaves_of(operation.args, operation.kwargs) for operation in operations]
        if len({len(leaves) for leaves in every}) != 1:
            raise Declined("its arguments change with the number of examples")
        for leaves in zip(*every, strict=True):
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
                raise Declined("what it reads changes with the number of examples")

    def _takes_all(self, operations: tuple[Operation, ...], ends: tuple[Any, ...]) -> bool:
        """Does a slice end where the examples end, at every n?"""
        args = operations[0].args
        if len(args) < 4 or not isinstance(args[0], Ref):
            return False
        of = self._of(args[0])
        if not isinstance(of.kind, ExampleRows) or args[1] not in (of.kind.axis, of.kind.axis - of.rank):
            return False
        sizes = tuple(shape[of.kind.axis] for shape in of.shapes)
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
        """The product with a matrix that is not a tensor: linear, and the same for every n if the matrix is."""
        matrices = [operation.args[1] for operation in step.operations]
        kind = self._of(step.operations[0].args[0]).kind
        if isinstance(kind, ExampleRows) or any(matrix is not matrices[0] for matrix in matrices):
            raise Declined("a product with a sparse matrix that examples enter")
        return kind

    def _of(self, ref: Ref) -> Sized:
        if ref.item >= len(self._kinds[ref.node]):
            raise Declined(f"result {ref.item} of aten.{self._programs[0].operations[ref.node].name} has no rule")
        return self._kinds[ref.node][ref.item]

    def _of_data(self, ref: Ref) -> Tensor:
        """The numbers of a value of the data alone, for all examples: the last program is that for the most."""
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
