"""Compute λmax(diag(a) + VᵀV) for a V with few rows, from matrices with as many rows as V.

Above max a, μ is an eigenvalue iff 1 is an eigenvalue of M(μ) = V diag(μ − a)⁻¹Vᵀ, which has as many rows as V.
h = 1/λmax(M(μ)) is the least over unit z of 1/Σ (Vᵀz)_i²/(μ − a_i), and each of these functions is concave and
increasing in μ. Hence h is too, so Newton's method for h = 1 never exceeds the largest eigenvalue, and rises to it from
any μ below. With the unit eigenvector z of f = λmax(M) and x = diag(μ − a)⁻¹Vᵀz, its step is (f² − f)/‖x‖², to the
Rayleigh quotient of x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from boundcheck.problems.parts.norm_bounds import top

FEW = 4  # with fewer entries of a for each row of V, the large eigenvalue problem is as fast
ROUNDS = 60  # the most steps of Newton's method; 2 to 6 are usual


def top_beside(a: Tensor, V: Tensor) -> Tensor:
    """Return λmax(diag(a) + VᵀV), without a derivative. `vmap` over a is supported."""
    if len(a) <= FEW * len(V):
        return top(torch.diag(a.detach()) + V.T @ V)
    eigenvalue: Tensor = _Top.apply(a.detach(), V)  # type: ignore[no-untyped-call]
    return eigenvalue


class _Top(torch.autograd.Function):
    """Newton's method as one operation, because `vmap` cannot trace when it stops."""

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
    """Return λmax for each row of a."""
    finfo = torch.finfo(V.dtype)
    along = torch.linalg.eigh(V @ V.T).eigenvectors[:, -1] @ V
    along_squared = along.square().sum()
    mu = torch.stack((  # lower bounds: Rayleigh quotients of unit vectors, and of the main direction of V
        (a + (V * V).sum(0)).amax(1),
        torch.where(along_squared > 0, (a @ along.square() + (V @ along).square().sum()) / along_squared, -torch.inf),
        a.amax(1) + 4 * finfo.eps * a.abs().amax(1) + finfo.tiny,  # or slightly above λmax, if V adds nothing
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
