"""Largest eigenvalues and norms of matrices, proved by a Cholesky factorisation.

If the factorisation of cI − H runs to its end in floating point, cI − H + E ⪰ 0 with ‖E‖ ≤ γ tr(cI − H)/(1 − γ),
γ = (m + 1)ε/2 / (1 − (m + 1)ε/2) for m×m (Rump 2006, after Demmel and Higham): a proof, not a guess, for the price of a
tenth of the eigenvalues. In double precision on the CPU.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

UNIT = torch.finfo(torch.float64).eps / 2
TRIES = 4  # margins, each ten times the last


def gamma(m: int) -> float:
    """γ_m of a sum of m rounded terms."""
    return m * UNIT / (1 - m * UNIT)


def power_of_two_near(M: Tensor) -> float:
    """A power of two near the largest entry: to divide by it is exact, and squares neither overflow nor vanish."""
    return math.ldexp(1.0, min(math.frexp(float(M.abs().max()))[1], 1023))


def certified_margin(H: Tensor, top: float) -> float | None:
    """m with λmax(H) ≤ top + m, by a Cholesky factorisation; None if none of a few margins passes."""
    size = len(H)
    scale = max(abs(top), float(H.abs().max()))
    margin = 0.0
    for attempt in range(TRIES):
        spread = size * (top + margin) - float(H.trace()) + 4 * size * UNIT * scale  # tr(cI − H), safely
        rounding = gamma(size + 1) * max(spread, scale) / (1 - gamma(size + 1)) + 4 * UNIT * scale  # and of cI − H
        margin = 10.0**attempt * rounding
        if has_factorisation(H, top + margin):
            return margin + 2 * rounding  # twice, as the margin itself enters the trace
    return None


def has_factorisation(H: Tensor, c: float) -> bool:
    """Has cI − H a Cholesky factorisation?"""
    shifted = -H
    shifted.diagonal().add_(c)
    return int(torch.linalg.cholesky_ex(shifted).info) == 0


def frobenius(M: Tensor) -> float:
    """At least the Frobenius norm."""
    if not M.numel():
        return 0.0
    top = float(M.abs().max())
    size = math.sqrt(M.numel()) * top if top < 1e-140 else float(M.norm())  # squares of smaller numbers vanish
    return size * (1 + 2.0**-45 + gamma(M.numel())) + M.numel() * 1e-300


@torch.no_grad()
def largest_eigenvalue(H: Tensor) -> float:
    """At least the largest eigenvalue of a symmetric matrix; NaN and infinity give infinity."""
    if not H.numel():
        return 0.0
    if not bool(H.isfinite().all()):
        return math.inf
    if not bool(H.any()):
        return 0.0
    unit = power_of_two_near(H)
    H = H / unit
    asymmetry = frobenius(H - H.T) / 2  # the symmetric part is this close
    H = (H + H.T) / 2
    top = float(torch.linalg.eigvalsh(H)[-1])
    margin = certified_margin(H, top)
    if margin is None:
        return unit * (frobenius(H) + asymmetry)
    return unit * (top + margin + asymmetry + 4 * UNIT * (abs(top) + float(H.abs().max()) * len(H)))


@torch.no_grad()
def spectral_norm(J: Tensor) -> float:
    """At least ‖J‖, through the smaller of JᵀJ and JJᵀ."""
    if not J.numel():
        return 0.0
    if not bool(J.isfinite().all()):
        return math.inf
    if not bool(J.any()):
        return 0.0
    unit = power_of_two_near(J)
    J = J.T / unit if J.shape[0] < J.shape[1] else J / unit
    G = J.T @ J
    top = float(torch.linalg.eigvalsh(G)[-1])
    margin = certified_margin(G, top)
    if margin is None:
        return unit * frobenius(J)
    rounding = gamma(len(J) + 2) * float((J**2).sum()) * 1.001  # of JᵀJ, as ‖|J|ᵀ|J|‖ ≤ ‖J‖²_F
    return unit * math.sqrt(max(top + margin + rounding, 0.0)) * (1 + 4 * UNIT)
