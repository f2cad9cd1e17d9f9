"""Evaluate a recorded program with arb balls: its value, its gradient, and products with its second derivatives.

The balls enclose the results of exact real arithmetic on the stored numbers, as in `estimate/rounding_proof.py`. They
are narrower by 20 digits, and assume nothing about PyTorch's functions. An operation without a rule is declined by
name.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from boundcheck.numerics.program.arb_arrays import Jet, Node, Tape
from boundcheck.numerics.program.arb_numbers import balls, filled
from boundcheck.numerics.program.arb_rules import ArbRules
from boundcheck.numerics.program.recorded_program import Declined, Program, Ref

MOST = 1_000_000  # largest number of numbers to compute, which takes about half a second


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of ⟨seed, f⟩ by w and by λ, with tangents along a direction of w; None for a zero derivative."""

    output: Jet
    by_w: Jet | None
    by_lam: Jet | None


def gradient(program: Program, w: Tensor, lam: Tensor, *, seed: Tensor | None, along: Tensor | None) -> Gradient:
    """Evaluate a program and its derivatives at w and λ as they are stored.

    Parameters
    ----------
    program : Program
        A program recorded with all operations, including operations on data alone.
    w, lam : Tensor
        The point.
    seed : Tensor or None
        A tensor of the shape of the output; None for a scalar output.
    along : Tensor or None
        A direction of w along which the gradient is differentiated.

    Returns
    -------
    Gradient
        The value and the derivatives, as balls.

    Raises
    ------
    Declined
        If an operation has no rule, or there are too many numbers.
    """
    count = work(program)
    if count > MOST:
        raise Declined(f"{count} numbers are too many for balls (at most {MOST})")
    tape = Tape()
    tangent = None if along is None else balls(along)
    inputs = [Node(Jet(balls(w), tangent), depends=True), Node(Jet(balls(lam)), depends=True)]
    rules = ArbRules(tape, {torch.float64, w.dtype})
    results: list[list[Node]] = [[inputs[0]], [inputs[1]]]
    for operation in program.operations[2:]:
        args, kwargs = tree_map(
            lambda x: results[x.node][x.item] if isinstance(x, Ref) else x,
            (operation.args, operation.kwargs),
            is_leaf=lambda x: isinstance(x, Ref),
        )
        results.append(rules.run(operation, args, kwargs))
    output = results[program.output.node][program.output.item]
    start = Jet(filled(output.jet.value, 1.0) if seed is None else balls(seed).reshape(output.shape))
    by_w, by_lam = tape.gradients(output, start, inputs)
    return Gradient(output.jet, by_w, by_lam)


def work(program: Program) -> int:
    """Estimate how many numbers a program computes. An entry of a matrix product counts as the length of its sum."""
    count = 0
    for operation in program.operations:
        size = sum(shape.numel() for shape in operation.shapes)
        if operation.name in PRODUCTS:
            first = operation.args[0]
            factor = program.operations[first.node].shapes[first.item] if isinstance(first, Ref) else first.shape
            size *= factor[-1] if len(factor) else 1
        count += size
    return count


PRODUCTS = frozenset(("mm", "mv", "dot", "vdot", "bmm", "matmul"))
