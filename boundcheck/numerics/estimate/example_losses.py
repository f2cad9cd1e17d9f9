"""Bounds of gradient steps on the losses of single examples, proved from recorded programs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.example_bounds import ExampleBounds, StepRange, least_of, operator_variance
from boundcheck.numerics.estimate.example_programs import ExamplePrograms, depends_on_lam
from boundcheck.numerics.estimate.second_moments import Spread, spread_of_rows
from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, largest_eigenvalue
from boundcheck.numerics.program.enclosure.curvature_form import Curvature, ends_of, norm_of
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.scalar import Derivatives
from boundcheck.numerics.program.enclosure.value import LAM, W
from boundcheck.numerics.program.recorded_program import Program


@dataclass(frozen=True, eq=False)
class _Loss:
    """A sum of terms over a ball: its gradient at the centre, within `off`, and the parts of its ∇²₁ and ∇²₂₁."""

    gradient: Tensor
    off: float
    curvature: list[Curvature]
    cross: list[Curvature]


def _loss(problem: Problem, terms: tuple[Program, ...], centre: Tensor, radius: float) -> _Loss:
    gradient, off = torch.zeros(problem.d, dtype=torch.float64), 0.0
    curvature, cross = [], []
    for term in terms:
        by_lam = depends_on_lam(term)
        derivatives = Derivatives(term, centre, problem.lam, radius, with_lam=by_lam)
        slope = derivatives.output.slopes.get(W)
        if slope is not None:
            gradient = gradient + slope.F.reshape(-1)
            off += float(slope.slip) + gamma(2) * norm(gradient)
        curvature += derivatives.curvature((W, W))
        cross += derivatives.curvature((W, LAM)) if by_lam else []
    return _Loss(gradient, off * UP, curvature, cross)


def _middle(parts: list[Curvature]) -> tuple[Tensor, Tensor, float, float]:
    """Return the sums of the lower and upper matrices, their slack, and a bound on the distance from their midpoint."""
    lo, up = sum((p.lo for p in parts[1:]), parts[0].lo), sum((p.up for p in parts[1:]), parts[0].up)
    slack = math.fsum(p.slack for p in parts)
    slack += gamma(len(parts) + 2) * math.fsum(frobenius(p.lo) + frobenius(p.up) for p in parts)
    off = slack if up is lo else slack + frobenius(up - lo) / 2
    return lo, up, slack * UP, off * UP


@torch.no_grad()
def of_losses(
    problem: Problem, programs: ExamplePrograms, step: StepRange, centre: Tensor, radius: float
) -> ExampleBounds:  # fmt: skip
    a = (step.alpha + step.off) * UP
    common = _loss(problem, programs.common, centre, radius)
    low_c, high_c = ends_of(common.curvature)
    by_lam_c = norm_of(common.cross)
    moments, crosses, weighted = Spread(left=False), Spread(right=False), _Weighted()
    rows, offs, moves, ends, by_lam = [], [], [], [], []
    for terms in programs.own:
        own = _loss(problem, terms, centre, radius)
        rows.append(a * own.gradient)
        offs.append(a * (own.off + gamma(4) * norm(own.gradient)) + 2 * step.off * norm(own.gradient))
        whole = own.gradient + common.gradient
        moves.append(a * (norm(whole) + own.off + common.off + gamma(4) * (norm(own.gradient) + norm(whole))) * UP)
        least, most = ends_of(own.curvature)
        ends.append((least, most))
        if own.curvature:
            lo, up, slack, off = _middle(own.curvature)
            moments.add((lo + up) / 2, off)
            weighted.add(up, slack, least, most)
        else:
            moments.add(torch.zeros(problem.d, problem.d, dtype=torch.float64), 0.0)
            weighted.add(None, 0.0, 0.0, 0.0)
        by_lam.append(norm_of(own.cross))
        if own.cross:
            lo, _, _, off = _middle(own.cross)
            crosses.add(lo, off)
        else:
            crosses.count += 1
    of_w = torch.tensor(ends, dtype=torch.float64)
    lowest, highest = of_w[:, 0] + low_c, of_w[:, 1] + high_c
    size = torch.maximum(lowest.abs(), highest.abs())
    rounding = 4e-16 * (1 + a * size) + step.off * size
    variance, above = spread_of_rows(torch.stack(rows), torch.tensor(offs, dtype=torch.float64))
    sums = {
        "α²λmax of the mean of (H_i − H)², H_i = ∇²₁ℓ_i at the middle of its range": moments.largest(),
        "α²λmax of the mean of (b_i − a)(H_i − a), a ≤ H_i ≤ b_i": weighted.largest(),
        "α² max (h − a)(b − h), a ≤ ∇²₁ℓ_i ≤ b": weighted.by_ends(),
    }
    how_1 = min(sums, key=lambda key: sums[key])
    if programs.lam_apart:
        m_2, how_2 = 0.0, "λ and the examples enter the loss in separate terms"
    else:
        squares = math.fsum(x * x for x in by_lam) / len(by_lam) * UP
        m_2, how_2 = least_of(
            {
                "α²λmax of the mean of (C_i − C)(C_i − C)ᵀ, C_i = ∇²₂₁ℓ_i at the centre": crosses.largest(),
                "α² times the mean of ‖∇²₂₁ℓ_i‖²": squares,
            }
        )
        m_2 = a * a * m_2 if step.frozen else math.inf
    by_lam = [a * (x + by_lam_c) * UP if step.frozen else math.inf for x in by_lam]
    low, high = 1 - step.alpha * highest - rounding, 1 - step.alpha * lowest + rounding
    return ExampleBounds(
        torch.tensor(moves, dtype=torch.float64), low, high, True, torch.tensor(by_lam, dtype=torch.float64),
        variance, above, a * a * sums[how_1] * UP, m_2, how_1, how_2,
    )  # fmt: skip


class _Weighted:
    """The sums over examples of b_i·up_i and of up_i, where a ≤ H_i ≤ b_i and H_i ≤ up_i + slack_i."""

    def __init__(self) -> None:
        self.by_b: Tensor | float = 0.0
        self.plain: Tensor | float = 0.0
        self.ends: list[tuple[float, float, float]] = []
        self.sizes = 0.0

    def add(self, up: Tensor | None, slack: float, least: float, most: float) -> None:
        """Add an example."""
        self.ends.append((least, most, slack))
        if up is not None:
            self.by_b, self.plain = self.by_b + most * up, self.plain + up
            self.sizes += (abs(most) + 1) * frobenius(up)

    @property
    def a(self) -> float:
        return min(least for least, _, _ in self.ends)

    def largest(self) -> float:
        """Return an upper bound on λmax of the mean of (b_i − a)(H_i − a), each of which is at least (H_i − a)²."""
        N, a = len(self.ends), self.a
        rest = math.fsum((most - a) * (slack - a) for _, most, slack in self.ends) / N
        rest += 1e-14 * math.fsum((abs(most) + abs(a)) * (slack + abs(a)) for _, most, slack in self.ends) / N
        if not isinstance(self.by_b, Tensor) or not isinstance(self.plain, Tensor):
            return max(rest, 0.0)
        rounding = gamma(2 * N + 8) * self.sizes * (1 + abs(a)) / N
        return max(largest_eigenvalue((self.by_b - a * self.plain) / N) + rest + rounding, 0.0)

    def by_ends(self) -> float:
        """Return max (h − a)(b − h) over all h up to a bound on the largest eigenvalue of the mean."""
        N, b = len(self.ends), max(most for _, most, _ in self.ends)
        top = math.fsum(most for _, most, _ in self.ends) / N * UP
        if isinstance(self.plain, Tensor):
            slack = math.fsum(slack for _, _, slack in self.ends) / N + gamma(N + 4) * self.sizes / N
            top = min(top, largest_eigenvalue(self.plain / N) + slack * UP)
        return operator_variance(self.a, b, top)
