"""The largest norm of an affine function over a ball."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import UP, norm

POINTS, FINER = 19, 21  # of τ that are tried, and then between the neighbours of the best
VANISHING = 1e-280  # ‖A‖² that is rounding of 0; the numbers below would be lost


@torch.no_grad()
def farthest(A: Tensor, b: Tensor, radius: float) -> float:
    """At least sup ‖As + b‖ over ‖s‖ ≤ radius.

    By weak duality, for every τ > ‖A‖²: ‖As + b‖² ≤ τ·radius² + ‖b‖² + gᵀM⁻¹g with M = τI − AᵀA and g = Aᵀb. The
    least over τ is the supremum (S-lemma). The inverse is not needed: gᵀM⁻¹g ≤ gᵀy + ‖g‖‖g − My‖/(τ − ‖A‖²) for any y.
    """
    of_A, of_b = spectral_norm(A), norm(b)
    plain = (of_b + of_A * radius) * UP
    if not math.isfinite(plain) or of_A**2 < VANISHING or radius == 0 or of_b == 0:
        return plain
    rows, d = A.shape
    values, V = torch.linalg.eigh(A.T @ A)
    g = A.T @ b
    of_g, size = norm(g), frobenius(A)
    lost = gamma(rows + 4) * (size * of_b + of_g)  # of g itself
    coefficients = V.T @ g

    def bound(exponent: float) -> float:
        tau = (1 + 10**exponent) * of_A**2
        y = V @ (coefficients / (tau - values))
        gap = (tau - of_A**2) * (1 - 1e-8)  # 10⁻⁶ of its terms at least, so it loses six digits of sixteen
        left = norm(g - (tau * y - A.T @ (A @ y)))
        left += gamma(rows + d + 6) * (tau + size**2) * norm(y) + lost
        form = float(g @ y) + gamma(d + 2) * of_g * norm(y) + (of_g + lost) * left / gap + lost * norm(y)
        return math.sqrt(tau * radius**2 + of_b**2 + max(form, 0.0)) * UP

    coarse = torch.linspace(-6, 3, POINTS, dtype=torch.float64).tolist()
    near = min(coarse, key=bound)
    step = coarse[1] - coarse[0]
    fine = [near + step * share for share in torch.linspace(-1, 1, FINER, dtype=torch.float64).tolist()]
    return min(plain, *(bound(max(exponent, -6.0)) for exponent in fine))
