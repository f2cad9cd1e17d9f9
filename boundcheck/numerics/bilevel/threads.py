"""The number of threads for a problem: one for small problems, because waiting for other threads would cost more.

On a busy machine, a small problem may take ten times as long on all threads as on one. The number depends on the size
of the problem and not on a clock, so that the same call always does the same. The caller's setting is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from boundcheck.numerics.bilevel.quiet_batches import quiet_batches

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem

MOST_NUMBERS = 50_000  # the most entries of w and λ of a small problem
MOST_ARITHMETIC = 2_000_000  # the most floating-point operations in the matrix products of one Φ

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def on_few_threads(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a public function so that it runs on one thread if the problem, its first argument, is small.

    A problem that is given by its name is loaded here, because its size is needed before the function runs.
    """

    @wraps(function)
    def on_threads(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        problem = args[0] if args else kwargs.get("problem")
        if not isinstance(problem, str):
            with threads_for(problem):
                return function(*args, **kwargs)
        from boundcheck.numerics.bilevel.problem import require_problem  # here, as in `threads_for`

        loaded, call = require_problem(problem), cast("Callable[..., Result]", function)
        with threads_for(loaded):
            return call(loaded, *args[1:], **kwargs) if args else call(**{**kwargs, "problem": loaded})

    return on_threads


@contextmanager
def threads_for(problem: object) -> Iterator[None]:
    """Use one thread inside this context if the problem is small, and restore the old number afterwards."""
    from boundcheck.numerics.bilevel.problem import Problem  # here, because `problem` imports this module

    with _one_thread_if(lambda: isinstance(problem, Problem) and is_small(problem)):
        yield


@contextmanager
def threads_for_function(
    function: Callable[[Tensor, Any], Tensor], w: Tensor, lam: Tensor, ready: Any
) -> Iterator[None]:
    """Use one thread inside this context if a function of (w, ready) is small, before there is a problem."""
    few = w.numel() + lam.numel() <= MOST_NUMBERS
    with _one_thread_if(lambda: few and _arithmetic(lambda w: function(w, ready), w) <= MOST_ARITHMETIC):
        yield


@contextmanager
def _one_thread_if(small: Callable[[], bool]) -> Iterator[None]:
    before = torch.get_num_threads()
    with quiet_batches():
        if before == 1:
            yield
            return
        torch.set_num_threads(1)
        try:
            if not small():
                torch.set_num_threads(before)
            yield
        finally:
            torch.set_num_threads(before)


def is_small(problem: Problem) -> bool:
    """Return whether a problem is so small that one thread is faster than several."""
    return problem.d + problem.n <= MOST_NUMBERS and _of_map(_PhiOfProblem(problem)) <= MOST_ARITHMETIC


@dataclass(frozen=True, eq=False)
class _PhiOfProblem:
    """Φ of a problem, as a key. Problems that differ only in λ have equal keys."""

    problem: Problem

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _PhiOfProblem):
            return False
        return self.problem.phi_at is other.problem.phi_at and self.problem.prepare is other.problem.prepare

    def __hash__(self) -> int:
        return hash((id(self.problem.phi_at), id(self.problem.prepare)))


@lru_cache(maxsize=64)
def _of_map(one_map: _PhiOfProblem) -> int:
    """Return the arithmetic of one Φ."""
    problem = one_map.problem
    try:
        with torch.no_grad():
            ready = problem.prepare(problem.lam)
    except Exception:  # the user's code may raise any error; the next call reports it
        return 0
    return _arithmetic(lambda w: problem.phi_at(w, ready), problem.w0)


def _arithmetic(function: Callable[[Tensor], Tensor], w: Tensor) -> int:
    """Return the arithmetic of the matrix products in one call.

    It is measured with a batch of two rows, because the counter ignores products with vectors.
    """
    try:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            torch.func.vmap(function)(w.expand(2, -1))
    except Exception:  # the user's code may raise any error; the next call reports it
        return 0
    return int(counter.get_total_flops()) // 2
