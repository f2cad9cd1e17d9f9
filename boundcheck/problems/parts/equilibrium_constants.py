"""Constants of the equilibrium model in closed form: u_i = A w_i + B x_i + c, w_i ∈ R^h, and a_j are the rows of A.

**q** = ‖A‖, see `equilibrium.py`. **D**: each |w*_ij| ≤ v_ij and ‖w*_i‖ ≤ ω_i imply |w*_ij| ≤ tanh(|Bx_i + c|_j + y)
with y = min{|a_j|·v_i, ‖a_j‖ω_i}; from v = 1 and ω = √h, or ω = ‖φ_i(0)‖/(1 − q), a few rounds of this; D = ‖ω‖.

**nu_1**. ∂₁Φ(w) − ∂₁Φ(w*) has the blocks diag(e)A with |e_j| ≤ T_j|a_j·δ|, where T_j is the largest |tanh''| on the
ball and over i, and δ is the block of w − w*. With M = Σ_j T_j² vec(a_ja_jᵀ) vec(a_ja_jᵀ)ᵀ,
    ‖diag(e)Az‖² ≤ Σ_j T_j²(a_j·δ)²(a_j·z)² = vec(δδᵀ)ᵀ M vec(zzᵀ) ≤ λmax(M)‖δ‖²‖z‖²,
and λmax(M) = λmax(T(G∘G)T) with G = AAᵀ. (Another bound, λmax(AᵀT²diag(‖a_j‖²)A), is never less: for ‖S‖_F = 1,
Σ_j T_j²(a_jᵀSa_j)² ≤ Σ_j T_j²‖a_j‖²‖Sa_j‖² = tr(S AᵀT²diag(‖a_j‖²)A S).)

**L_Phi**. The entries j of all examples depend only on row j of (A, B, c). The derivative is the matrix with the rows
tanh'(u_ij)ζ_i, ζ_i = (w_i, x_i, 1). So ‖∂₂Φ(w)‖ is the largest norm of these matrices over j. With s_ij ≥ tanh'(u_ij)
on the ball, such a norm is at most that of diag(s_j)[w + δ, X, 1], and ‖diag(s_j)δ‖ ≤ r max_i s_ij.

**nu_2**. Row (i, j) of ∂₂Φ(w) − ∂₂Φ(w*) is at most n_ij‖δ_i‖. So the Frobenius norm of the rows of one j, and thus
their norm, is at most max n_ij ‖w − w*‖. There are two such n_ij, and the lesser one is used:
* by the chord: tanh'(u)(δ, 0, 0) + (tanh'(u) − tanh'(u*))ζ*, ≤ ((s + T‖a_j‖‖w*_i‖)² + T²‖a_j‖²ξ²)^½, ξ² = ‖x_i‖² + 1,
  because the entries for w and the other entries are orthogonal;
* by the derivative along the segment: tanh'(u)(δ, 0, 0) + tanh''(u)(a_j·δ)ζ, ≤ (1 − x²)((1 + 2xk)² + 4x²‖a_j‖²ξ²)^½
  with x = |tanh u| and k = ‖a_j‖ sup ‖w_i‖.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import Region, closed_form
from boundcheck.problems.parts.classifier_constants import Classifier
from boundcheck.problems.parts.norm_bounds import largest, spectral_norm
from boundcheck.problems.parts.tanh_range import Bends, widest

ROUNDS = 10
WORK = 2e10  # if L_Phi would take more multiplications, a coarser bound is used for all j


@dataclass(frozen=True, eq=False)
class Layer:
    """A, the drive B x_i + c and the part (x_i, 1) of ζ_i as rows, and q = ‖A‖."""

    A: Tensor
    drive: Tensor
    rest: Tensor
    q: Tensor

    @property
    def lengths(self) -> Tensor:
        """‖a_j‖."""
        lengths: Tensor = self.A.norm(dim=1)
        return lengths

    def star_norms(self) -> Tensor:
        """Return ω_i ≥ ‖w*_i‖."""
        n, h = self.drive.shape
        v = torch.ones_like(self.drive)
        omega = v.new_full((n,), h**0.5)
        if self.q < 1:
            omega = torch.minimum(omega, self.drive.tanh().norm(dim=1) / (1 - self.q))
        for _ in range(ROUNDS):
            y = torch.minimum(v @ self.A.abs().T, omega[:, None] * self.lengths)
            v = (self.drive.abs() + y).tanh()
            omega = torch.minimum(omega, v.norm(dim=1))
        return omega


def everywhere(layer: Layer) -> list[Constant]:
    smallest = torch.linalg.svdvals(layer.A)[-1]
    invertible = bool(smallest > len(layer.A) * torch.finfo(layer.A.dtype).eps * layer.q)
    D = layer.star_norms().norm()
    return [
        closed_form("q", layer.q, "‖A‖", exact=invertible),
        closed_form("D", D, "(Σ_i ω_i²)^½ with ω_i = min{√h, ‖φ_i(0)‖/(1−q), ‖tanh(|Bx_i+c|+‖a_j‖ω_i)‖}"),
    ]


def on(layer: Layer, classifier: Classifier, region: Region) -> list[Constant]:
    W = region.point.reshape(layer.drive.shape)
    r, lengths = region.radius, layer.lengths
    at_star = region.centre == "w_star"
    omega = W.norm(dim=1) if at_star else layer.star_norms()
    bends = Bends.around(W @ layer.A.T + layer.drive, r * lengths)
    T = bends.bend.amax(dim=0)
    nu_1 = largest(T[:, None] * (layer.A @ layer.A.T) ** 2 * T).sqrt()
    return [
        closed_form("nu_1", nu_1, "λmax(T(G∘G)T)^½, G = AAᵀ, T_j = max |tanh''| on the ball", region),
        closed_form(
            "nu_2", _nu_2(layer, bends, W, omega, r), "max_ij of how a row tanh'(u_ij)(w_i,x_i,1) changes", region
        ),
        closed_form("L_Phi", _L_Phi(layer, bends.slope, W, r), "max_j ‖diag(tanh'_j)[W,X,1]‖, on the ball", region),
        classifier.eta_1(region),
        *classifier.constants(W, spectral_norm(W) if at_star else omega.norm(), region),
    ]


def _nu_2(layer: Layer, bends: Bends, W: Tensor, omega: Tensor, r: float) -> Tensor:
    a, xi = layer.lengths, layer.rest.norm(dim=1)[:, None]
    chord = torch.hypot(bends.slope + bends.bend * a * omega[:, None], bends.bend * a * xi)
    k = a * (W.norm(dim=1)[:, None] + r)
    return torch.minimum(chord, bends.row(k, k**2 + (a * xi) ** 2)).max()


def _L_Phi(layer: Layer, slope: Tensor, W: Tensor, r: float) -> Tensor:
    zeta = torch.cat((W, layer.rest), dim=1)
    if zeta.shape[0] * zeta.shape[1] ** 2 * slope.shape[1] > WORK:
        slope = slope.amax(dim=1, keepdim=True)
    grams = [(s[:, None] * zeta).T @ (s[:, None] * zeta) for s in slope.T]
    return torch.stack([widest(g, W.shape[1], r * s.max()) for g, s in zip(grams, slope.T, strict=True)]).max()
