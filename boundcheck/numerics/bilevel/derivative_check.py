"""Are the derivatives that everything rests on those of the functions? Asked at random points, of ∂₁Φ, ∂₂Φ, ∇₁E, ∇₂E.

A stop-gradient (`detach()`, `no_grad()`, `.data`, a wrong backward) makes autograd's derivative another one, and every
result that of another problem. A legal one is the frozen step α(λ) of Φ = w − α(λ)∇₁ℓ: ∂₂Φ is right at w(λ), where
∇₁ℓ = 0, and nowhere else; so ∂₂Φ is asked for at w(λ) only, and elsewhere the derivative of ∇₁ℓ by λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boundcheck.errors import UserCodeError
from boundcheck.numerics.bilevel.derivatives import Function, Linearisation, gradient, linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program import operation_tangents
from boundcheck.numerics.program.finite_differences import Line, Outcome, compare

LINES = 8  # at most, for each derivative
HOPELESS = 4  # after so many that say nothing, the rest is left out
LARGE = 100_000  # entries of w and λ from which two lines have to do
APART_W = 0.5  # how far from the iterates points lie, relative
APART_LAM = 0.05
ARRIVAL = 100  # steps of Φ on the way to a fixed point
CLOSE = 1e-6  # ‖w − Φ(w)‖ there, relative
ALIKE = 10  # two scales are one up to this factor


@dataclass(frozen=True)
class Confirmation:
    """Which derivatives finite differences could not confirm, each with the reason; none was refuted."""

    unconfirmed: tuple[str, ...] = ()


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
    new = w_star is None or problem.d + problem.n > LARGE  # else it was looked through on arrival
    return _answers(problem, asked, solved, through=new)


@torch.no_grad()
def at_solution(problem: Problem, lam: Tensor, w_star: Tensor) -> Confirmation:
    """The same for ∂₂Φ alone, at w(λ)."""
    start = _Start.of(problem, lam, w_star)
    residual = float((problem.phi_at(w_star, start.prepared.ready) - w_star).norm())
    size = max(float(w_star.norm()), float((w_star - problem.w0).norm()))
    if not residual <= math.sqrt(torch.finfo(w_star.dtype).eps) * size:
        return Confirmation((f"∂₂Φ: w(λ) is not known well enough (‖Φ(w) − w‖ = {residual:.1e})",))
    what = "fp_map" if problem.inner_at is None else "the gradient step on inner_loss"
    return _answers(problem, [_Question("∂₂Φ", what, "hparams", start.by_lam_at(w_star))])


@torch.no_grad()
def on_arrival(problem: Problem) -> None:
    """Refuse a new problem whose derivatives are not those of its functions; what cannot be told is left for later.

    ∂₂Φ is compared where some steps of Φ from w_0 lead, if that is close to a fixed point.

    Raises
    ------
    UserCodeError
        if a derivative is clearly another one than that of the function.
    """
    if problem.d + problem.n > LARGE:
        return
    confirm(problem, problem.lam)
    ready, w = problem.prepare(problem.lam), problem.w0
    for _ in range(ARRIVAL):
        w = problem.phi_at(w, ready)
    left, size = (w - problem.phi_at(w, ready)).norm(), w.norm() + problem.w0.norm()
    if bool(left <= CLOSE * size):  # not where it is NaN
        at_solution(problem, problem.lam, w)


def _answers(
    problem: Problem, asked: list[_Question], unconfirmed: tuple[str, ...] = (), *, through: bool = True
) -> Confirmation:
    enough = 2 if problem.d + problem.n > LARGE else 3
    for question in asked:
        agree, reasons = 0, []
        refuted: list[Outcome] = []
        hidden, undecided = "", False
        for at, line in zip(range(LINES), question.lines, strict=False):
            outcome = compare(line)
            if through and outcome.says != "refutes" and (at == 0 or refuted or hidden or undecided):
                seen = operation_tangents.compare(line)
                hidden, undecided = hidden or seen.reason, seen.says == "open"
                outcome = seen if seen.says == "refutes" else outcome
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
        if agree < 2 or refuted or hidden:
            unconfirmed += (f"{question.says}: {reasons[-1]}",)
    return Confirmation(unconfirmed)


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
            at = Linearisation(function, w, prepared.ready, prepared.leaves)
            return prepared.pull_back(at.d2_T(c.reshape(at.y.shape)))

        at_lam = lam is self.lam
        return Line(value, derivative, lam, scale * self.draw(lam, signs=True), c, may_be_kink=at_lam)

    def cotangent(self, function: Function, w: Tensor, scale: Tensor, unit: int) -> Tensor:
        return torch.ones_like(w[:1]) if unit == 0 else scale**unit * self.draw(w, signs=True)


def _phi_by_w(start: _Start) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda w, c: linearise(start.problem, w, start.prepared).d1_T(c)


def _by_w(start: _Start, function: Function) -> Callable[[Tensor, Tensor], Tensor]:
    def derivative(w: Tensor, c: Tensor) -> Tensor:
        at = Linearisation(function, w, start.prepared.ready)
        return at.d1_T(c.reshape(at.y.shape))

    return derivative


def _filled(scale: Tensor) -> Tensor:
    """The scale of every entry; for those that are 0 that of the others, or 1."""
    positive = scale[scale > 0]
    return torch.where(scale > 0, scale, positive.median() if positive.numel() else torch.ones_like(scale[:1]))
