"""ITD at every t at once, backwards, for problems with formulas for ∂₁Φ on columns and for a diagonal ∂₂Φ.

The adjoint of horizon t at state z_p is a = ∂₁Ψ(z_p)ᵀ … ∂₁Ψ(z_{t−1})ᵀ∇E(w_t). All horizons that have begun move from
z_{p+1} to z_p at once, by products with the one matrix that they share there. Each adds ∂₂Ψ(z_p)ᵀa to its derivative by
λ, an entrywise product. So only one adjoint and one sum are stored for each horizon.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import pad

from boundcheck.numerics.bilevel.derivatives import rows
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.curves import lambda_products
from boundcheck.numerics.curves.batch import Batch, tiled, within
from boundcheck.numerics.curves.jacobian import Products, as_columns, transposed
from boundcheck.numerics.curves.sizes import PASS, WIDTHS, Sizes, fixed_steps, product

GROW = 8  # memory for the horizons grows by one eighth of a block at a time
LAM_PASSES = 2  # passes over an adjoint for its term of the derivative by λ
ADJOINTS = 4  # number of copies of an adjoint and of a sum in memory for each horizon
POINTS = 3  # number of vectors in memory for each point


def arithmetic(sizes: Sizes) -> float:
    """Return the arithmetic of ITD at every t, for one λ."""
    T, d = sizes.problem.T, sizes.problem.d
    return T**2 / 2 * (product(sizes) + LAM_PASSES * PASS * d)


def numbers_held(sizes: Sizes, horizons: int, rows: int) -> int:
    """Return the most numbers in memory, for one λ and these numbers of horizons and of points with a prepared ∂₁Φ."""
    T, d = sizes.problem.T, sizes.problem.d
    return horizons * ADJOINTS * (sizes.state + d) + rows * WIDTHS * sizes.width + T * POINTS * d


def applies(batch: Batch) -> bool:
    """Return whether the problem has such formulas and its steps depend on λ only through Φ."""
    if batch.formula is None or lambda_products.diagonal(batch, batch.w[:, :1]) is None:
        return False
    return batch.problem.dynamics.copies == 1 or fixed_steps(batch.problem, batch.prepared.leaves, batch.z[:, :1])


class SharedBackwardItd:
    """ITD by adjoints at shared points, for each block of horizons.

    If `through` is given, the derivative goes only through the last `through` steps. ∂₁Φ is prepared for `rows` points
    at a time.
    """

    def __init__(self, batch: Batch, b: Tensor, rows: int, through: int | None) -> None:
        self._batch, self._b, self._rows, self._through = batch, b, rows, through
        self._horizons, self._values = slice(0, 0), b[:, :0]

    def prepare(self, horizons: slice) -> None:
        self._values = itd(self._batch, self._b, horizons.start, horizons.stop, self._rows, self._through)
        self._horizons = horizons

    def block(self, ts: slice, lams: slice) -> Tensor:
        return self._values[lams, within(ts, self._horizons)]


def itd(batch: Batch, b: Tensor, start: int, stop: int, block: int, through: int | None = None) -> Tensor:
    """Return (dw_t/dλ)ᵀ∇₁E(w_t) for the horizons t = start + 1 … stop, of shape (λ, stop − start, n).

    If `through` is given, the derivative goes only through the last `through` steps. ∂₁Φ is prepared for `block` points
    at a time. Horizons are in reversed order, i = stop − t, in which they begin.
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
        jacobian = points.pop()
        if a.shape[1] < min(stop - p, size):
            more = tiled(-(-size // GROW), len(b))
            a, total = (as_columns(pad(x, (0, 0, 0, more))) for x in (a, total))
        if p >= start:
            a[:, stop - p - 1] = dynamics.lift(b[:, p])
            total[:, stop - p - 1] = 0  # before, it was 0 times a later iterate, which may not be finite
        if through is not None and (done := stop - p - through) > 0:
            a[:, done - 1] = 0
        total.addcmul_(by_lam[:, p, None], dynamics.iterate(a))
        a = (
            transposed(jacobian, a, a)
            if dynamics.copies == 1
            else adjoint(jacobian.d1_T(dynamics.iterate(a)), a, ready)
        )
    return total[:, :size].flip(1)


def _by_lam(batch: Batch, w: Tensor) -> Tensor:
    """Return the diagonals of ∂₂Ψ for steps that evaluate Φ at rows w, of shape (λ, rows, d)."""
    if (entries := lambda_products.diagonal(batch, w)) is None:
        raise ValueError(f"{batch.problem.name} has no formula for a diagonal ∂₂Φ")
    dynamics = batch.problem.dynamics

    def newest(phi: Tensor, ready: Ready) -> Tensor:
        """Return the new iterate of a step from 0 in which Φ has the value `phi`; it is linear in `phi`."""
        return dynamics.iterate(dynamics.step(lambda _: phi, dynamics.start(torch.zeros_like(phi)), ready))

    return rows(newest)(entries, batch.prepared.ready)
