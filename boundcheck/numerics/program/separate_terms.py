"""Prove that λ and the data enter a program in separate terms, f(w, data) + g(w, λ)."""

from __future__ import annotations

from enum import Flag

from boundcheck.numerics.program.recorded_program import Operation, Program

DATA = 2  # index of the first data input, after w and λ


class Enters(Flag):
    """The inputs that enter a value. APART: λ and data enter in separate terms. MIXED: they may enter in any way."""

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
    """Return True if the operations prove that the value is f(w, data) + g(w, λ).

    Then the mixed derivative by w and λ does not depend on the data. For a map, the derivative by λ does not either.

    Parameters
    ----------
    program : Program
        A program whose inputs are w, λ and data.

    Returns
    -------
    bool
        False also if it is not known.
    """
    enters: list[Enters] = []
    for node, operation in enumerate(program.operations):
        if operation.name == "input":
            enters.append((Enters.NOTHING, Enters.LAM)[node] if node < DATA else Enters.DATA)
        else:
            enters.append(_result(operation, [enters[ref.node] for ref in operation.refs()]))
    return enters[program.output.node] is not Enters.MIXED


def _result(operation: Operation, inputs: list[Enters]) -> Enters:
    """Return what enters the result. Sums keep terms apart, and so do factors without λ and data."""
    together = Enters.NOTHING
    for one in inputs:
        together |= one
    if together in (Enters.NOTHING, Enters.LAM, Enters.DATA) or together is Enters.MIXED:
        return together
    if operation.name in SUMS:
        return together
    varying = [one for one in inputs if one is not Enters.NOTHING]
    if operation.name in PRODUCTS and len(varying) == 1:
        return together
    if operation.name == "div" and len(varying) == 1 and varying[0] is inputs[0] and _is_linear_quotient(operation):
        return together
    return Enters.MIXED


def _is_linear_quotient(operation: Operation) -> bool:
    """Return True if only the numerator is a computed value, and the quotient is not rounded to integers."""
    numbers_only = len(list(operation.refs())) == 1
    return numbers_only and not isinstance(operation.args[0], float | int) and not operation.kwargs.get("rounding_mode")
