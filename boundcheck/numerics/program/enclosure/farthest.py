"""The largest norm of an affine function over a ball."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import UP, norm

POINTS, FINER = 19, 21  # numbers of τ to try, first on a coarse grid, then around the best
VANISHING = 1e-280  # a smaller ‖A‖² counts as rounding of 0, since the computation below would underflow


@torch.no_grad()
def farthest(A: Tensor, b: Tensor, radius: float) -> float:
    """Return an upper bound of sup ‖As + b‖ over ‖s‖ ≤ radius.

    By weak duality, ‖As + b‖² ≤ τ·radius² + ‖b‖² + gᵀM⁻¹g for every τ > ‖A‖², with M = τI − AᵀA and g = Aᵀb. The
    minimum over τ is the supremum (S-lemma). M is not inverted: gᵀM⁻¹g ≤ gᵀy + ‖g‖‖g − My‖/(τ − ‖A‖²) for any y.
    """
    norm_of_A, norm_of_b = spectral_norm(A), norm(b)
    plain = (norm_of_b + norm_of_A * radius) * UP
    if not math.isfinite(plain) or norm_of_A**2 < VANISHING or radius == 0 or norm_of_b == 0:
        return plain
    rows, d = A.shape
    values, V = torch.linalg.eigh(A.T @ A)
    g = A.T @ b
    norm_of_g, size = norm(g), frobenius(A)
    error_of_g = gamma(rows + 4) * (size * norm_of_b + norm_of_g)
    coefficients = V.T @ g

    def bound(exponent: float) -> float:
        tau = (1 + 10**exponent) * norm_of_A**2
        y = V @ (coefficients / (tau - values))
        gap = (tau - norm_of_A**2) * (1 - 1e-8)  # at least 10⁻⁶ of its terms, so it loses six digits of sixteen
        residual = norm(g - (tau * y - A.T @ (A @ y)))
        residual += gamma(rows + d + 6) * (tau + size**2) * norm(y) + error_of_g
        form = float(g @ y) + gamma(d + 2) * norm_of_g * norm(y)
        form += (norm_of_g + error_of_g) * residual / gap + error_of_g * norm(y)
        return math.sqrt(tau * radius**2 + norm_of_b**2 + max(form, 0.0)) * UP

    coarse = torch.linspace(-6, 3, POINTS, dtype=torch.float64).tolist()
    near = min(coarse, key=bound)
    step = coarse[1] - coarse[0]
    fine = [near + step * share for share in torch.linspace(-1, 1, FINER, dtype=torch.float64).tolist()]
    return min(plain, *(bound(max(exponent, -6.0)) for exponent in fine))
