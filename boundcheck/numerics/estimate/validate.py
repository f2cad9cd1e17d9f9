"""Before anything is measured: is the problem a function, finite where it starts, with the derivatives it says?"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from boundcheck.errors import InputError, UserCodeError
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.derivative_check import Confirmation
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.reference import ReferenceSolution

BESIDE = 1e-3  # relative
_CONFIRMED: WeakKeyDictionary[Problem, Confirmation] = WeakKeyDictionary()  # by the last `check` of each problem


@torch.no_grad()
def check(problem: Problem, lam: Tensor, w_star: Tensor | None = None) -> Confirmation:
    """Refuses a problem whose functions are not finite at w_0, or give two answers to one question.

    Asked at w_0 and beside it, since noise that is multiplied with w does not show at 0. Derivatives by autograd are
    then compared with finite differences; with `w_star`, w(λ), also ∂₂Φ.

    Parameters
    ----------
    problem, lam
        what is checked, and at which λ.
    w_star
        w(λ), if it is known already.

    Returns
    -------
    Confirmation
        the derivatives that finite differences could not confirm.

    Raises
    ------
    InputError
        if a function is stochastic.
    UserCodeError
        if a function is not finite, or if a derivative is clearly not that of its function.
    """
    ready, again = (Prepared(problem, lam).ready for _ in range(2))  # `prepare` itself may be random
    beside = problem.w0 + BESIDE * (1 + problem.w0.abs())
    for what, function in (("Φ", problem.phi_at), ("E", problem.outer_at)):
        _finite(problem, what, function, problem.w0, ready)
        for w in (problem.w0, beside):
            first, second = function(w, ready), function(w, again)
            if torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
                continue
            apart = float((first - second).norm())
            raise InputError(
                f"{problem.name}: two calls of {what} at one w and lam differ by {apart:.2e}, so it is stochastic; "
                "fix its random numbers (a seeded generator made anew in each call, or data drawn beforehand)"
            )
    found = derivative_check.confirm(problem, lam, w_star)
    if w_star is None and torch.equal(lam, problem.lam):
        _CONFIRMED[problem] = found
    return found


def derivatives(problem: Problem) -> Confirmation:
    """What `check` has just found of the derivatives; used once, as the functions may change before the next call."""
    found = _CONFIRMED.pop(problem, None)
    return derivative_check.confirm(problem, problem.lam) if found is None else found


@lru_cache(maxsize=8)
def at_reference(problem: Problem, solution: ReferenceSolution) -> Confirmation:
    """Whether ∂₂Φ is that of the function at a reference of one λ, which is that of the problem; asked once of each."""
    return derivative_check.at_solution(problem, problem.lam, solution.w[0])


def _finite(
    problem: Problem, what: str, function: Callable[[Tensor, object], Tensor], w: Tensor, ready: object
) -> None:
    value = function(w, ready)
    if not bool(torch.isfinite(value).all()):
        raise UserCodeError(
            f"{problem.name}: {what} is not finite at w_0 (‖w_0‖ = {float(w.norm()):.3g}); check the data and the start"
        )
