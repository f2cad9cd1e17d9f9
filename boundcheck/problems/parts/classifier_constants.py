"""Constants of E = mean_i CE(θ m_i + b, y_i) in the states m, with λ = (…, θ, b), for the equilibrium models.

With s the softmax and H = diag(s) − ssᵀ of an example, ∇_m E = (S − Y)θ/n and ∂²E is θᵀHθ/n, block by block.

* vᵀθᵀHθv is the variance of the numbers θ_l·v under s, which is at most a quarter of their squared range (Popoviciu).
  So ‖H^½θ‖ ≤ Θ/2 with Θ = max ‖θ_l − θ_m‖, hence **eta_1** = Θ²/4n; Θ ≤ √2‖θ‖. Because ‖H‖ ≤ ½, ‖Hθ‖ ≤ g = Θ/2√2.
* (s − y)ᵀθ is the mean of θ_l − θ_y under s, so **L_E** ≤ (Σ_i max_l ‖θ_l − θ_{y_i}‖²)^½/n. It is also at most
  ‖∇₁E‖ + eta_1 r with ∇₁E at the centre of the ball.
* From m* to m = m* + δ, ∇₂E = (S − Y)ᵀ[m, 1]/n changes by ((S − S*)ᵀ[m*, 1] + (S − Y)ᵀ[δ, 0])/n, where
  ‖S − S*‖_F ≤ g‖δ‖. So **eta_2** = ((g‖m*‖ + ‖S − Y‖)² + g²n)^½/n. Here ‖S − Y‖ has three upper bounds: √(2n), because
  rows are ≤ √2; √(n(1 − 1/k)) + √(size of the largest class), from S − 1/k and Y − 1/k; and ‖S − Y‖ at the centre + gr.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import Region, closed_form
from boundcheck.problems.parts.norm_bounds import spectral_norm


@dataclass(frozen=True, eq=False)
class Classifier:
    """θ, b, and the classes as rows of the identity."""

    theta: Tensor
    b: Tensor
    Y: Tensor

    @property
    def gaps(self) -> Tensor:
        """‖θ_l − θ_m‖ for all pairs of classes."""
        gaps: Tensor = (self.theta[:, None] - self.theta).norm(dim=-1)
        return gaps

    def eta_1(self, region: Region) -> Constant:
        return closed_form("eta_1", self.gaps.max() ** 2 / (4 * len(self.Y)), "max ‖θ_l−θ_m‖²/4n", region)

    def constants(self, states: Tensor, star_norm: Tensor, region: Region) -> list[Constant]:
        """Return L_E and eta_2 from the states m at the centre of the ball, as rows, and an upper bound of ‖m*‖."""
        n, k = self.Y.shape
        r = region.radius
        R = (states @ self.theta.T + self.b).softmax(-1) - self.Y
        widest = self.gaps.max()
        g = widest / 8**0.5
        L_E = torch.minimum(
            (self.Y @ self.gaps.amax(dim=1)).norm() / n, (R @ self.theta).norm() / n + widest**2 / (4 * n) * r
        )
        residual = torch.minimum(self.Y.sum(0).max().sqrt() + (n * (1 - 1 / k)) ** 0.5, spectral_norm(R) + g * r).clamp(
            max=(2 * n) ** 0.5
        )
        eta_2 = torch.hypot(g * star_norm + residual, g * n**0.5) / n
        return [
            closed_form("L_E", L_E, "min{(Σ_i max_l ‖θ_l−θ_yi‖²)^½/n, ‖∇₁E(centre)‖ + η₁r}", region),
            closed_form("eta_2", eta_2, "((g‖w*‖+‖S−Y‖)² + g²n)^½/n with g = max ‖θ_l−θ_m‖/√8", region),
        ]
