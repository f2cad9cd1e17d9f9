"""A run that asks the functions of a problem the same question before and after, and refuses two answers.

An estimate compares one value with another. Where a function draws random numbers, it says nothing.
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
    """How many evaluations of Φ the question takes; built-in problems are not asked."""
    return 0 if problem.w_layout is None else ASKED


@contextmanager
def same_answers(problem: Problem) -> Iterator[None]:
    """Ask for Φ and E beside w_0 before and after a run; InputError if they differ, however the run ended."""
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
