"""Extreme eigenvalues and norms of matrices that fit in memory, certified by a Cholesky factorisation.

They are computed on the CPU in double precision, to which float32 converts exactly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.estimate.lanczos_certificate import Extreme, Symmetric, ratio
from boundcheck.numerics.program.cholesky_certificate import UNIT, certified_margin, gamma, power_of_two_near
from boundcheck.side import Side


def _on_host(M: Tensor, name: str) -> Tensor:
    if M.dim() != 2 or not M.numel():
        raise InputError(f"{name} has shape {tuple(M.shape)}; give a matrix with at least one entry")
    M = M.detach().to(device="cpu", dtype=torch.float64)
    if not bool(M.isfinite().all()):
        raise InputError(f"{name} is not finite everywhere; look for an overflow in the function it comes from")
    return M


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
    """Return both ends of the spectrum of a symmetric matrix, which may be asymmetric by rounding."""
    eps = torch.finfo(H.dtype).eps
    H = _on_host(H, "H")
    if H.shape[0] != H.shape[1]:
        raise InputError(f"H has shape {tuple(H.shape)}; give a square matrix, or use dense_norm")
    gap = float((H - H.T).abs().max())
    if gap > math.sqrt(eps) * float(H.abs().max()):
        raise InputError(f"H is not symmetric (H_ij − H_ji = {gap:.2e} somewhere); give (H + Hᵀ)/2, or use dense_norm")
    if not bool(H.any()):
        return Symmetric(_end(0.0, 0.0), _end(0.0, 0.0))
    unit = power_of_two_near(H)
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
    """Return ‖J‖, computed from the smaller of JᵀJ and JJᵀ."""
    J = _on_host(J, "J")
    if not bool(J.any()):
        return _end(0.0, 0.0)
    unit = power_of_two_near(J)
    J = J.T / unit if J.shape[0] < J.shape[1] else J / unit
    G = J.T @ J
    top = float(torch.linalg.eigvalsh(G)[-1])
    margin = certified_margin(G, top)
    if margin is None:
        return _end(None, unit * math.sqrt(top))
    rounding = gamma(len(J) + 2) * float((J**2).sum())  # the rounding of JᵀJ, as ‖|J|ᵀ|J|‖ ≤ ‖J‖²_F
    return _end(unit * math.sqrt(top + margin + rounding) * (1 + 4 * UNIT), unit * math.sqrt(top))
