"""Spectral norms from the smaller Gram matrix, whose largest eigenvalue is as accurate as a singular value would be."""

from __future__ import annotations

import torch
from torch import Tensor


def largest(G: Tensor) -> Tensor:
    """The largest eigenvalue of a positive semidefinite matrix, or of each of a batch."""
    top: Tensor = torch.linalg.eigvalsh(G)[..., -1].clamp(min=0)
    return top


def spectral_norm(A: Tensor) -> Tensor:
    """The largest singular value of a matrix, or of each of a batch."""
    return largest(A.mT @ A if A.shape[-1] < A.shape[-2] else A @ A.mT).sqrt()
