"""Check before and after a run that the functions of a problem return the same values for the same input.

An estimate compares one value with another. If a function draws random numbers, the comparison is meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from boundcheck.errors import BoundcheckError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.same_answer import Answers, beside

ASKED = 2  # evaluations of Φ


def asked(problem: Problem) -> int:
    """The number of evaluations of Φ for this check; 0 for built-in problems, which are not checked."""
    return 0 if problem.w_layout is None else ASKED


@contextmanager
def same_answers(problem: Problem) -> Iterator[None]:
    """Evaluate Φ and E near w_0 before and after a run; InputError if they differ, also if the run failed."""
    if not asked(problem):
        yield
        return
    with torch.no_grad():
        before = Answers.of(problem, problem.lam, points=(beside(problem.w0),))
    try:
        yield
    except BoundcheckError:
        _again(problem, before)
        raise
    _again(problem, before)


@torch.no_grad()
def _again(problem: Problem, before: Answers) -> None:
    before.refuse_if_changed(problem)
