"""The largest norm of an affine function over a ball."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import UP, norm

POINTS = 40  # of τ that are tried
VANISHING = 1e-280  # ‖H‖² that is rounding of 0; the numbers below would be lost


@torch.no_grad()
def farthest(H: Tensor, g: Tensor, radius: float) -> float:
    """At least sup ‖Hs + g‖ over ‖s‖ ≤ radius, for an H that is symmetric up to rounding.

    By weak duality, for every τ > ‖H‖²: ‖Hs + g‖² ≤ τ·radius² + ‖g‖² + bᵀ(τI − H²)⁻¹b with b = Hg. The least over τ
    is the supremum (S-lemma). The inverse is not needed: for any x, bᵀM⁻¹b ≤ bᵀx + ‖b‖‖b − Mx‖/(τ − ‖H‖²), M = τI − H².
    """
    turned = frobenius(H - H.T) / 2 * radius * UP
    H = (H + H.T) / 2  # within 2⁻⁵³ of each entry, which `left` and `lost` have room for
    of_H, of_g = spectral_norm(H), norm(g)
    plain = (of_g + of_H * radius) * UP + turned
    if not math.isfinite(plain) or of_H**2 < VANISHING or radius == 0 or of_g == 0:
        return plain
    values, V = torch.linalg.eigh(H)
    b = H @ g
    of_b, d = norm(b), len(g)
    lost = gamma(d + 4) * (frobenius(H) * of_g + of_b)  # of b itself
    coefficients, best = V.T @ b, plain
    for x in torch.logspace(-6, 3, POINTS, dtype=torch.float64).tolist():
        tau = (1 + x) * of_H**2
        y = V @ (coefficients / (tau - values**2))
        gap = tau - of_H**2
        left = norm(b - (tau * y - H @ (H @ y)))
        left += gamma(2 * d + 6) * (tau + frobenius(H) ** 2) * norm(y) + lost
        form = float(b @ y) + gamma(d + 2) * of_b * norm(y) + (of_b + lost) * left / gap + lost * norm(y)
        best = min(best, math.sqrt(tau * radius**2 + of_g**2 + max(form, 0.0)) * UP + turned)
    return best
