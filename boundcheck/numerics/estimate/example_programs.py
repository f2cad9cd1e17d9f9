"""The lower level on single examples, as recorded programs that are split into shared terms and own terms.

Terms that all examples share, such as a penalty, add nothing to variances. A term is one summand of the last additions
of a program. It is shared if it has the same operations with the same numbers for every example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.operations import changed
from boundcheck.numerics.program.recorded_program import LAM, Declined, Program, Ref
from boundcheck.numerics.program.replay import differs
from boundcheck.numerics.program.same_program import Snapshot

MOST_EXAMPLES = 1_000  # the most examples that are recorded one by one
COMPARISONS = 3  # number of examples whose program is compared with the function


@dataclass(frozen=True, eq=False)
class ExamplePrograms:
    """The function of every example: the sum of its own terms and of the terms that all examples share.

    Attributes
    ----------
    whole : tuple of Program
        The function of every example.
    own : tuple of tuple of Program
        The own terms of every example.
    common : tuple of Program
        The terms that all examples share.
    is_loss : bool
        True if the functions are losses and Φ_i is a gradient step on them; False if they are the maps Φ_i.
    """

    whole: tuple[Program, ...]
    own: tuple[tuple[Program, ...], ...]
    common: tuple[Program, ...]
    is_loss: bool

    @property
    def lam_apart(self) -> bool:
        """Whether λ enters only the shared terms. Then ∂₂Φ_i − ∂₂Φ = 0 for every example."""
        return not any(depends_on_lam(term) for terms in self.own for term in terms)


def record(problem: Problem, *, has_step: bool) -> ExamplePrograms:
    """Record the lower level of a problem on every single example.

    Parameters
    ----------
    problem : Problem
        A problem with a finite sum.
    has_step : bool
        Whether Φ is a gradient step with a known step size.

    Returns
    -------
    ExamplePrograms

    Raises
    ------
    Declined
        If the function cannot be recorded or there are too many examples.
    """
    finite_sum = problem.finite_sum
    if finite_sum is None:
        raise Declined("the lower level is not a mean over examples")
    if finite_sum.examples > MOST_EXAMPLES:
        raise Declined(f"{finite_sum.examples} examples are more than the {MOST_EXAMPLES} that are recorded one by one")
    is_loss = finite_sum.inner_on is not None and has_step
    on = finite_sum.inner_on if is_loss and finite_sum.inner_on is not None else finite_sum.phi_on

    def of_example(i: int) -> Callable[[Tensor, Tensor], Tensor]:
        index = torch.tensor([i], device=problem.device)
        return lambda w, lam: on(w, problem.prepare(lam), index)

    whole = [capture(of_example(i), problem.w0, problem.lam, EXPANSIONS) for i in range(finite_sum.examples)]
    for i in range(min(COMPARISONS, finite_sum.examples)):
        if why := differs(whole[i], of_example(i), problem.w0, problem.lam):
            raise Declined(f"example {i}: {why}")
    own, common = _split(whole)
    return ExamplePrograms(tuple(whole), own, common, is_loss)


def depends_on_lam(program: Program) -> bool:
    """Return whether a program reads λ."""
    return any(ref == LAM for operation in program.operations for ref in operation.refs()) or program.output == LAM


def _split(whole: list[Program]) -> tuple[tuple[tuple[Program, ...], ...], tuple[Program, ...]]:
    """Return the own terms of each program, and the terms that all programs share."""
    term_lists = [_terms(program) for program in whole]
    if len({len(terms) for terms in term_lists}) != 1:
        return tuple((program,) for program in whole), ()
    first = [Snapshot.of(term) for term in term_lists[0]]
    shared = [all(snapshot.is_of(terms[i]) for terms in term_lists[1:]) for i, snapshot in enumerate(first)]
    own = tuple(tuple(term for term, same in zip(terms, shared, strict=True) if not same) for terms in term_lists)
    return own, tuple(term for term, same in zip(term_lists[0], shared, strict=True) if same)


def _terms(program: Program) -> list[Program]:
    """Split a program into terms whose sum it is."""
    pending, outputs = [program.output], []
    while pending:
        ref = pending.pop()
        operation = program.operations[ref.node]
        parts = operation.args
        is_sum = operation.name == "add" and not operation.kwargs and len(parts) == 2
        if is_sum and all(isinstance(x, Ref) and _shape(program, x) == program.shape for x in parts):
            pending += reversed(parts)
        else:
            outputs.append(ref)
    return [program] if len(outputs) == 1 else [_part(program, ref) for ref in outputs]


def _shape(program: Program, ref: Ref) -> torch.Size:
    return program.operations[ref.node].shapes[ref.item]


def _part(program: Program, output: Ref) -> Program:
    """Return the part of a program that computes one of its values."""
    used = {0, 1, output.node}
    for i in range(output.node, -1, -1):
        if i in used:
            used.update(ref.node for ref in program.operations[i].refs())
    order = sorted(used)
    place = {old: new for new, old in enumerate(order)}

    def moved(x: Any) -> Any:
        return Ref(place[x.node], x.item) if isinstance(x, Ref) else x

    operations = []
    for i in order:
        args, kwargs = changed(moved, program.operations[i].args, program.operations[i].kwargs)
        operations.append(replace(program.operations[i], args=args, kwargs=kwargs))
    return Program(tuple(operations), moved(output), _shape(program, output))
