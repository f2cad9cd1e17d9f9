"""Lines through random points of w and λ, along which derivatives of a problem are compared with finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Function, Linearisation, linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.finite_differences import Line

APART_W = 0.5  # relative distance of the points from the iterates
APART_LAM = 0.05  # relative distance of the points from λ
ALIKE = 10  # two scales count as equal up to this factor


@dataclass(frozen=True, eq=False)
class LineSource:
    """Draws points around the first iterates, at the scale of the iterates and at scale 1, and lines through them."""

    problem: Problem
    lam: Tensor
    prepared: Prepared
    bases: tuple[Tensor, ...]
    near: Tensor
    generator: torch.Generator

    @classmethod
    def of(cls, problem: Problem, lam: Tensor, w_star: Tensor | None) -> LineSource:
        prepared = Prepared(problem, lam)
        w0 = problem.w0
        after = problem.phi_at(w0, prepared.ready) if w_star is None else w_star
        after = torch.where(torch.isfinite(after), after, w0)
        near = _filled(torch.maximum(w0.abs(), (after - w0).abs()))
        return cls(problem, lam, prepared, (after, w0), near, torch.Generator(device="cpu").manual_seed(17))

    def draw(self, like: Tensor, signs: bool = False) -> Tensor:
        """Draw normal numbers, or signs, the same on every device."""
        numbers = torch.randn(like.numel(), generator=self.generator, dtype=torch.float64)
        return (numbers.sign() if signs else numbers).to(dtype=like.dtype, device=like.device)

    def points(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Yield points without end, each with its scale and whether the iterates have this scale."""
        wide = self.near.clamp(min=1.0)
        while True:
            for scale in (self.near, wide):
                for base in self.bases:
                    yield base + APART_W * scale * self.draw(base), scale, bool((scale <= ALIKE * self.near).all())

    def by_w(
        self, gradient_of: Callable[[Tensor, Tensor], Tensor], function: Function, unit: int = 0
    ) -> Iterator[Line]:
        """Yield lines in w. The values of the function scale like w to the power −`unit`."""
        for w, scale, natural in self.points():
            c = self.cotangent(function, w, scale, unit)
            floor = 4 * math.sqrt(torch.finfo(w.dtype).eps * w.numel()) if unit == -1 else 0.0
            u = scale * self.draw(w, signs=True)
            yield Line(lambda w: function(w, self.prepared.ready), gradient_of, w, u, c, floor, may_refute=natural)

    def by_lam(self, function: Function, unit: int = 0) -> Iterator[Line]:
        """Yield lines in λ, through points of the domain near λ."""
        scale = _filled(self.lam.abs())
        for w, w_scale, natural in self.points():
            lam = self.lam + APART_LAM * scale * self.draw(self.lam)
            if self.problem.domain is not None and not bool(self.problem.domain.holds(lam)):
                lam = self.lam
            c = self.cotangent(function, w, w_scale, unit)
            yield replace(self.line_in_lam(function, w, lam, scale, c), may_refute=natural)

    def by_lam_at(self, w: Tensor) -> Iterator[Line]:
        """Yield lines in λ for Φ at w, through λ itself."""
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


def phi_by_w(source: LineSource) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda w, c: linearise(source.problem, w, source.prepared).d1_T(c)


def derivative_by_w(source: LineSource, function: Function) -> Callable[[Tensor, Tensor], Tensor]:
    def derivative(w: Tensor, c: Tensor) -> Tensor:
        linearised = Linearisation(function, w, source.prepared.ready)
        return linearised.d1_T(c.reshape(linearised.y.shape))

    return derivative


def _filled(scale: Tensor) -> Tensor:
    """Return the scale of every entry. Entries with scale 0 get the median of the others, or 1 if there are none."""
    positive = scale[scale > 0]
    return torch.where(scale > 0, scale, positive.median() if positive.numel() else torch.ones_like(scale[:1]))
