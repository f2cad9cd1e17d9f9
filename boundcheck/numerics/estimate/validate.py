"""Before anything is measured: is the problem a function, finite where it starts, with the derivatives it says?"""

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
    """Refuses a problem whose functions are not finite at w_0, or give two answers to one question.

    Derivatives by autograd are compared with finite differences; with `w_star`, w(λ), also ∂₂Φ. In between the
    functions are asked again what they were asked first, as a mini-batch may change every few calls.

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
        if a function is stochastic, or if numbers are so large or small that their products leave float64.
    UserCodeError
        if a function is not finite, or if a derivative is clearly not that of its function.
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
        ask_again()  # then that is the reason
        raise
    _ANSWERS[problem] = answers
    if w_star is None and torch.equal(lam, problem.lam):
        _CONFIRMED[problem] = confirmation
    return confirmation


@torch.no_grad()
def unchanged(problem: Problem) -> None:
    """Refuses a problem whose functions say something else than in `check`; to be called during the work and after it.

    Raises
    ------
    InputError
        if a function is stochastic.
    """
    if problem in _ANSWERS:
        _ANSWERS[problem].refuse_if_changed(problem)


def derivatives(problem: Problem) -> Confirmation:
    """What `check` has just found of the derivatives; used once, as the functions may change before the next call."""
    confirmation = _CONFIRMED.pop(problem, None)
    return derivative_check.confirm(problem, problem.lam) if confirmation is None else confirmation


@lru_cache(maxsize=8)
def at_reference(problem: Problem, solution: ReferenceSolution) -> Confirmation:
    """Whether ∂₂Φ is that of the function at a reference of one λ, which is that of the problem; asked once of each.

    Raises
    ------
    InputError
        if numbers there are so large or small that their products leave float64.
    """
    number_range.refuse_solution(problem, solution.w[0], solution.v[0])
    return derivative_check.at_solution(problem, problem.lam, solution.w[0])


def _finite(problem: Problem, what: str, value: Tensor) -> None:
    if not bool(torch.isfinite(value).all()):
        size = float(problem.w0.norm())
        raise UserCodeError(
            f"{problem.name}: {what} is not finite at w_0 (‖w_0‖ = {size:.3g}); check the data and the start"
        )
