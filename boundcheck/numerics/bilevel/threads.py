"""How many threads a problem is worth: small ones run on one, where waiting for others costs more than it saves.

On a busy machine a small problem takes ten times as long on all threads as on one. What decides is the size of the
problem, never a clock, so that the same call does the same thing every time. The caller's setting comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch.utils.flop_counter import FlopCounterMode

from boundcheck.numerics.bilevel.problem import Problem

MOST_NUMBERS = 50_000  # in w and λ
MOST_ARITHMETIC = 2_000_000  # in the matrix products of one Φ

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def on_few_threads(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A public function of a problem that runs on one thread if the problem, its first argument, is small."""

    @wraps(function)
    def on_threads(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        problem = args[0] if args else kwargs.get("problem")
        with threads_for(problem):
            return function(*args, **kwargs)

    return on_threads


@contextmanager
def threads_for(problem: object) -> Iterator[None]:
    """One thread inside, if that is a small problem; what was set before comes back, also after an error."""
    before = torch.get_num_threads()
    if before == 1 or not isinstance(problem, Problem):
        yield
        return
    torch.set_num_threads(1)
    try:
        if not is_small(problem):
            torch.set_num_threads(before)
        yield
    finally:
        torch.set_num_threads(before)


def is_small(problem: Problem) -> bool:
    """Is it so small that several threads do not pay?"""
    return problem.d + problem.n <= MOST_NUMBERS and _arithmetic(_Map(problem)) <= MOST_ARITHMETIC


@dataclass(frozen=True, eq=False)
class _Map:
    """Φ of a problem; problems that differ in λ only have the same."""

    problem: Problem

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Map):
            return False
        return self.problem.phi_at is other.problem.phi_at and self.problem.prepare is other.problem.prepare

    def __hash__(self) -> int:
        return hash((id(self.problem.phi_at), id(self.problem.prepare)))


@lru_cache(maxsize=64)
def _arithmetic(of: _Map) -> int:
    """That of the matrix products in one Φ at w_0, of two rows: the counter does not count products with vectors."""
    problem = of.problem
    try:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            ready = problem.prepare(problem.lam)
            torch.func.vmap(lambda w: problem.phi_at(w, ready))(problem.w0.expand(2, -1))
    except Exception:  # the user's code may raise anything; whoever runs it next says so
        return 0
    return int(counter.get_total_flops()) // 2
