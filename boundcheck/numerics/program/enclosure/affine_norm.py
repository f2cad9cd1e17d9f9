"""The largest norm of a matrix that is affine in a vector, over a ball."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, largest_eigenvalue, spectral_norm
from boundcheck.numerics.program.enclosure.farthest import farthest
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.kept_norms import kept

MOST_ENTRIES = 2_000_000  # largest number of entries of T for which the bound is computed
MOST_COLUMNS = 600  # largest number of columns for which inner products are formed
FROM, TO, STEPS = -4.0, 3.0, 9  # interval of the search for log₁₀ x, and number of steps
GOLDEN = (5**0.5 - 1) / 2


@torch.no_grad()
def affine_norm(C: Tensor, T: Tensor, radius: float) -> float:
    """Return an upper bound of sup ‖C + T(s, ·, ·)‖ over ‖s‖ ≤ radius, for C of shape (d, n) and T of shape (k, d, n).

    It is the least of three bounds:

    - ‖C‖ + radius·‖T‖, where ‖T‖ is the smaller norm of two flattenings of T;
    - the supremum of the Frobenius norm, which is the norm of an affine function;
    - λmax((1 + x)(radius²·Gram(T) + Gram(C)/x))^½ for an x > 0, where Gram contains inner products of columns. For a
      unit vector z, ‖Cz‖ + radius·‖Tz‖_F ≤ (1 + x)^½(radius²‖Tz‖²_F + ‖Cz‖²/x)^½. This bound is better if no z makes
      both terms large.
    """
    k, d, n = T.shape
    flat, columns = T.reshape(k, -1), T.reshape(-1, n)
    norm_of_T = kept("lesser flattening", (T,), lambda: min(spectral_norm(flat), spectral_norm(columns)))
    best = min((spectral_norm(C) + radius * norm_of_T) * UP, farthest(flat.T, C.reshape(-1), radius))
    if not 0 < n <= MOST_COLUMNS or not math.isfinite(best):
        return best
    gram_of_T = radius**2 * kept("inner products of columns", (T,), lambda: columns.T @ columns)
    gram_of_C = C.T @ C
    error_of_T = gamma(k * d + 8) * (radius * frobenius(columns)) ** 2
    error_of_C = gamma(d + 8) * frobenius(C) ** 2

    def joint(x: float) -> Tensor:
        return (1 + x) * (gram_of_T + gram_of_C / x)

    x = 10 ** _minimiser(lambda exponent: float(torch.linalg.eigvalsh(joint(10**exponent))[-1]))
    squared = largest_eigenvalue(joint(x)) + (1 + x) * (error_of_T + error_of_C / x) * UP
    return min(best, math.sqrt(max(squared, 0.0)) * UP)


def _minimiser(f: Callable[[float], float]) -> float:
    """Return an approximate minimiser by golden-section search. The bound holds for any point."""
    low, high = FROM, TO
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    of_left, of_right = f(left), f(right)
    for _ in range(STEPS):
        if of_left <= of_right:
            high, right, of_right = right, left, of_left
            left = high - GOLDEN * (high - low)
            of_left = f(left)
        else:
            low, left, of_left = left, right, of_right
            right = low + GOLDEN * (high - low)
            of_right = f(right)
    return left if of_left <= of_right else right


def contracted(T: Tensor, s: Tensor) -> tuple[Tensor, float]:
    """Return T(s, ·, ·), and an upper bound of the norm of its rounding error."""
    return torch.tensordot(s, T, 1), gamma(len(s) + 2) * norm(s) * frobenius(T) * UP
