"""Check the derivatives of autograd, ∂₁Φ, ∂₂Φ, ∇₁E and ∇₂E, against the functions at random points.

A stop-gradient (`detach()`, `no_grad()`, `.data`, a wrong backward) makes autograd's derivative another one, and every
result that of another problem. A legal one is the frozen step α(λ) of Φ = w − α(λ)∇₁ℓ: ∂₂Φ is right at w(λ), where
∇₁ℓ = 0, and nowhere else; so ∂₂Φ is asked for at w(λ) only, and elsewhere the derivative of ∇₁ℓ by λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from boundcheck.errors import InputError, UserCodeError
from boundcheck.numerics.bilevel import symmetry
from boundcheck.numerics.bilevel.derivatives import Function, Linearisation, gradient, linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program import operation_tangents
from boundcheck.numerics.program.finite_differences import Comparison, Line, compare

LINES = 8  # at most, for each derivative
HOPELESS = 4  # stop after this many lines that decide nothing
LARGE = 100_000  # with more entries of w and λ, use two lines only
APART_W = 0.5  # how far from the iterates points lie, relative
APART_LAM = 0.05
ARRIVAL = 100  # steps of Φ on the way to a fixed point
NEWTON = 10  # steps of Newton's method after them
SMALL = 100  # entries of w up to which it is tried
ALIKE = 10  # two scales are one up to this factor
_ARRIVED: WeakKeyDictionary[Problem, tuple[str, ...]] = WeakKeyDictionary()  # with what their operations said then


@dataclass(frozen=True)
class Confirmation:
    """Which derivatives finite differences could not confirm, each with the reason; none was refuted."""

    unconfirmed: tuple[str, ...] = ()
    by_operations: tuple[str, ...] = ()  # those of them that differ a little from those of the operations


@dataclass(frozen=True, eq=False)
class _Question:
    """One derivative: what it is called, of which function of the user, by which argument."""

    says: str
    function: str
    argument: str
    lines: Iterator[Line]


@torch.no_grad()
def confirm(problem: Problem, lam: Tensor, w_star: Tensor | None = None) -> Confirmation:
    """Compares autograd's derivatives with finite differences at random points.

    Parameters
    ----------
    problem
        whose Φ, E and, where there is one, ℓ.
    lam
        a λ inside the domain.
    w_star
        w(λ), if it is known; ∂₂Φ is compared only then.

    Returns
    -------
    Confirmation
        the derivatives that finite differences could not confirm, with the reason.

    Raises
    ------
    UserCodeError
        if a derivative is clearly another one than that of the function.
    """
    start = _Start.of(problem, lam, w_star)
    what = "fp_map" if problem.inner_at is None else "the gradient step on inner_loss"
    asked = [
        _Question("∂₁Φ", what, "params", start.by_w(_phi_by_w(start), problem.phi_at, unit=-1)),
        _Question("∇₁E", "outer_loss", "params", start.by_w(_by_w(start, problem.outer_at), problem.outer_at)),
        _Question("∇₂E", "outer_loss", "hparams", start.by_lam(problem.outer_at)),
    ]
    if problem.inner_at is not None:
        slope = gradient(problem.inner_at)
        what = "the gradient of inner_loss"
        asked += [
            _Question("∇₁ℓ", "inner_loss", "params", start.by_w(_by_w(start, problem.inner_at), problem.inner_at)),
            _Question("∇₁²ℓ", what, "params", start.by_w(_by_w(start, slope), slope, unit=1)),
            _Question("∇₂₁ℓ", what, "hparams", start.by_lam(slope, unit=1)),
        ]
    solved = at_solution(problem, lam, w_star).unconfirmed if w_star is not None else ()
    known = _ARRIVED.get(problem) if torch.equal(lam, problem.lam) else None
    new = (w_star is None and known is None) or problem.d + problem.n > LARGE
    return _answers(problem, asked, solved + (known or ()), through=new)


@torch.no_grad()
def at_solution(problem: Problem, lam: Tensor, w_star: Tensor) -> Confirmation:
    """The same for ∂₂Φ alone, at w(λ)."""
    start = _Start.of(problem, lam, w_star)
    residual = float((problem.phi_at(w_star, start.prepared.ready) - w_star).norm())
    if not _is_close(problem, w_star, residual):
        return Confirmation((f"∂₂Φ: w(λ) is not known well enough (‖Φ(w) − w‖ = {residual:.1e})",))
    what = "fp_map" if problem.inner_at is None else "the gradient step on inner_loss"
    return _answers(problem, [_Question("∂₂Φ", what, "hparams", start.by_lam_at(w_star))])


@torch.no_grad()
def on_arrival(problem: Problem) -> None:
    """Refuse a new problem whose derivatives are not those of its functions; what cannot be told is left for later.

    ∂₂Φ is compared at a fixed point, if steps of Φ from w_0, or Newton's method after them, come close to one.

    Raises
    ------
    InputError
        if ∂₁Φ is declared symmetric, and is not.
    UserCodeError
        if a derivative is clearly another one than that of the function.
    """
    if problem.symmetric and problem.inner_at is None and problem.d > 1:
        _refuse_unless_symmetric(problem)
    if problem.d + problem.n > LARGE:
        return
    _ARRIVED[problem] = confirm(problem, problem.lam).by_operations
    w = _near_solution(problem)
    if w is not None:
        at_solution(problem, problem.lam, w)


def is_close(problem: Problem, lam: Tensor, w: Tensor) -> bool:
    """Is w close enough to w(λ) for ∂₂Φ of a frozen step to be that of the function?"""
    with torch.no_grad():
        residual = float((problem.phi_at(w, problem.prepare(lam)) - w).norm())
    return _is_close(problem, w, residual)


def _is_close(problem: Problem, w: Tensor, residual: float) -> bool:
    """Is w, with this ‖w − Φ(w)‖, close enough to w(λ) for ∂₂Φ to be that of the function?"""
    size = max(float(w.norm()), float((w - problem.w0).norm()))
    return residual <= math.sqrt(torch.finfo(w.dtype).eps) * size


def _near_solution(problem: Problem) -> Tensor | None:
    """Where some steps of Φ from w_0 lead, and from there Newton's method in few dimensions; None if not close."""
    ready, w = problem.prepare(problem.lam), problem.w0
    for _ in range(ARRIVAL):
        before, w = w, problem.phi_at(w, ready)
        if torch.equal(before, w):
            break
    for _ in range(NEWTON):
        excess = w - problem.phi_at(w, ready)
        left = float(excess.norm())
        if _is_close(problem, w, left):
            return w
        if problem.d > SMALL or not math.isfinite(left):
            break
        at, eye = Linearisation(problem.phi_at, w, ready), torch.eye(problem.d, dtype=w.dtype, device=w.device)
        step, info = torch.linalg.solve_ex(eye - torch.stack([at.d1_T(e) for e in eye]), excess)
        if int(info):
            break
        w = w - step
    return None


def _refuse_unless_symmetric(problem: Problem) -> None:
    """At the start, after a step, and beside it."""
    start = _Start.of(problem, problem.lam, None)
    for w in (*start.bases, start.bases[0] + APART_W * start.near * start.draw(problem.w0)):
        tried = symmetry.trial(linearise(problem, w, start.prepared))
        if not tried.is_symmetric:
            raise InputError(
                f"{problem.name}: symmetric=True, and ∂₁Φ is not symmetric (uᵀ∂₁Φv − vᵀ∂₁Φu = {float(tried.gap):.2e} "
                "for random u, v); leave symmetric out"
            )


def _answers(
    problem: Problem, asked: list[_Question], unconfirmed: tuple[str, ...] = (), *, through: bool = True
) -> Confirmation:
    enough = 2 if problem.d + problem.n > LARGE else 3
    by_operations: tuple[str, ...] = ()
    for question in asked:
        agree, reasons = 0, []
        refuted: list[Comparison] = []
        hidden, undecided = "", False
        for number, line in zip(range(LINES), question.lines, strict=False):
            outcome = compare(line)
            if through and outcome.says != "refutes" and (number == 0 or refuted or hidden or undecided):
                by_operation = operation_tangents.compare(line)
                hidden, undecided = hidden or by_operation.reason, by_operation.says == "open"
                outcome = by_operation if by_operation.says == "refutes" else outcome
            agree += outcome.says == "agrees"
            if outcome.says == "refutes":
                refuted.append(outcome)
            elif outcome.says == "open":
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
            by_operations += (f"{question.says}: {hidden}",)
        if agree < 2 or refuted or hidden:
            unconfirmed += (f"{question.says}: {reasons[-1]}",)
    return Confirmation(unconfirmed, by_operations)


@dataclass(frozen=True, eq=False)
class _Start:
    """Where points are drawn: around the first iterates, at their scale and at that of 1."""

    problem: Problem
    lam: Tensor
    prepared: Prepared
    bases: tuple[Tensor, ...]
    near: Tensor
    generator: torch.Generator

    @classmethod
    def of(cls, problem: Problem, lam: Tensor, w_star: Tensor | None) -> _Start:
        prepared = Prepared(problem, lam)
        w0 = problem.w0
        after = problem.phi_at(w0, prepared.ready) if w_star is None else w_star
        after = torch.where(torch.isfinite(after), after, w0)
        near = _filled(torch.maximum(w0.abs(), (after - w0).abs()))
        return cls(problem, lam, prepared, (after, w0), near, torch.Generator(device="cpu").manual_seed(17))

    def draw(self, like: Tensor, signs: bool = False) -> Tensor:
        """Normal numbers, or signs, the same on every device."""
        numbers = torch.randn(like.numel(), generator=self.generator, dtype=torch.float64)
        return (numbers.sign() if signs else numbers).to(dtype=like.dtype, device=like.device)

    def points(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """A point, the scale of it, and whether iterates are of that scale, for ever."""
        wide = self.near.clamp(min=1.0)
        while True:
            for scale in (self.near, wide):
                for base in self.bases:
                    yield base + APART_W * scale * self.draw(base), scale, bool((scale <= ALIKE * self.near).all())

    def by_w(self, of: Callable[[Tensor, Tensor], Tensor], function: Function, unit: int = 0) -> Iterator[Line]:
        """Lines in w; values of the function are in units of w to the power of −`unit`."""
        for w, scale, natural in self.points():
            c = self.cotangent(function, w, scale, unit)
            floor = 4 * math.sqrt(torch.finfo(w.dtype).eps * w.numel()) if unit == -1 else 0.0
            u = scale * self.draw(w, signs=True)
            yield Line(lambda w: function(w, self.prepared.ready), of, w, u, c, floor, may_refute=natural)

    def by_lam(self, function: Function, unit: int = 0) -> Iterator[Line]:
        """Lines in λ, at points beside λ in its domain."""
        scale = _filled(self.lam.abs())
        for w, w_scale, natural in self.points():
            lam = self.lam + APART_LAM * scale * self.draw(self.lam)
            if self.problem.domain is not None and not bool(self.problem.domain.holds(lam)):
                lam = self.lam
            c = self.cotangent(function, w, w_scale, unit)
            yield replace(self.line_in_lam(function, w, lam, scale, c), may_refute=natural)

    def by_lam_at(self, w: Tensor) -> Iterator[Line]:
        """Lines in λ of Φ, through λ itself at w."""
        scale, w_scale = _filled(self.lam.abs()), _filled(w.abs())
        while True:
            c = self.cotangent(self.problem.phi_at, w, w_scale, -1)
            yield self.line_in_lam(self.problem.phi_at, w, self.lam, scale, c)

    def line_in_lam(self, function: Function, w: Tensor, lam: Tensor, scale: Tensor, c: Tensor) -> Line:
        problem, w = self.problem, w.detach()

        def value(lam: Tensor) -> Tensor:
            if problem.domain is not None and not bool(problem.domain.holds(lam)):
                return lam.new_full((), math.nan)
            return function(w, problem.prepare(lam))

        def derivative(lam: Tensor, c: Tensor) -> Tensor:
            prepared = Prepared(problem, lam)
            linearised = Linearisation(function, w, prepared.ready, prepared.leaves)
            return prepared.pull_back(linearised.d2_T(c.reshape(linearised.y.shape)))

        at_lam = lam is self.lam
        return Line(value, derivative, lam, scale * self.draw(lam, signs=True), c, may_be_kink=at_lam)

    def cotangent(self, function: Function, w: Tensor, scale: Tensor, unit: int) -> Tensor:
        return torch.ones_like(w[:1]) if unit == 0 else scale**unit * self.draw(w, signs=True)


def _phi_by_w(start: _Start) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda w, c: linearise(start.problem, w, start.prepared).d1_T(c)


def _by_w(start: _Start, function: Function) -> Callable[[Tensor, Tensor], Tensor]:
    def derivative(w: Tensor, c: Tensor) -> Tensor:
        linearised = Linearisation(function, w, start.prepared.ready)
        return linearised.d1_T(c.reshape(linearised.y.shape))

    return derivative


def _filled(scale: Tensor) -> Tensor:
    """The scale of every entry; for those that are 0 that of the others, or 1."""
    positive = scale[scale > 0]
    return torch.where(scale > 0, scale, positive.median() if positive.numel() else torch.ones_like(scale[:1]))
