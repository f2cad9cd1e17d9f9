"""Projections that make an equilibrium model a contraction: onto matrices or convolutions with bounded spectral norm.

The circular convolution of several channels with a kernel K (out × in × k × k) on a torus of side `grid` is block
diagonal in the Fourier basis, with one out × in block for each frequency: the Fourier transform of K padded to the
torus (Sedghi, Gupta and Long 2019). The blocks of the cross-correlation are the complex conjugates, so the singular
values are the same. The position of the padded kernel on the torus does not matter, because a cyclic shift is unitary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.errors import InputError


def project_matrix(A: Tensor, norm: float) -> Tensor:
    """Return the nearest matrix to A with singular values in [0, norm]; A itself if its singular values are."""
    return A - _excess(A, _checked(norm))


def convolution_norm(K: Tensor, grid: int) -> Tensor:
    """Return the exact spectral norm of the circular convolution (or cross-correlation) with K, as a 0-dim tensor."""
    norm: Tensor = torch.linalg.svdvals(_blocks(K, grid)).amax()
    return norm


def project_convolution(K: Tensor, grid: int, norm: float, rounds: int = 1) -> Tensor:
    """Return a kernel near K and of the same size with `convolution_norm` at most `norm`; K itself if its norm is.

    Clipping the singular values gives an operator with a kernel that fills the torus, and cropping this kernel to the
    size of K (Sedghi et al.) can raise the norm above `norm` again. The kernel is then scaled, so the bound holds for
    any number of `rounds`. Rounds are Dykstra's alternating projections, which tend to the nearest such kernel.
    """
    limit = _checked(norm)
    if rounds < 1:
        raise InputError(f"rounds = {rounds} would not project at all; give at least 1")
    projected, correction = K, _blocks(torch.zeros_like(K), grid)
    for _ in range(rounds):
        # K is in the subspace of small kernels, so only the set of small norm needs a correction (Dykstra's increment)
        correction = _excess(_blocks(projected, grid) + correction, limit)
        projected = K - _crop(correction, K, grid)
    reached = convolution_norm(projected, grid)
    return torch.where(reached > limit, projected * (limit / reached), projected)


def _blocks(K: Tensor, grid: int) -> Tensor:
    """Return an out × in matrix for each frequency. K is real, so half of the frequencies have all singular values."""
    if K.ndim != 4 or max(K.shape[-2:]) > grid:
        raise InputError(
            f"a kernel of shape {tuple(K.shape)} does not fit a torus of side {grid}; give out x in x k x k, k <= grid"
        )
    blocks: Tensor = torch.fft.rfft2(K, s=(grid, grid)).permute(2, 3, 0, 1)
    return blocks


def _crop(blocks: Tensor, K: Tensor, grid: int) -> Tensor:
    """Return the part of a kernel on the grid at the place where `_blocks` puts K."""
    kernel: Tensor = torch.fft.irfft2(blocks.permute(2, 3, 0, 1), s=(grid, grid))
    return kernel[..., : K.shape[-2], : K.shape[-1]]


def _excess(A: Tensor, norm: float) -> Tensor:
    """Return the difference of A and A with singular values clipped at `norm`; exactly zero if none is clipped."""
    U, S, Vh = torch.linalg.svd(A, full_matrices=False)
    excess: Tensor = (U * (S - norm).clamp(min=0).unsqueeze(-2)) @ Vh
    return excess


def _checked(norm: float) -> float:
    if not 0 <= norm < float("inf"):
        raise InputError(
            f"norm = {norm} is not a spectral norm to project to; give a finite number that is not negative"
        )
    return float(norm)


def contraction_norm(norm: float) -> float:
    """Return a norm as a float; InputError unless it is at least 0 and below 1."""
    if not 0 <= norm < 1:
        raise InputError(f"norm = {norm} does not give a contraction; give 0 <= norm < 1")
    return float(norm)
