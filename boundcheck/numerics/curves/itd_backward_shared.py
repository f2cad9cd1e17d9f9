"""ITD at every t at once, backwards, where formulas give ∂₁Φ for columns and a diagonal ∂₂Φ.

The adjoint of horizon t at state z_p is a = ∂₁Ψ(z_p)ᵀ … ∂₁Ψ(z_{t−1})ᵀ∇E(w_t). All horizons that have begun are taken
from z_{p+1} to z_p at once, through the one matrix that they share there, and what each leaves at λ, ∂₂Ψ(z_p)ᵀa, is a
product entry by entry: nothing is kept but one adjoint and one sum a horizon.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import pad

from boundcheck.numerics.bilevel.derivatives import rows
from boundcheck.numerics.bilevel.problem import Ready
from boundcheck.numerics.curves import lambda_products
from boundcheck.numerics.curves.batch import Batch, Products, as_columns, tiled, transposed
from boundcheck.numerics.curves.itd_eigenbasis import frozen

GROW = 8  # room is made for about so many parts of the horizons at a time


def applies(batch: Batch) -> bool:
    """Are there such formulas, and do steps depend on λ through Φ only?"""
    if batch.formula is None or lambda_products.diagonal(batch, batch.w[:, :1]) is None:
        return False
    return batch.problem.dynamics.copies == 1 or frozen(batch.problem, batch.prepared.leaves, batch.z[:, :1])


def itd(batch: Batch, b: Tensor, start: int, stop: int, block: int, through: int | None = None) -> Tensor:
    """(dw_t/dλ)ᵀ∇₁E(w_t) for the horizons t = start + 1 … stop, of shape (λ, stop − start, n).

    Through the last `through` steps only, if given; ∂₁Φ is prepared for `block` points at a time. Horizons are held in
    reversed order, i = stop − t, in which they begin.
    """
    dynamics, ready, size = batch.problem.dynamics, batch.prepared.ready, stop - start
    if through == 0:
        return torch.zeros_like(b[:, start:stop])
    adjoint = vmap(lambda value, a, ready: dynamics.adjoint(lambda _: value, a, ready))
    w = rows(dynamics.point)(batch.z[:, :stop], ready)
    by_lam = _by_lam(batch, w)
    a, total = b.new_zeros(len(b), 0, batch.z.shape[-1]), b.new_zeros(len(b), 0, b.shape[-1])
    points: list[Products] = []
    least = 0 if through is None else max(0, start + 1 - through)
    for p in range(stop - 1, least - 1, -1):
        if not points:
            points = list(batch.products_along(w[:, max(0, p + 1 - block) : p + 1], size))
        at = points.pop()
        if a.shape[1] < min(stop - p, size):
            more = tiled(-(-size // GROW), len(b))
            a, total = (as_columns(pad(x, (0, 0, 0, more))) for x in (a, total))
        if p >= start:
            a[:, stop - p - 1] = dynamics.lift(b[:, p])
            total[:, stop - p - 1] = 0  # whatever 0 times a later iterate was, which may not be finite
        if through is not None and (done := stop - p - through) > 0:
            a[:, done - 1] = 0
        total.addcmul_(by_lam[:, p, None], dynamics.iterate(a))
        a = transposed(at, a, a) if dynamics.copies == 1 else adjoint(at.d1_T(dynamics.iterate(a)), a, ready)
    return total[:, :size].flip(1)


def _by_lam(batch: Batch, w: Tensor) -> Tensor:
    """The diagonals of ∂₂Ψ for steps that evaluate Φ at rows w, of shape (λ, rows, d)."""
    if (entries := lambda_products.diagonal(batch, w)) is None:
        raise ValueError(f"{batch.problem.name} has no formula for a diagonal ∂₂Φ")
    dynamics = batch.problem.dynamics

    def newest(phi: Tensor, ready: Ready) -> Tensor:
        """What Φ becomes in a step from 0, which is linear in it."""
        return dynamics.iterate(dynamics.step(lambda _: phi, dynamics.start(torch.zeros_like(phi)), ready))

    return rows(newest)(entries, batch.prepared.ready)
