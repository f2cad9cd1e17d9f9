"""ITD at every t at once, backwards, with one wave of adjoints for all horizons t.

The adjoint of horizon t at state z_p is a = ∂₁Ψ(z_p)ᵀ … ∂₁Ψ(z_{t−1})ᵀ∇E(w_t). All horizons of a block go backwards
together: one transposed product moves every adjoint from a state to the one before, each at its own point, and then the
rows shift by one. The λ-part Σ_p ∂₂Ψ(z_p)ᵀa needs only the adjoints, so it is computed at the end with one product for
each horizon. Rows that share λ are summed inside the matrix products.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import pad

from boundcheck.numerics.bilevel.derivatives import LamLinearisation, Linearisation, rows
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves
from boundcheck.numerics.curves.batch import Batch, within
from boundcheck.numerics.curves.itd_forward import newest
from boundcheck.numerics.curves.lambda_products import PulledCotangents
from boundcheck.numerics.curves.sizes import PASS, WIDTHS, Sizes, autograd_product, pull_back

GROUP = 25  # number of horizons that share an evaluation of Ψ in the λ-part, padded to the longest
RENEW = 8  # the window of points is renewed when the wave has moved by 1/RENEW of a block
LAM_PASSES = 3  # passes over an adjoint in the λ-part, in addition to one evaluation of Φ
STATES = 12  # number of copies of a state in memory for each point


def arithmetic(sizes: Sizes) -> float:
    """Return the arithmetic of ITD at every t, for one λ."""
    T, d = sizes.problem.T, sizes.problem.d
    step = autograd_product(sizes) + sizes.map.phi + LAM_PASSES * PASS * d
    return T**2 / 2 * step + T * pull_back(sizes)


def numbers_held(sizes: Sizes, horizons: int) -> int:
    """Return the most numbers in memory for one λ: adjoints twice, cotangents twice, and products for all horizons."""
    T, d = sizes.problem.T, sizes.problem.d
    return horizons * (2 * T * d + 2 * sizes.lam.leaves + WIDTHS * sizes.width) + T * STATES * sizes.state


class BackwardItd:
    """ITD by one wave of adjoints for each block of horizons; if `through` is given, through the last steps only."""

    def __init__(self, batch: Batch, b: Tensor, leaves: Leaves, through: int | None) -> None:
        self._batch, self._b, self._leaves, self._through = batch, b, leaves, through
        self._horizons = slice(0, 0)

    def prepare(self, horizons: slice) -> None:
        cotangents = itd(self._batch, self._b, self._leaves, horizons.start, horizons.stop, self._through)
        self._horizons = horizons
        self._pulled = PulledCotangents(self._batch.prepared, self._leaves, cotangents)

    def block(self, ts: slice, lams: slice) -> Tensor:
        return self._pulled.of(within(ts, self._horizons), lams)


def itd(batch: Batch, b: Tensor, leaves: Leaves, start: int, stop: int, through: int | None = None) -> Cotangents:
    """Return (dw_t/dλ)ᵀ∇₁E(w_t) for the horizons t = start + 1 … stop, as cotangents of shape (λ, stop − start, …).

    If `through` is given, the derivative goes only through the last `through` steps.
    """
    steps = stop if through is None else min(through, stop)
    return _contract(batch, _adjoints(batch, b, start, stop, steps), leaves, start, stop, steps)


def _adjoints(batch: Batch, b: Tensor, start: int, stop: int, count: int) -> Tensor:
    """Return adjoints of shape (λ, count, stop − start, d): a[:, j, i] is that of horizon t = stop − i at state t − j.

    Points are in reversed order, c = stop − 1 − p, in which the wave moves up: at step j, the adjoint of horizon
    stop − i goes through the point c = i + j.
    """
    dynamics, psi, ready = batch.problem.dynamics, rows(batch.problem.psi_at), batch.prepared.ready
    points, size = batch.z[:, :stop].flip(1), stop - start
    a = b.new_empty(b.shape[0], max(1, count), size, b.shape[-1])
    a[:, 0] = b[:, start:stop].flip(1)
    band = dynamics.lift(a[:, 0])
    if batch.constant is not None:  # every point has the same ∂₁Φ, so no shift is needed
        adjoint = vmap(lambda J, v, ready: dynamics.adjoint(lambda v: v @ J, v, ready))
        for j in range(1, count):
            band = adjoint(batch.constant.J, band[:, : stop - j], ready)
            a[:, j, : stop - j] = dynamics.iterate(band)
        return a
    stride = max(1, size // RENEW)
    for j in range(0, count - 1, stride):
        steps = min(stride, count - 1 - j)
        end = min(stop, j + size + steps)
        linearised = Linearisation(psi, points[:, j:end], ready)
        V = pad(band, (0, 0, 0, end - j - band.shape[1]))
        for s in range(1, steps + 1):
            V = pad(linearised.d1_T(V)[:, :-1], (0, 0, 1, 0))
            going = min(size, stop - j - s)  # the other horizons have reached z_0
            a[:, j + s, :going] = dynamics.iterate(V[:, s : s + going])
        band = V[:, steps : steps + going]
    return a


def _contract(batch: Batch, a: Tensor, leaves: Leaves, start: int, stop: int, count: int) -> Cotangents:
    """Return Σ_p ∂₂Ψ(z_p)ᵀa for each horizon."""
    problem, points = batch.problem, batch.z[:, :stop].flip(1)
    parts, group = [], min(stop - start, GROUP)
    for first in range(0, stop - start, group):
        linearised = LamLinearisation(newest(problem), points[:, first:], leaves)
        for i in range(first, min(first + group, stop - start)):
            used = a[:, : min(count, stop - i), i]
            parts.append(linearised.d2_T(pad(used, (0, 0, i - first, stop - i - used.shape[1]))))
    return tuple(torch.stack(leaf[::-1], dim=1) for leaf in zip(*parts, strict=True))
