"""λmax(diag(a) + VᵀV) where V has few rows: a small problem, in place of one as large as a is long.

Above max a, μ is an eigenvalue iff 1 is one of M(μ) = V diag(μ − a)⁻¹Vᵀ, which has as many rows as V. h = 1/λmax(M(μ))
is the least over unit z of 1/Σ (Vᵀz)_i²/(μ − a_i), each of which is concave and increasing in μ. Hence so is h, and
Newton's method for h = 1 never goes beyond the largest eigenvalue, and rises to it from any μ below. With the unit
eigenvector z of f = λmax(M) and x = diag(μ − a)⁻¹Vᵀz its step is (f² − f)/‖x‖², to the Rayleigh quotient of x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from boundcheck.problems.parts.norm_bounds import top

FEW = 4  # times as many entries of a as rows of V, or the large problem is as quick
ROUNDS = 60  # of Newton at most; 2 to 6 are usual


def top_beside(a: Tensor, V: Tensor) -> Tensor:
    """For one a, or under `vmap` for each. It has no derivative."""
    if len(a) <= FEW * len(V):
        return top(torch.diag(a.detach()) + V.T @ V)
    eigenvalue: Tensor = _Top.apply(a.detach(), V)  # type: ignore[no-untyped-call]
    return eigenvalue


class _Top(torch.autograd.Function):
    """Newton's method stops when it is done, which `vmap` must not look into."""

    @staticmethod
    def forward(a: Tensor, V: Tensor) -> Tensor:
        return newton(a.reshape(-1, a.shape[-1]), V).reshape(a.shape[:-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, int | None], a: Tensor, V: Tensor) -> tuple[Tensor, int]:
        if in_dims[1] is not None:
            raise NotImplementedError("top_beside takes one V for several a")
        return _Top.apply(a.movedim(in_dims[0], 0), V), 0  # type: ignore[no-untyped-call]


def newton(a: Tensor, V: Tensor) -> Tensor:
    """λmax for each row of a."""
    finfo = torch.finfo(V.dtype)
    along = torch.linalg.eigh(V @ V.T).eigenvectors[:, -1] @ V
    along_squared = along.square().sum()
    mu = torch.stack((  # below the eigenvalue: the quotients of unit vectors, and of that along which V weighs most
        (a + (V * V).sum(0)).amax(1),
        torch.where(along_squared > 0, (a @ along.square() + (V @ along).square().sum()) / along_squared, -torch.inf),
        a.amax(1) + 4 * finfo.eps * a.abs().amax(1) + finfo.tiny,  # or hardly above it, where V has nothing to add
    )).amax(0)  # fmt: skip
    for _ in range(ROUNDS):
        inverse = 1 / (mu[:, None] - a)
        values, vectors = torch.linalg.eigh((V * inverse[:, None]) @ V.T)
        f, x = values[:, -1], inverse * (vectors[..., -1] @ V)
        new = mu + (f * f - f) / x.square().sum(1)
        if not bool((new > mu + 2 * finfo.eps * mu.abs()).any()):
            return mu
        mu = torch.fmax(mu, new)
    dense: Tensor = torch.linalg.eigvalsh(torch.diag_embed(a) + V.T @ V)[:, -1]
    return dense
