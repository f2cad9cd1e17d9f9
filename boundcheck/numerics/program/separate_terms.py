"""Do λ and the data enter a program in separate terms, f(w, data) + g(w, λ)?"""

from __future__ import annotations

from enum import Flag

from boundcheck.numerics.program.recorded_program import Operation, Program

DATA = 2  # the first input that is data


class Enters(Flag):
    """What enters a value; APART means in separate terms, and both flags without it means in any way."""

    NOTHING = 0
    LAM = 1
    DATA = 2
    APART = LAM | DATA
    MIXED = 4 | LAM | DATA


SUMS = frozenset((
    "add", "sub", "neg", "sum", "mean", "view", "_unsafe_view", "reshape", "_reshape_alias", "squeeze", "unsqueeze",
    "permute", "t", "transpose", "select", "slice", "cat", "stack", "split", "split_with_sizes", "unbind", "expand",
    "clone", "alias", "contiguous",
))  # fmt: skip
PRODUCTS = frozenset(("mul", "mm", "mv", "dot", "bmm"))


def lam_apart(program: Program) -> bool:
    """Whether the value is f(w, data) + g(w, λ), by its operations.

    Its mixed derivative by w and λ then does not depend on the data, nor does the derivative by λ of a map.

    Parameters
    ----------
    program : Program
        A program whose inputs are w, λ and data.

    Returns
    -------
    bool
        False also where that is not known.
    """
    enters: list[Enters] = []
    for node, operation in enumerate(program.operations):
        if operation.name == "input":
            enters.append((Enters.NOTHING, Enters.LAM)[node] if node < DATA else Enters.DATA)
        else:
            enters.append(_of(operation, [enters[ref.node] for ref in operation.refs()]))
    return enters[program.output.node] is not Enters.MIXED


def _of(operation: Operation, given: list[Enters]) -> Enters:
    """What enters the result: sums keep terms apart, and so do factors that neither λ nor data enter."""
    together = Enters.NOTHING
    for one in given:
        together |= one
    if together in (Enters.NOTHING, Enters.LAM, Enters.DATA) or together is Enters.MIXED:
        return together
    if operation.name in SUMS:
        return together
    varying = [one for one in given if one is not Enters.NOTHING]
    if operation.name in PRODUCTS and len(varying) == 1:
        return together
    if operation.name == "div" and len(varying) == 1 and varying[0] is given[0] and _first_is_read(operation):
        return together
    return Enters.MIXED


def _first_is_read(operation: Operation) -> bool:
    """Is the numerator the value that depends on λ and data, and the result not rounded?"""
    numbers_only = len(list(operation.refs())) == 1
    return numbers_only and not isinstance(operation.args[0], float | int) and not operation.kwargs.get("rounding_mode")
