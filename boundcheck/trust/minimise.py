"""`minimise`: gradient descent on λ with hypergradients as accurate as a step needs, and a certificate at the end."""

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

PART = 0.25  # an error of this fraction of tol is always small enough
PROOFS = 3  # the largest number of certificates; each may show that further descent is needed


class _Ended(Exception):  # noqa: N818 - not an error
    """The callback ends the run."""


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
    """Minimise f(λ) = E(w(λ), λ) until ‖∇f(λ)‖ ≤ tol, and certify the result.

    This is gradient descent with inexact hypergradients g. At first, an estimated relative error of one half is enough.
    It is reduced only if the decrease of f is not significant compared with the errors. You need not know a step size.
    The solutions of both levels are warm starts for the next point. Ctrl-C ends a run with the best point so far.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`; λ starts at `problem.lam`.
    tol : float
        The requested bound on ‖∇f(λ)‖, positive.
    steps : int
        The largest number of outer steps; 500 by default.
    outer_step : float, optional
        The first step size to try; by default a tenth of the length of λ. With "backtracking", the first step size to
        try at every step.
    rule : {"barzilai-borwein", "backtracking"}
        The rule for the next step size: that of Barzilai and Borwein, from the last two points, or twice the last step
        size. In both cases the step size is reduced until f falls.
    coordinates : {"auto", "plain", "log"}
        The coordinates of the descent: λ, or log λ, where the gradient is λ∘∇f(λ). "auto", the default, uses log λ if
        the domain of the problem says that every entry is positive. ‖∇f‖ and `tol` are in these coordinates. Steps that
        leave another domain are shortened.
    prove : bool
        Whether to prove the certificate if the program of the problem allows it; True by default. An estimate is
        faster.
    progress : callable (what, done, of), optional
        A function that is called after every trial.
    callback : callable (trial), optional
        A function that is called with every `Trial`; if it returns True, the run ends.

    Returns
    -------
    Minimum
        The result: `.lam`, `.f`, bounds `.gradient_norm` with their side, `.converged`, `.history` and `.message`.

    Raises
    ------
    InputError
        If an argument cannot be used, or if a function of the user returns different values for the same input.
    UnknownNameError
        If there is no such rule, or there are no such coordinates.
    DivergenceError
        If w(λ) cannot be computed at the start, or has no derivative there.
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
    """The final point of a run, the certificate of ∇f there, and why the run ended."""

    at: OuterValue
    certificate: GradientCertificate
    message: str


def _descend(run: Descent, tol: float, steps: int, prove: bool) -> _End:
    """Descend to tol by the estimate; if the certificate is larger than the estimate, descend further."""
    here, goal, why_not = run.start(), tol, ""
    for _ in range(PROOFS):
        while not why_not:
            if run.size(here) + here.error <= goal:
                if here.shown:
                    break
                here = run.with_shown_error(here)
            elif run.steps == steps:
                here = run.improved(run.best or here)
                why_not = f"{steps} steps were not enough; allow more with steps="
            else:
                try:
                    here = run.step(here)
                except Stuck:
                    why_not = f"no step decreases f any more; {_remedy(run.problem)}"
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
        here = run.more_accurate(here)
    return _ended(here, certified, tol, why_not or "the certificates did not agree with the estimates")


def _remedy(problem: Problem) -> str:
    if problem.dtype is torch.float64:
        return "ask for a larger tol, or start elsewhere if f has a kink or a jump here"
    return "ask for a larger tol, or use float64"


def _ended(at: OuterValue, certified: GradientCertificate, tol: float, why_not: str) -> _End:
    if certified.norm.upper > tol:
        return _End(at, certified, f"not converged: {why_not}")
    evidence = f"an estimate, as {certified.doubt}" if certified.doubt else "proved"
    return _End(at, certified, f"‖∇f‖ ≤ tol, {evidence}")


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
