"""ITD at every t at once, forwards: S_t = dz_t/dλ is carried along, and every t reads off S_tᵀ∇E(w_t).

S⁺ = ∂₁Ψ S + ∂₂Ψ, in one of two ways. `forward` takes n directional derivatives a step: for n small against T. `dense`
forms ∂₁Ψ and ∂₂Ψ as matrices, for many t in one batch, and multiplies: for d and n small against T.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vjp, vmap

from boundcheck.compare.batch import Batch
from boundcheck.problem import Ready
from boundcheck.products import Leaves, PushForward


def forward(batch: Batch, b: Tensor) -> Tensor:
    """(dw_t/dλ)ᵀ∇₁E(w_t) for t = 1 … T, of shape (λ, T, n); T·n directional derivatives."""
    problem = batch.problem
    count, n = b.shape[0], problem.n
    push = PushForward(problem.psi_at, batch.prepared, n)
    S = batch.z.new_zeros(count, n, batch.z.shape[-1])
    found = b.new_empty(count, batch.T, n)
    for t in range(batch.T):
        S = push(batch.z[:, t], S)
        found[:, t] = (problem.dynamics.iterate(S) @ b[:, t, :, None])[..., 0]
    return found


def dense(batch: Batch, b: Tensor, leaves: Leaves, block: int) -> Tensor:
    """The same, with ∂₁Ψ and ∂₂Ψ formed for `block` values of t at a time by T·d transposed products."""
    problem, prepared = batch.problem, batch.prepared
    count, d, size = b.shape[0], problem.d, batch.z.shape[-1]
    eye = torch.eye(d, dtype=b.dtype, device=b.device)

    def newest(z: Tensor, ready: Ready) -> Tensor:
        return problem.dynamics.iterate(problem.psi_at(z, ready))  # the rest of a state are copies

    def one(z: Tensor, flat: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        here = Leaves(flat, leaves.spec, leaves.active)
        transposed = vjp(lambda z, tensors: newest(z, here.ready(tensors)), z, here.tensors)[1]
        matrices: tuple[Tensor, tuple[Tensor, ...]] = vmap(transposed)(eye)
        return matrices

    S = batch.z.new_zeros(count, size, problem.n)
    found = b.new_empty(count, batch.T, problem.n)
    for start in range(0, batch.T, block):
        z = batch.z[:, start : min(start + block, batch.T)]
        J, cotangents = vmap(vmap(one, in_dims=(0, None)))(z, leaves.flat)
        P = prepared.pull_back_rows(leaves, tuple(v.flatten(1, 2) for v in cotangents))
        P = P.reshape(*J.shape[:3], problem.n) if isinstance(P, Tensor) else J.new_zeros(*J.shape[:3], problem.n)
        for i in range(z.shape[1]):
            S = torch.cat((torch.baddbmm(P[:, i], J[:, i], S), S[:, : size - d]), dim=1)
            found[:, start + i] = (b[:, start + i, None] @ S[:, :d])[:, 0]
    return found
