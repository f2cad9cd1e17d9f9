"""ITD and the last product of AID in the eigenvectors of ∂₁Φ, with ∂₂Φ as matrices at the points. It is for a short λ.

In the eigenvectors of ∂₁Φ, ∂₂Φ(w_t) is a sum of the matrices at the points: one product of matrices for many t. AID
uses it directly. The dynamics, applied to each coordinate, turn it into dw_t/dλ, which ITD uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.curves import lambda_products
from boundcheck.numerics.curves.batch import pieces
from boundcheck.numerics.curves.itd_eigenbasis import Modes
from boundcheck.numerics.curves.sizes import Sizes

TIMES = 64  # number of t at once, for one λ at a time, so that matrices stay in the cache
MATRICES = 2  # number of copies of ∂₂Φ at the points in memory


def numbers_kept(sizes: Sizes, aid_methods: int) -> int:
    """Return how many numbers are stored for one λ: ∂₂Φ at the points, and the results of ITD and of AID methods."""
    n = sizes.lam.n
    return MATRICES * sizes.problem.d**2 * n + (1 + aid_methods) * sizes.problem.T * n


@dataclass(frozen=True, eq=False)
class Read:
    """(dw_t/dλ)ᵀ∇₁E(w_t), of shape (λ, T, n), and ∂₂Φ(w_t)ᵀv, of shape (λ, T, vectors, n), if requested."""

    itd: Tensor | None = None
    aid: Tensor | None = None


class Formed:
    """∂₂Φᵀ at the points of `modes`, in eigenvectors, for one λ at a time, of shape (λ, points, n, d)."""

    def __init__(self, modes: Modes) -> None:
        self._modes, batch = modes, modes.batch
        # in a short run with fewer iterates than points, ∂₂Φ is formed at the iterates themselves
        self._direct = batch.problem.dynamics.sees_iterates and modes.points.shape[1] > batch.T
        points = batch.problem.dynamics.iterate(batch.z) if self._direct else modes.points
        self._d2phi_T = lambda_products.D2PhiMatrices(batch, modes.leaves, points)
        self._newest = [modes.spectrum.spread(x[:, None]) for x in modes.newest]

    def read(self, b: Tensor | None, v: Tensor | None) -> Read:
        """Compute the results for ∇₁E(w_t), of shape (λ, T, d), and vectors v of AID, of shape (λ, T, vectors, d)."""
        U, n = self._modes.spectrum.U, self._modes.batch.problem.n
        totals = Read(
            None if b is None else b.new_empty(*b.shape[:2], n), None if v is None else v.new_empty(*v.shape[:3], n)
        )
        b = None if b is None else (self._modes.omega * b) @ U
        v = None if v is None else (v.flatten(1, 2) @ U).view(v.shape)
        for lams in pieces(0, len(U), 1):
            d2_T = self._d2phi_T.of(lams)
            d2_T = (d2_T.flatten(1, 2) @ U[lams]).view(d2_T.shape)
            if self._modes.batch.problem.dynamics.sees_iterates:
                self._along(self._modes.iterates, d2_T, lams, b, v, totals)
            else:
                self._along(self._modes.evaluated, d2_T, lams, b, None, totals)
                self._along(self._modes.iterates, d2_T, lams, None, v, totals)
        return totals

    def _along(
        self, weights: Tensor, d2_T: Tensor, lams: slice, b: Tensor | None, v: Tensor | None, totals: Read
    ) -> None:
        """Compute the results from ∂₂Φᵀ with these weights for p = 0, 1, …

        v of t = p is multiplied by ∂₂Φᵀ itself, and b of t = p + 1 by dw/dλ, the sum that the dynamics form of it.
        """
        newest = [x[lams] for x in self._newest]
        state = [torch.zeros_like(d2_T[:, 0])] * len(newest)
        for part in pieces(0, weights.shape[1], TIMES):
            if self._direct:
                at_p = d2_T[:, part]
            else:
                at_p = (weights[lams, part] @ d2_T.flatten(2)).view(len(d2_T), -1, *d2_T.shape[2:])
            first, last = max(part.start, 1), min(part.stop, self._modes.batch.T)
            if v is not None and totals.aid is not None:
                steps = slice(first - 1, part.stop - 1)
                totals.aid[lams, steps] = v[lams, steps] @ at_p[:, first - part.start :].mT
            if b is not None and totals.itd is not None:
                steps = slice(part.start, last)
                carried = at_p[:, : last - part.start]
                for new in carried.unbind(1):
                    for entry, x in zip(newest, state, strict=True):
                        new.addcmul_(entry, x)
                    state = [new, *state[:-1]]
                totals.itd[lams, steps] = (b[lams, steps, None] @ carried.mT)[:, :, 0]
