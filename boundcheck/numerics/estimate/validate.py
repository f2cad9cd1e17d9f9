"""Tests of a problem before measurements: functions are deterministic and finite at w_0, derivatives are correct."""

from __future__ import annotations

from functools import lru_cache, partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from boundcheck.errors import UserCodeError
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.derivative_check import Confirmation
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.same_answer import Answers
from boundcheck.numerics.estimate import number_range
from boundcheck.numerics.solvers.reference import ReferenceSolution

_ANSWERS: WeakKeyDictionary[Problem, Answers] = WeakKeyDictionary()  # by the last `check` of each problem
_CONFIRMED: WeakKeyDictionary[Problem, Confirmation] = WeakKeyDictionary()  # by the last `check` of each problem


@torch.no_grad()
def check(problem: Problem, lam: Tensor, w_star: Tensor | None = None) -> Confirmation:
    """Refuse a problem whose functions are not finite at w_0, not deterministic, or have wrong derivatives.

    Derivatives by autograd are compared with finite differences; ∂₂Φ only if w(λ) is given. In between, the first
    evaluations are repeated, because a minibatch may change every few calls.

    Parameters
    ----------
    problem : Problem
        The problem.
    lam : Tensor
        The λ at which it is tested.
    w_star : Tensor, optional
        w(λ), if it is known.

    Returns
    -------
    Confirmation
        The derivatives that finite differences could not confirm.

    Raises
    ------
    InputError
        If a function is stochastic, or if numbers are so large or small that their products overflow or underflow.
    UserCodeError
        If a function is not finite, or if a derivative is clearly wrong.
    """
    ready = Prepared(problem, lam).ready
    answers = Answers.of(problem, lam, ready)
    for what, (at_start, _) in (("Φ", answers.phi), ("E", answers.outer)):
        _finite(problem, what, at_start)
    number_range.refuse_start(problem, lam, answers.phi[0])
    ask_again = partial(answers.refuse_if_changed, problem)
    ask_again()
    try:
        confirmation = derivative_check.confirm(problem, lam, w_star, ask_again)
    except UserCodeError:
        ask_again()  # if a function has changed, that is the reason
        raise
    _ANSWERS[problem] = answers
    if w_star is None and torch.equal(lam, problem.lam):
        _CONFIRMED[problem] = confirmation
    return confirmation


@torch.no_grad()
def unchanged(problem: Problem) -> None:
    """Refuse a problem whose functions return other values than in `check`. Call this during and after the work.

    Raises
    ------
    InputError
        If a function is stochastic.
    """
    if problem in _ANSWERS:
        _ANSWERS[problem].refuse_if_changed(problem)


def derivatives(problem: Problem) -> Confirmation:
    """Return the confirmation of the last `check`, or a new one. It is used once, because the functions may change."""
    confirmation = _CONFIRMED.pop(problem, None)
    return derivative_check.confirm(problem, problem.lam) if confirmation is None else confirmation


@lru_cache(maxsize=8)
def at_reference(problem: Problem, solution: ReferenceSolution) -> Confirmation:
    """Compare ∂₂Φ with finite differences at a reference for the λ of the problem. The result is cached.

    Raises
    ------
    InputError
        If numbers at the reference are so large or small that their products overflow or underflow.
    """
    number_range.refuse_solution(problem, solution.w[0], solution.v[0])
    return derivative_check.at_solution(problem, problem.lam, solution.w[0])


def _finite(problem: Problem, what: str, value: Tensor) -> None:
    if not bool(torch.isfinite(value).all()):
        size = float(problem.w0.norm())
        raise UserCodeError(
            f"{problem.name}: {what} is not finite at w_0 (‖w_0‖ = {size:.3g}); check the data and the start"
        )
