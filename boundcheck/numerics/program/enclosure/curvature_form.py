"""Second derivatives of a scalar as sums of parts, and bounds of their norms and eigenvalues.

D²f lies between two matrices in the order of symmetric matrices, up to a slack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, is_sparse, largest_eigenvalue, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import UP, euclidean
from boundcheck.numerics.program.rounding_rules.ball import gamma


@dataclass(frozen=True, eq=False)
class Curvature:
    """A part of D²f by two inputs. It lies between `lo` and `up`, up to `slack` in norm.

    For two different inputs, `lo` and `up` are equal.
    """

    lo: Tensor
    up: Tensor
    slack: float


def congruence(F: Tensor, s: Tensor, G: Tensor) -> Tensor:
    """Return F diag(s) Gᵀ for F of shape (k₁, m) and G of shape (k₂, m)."""
    if is_sparse(F) and is_sparse(G):
        return torch.from_numpy((csr_matrix((F * s).numpy()) @ csr_matrix(G.numpy()).T).toarray())
    left = F * s
    if not bool(left.any()) or not bool(G.any()):
        return torch.zeros(len(F), len(G), dtype=torch.float64)
    product: Tensor = left @ G.T
    return product


def norm_of(parts: Sequence[Curvature], limit: float = math.inf) -> float:
    """Return an upper bound of the norm of D²f by two different inputs, or at one point; infinite if above `limit`."""
    if not parts:
        return 0.0
    slack = math.fsum(part.slack for part in parts)
    if slack > limit:
        return math.inf
    middle = sum((part.lo for part in parts[1:]), parts[0].lo)
    slack += gamma(len(parts)) * math.fsum(frobenius(part.lo) for part in parts)
    if math.isfinite(limit) and slack + 0.999 * float(euclidean(middle, 1).max()) > limit:  # ‖·‖ ≥ any row
        return math.inf
    return (spectral_norm(middle) + slack) * UP


def ends_of(parts: Sequence[Curvature]) -> tuple[float, float]:
    """Return a lower bound of the smallest and an upper bound of the largest eigenvalue of D²f by one input.

    Both are infinite if nothing is known.
    """
    return smallest_of(parts), largest_of(parts)


def smallest_of(parts: Sequence[Curvature]) -> float:
    """Return a lower bound of the smallest eigenvalue of D²f by one input; −∞ if nothing is known."""
    if not parts:
        return 0.0
    whole = _whole(parts)
    least = -largest_eigenvalue(-whole.lo) - whole.slack
    return -math.inf if math.isnan(least) else least


def largest_of(parts: Sequence[Curvature]) -> float:
    """Return an upper bound of the largest eigenvalue of D²f by one input; ∞ if nothing is known."""
    if not parts:
        return 0.0
    whole = _whole(parts)
    most = largest_eigenvalue(whole.up) + whole.slack
    return math.inf if math.isnan(most) else most


def _whole(parts: Sequence[Curvature]) -> Curvature:
    return parts[0] if len(parts) == 1 else weighted_sum(parts)


def weighted_sum(parts: Sequence[Curvature], weights: Sequence[float] | None = None) -> Curvature:
    """Return the sum of the parts times weights, which are 1 by default.

    Weights must not be negative and may have up to two roundings.
    """
    if weights is not None:
        parts = [Curvature(c * part.lo, c * part.up, c * part.slack) for c, part in zip(weights, parts, strict=True)]
    roundings = len(parts) + (0 if weights is None else 3)
    rounding = gamma(roundings) * math.fsum(frobenius(part.lo) + frobenius(part.up) for part in parts)
    lo = sum((part.lo for part in parts[1:]), parts[0].lo)
    up = sum((part.up for part in parts[1:]), parts[0].up)
    return Curvature(lo, up, (math.fsum(part.slack for part in parts) + rounding) * UP)
