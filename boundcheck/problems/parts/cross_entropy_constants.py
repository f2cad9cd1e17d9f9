"""Constants of multinomial logistic regression, ℓ = CE(XW, y) + penalty, E = CE(X'W, y'), in closed form.

For one example with s = softmax and H = diag(s) − ssᵀ, the second derivative of log-sum-exp is H, and ‖H‖ ≤ ½. The
third derivative is T, and |T(a, b, c)| ≤ S3‖a‖‖b‖‖c‖ with S3 = √6/9: T is symmetric, so its largest value is at
a = b = c (Banach), where it is the third central moment of the entries of a under s. On an interval of length ρ, this
moment is at most ρ³/(6√3): for a fixed mean it is linear in the distribution, so it is largest on two points, where
p(1−p)(1−2p) ≤ 1/(6√3); and ρ ≤ √2‖a‖.

**mu** is exactly the least penalty, as V = e_j1ᵀ changes no difference of logits. **L** ≤ λmax(XᵀX/2n + penalties).
**q** = max{1 − αμ, αL − 1}.

**D**. At W*, Σ_j penalty_j‖W_j‖² = mean_i (y_i − s_i)·z_i, z = XW. With d_l = z_y − z_l, the term of an example is
v = Σ_l d_l e^{−d_l}/(1 + Σ_l e^{−d_l}) over l ≠ y. So v = Σ_l (d_l − v)e^{−d_l} ≤ (c − 1)e^{−1−v}, hence
v ≤ W₀((c−1)/e) with Lambert's function W₀, and D² ≤ W₀((c−1)/e)/μ. Also D ≤ ‖∇₁ℓ(0)‖/μ.

**hat_rho_1**. The third derivative of ℓ is mean_i T(Uᵀx_i, Vᵀx_i, V'ᵀx_i) ≤ (S3/n) Σ_i ‖Uᵀx_i‖‖Vᵀx_i‖‖V'ᵀx_i‖. By
Cauchy and Schwarz Σ ≤ ‖XU‖_F (Σ_i ‖Vᵀx_i‖²‖V'ᵀx_i‖²)^½, and Σ_i ⟨x_ix_iᵀ, VVᵀ⟩⟨x_ix_iᵀ, V'V'ᵀ⟩ ≤ λmax(G∘G) with G =
XXᵀ. So hat_rho_1 = S3‖X‖λmax(G∘G)^½/n.

**eta_1** = λmax(X'ᵀdiag(g)X')/n' with g_i ≥ ‖H_i‖ on the ball: g_i is ½, or ‖H_i‖ at the centre plus S3‖x'_i‖r.
**L_E** bounds ∇₁E = X'ᵀR/n', R = S − Y', and is the least of several bounds: ‖∇₁E‖ + eta_1 r with ∇₁E at the centre of
the ball; ‖X'‖√(2/n'), because ‖R‖_F² ≤ 2n'; and ‖∇₁E(0)‖ + ‖X'‖√((1 − 1/c)/n'), because ‖S − 1/c‖_F² ≤ n'(1 − 1/c). If
X' has no negative entries, r_a·r_b ≤ 1 + [y_a = y_b] gives ‖X'ᵀR‖_F² = Σ_ab G'_ab r_a·r_b ≤ ‖X'ᵀ1‖² + ‖X'ᵀY'‖_F².
**eta_2** = 0, because E does not depend on λ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.special import lambertw
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import Region, closed_form
from boundcheck.problems.parts.cross_entropy import cross_entropy_gradient
from boundcheck.problems.parts.norm_bounds import largest, spectral_norm
from boundcheck.problems.parts.sparse_matrix import SparseMatrix, perron_bound

S3 = 6**0.5 / 9


def of_the_step(mu: Tensor | float, L: Tensor, how: str, alpha: float) -> list[Constant]:
    """Return mu, L, kappa, alpha, grad_alpha and q for a fixed step, from an exact μ and an upper bound of L."""
    low, high = closed_form("mu", mu, "the least penalty", exact=True), closed_form("L", L, how)
    by_mu, by_L = 1 - alpha * low.value, alpha * high.value - 1
    return [
        low,
        high,
        closed_form("kappa", max(1.0, high.value / low.value), "L/μ"),
        closed_form("alpha", alpha, "the step", exact=True),
        closed_form("grad_alpha", 0.0, "the step is frozen", exact=True),
        closed_form("q", by_mu, "1 − αμ", exact=True) if by_mu >= by_L else closed_form("q", by_L, "αL − 1"),
    ]


def example_slopes(Z: Tensor, lengths: Tensor, radius: float, penalties: Tensor) -> Tensor:
    """Return a lower and an upper bound of the eigenvalues of ∇₁²ℓ_i = x_ix_iᵀ⊗H_i + penalties on a ball.

    `Z` has the logits at the centre, and `lengths` are ‖x_i‖. ‖H_i‖ is at most ½, and at most its value at the centre
    plus S3‖x_i‖r.
    """
    S = Z.softmax(-1)
    H = S.diag_embed() - S[:, :, None] * S[:, None]
    top = (largest(H) + S3 * lengths * radius).clamp(max=0.5) * lengths**2 + penalties.max()
    return torch.stack((penalties.min().expand_as(top), top), dim=1)


def solution_norm(mu: Tensor | float, classes: int, gradient_at_0: Tensor) -> Constant:
    """Return D."""
    D = torch.sqrt(float(lambertw((classes - 1) / math.e).real) / (mu * gradient_at_0.new_ones(())))
    return closed_form("D", torch.minimum(D, gradient_at_0.norm() / mu), "min{(W₀((c−1)/e)/μ)^½, ‖∇₁ℓ(0)‖/μ}")


def curvature_change(X_norm: Tensor | float, squared_gram: Tensor, examples: int, region: Region) -> Constant:
    """Return hat_rho_1 from upper bounds of ‖X‖ and λmax(G∘G)."""
    return closed_form("hat_rho_1", S3 * X_norm * squared_gram.sqrt() / examples, "S3‖X‖λmax(G∘G)^½/n, G = XXᵀ", region)


def times_step(name: str, alpha: float, of: Constant, region: Region) -> Constant:
    """Return nu_1 = αρ̂₁ or nu_2 = αρ̂₂; exact if `of` is exact."""
    how = f"α·({of.provenance.how})"
    return closed_form(name, alpha * of.value, how, region, exact=of.side is of.side.EXACT)


def constants_everywhere(
    X: Tensor | SparseMatrix, Y: Tensor, mu: Tensor | float, L: Tensor, how: str, alpha: float
) -> list[Constant]:
    """Return the constants that do not depend on a ball: those of the step, and D."""
    gradient = X.T @ cross_entropy_gradient(torch.zeros_like(Y), Y)  # at W = 0
    return [*of_the_step(mu, L, how, alpha), solution_norm(mu, Y.shape[1], gradient)]


def constants_of_phi(rho_1: Constant, rho_2: Constant, L_Phi: Constant, alpha: float, region: Region) -> list[Constant]:
    """Return the constants of ℓ and Φ on a ball: hat_rho_1, hat_rho_2, L_Phi, and with the step nu_1 and nu_2."""
    nu_1, nu_2 = times_step("nu_1", alpha, rho_1, region), times_step("nu_2", alpha, rho_2, region)
    return [rho_1, rho_2, nu_1, nu_2, L_Phi]


@dataclass(frozen=True, eq=False)
class Validation:
    """X', Y', ‖x'_i‖, whether X' ≥ 0, an upper bound of ‖X'‖², and an L_E that holds everywhere."""

    X: Tensor | SparseMatrix
    Y: Tensor
    lengths: Tensor
    nonnegative: bool
    squared_norm: Tensor
    anywhere: Tensor

    @classmethod
    def of(cls, X: Tensor | SparseMatrix, Y: Tensor, squared_norm: Tensor | float) -> Validation:
        n, c = Y.shape
        squared = squared_norm * Y.new_ones(())
        from_0 = (X.T @ (Y - 1 / c)).norm() / n + (squared * (1 - 1 / c) / n).sqrt()
        anywhere = torch.minimum(from_0, (2 * squared / n).sqrt())
        nonnegative = bool(((X if isinstance(X, Tensor) else X.X.values()) >= 0).all())
        if nonnegative:
            sums = torch.hypot((X.T @ Y.new_ones(n, 1)).norm(), (X.T @ Y).norm())
            anywhere = torch.minimum(anywhere, sums / n)
        lengths = X.norm(dim=1) if isinstance(X, Tensor) else X.row_norms()
        return cls(X, Y, lengths, nonnegative, squared, anywhere)

    def eta_1(self, W: Tensor, r: float) -> Tensor:
        """Return λmax(X'ᵀdiag(g)X')/n'."""
        X, n = self.X, len(self.Y)
        S = (X @ W).softmax(-1)
        g = (largest(S.diag_embed() - S[:, :, None] * S[:, None]) + S3 * self.lengths * r).clamp(max=0.5)
        if bool(g.min() == 0.5):
            return self.squared_norm / (2 * n)
        if isinstance(X, Tensor):
            return spectral_norm(g.sqrt()[:, None] * X) ** 2 / n
        if not self.nonnegative:
            return self.squared_norm * g.max() / n
        top = perron_bound(lambda v: X.T @ (g * (X @ v)), W.new_ones(len(W))) / n
        return torch.minimum(top, self.squared_norm * g.max() / n)

    def constants(self, W: Tensor, region: Region) -> list[Constant]:
        """Return L_E, eta_1 and eta_2; W is the centre of the ball as a matrix."""
        gradient = self.X.T @ cross_entropy_gradient(self.X @ W, self.Y)
        eta_1 = self.eta_1(W, region.radius)
        return [
            closed_form(
                "L_E",
                torch.minimum(self.anywhere, gradient.norm() + eta_1 * region.radius),
                "min{(‖X'ᵀ1‖²+‖X'ᵀY'‖²)^½/n' if X' ≥ 0, ‖X'‖√(2/n'), from 0 or the centre}",
                region,
            ),
            closed_form("eta_1", eta_1, "λmax(X'ᵀdiag(g)X')/n', g_i ≥ ‖H_i‖ on the ball, at most ½", region),
            closed_form("eta_2", 0.0, "E does not depend on λ", region, exact=True),
        ]
