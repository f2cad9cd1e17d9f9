"""AID at every t at once: the linear systems of all t as rows, and the iterates read off on the way.

The system of row t is (I − ∂₁Φ(w_t)ᵀ)v = ∇₁E(w_t). With k = t its row is done after t steps and is dropped; a fixed k
reads all rows after k steps. Rows go in blocks, since products are quickest for one or two thousand rows at a time.
Where ∂₁Φ is one symmetric matrix for all t, rows are taken to its eigenvectors first: a product there is one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from boundcheck.compare.batch import Batch, Products, Spectrum
from boundcheck.solvers.conjugate_gradient import SPENT, not_definite

DROP = 8  # a block gets rid of its finished rows when they are one in this many
ASK = 16  # after every so many steps the host asks whether any row still moves


class Rows(Protocol):
    """An iteration on all rows of a block."""

    v: Tensor

    def step(self, at: Products) -> None: ...
    def drop(self, count: int) -> None: ...
    def spent(self) -> bool: ...
    def finish(self) -> None: ...


def iterates(batch: Batch, b: Tensor, solver: str, ks: Sequence[int | None], block: int) -> dict[int | None, Tensor]:
    """v_k for every t = 1 … T and every k asked for (None: k = t), each of shape (λ, T, d)."""
    if batch.spectrum is not None:
        return _in_eigenvectors(batch.spectrum, b, solver, ks, block)
    result = {k: torch.zeros_like(b) for k in ks}
    for start in range(0, batch.T, block):
        _block(lambda rows: batch.products(batch.w[:, rows]), b, solver, result, start, min(start + block, batch.T))
    return result


def _in_eigenvectors(
    spectrum: Spectrum, b: Tensor, solver: str, ks: Sequence[int | None], block: int
) -> dict[int | None, Tensor]:
    """The same where ∂₁Φ is one symmetric matrix for all t: v_k = p(∂₁Φ)b, a number for each distinct eigenvalue."""
    b_hat = b @ spectrum.U
    T = b.shape[1]
    if solver == "aid-fp":
        sums = _geometric_sums(spectrum.values, max(T if k is None else k for k in ks))
        scales = {k: sums[:, 1 : T + 1] if k is None else sums[:, k : k + 1] for k in ks}
    else:
        lengths = spectrum.lengths(b_hat)
        scales = {k: torch.zeros_like(lengths) for k in ks}
        for start in range(0, T, block):
            _block(lambda rows: spectrum, lengths, solver, scales, start, min(start + block, T))
        scales = {k: x.div_(lengths.clamp(min=torch.finfo(b.dtype).tiny)) for k, x in scales.items()}
    return {k: (b_hat * spectrum.spread(scale)) @ spectrum.U.mT for k, scale in scales.items()}


def _geometric_sums(values: Tensor, k: int) -> Tensor:
    """1 + j + … + j^(i−1) for i = 0 … k, of shape (λ, k + 1, distinct)."""
    sums = values.new_zeros(len(values), k + 1, values.shape[-1])
    for i in range(k):
        torch.addcmul(torch.ones_like(values), sums[:, i], values, out=sums[:, i + 1])
    return sums


def _block(
    products: Callable[[slice], Products],
    b: Tensor,
    solver: str,
    result: dict[int | None, Tensor],
    start: int,
    stop: int,
) -> None:
    """The rows t = start + 1 … stop."""
    state = SOLVERS[solver](b[:, start:stop])
    at = products(slice(start, stop))
    fixed = max((k for k in result if k is not None), default=0)
    first, last = start, max(fixed, stop if None in result else 0)
    for k in range(1, last + 1):
        state.step(at)
        if k in result:
            result[k][:, start:stop] = state.v
        if None in result and start < k <= stop:
            result[None][:, k - 1] = state.v[:, k - 1 - first]
        if fixed <= k < stop and DROP * (k - first) >= stop - start:
            state.drop(k - first)
            first = k
            at = products(slice(first, stop))
        if k % ASK == 0 and k < last and state.spent():
            for later in (i for i in result if i is not None and i > k):
                result[later][:, start:stop] = state.v
            if None in result:
                result[None][:, max(k, start) : stop] = state.v[:, max(k, start) - first :]
            break
    state.finish()


class FixedPoint:
    """v ← ∂₁Φᵀv + b."""

    def __init__(self, b: Tensor) -> None:
        self.b, self.v = b, torch.zeros_like(b)

    def step(self, at: Products) -> None:
        self.v = at.d1_T(self.v).add_(self.b)

    def drop(self, count: int) -> None:
        self.b, self.v = self.b[:, count:], self.v[:, count:]

    def spent(self) -> bool:
        return False

    def finish(self) -> None:
        pass


def _dot(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = torch.linalg.vecdot(a, b)
    return product.unsqueeze(-1)


class ConjugateGradient:
    """As in solvers/conjugate_gradient.py, a row a system."""

    def __init__(self, b: Tensor) -> None:
        self.v, self.r, self.p = torch.zeros_like(b), b.clone(), b.clone()
        self.rr = _dot(b, b)
        self.floor = SPENT * torch.finfo(b.dtype).eps ** 2 * self.rr
        self.least = torch.full_like(self.rr[0, 0, 0], torch.inf)  # of pᵀAp over all rows

    def spent(self) -> bool:
        return not bool((self.rr > self.floor).any())

    def finish(self) -> None:
        if bool(self.least <= 0):
            raise not_definite(float(self.least), "pᵀ(I − ∂₁Φᵀ)p at some t")

    def step(self, at: Products) -> None:
        Ap = at.d1_T(self.p)
        torch.sub(self.p, Ap, out=Ap)
        going = self.rr > self.floor
        pAp = _dot(self.p, Ap)
        self.least = torch.minimum(self.least, torch.where(going & torch.isfinite(pAp), pAp, torch.inf).min())
        step = torch.where(going, self.rr / pAp, 0)
        self.v.addcmul_(step, self.p)
        self.r.addcmul_(step, Ap, value=-1)
        rr = _dot(self.r, self.r)
        self.p.mul_(torch.where(going, rr / self.rr, 0)).add_(self.r)
        self.rr = rr

    def drop(self, count: int) -> None:
        for name in ("v", "r", "p", "rr", "floor"):
            setattr(self, name, getattr(self, name)[:, count:].contiguous())


class NormalEquations:
    """As in solvers/normal_equations.py, a row a system."""

    def __init__(self, b: Tensor) -> None:
        self.v, self.r = torch.zeros_like(b), b.clone()
        self.p = self.ss = self.floor = b.new_empty(0)

    def step(self, at: Products) -> None:
        if not self.p.numel():
            self.p = self.r - at.d1(self.r)
            self.ss = _dot(self.p, self.p)
            self.floor = SPENT * torch.finfo(self.p.dtype).eps ** 2 * self.ss
        Ap = at.d1_T(self.p)
        torch.sub(self.p, Ap, out=Ap)
        going = self.ss > self.floor
        step = torch.where(going, self.ss / _dot(Ap, Ap), 0)
        self.v.addcmul_(step, self.p)
        self.r.addcmul_(step, Ap, value=-1)
        s = self.r - at.d1(self.r)
        ss = _dot(s, s)
        self.p.mul_(torch.where(going, ss / self.ss, 0)).add_(s)
        self.ss = ss

    def drop(self, count: int) -> None:
        for name in ("v", "r", "p", "ss", "floor"):
            setattr(self, name, getattr(self, name)[:, count:].contiguous())

    def spent(self) -> bool:
        return not bool((self.ss > self.floor).any())

    def finish(self) -> None:
        pass


SOLVERS: dict[str, Callable[[Tensor], Rows]] = {
    "aid-fp": FixedPoint,
    "aid-cg": ConjugateGradient,
    "aid-cgn": NormalEquations,
}
