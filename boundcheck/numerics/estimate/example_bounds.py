"""Bounds of the maps Φ_i of single examples over a ball: their moves, their slopes, and their variance.

If Φ_i = w − α∇₁ℓ_i, the bounds a_i ≤ ∇²₁ℓ_i ≤ b_i are sufficient for ∂₁Φ_i. docs/estimating.md derives the variance of
the derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import RAISED_BY
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.second_moments import spread_of_rows
from boundcheck.numerics.program.enclosure.intervals import UP
from boundcheck.numerics.program.recorded_program import Declined


@dataclass(frozen=True, eq=False)
class ExampleBounds:
    """Bounds of Φ_1, …, Φ_N over a ball.

    Attributes
    ----------
    moves : Tensor of shape (N,)
        Upper bounds on ‖Φ_i(c) − c‖ at the centre c of the ball.
    low, high : Tensor of shape (N,)
        For a gradient step, bounds on the eigenvalues of ∂₁Φ_i; for another map, high = −low ≥ ‖∂₁Φ_i‖.
    is_symmetric : bool
        Whether all ∂₁Φ_i are symmetric, which holds for gradient steps.
    by_lam : Tensor of shape (N,)
        Upper bounds on ‖∂₂Φ_i‖; infinite if unknown.
    variance : float
        The computed value of (1/N)Σ‖Φ_i(c) − Φ(c)‖².
    variance_above : float
        An upper bound on the exact value.
    m_1, m_2 : float
        Upper bounds: m_1 on λmax of the means of (Y_i − Y)ᵀ(Y_i − Y) and (Y_i − Y)(Y_i − Y)ᵀ with Y = ∂₁Φ; m_2 on
        λmax of the mean of (Z_i − Z)(Z_i − Z)ᵀ with Z = ∂₂Φ.
    how_1, how_2 : str
        How m_1 and m_2 were obtained.
    doubt : str
        Why the bounds are only estimates; empty if they are proved.
    """

    moves: Tensor
    low: Tensor
    high: Tensor
    is_symmetric: bool
    by_lam: Tensor
    variance: float
    variance_above: float
    m_1: float
    m_2: float
    how_1: str
    how_2: str
    doubt: str = ""

    def slope_of_batch(self, finite_sum: FiniteSum) -> float:
        """Return an upper bound on ‖∂₁Φ̂‖ for every minibatch."""
        low, high = -of_batch(finite_sum, -self.low), of_batch(finite_sum, self.high)
        return max(abs(low), abs(high)) * UP

    def factors(self, eta: float) -> Tensor:
        """Return an upper bound on ‖(1 − η)I + η∂₁Φ_i‖ for every example."""
        if not self.is_symmetric:
            return (1 - eta + eta * self.high) * UP
        ends = torch.maximum((1 - eta + eta * self.low).abs(), (1 - eta + eta * self.high).abs())
        return ends + 4e-16 * (1 + eta * (self.low.abs() + self.high.abs()))

    def factor_of_batch(self, eta: float, finite_sum: FiniteSum) -> float:
        """At least ‖(1 − η)I + η∂₁Φ̂‖ for every minibatch: its eigenvalues are between means of those of examples."""
        low, high = -of_batch(finite_sum, -self.low), of_batch(finite_sum, self.high)
        if not self.is_symmetric:
            return (1 - eta + eta * high) * UP
        return max(abs(1 - eta + eta * low), abs(1 - eta + eta * high)) + 4e-16 * (1 + eta * (abs(low) + abs(high)))


def of_batch(finite_sum: FiniteSum, values: Tensor) -> float:
    """Return an upper bound on the mean of `values` over any minibatch; `values` has one number for each example."""
    if finite_sum.replacement:
        return float(values.max())
    return float(values.topk(finite_sum.batch).values.mean()) + 1e-15 * float(values.abs().max())


@dataclass(frozen=True)
class StepRange:
    """The step α of a gradient step.

    Attributes
    ----------
    alpha : float
        The computed value.
    off : float
        A bound on the difference from the value in exact arithmetic.
    frozen : bool
        Whether derivatives treat the step as a fixed number.
    L : float
        An upper bound on the largest eigenvalue of ∇²₁ℓ for all w, if it is known in closed form; otherwise infinite.
    """

    alpha: float
    off: float
    frozen: bool
    L: float = math.inf


@torch.no_grad()
def from_slopes(problem: Problem, step: StepRange, centre: Tensor, radius: float) -> ExampleBounds:
    """Return the bounds from the closed form of a built-in problem.

    Numbers are raised by `RAISED_BY` roundings, as for all closed forms.
    """
    finite_sum = problem.finite_sum
    if finite_sum is None or finite_sum.slopes is None:
        raise Declined("the problem has no closed form of its examples")
    if not finite_sum.lam_apart:
        raise Declined("λ and the examples are not apart")
    ready = problem.prepare(problem.lam)
    ends = finite_sum.slopes(ready, centre, radius).detach().cpu().double()
    margin = RAISED_BY * torch.finfo(problem.dtype).eps
    ends = ends + margin * ends.abs() * torch.tensor([-1.0, 1.0], dtype=torch.float64)
    indices = torch.arange(finite_sum.examples, device=centre.device)[:, None]
    values = torch.func.vmap(lambda index: finite_sum.phi_on(centre, ready, index), chunk_size=256)(indices)
    moves = values.detach().cpu().double() - centre.detach().cpu().double()
    sizes = moves.norm(dim=1)
    off = margin * (sizes + centre.detach().cpu().double().norm())
    variance, above = spread_of_rows(moves, off)
    a = (step.alpha + step.off) * UP
    low, high = 1 - a * ends[:, 1].clamp_min(0), 1 - step.alpha * ends[:, 0].clamp_min(0)
    high = torch.where(ends[:, 0] < 0, 1 - a * ends[:, 0], high + step.off * ends[:, 0].clamp_min(0))
    least, most = float(ends[:, 0].min()), float(ends[:, 1].max())
    m_1 = a * a * operator_variance(least, most, min(step.L, float(ends[:, 1].mean())))
    return ExampleBounds(
        (sizes + off) * UP, low, high, True, torch.full_like(low, math.inf), variance, above, m_1, 0.0,
        "α² max (h − a)(b − h), a ≤ ∇²₁ℓ_i ≤ b", "λ and the examples enter Φ in separate terms",
    )  # fmt: skip


def operator_variance(a: float, b: float, most: float) -> float:
    """Return max (h − a)(b − h) over a ≤ h ≤ most. If a ≤ H_i ≤ b, the mean of (H_i − H)² is at most (H − a)(b − H)."""
    h = min(most, (a + b) / 2)
    return max(h - a, 0.0) * max(b - h, 0.0) * UP


def least_of(candidates: dict[str, float]) -> tuple[float, str]:
    """Return the smallest of several bounds, and its name."""
    how = min(candidates, key=lambda key: candidates[key])
    return candidates[how], how
