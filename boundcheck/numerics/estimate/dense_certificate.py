"""Extreme eigenvalues and norms of matrices that fit in memory, certified by Cholesky factorisations.

If the factorisation of cI − H runs to its end in floating point, cI − H + E ⪰ 0 with ‖E‖ ≤ γ tr(cI − H)/(1 − γ),
γ = (m + 1)ε/2 / (1 − (m + 1)ε/2) for m×m (Rump 2006, after Demmel and Higham): a proof, not a guess, for the price of a
tenth of the eigenvalues. On the host in double precision, to which float32 converts exactly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.constants import Side
from boundcheck.errors import InputError
from boundcheck.numerics.estimate.lanczos_certificate import Extreme, Symmetric, ratio

UNIT = torch.finfo(torch.float64).eps / 2
TRIES = 4  # margins, each ten times the last


def _gamma(m: int) -> float:
    return m * UNIT / (1 - m * UNIT)


def _on_host(M: Tensor, name: str) -> Tensor:
    if M.dim() != 2 or not M.numel():
        raise InputError(f"{name} has shape {tuple(M.shape)}; give a matrix with at least one entry")
    M = M.detach().to(device="cpu", dtype=torch.float64)
    if not bool(M.isfinite().all()):
        raise InputError(f"{name} is not finite everywhere; look for an overflow in the function it comes from")
    return M


def _unit(M: Tensor) -> float:
    """A power of two near the largest entry: to divide by it is exact, and squares neither overflow nor vanish."""
    return math.ldexp(1.0, math.frexp(float(M.abs().max()))[1])


def certified_margin(H: Tensor, top: float) -> float | None:
    """m with λmax(H) ≤ top + m, by a Cholesky factorisation; None if none of a few margins passes."""
    size = len(H)
    scale = max(abs(top), float(H.abs().max()))
    margin = 0.0
    for attempt in range(TRIES):
        spread = size * (top + margin) - float(H.trace()) + 4 * size * UNIT * scale  # tr(cI − H), safely
        rounding = _gamma(size + 1) * max(spread, scale) / (1 - _gamma(size + 1)) + 4 * UNIT * scale  # and of cI − H
        margin = 10.0**attempt * rounding
        if passes(H, top + margin):
            return margin + 2 * rounding  # twice, as the margin itself enters the trace
    return None


def passes(H: Tensor, c: float) -> bool:
    """Has cI − H a Cholesky factorisation?"""
    shifted = -H
    shifted.diagonal().add_(c)
    return int(torch.linalg.cholesky_ex(shifted).info) == 0


def _end(value: float | None, estimate: float) -> Extreme:
    return Extreme(
        value=estimate if value is None else value,
        estimate=estimate,
        side=Side.LOWER if value is None else Side.EXACT,
        products=0,
        steps=0,
        residual=0.0,
        slack=1.0 if value is None else ratio(value, estimate),
        delta=None,
        converged=True,
    )


@torch.no_grad()
def dense_symmetric(H: Tensor) -> Symmetric:
    """Both ends of the spectrum of a symmetric matrix, or of the symmetric part if rounding left it not quite so."""
    eps = torch.finfo(H.dtype).eps
    H = _on_host(H, "H")
    if H.shape[0] != H.shape[1]:
        raise InputError(f"H has shape {tuple(H.shape)}; give a square matrix, or use dense_norm")
    gap = float((H - H.T).abs().max())
    if gap > math.sqrt(eps) * float(H.abs().max()):
        raise InputError(f"H is not symmetric (H_ij − H_ji = {gap:.2e} somewhere); give (H + Hᵀ)/2, or use dense_norm")
    if not bool(H.any()):
        return Symmetric(_end(0.0, 0.0), _end(0.0, 0.0))
    unit = _unit(H)
    H = (H / unit + H.T / unit) / 2
    theta = torch.linalg.eigvalsh(H)
    low, top = float(theta[0]), float(theta[-1])
    above, below = certified_margin(H, top), certified_margin(-H, -low)
    return Symmetric(
        largest=_end(None if above is None else unit * (top + above), unit * top),
        smallest=_end(None if below is None else unit * (low - below), unit * low),
    )


@torch.no_grad()
def dense_norm(J: Tensor) -> Extreme:
    """‖J‖, through the smaller of JᵀJ and JJᵀ."""
    J = _on_host(J, "J")
    if not bool(J.any()):
        return _end(0.0, 0.0)
    unit = _unit(J)
    J = J.T / unit if J.shape[0] < J.shape[1] else J / unit
    G = J.T @ J
    top = float(torch.linalg.eigvalsh(G)[-1])
    margin = certified_margin(G, top)
    if margin is None:
        return _end(None, unit * math.sqrt(top))
    rounding = _gamma(len(J) + 2) * float((J**2).sum())  # of JᵀJ, as ‖|J|ᵀ|J|‖ ≤ ‖J‖²_F
    return _end(unit * math.sqrt(top + margin + rounding) * (1 + 4 * UNIT), unit * math.sqrt(top))
