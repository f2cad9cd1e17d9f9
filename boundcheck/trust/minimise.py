"""`minimise`: gradient descent on λ with hypergradients as exact as a step needs, and a certificate at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck import methods
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.progress import Progress, no_progress
from boundcheck.report.minimum import Minimum, Trial
from boundcheck.trust.coordinates import coordinates_of
from boundcheck.trust.descent import Descent, Stuck
from boundcheck.trust.gradient_certificate import GradientCertificate, certificate, estimate
from boundcheck.trust.outer_value import Corrections, OuterValue
from boundcheck.trust.same_answers import same_answers
from boundcheck.trust.step_rules import RULES

PART = 0.25  # of tol: an error that needs not be smaller
PROOFS = 3  # certificates that may ask for more


class _Ended(Exception):  # noqa: N818 - no error
    """A callback asked for the end."""


@on_few_threads
def minimise(
    problem: Problem | str,
    *,
    tol: float,
    steps: int = 500,
    outer_step: float | None = None,
    rule: str = "barzilai-borwein",
    coordinates: str = "auto",
    prove: bool = True,
    progress: Progress | None = None,
    callback: Callable[[Trial], object] | None = None,
) -> Minimum:
    """Minimise f(λ) = E(w(λ), λ) until ‖∇f(λ)‖ ≤ tol, with a certificate of that.

    Gradient descent with inexact hypergradients g. At first a relative error of one half is enough, by an estimate; it
    is made smaller only where the decrease of f is not significant against the errors. No step size has to be known.
    Solutions of both levels are warm starts of the next point. Ctrl-C ends a run with the best point so far.

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name as `load_problem` takes it; λ starts at `problem.lam`.
    tol : float
        The requested bound on ‖∇f(λ)‖, positive.
    steps : int
        The most outer steps; 500 by default.
    outer_step : float, optional
        The first step size that is tried; by default a tenth of the length of λ. With "backtracking", the one that is
        tried first at every step.
    rule : {"barzilai-borwein", "backtracking"}
        Which step size is tried next: that of Barzilai and Borwein, from the last two points, or twice the last one.
        Whichever is tried, it is made smaller until f falls.
    coordinates : {"auto", "plain", "log"}
        The coordinates of the descent: λ, or log λ, where the gradient is λ∘∇f(λ). "auto", the default, uses log λ if
        the domain of the problem says that every entry is positive. ‖∇f‖ and `tol` are in these coordinates. Steps that
        leave another domain are shortened.
    prove : bool
        Whether to prove the certificate where the program of the problem allows it; True by default. An estimate is
        quicker.
    progress : callable (what, done, of), optional
        Called after every point that is tried.
    callback : callable (trial), optional
        Called with every `Trial`; if it returns True, the run ends.

    Returns
    -------
    Minimum
        `.lam`, `.f`, bounds `.gradient_norm` with their side, `.converged`, `.history` and `.message`.

    Raises
    ------
    InputError
        If an argument cannot be used, or a function of the user gives two answers to one question.
    UnknownNameError
        If there is no such rule, or there are no such coordinates.
    DivergenceError
        If no solution of the lower level is found at the start, or it has no derivative there.
    UserCodeError
        If a function of the user raises.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> y = torch.arange(1, 5, dtype=torch.float64)
    >>> def inner_loss(w, lam):
    ...     return ((w - y) ** 2).sum() / 2 + lam.exp() * (w**2).sum() / 2
    >>> def outer_loss(w, lam):
    ...     return ((w - 0.8 * y) ** 2).sum() / 2
    >>> lam = torch.zeros((), dtype=torch.float64)
    >>> problem = bc.Problem.from_loss(inner_loss, outer_loss, torch.zeros_like(y), lam)
    >>> minimum = bc.minimise(problem, tol=1e-6)
    >>> minimum.converged, minimum.proved
    (True, True)
    >>> round(float(minimum.lam.exp()), 4)  # w = y/(1 + e^λ), so that f = 0 at e^λ = 1/4
    0.25
    """
    problem = require_problem(problem)
    _refuse(tol, outer_step, rule, callback)
    steps = methods.count(steps, "steps")
    moving = coordinates_of(problem, coordinates)
    problem.checked(problem.lam, "lam")

    def tell(trial: Trial) -> None:
        (progress or no_progress)("points tried", len(run.history), steps)
        if callback is not None and callback(trial) is True:
            raise _Ended

    run = Descent(problem, Corrections(), moving, PART * tol, rule, outer_step, tell)
    try:
        with same_answers(problem):
            end = _descend(run, tol, steps, prove)
    except (KeyboardInterrupt, _Ended) as why:
        if run.best is None:
            raise
        who = "the user" if isinstance(why, KeyboardInterrupt) else "the callback"
        end = _End(run.best, estimate(run.best, moving, "the run was stopped"), f"stopped by {who}")
    return Minimum(
        lam=_built(problem.lam_layout, end.at.lam),
        params=_built(problem.w_layout, end.at.w),
        f=end.at.f,
        f_error=end.at.f_error,
        gradient_norm=end.certificate.norm,
        tol=tol,
        converged=bool(end.certificate.norm.upper <= tol),
        coordinates=moving.name,
        history=tuple(run.history),
        products=sum(trial.products for trial in run.history),
        message=end.message,
    )


@dataclass(frozen=True, eq=False)
class _End:
    """Where a run ended, what is known of ∇f there, and why it ended."""

    at: OuterValue
    certificate: GradientCertificate
    message: str


def _descend(run: Descent, tol: float, steps: int, prove: bool) -> _End:
    """Step by step down to tol; where the certificate says more than the estimate did, further down."""
    here, goal, why_not = run.start(), tol, ""
    for _ in range(PROOFS):
        while not why_not:
            if run.size(here) + here.error <= goal:
                if here.shown:
                    break
                here = run.shown(here)
            elif run.steps == steps:
                here = run.again(run.best or here)
                why_not = f"{steps} steps were not enough; allow more with steps="
            else:
                try:
                    here = run.step(here)
                except Stuck:
                    why_not = f"no step takes f down any more; {_remedy(run.problem)}"
        if not prove:
            return _ended(here, estimate(here, run.coordinates, "no proof was asked for"), tol, why_not)
        certified = certificate(run.problem, here, run.coordinates)
        excess = float(certified.norm.upper) - run.size(here)
        if certified.norm.upper <= tol or why_not:
            break
        if excess >= tol / 2:
            why_not = f"the certificate is {excess:.1e} above ‖g‖; ask for a larger tol"
            break
        goal = min(goal, tol - excess) / 2
        here = run.more_exactly(here)
    return _ended(here, certified, tol, why_not or "the certificates did not agree with the estimates")


def _remedy(problem: Problem) -> str:
    if problem.dtype is torch.float64:
        return "ask for a larger tol, or start elsewhere if f has a kink or a jump here"
    return "ask for a larger tol, or use float64"


def _ended(at: OuterValue, certified: GradientCertificate, tol: float, why_not: str) -> _End:
    if certified.norm.upper > tol:
        return _End(at, certified, f"not converged: {why_not}")
    worth = f"an estimate, as {certified.doubt}" if certified.doubt else "proved"
    return _End(at, certified, f"‖∇f‖ ≤ tol, {worth}")


def _refuse(tol: float, outer_step: float | None, rule: str, callback: object) -> None:
    for name, value in (("tol", tol), ("outer_step", outer_step)):
        if value is None and name == "outer_step":
            continue
        if isinstance(value, bool) or not (isinstance(value, int | float) and 0 < value < math.inf):
            raise InputError(f"{name} = {value!r} cannot be used; give a positive number, such as {name}=1e-3")
    if rule not in RULES:
        raise UnknownNameError.among("rule", rule, RULES)
    if callback is not None and not callable(callback):
        raise InputError(f"callback = {callback!r} cannot be called; give a function of a Trial")


def _built(layout: Layout | None, flat: Tensor) -> Any:
    return flat if layout is None else layout.unflatten(flat)
