"""Comparison of autograd's derivatives ∂₁Φ, ∂₂Φ, ∇₁E and ∇₂E with the functions at random points.

A stop-gradient (`detach()`, `no_grad()`, `.data`, a wrong backward) makes autograd's derivative wrong, and then every
result belongs to another problem. The fixed step α(λ) of Φ = w − α(λ)∇₁ℓ is a legal stop-gradient: ∂₂Φ is right only at
w(λ), where ∇₁ℓ = 0. So ∂₂Φ is compared at w(λ) only, and the derivative of ∇₁ℓ by λ at other points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from boundcheck.errors import InputError, UserCodeError
from boundcheck.numerics.bilevel import same_in_batches, symmetry
from boundcheck.numerics.bilevel.derivative_lines import APART_W, LineSource, derivative_by_w, phi_by_w
from boundcheck.numerics.bilevel.derivatives import Linearisation, gradient, linearise
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program import operation_tangents
from boundcheck.numerics.program.finite_differences import Line, LineAgreement, compare

LINES = 8  # the most lines for each derivative
HOPELESS = 4  # stop after this many lines without a decision
LARGE = 100_000  # with more entries of w and λ, use two lines only
ARRIVAL = 100  # the most steps of Φ towards a fixed point
ARRIVED = 1e3  # stop these steps if w is this many times closer than necessary
NEWTON = 10  # the most Newton steps after them
SMALL = 100  # the most entries of w for Newton's method
# For each problem that was accepted: derivatives that differ a little from the derivatives of the operations.
_ARRIVED: WeakKeyDictionary[Problem, tuple[str, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Confirmation:
    """The derivatives that finite differences could not confirm, each with the reason. None was refuted."""

    unconfirmed: tuple[str, ...] = ()
    by_operations: tuple[str, ...] = ()  # the unconfirmed ones that differ a little from the operations' derivatives


@dataclass(frozen=True, eq=False)
class _Question:
    """A derivative to compare: its name, the user's function, the argument, and lines along which it is compared."""

    derivative: str
    function: str
    argument: str
    lines: Iterator[Line]


@torch.no_grad()
def confirm(
    problem: Problem, lam: Tensor, w_star: Tensor | None = None, between: Callable[[], None] | None = None
) -> Confirmation:
    """Compare autograd's derivatives with finite differences at random points.

    Parameters
    ----------
    problem : Problem
        The problem with Φ, E and, if there is a loss, ℓ.
    lam : Tensor
        A λ in the domain.
    w_star : Tensor, optional
        w(λ), if it is known. ∂₂Φ is compared only if it is given.
    between : callable () -> None, optional
        Called before each derivative.

    Returns
    -------
    Confirmation
        The derivatives that finite differences could not confirm, with the reasons.

    Raises
    ------
    UserCodeError
        If a derivative is clearly wrong.
    """
    source = LineSource.of(problem, lam, w_star)
    questions = _of_both(source)
    if problem.inner_at is not None:
        slope = gradient(problem.inner_at)
        function = "the gradient of inner_loss"
        questions += [
            _Question(
                "∇₁ℓ", "inner_loss", "params", source.by_w(derivative_by_w(source, problem.inner_at), problem.inner_at)
            ),
            _Question("∇₁²ℓ", function, "params", source.by_w(derivative_by_w(source, slope), slope, unit=1)),
            _Question("∇₂₁ℓ", function, "hparams", source.by_lam(slope, unit=1)),
        ]
    at_w_star = () if w_star is None else _at_solution(LineSource.of(problem, lam, w_star), w_star, []).unconfirmed
    from_arrival = _ARRIVED.get(problem) if torch.equal(lam, problem.lam) else None
    new = (w_star is None and from_arrival is None) or problem.d + problem.n > LARGE
    return _answers(problem, questions, at_w_star + (from_arrival or ()), through=new, between=between)


@torch.no_grad()
def at_solution(problem: Problem, lam: Tensor, w_star: Tensor) -> Confirmation:
    """Compare ∂₂Φ at w(λ), and ∂₁Φ, ∇₁E and ∇₂E around w(λ), where they may be wrong even if they are right at w_0."""
    source = LineSource.of(problem, lam, w_star)
    return _at_solution(source, w_star, _of_both(source))


def _of_both(source: LineSource) -> list[_Question]:
    """Return the comparisons for ∂₁Φ, ∇₁E and ∇₂E at the points of the source."""
    problem = source.problem
    return [
        _Question("∂₁Φ", _map_of(problem), "params", source.by_w(phi_by_w(source), problem.phi_at, unit=-1)),
        _Question(
            "∇₁E", "outer_loss", "params", source.by_w(derivative_by_w(source, problem.outer_at), problem.outer_at)
        ),
        _Question("∇₂E", "outer_loss", "hparams", source.by_lam(problem.outer_at)),
    ]


def _map_of(problem: Problem) -> str:
    return "fp_map" if problem.inner_at is None else "the gradient step on inner_loss"


def _at_solution(source: LineSource, w_star: Tensor, others: list[_Question]) -> Confirmation:
    problem = source.problem
    residual = float((problem.phi_at(w_star, source.prepared.ready) - w_star).norm())
    if not _is_close(problem, w_star, residual):
        return Confirmation((f"∂₂Φ: w(λ) is not known well enough (‖Φ(w) − w‖ = {residual:.1e})",))
    return _answers(problem, [_Question("∂₂Φ", _map_of(problem), "hparams", source.by_lam_at(w_star)), *others])


@torch.no_grad()
def on_arrival(problem: Problem) -> None:
    """Refuse a new problem with wrong derivatives. Undecided derivatives are compared again later.

    ∂₂Φ is compared at a fixed point, if steps of Φ from w_0 or Newton's method after them come close to one.

    Raises
    ------
    InputError
        If ∂₁Φ is declared symmetric and is not.
    UserCodeError
        If a derivative is clearly wrong.
    """
    if problem.symmetric and problem.inner_at is None and problem.d > 1:
        _refuse_unless_symmetric(problem)
    same_in_batches.refuse_unless_same(problem, problem.w0)
    if problem.d + problem.n > LARGE:
        return
    _ARRIVED[problem] = confirm(problem, problem.lam).by_operations
    w = _near_solution(problem)
    if w is not None:
        at_solution(problem, problem.lam, w)


def carry_over(problem: Problem, other: Problem) -> None:
    """Store the result of `on_arrival` for a copy of the problem with the same functions."""
    if problem in _ARRIVED:
        _ARRIVED[other] = _ARRIVED[problem]


def is_close(problem: Problem, lam: Tensor, w: Tensor) -> bool:
    """Return whether w is so close to w(λ) that ∂₂Φ with a fixed step equals the derivative of the function."""
    with torch.no_grad():
        residual = float((problem.phi_at(w, problem.prepare(lam)) - w).norm())
    return _is_close(problem, w, residual)


def _is_close(problem: Problem, w: Tensor, residual: float) -> bool:
    """Return whether ‖w − Φ(w)‖ = residual is so small that ∂₂Φ with a fixed step is the derivative of the function."""
    size = max(float(w.norm()), float((w - problem.w0).norm()))
    return residual <= math.sqrt(torch.finfo(w.dtype).eps) * size


def _near_solution(problem: Problem) -> Tensor | None:
    """Return a point close to w(λ), by steps of Φ from w_0 and then Newton's method for small d; None if not close."""
    ready, w = problem.prepare(problem.lam), problem.w0
    for _ in range(ARRIVAL):
        before, w = w, problem.phi_at(w, ready)
        if _is_close(problem, before, ARRIVED * float((before - w).norm())):
            break
    for _ in range(NEWTON):
        excess = w - problem.phi_at(w, ready)
        residual = float(excess.norm())
        if _is_close(problem, w, residual):
            return w
        if problem.d > SMALL or not math.isfinite(residual):
            break
        linearised, eye = Linearisation(problem.phi_at, w, ready), torch.eye(problem.d, dtype=w.dtype, device=w.device)
        step, info = torch.linalg.solve_ex(eye - torch.stack([linearised.d1_T(e) for e in eye]), excess)
        if int(info):
            break
        w = w - step
    return None


def _refuse_unless_symmetric(problem: Problem) -> None:
    """Test ∂₁Φ at the start, after a step, and at a random point near both."""
    source = LineSource.of(problem, problem.lam, None)
    for w in (*source.bases, source.bases[0] + APART_W * source.near * source.draw(problem.w0)):
        trial = symmetry.trial(linearise(problem, w, source.prepared))
        if not trial.is_symmetric:
            raise InputError(
                f"{problem.name}: symmetric=True, and ∂₁Φ is not symmetric (uᵀ∂₁Φv − vᵀ∂₁Φu = {float(trial.gap):.2e} "
                "for random u, v); leave symmetric out"
            )


def _answers(
    problem: Problem, questions: list[_Question], unconfirmed: tuple[str, ...] = (), *, through: bool = True,
    between: Callable[[], None] | None = None,
) -> Confirmation:  # fmt: skip
    enough = 2 if problem.d + problem.n > LARGE else 3
    by_operations: tuple[str, ...] = ()
    for question in questions:
        if between is not None:
            between()
        agree, reasons = 0, []
        refuted: list[LineAgreement] = []
        hidden, undecided = "", False
        for number, line in zip(range(LINES), question.lines, strict=False):
            outcome = compare(line)
            if through and outcome.verdict != "refutes" and (number == 0 or refuted or hidden or undecided):
                by_operation = operation_tangents.compare(line)
                hidden, undecided = hidden or by_operation.reason, by_operation.verdict == "open"
                outcome = by_operation if by_operation.verdict == "refutes" else outcome
            agree += outcome.verdict == "agrees"
            if outcome.verdict == "refutes":
                refuted.append(outcome)
            elif outcome.verdict == "open":
                reasons.append(outcome.reason)
            if len(refuted) > 1:
                raise UserCodeError(
                    f"{problem.name}: autograd's derivative of {question.function} by {question.argument} along a "
                    f"direction is {refuted[0].autograd:.6g}, and {refuted[0].by} {refuted[0].difference:.6g}; "
                    "does it use detach(), no_grad(), .data, .item(), an autograd.Function with a wrong backward, "
                    "or lower precision?"
                )
            if not (refuted or hidden or undecided) and (agree == enough or (not agree and len(reasons) == HOPELESS)):
                break
        if refuted:
            reasons.append("at one point of several, it is contradicted")
        if hidden:
            reasons.append(hidden)
            by_operations += (f"{question.derivative}: {hidden}",)
        if agree < 2 or refuted or hidden:
            unconfirmed += (f"{question.derivative}: {reasons[-1]}",)
    return Confirmation(unconfirmed, by_operations)
