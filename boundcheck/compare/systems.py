"""AID at every t at once: the linear systems of all t as rows, and the iterates read off on the way.

The system of row t is (I − ∂₁Φ(w_t)ᵀ)v = ∇₁E(w_t). A row is read off after its k steps, k = t or fixed, and dropped
when nothing more is asked of it. Where ∂₁Φ is one symmetric matrix for all t, rows are taken to its eigenvectors first:
a product there is one pass. Where it is symmetric, one Krylov basis serves FP and CG (krylov.py), if there is room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from boundcheck.compare import krylov
from boundcheck.compare.batch import Batch, Products, pieces
from boundcheck.compare.spectrum import Spectrum
from boundcheck.methods import Method
from boundcheck.solvers.conjugate_gradient import SPENT, not_definite

Asked = Mapping[Method, Sequence[int]]  # for every method its k at each row, ascending
DROP = 8  # a block gets rid of its finished rows when they are one in this many
ASK = 16  # after every so many steps the host asks whether any row still moves


class Rows(Protocol):
    """An iteration on all rows of a block."""

    v: Tensor

    def step(self, at: Products) -> None: ...
    def drop(self, count: int) -> None: ...
    def spent(self) -> bool: ...
    def finish(self) -> None: ...


def iterates(batch: Batch, b: Tensor, asked: Asked, block: int, basis: int) -> dict[Method, Tensor]:
    """v of every method, each of shape (λ, rows, d) like b = ∇₁E.

    `block` is how many rows to take at once; `basis` how many if a Krylov basis of each is kept, 0 if there is no room.
    """
    if batch.spectrum is not None:
        return _in_eigenvectors(batch.spectrum, b, asked, block)
    found = {m: torch.zeros_like(b) for m in asked}
    left = [(dict(asked), slice(0, b.shape[1]))]  # what is solved by steps, for which rows
    if basis and batch.problem.symmetric:
        quick = {m: ks for m, ks in asked.items() if m.name in krylov.SOLVERS}
        left = [({m: ks for m, ks in asked.items() if m not in quick}, slice(0, b.shape[1]))]
        room = krylov.Room()
        for rows in pieces(0, b.shape[1] if quick else 0, basis):
            here = {m: ks[rows] for m, ks in quick.items()}
            solved = krylov.solve(batch.products(batch.w[:, rows]), batch.laid_out(b[:, rows]), here, room)
            for m, v in solved.items():
                found[m][:, rows] = v
            left.append(({m: ks for m, ks in quick.items() if m not in solved}, rows))
    for some, rows in left:
        for solver in dict.fromkeys(m.name for m in some):
            own = {m: ks for m, ks in some.items() if m.name == solver}
            for part in pieces(rows.start, rows.stop, block):
                _block(lambda rows: batch.products(batch.w[:, rows]), batch.laid_out, b, solver, own, found, part)
    return found


def _in_eigenvectors(spectrum: Spectrum, b: Tensor, asked: Asked, block: int) -> dict[Method, Tensor]:
    """The same where ∂₁Φ is one symmetric matrix for all t: v_k = p(∂₁Φ)b, a number for each distinct eigenvalue."""
    b_hat = b @ spectrum.U
    scales: dict[Method, Tensor] = {}
    if fixed_point := {m: ks for m, ks in asked.items() if m.name == "aid-fp"}:
        scales = _geometric_sums(spectrum.values, fixed_point)
    for solver in dict.fromkeys(m.name for m in asked if m not in scales):
        lengths = spectrum.lengths(b_hat)
        own = {m: ks for m, ks in asked.items() if m.name == solver}
        scales |= {m: torch.zeros_like(lengths) for m in own}
        for part in pieces(0, b.shape[1], block):
            _block(lambda rows: spectrum, lambda v: v, lengths, solver, own, scales, part)
        for m in own:
            scales[m].div_(lengths.clamp(min=torch.finfo(b.dtype).tiny))
    return {m: (b_hat * spectrum.spread(scales[m])) @ spectrum.U.mT for m in asked}


def _geometric_sums(values: Tensor, asked: Asked) -> dict[Method, Tensor]:
    """1 + j + … + j^(k−1) for the k of each row, of shape (λ, rows, distinct)."""
    found = {m: values.new_zeros(len(values), len(ks), values.shape[-1]) for m, ks in asked.items()}
    total, one = torch.zeros_like(values), torch.ones_like(values)
    for k in range(1, max(ks[-1] for ks in asked.values()) + 1):
        total = torch.addcmul(one, total, values)
        for m, ks in asked.items():
            if (low := bisect_left(ks, k)) < (high := bisect_right(ks, k)):
                found[m][:, low:high] = total[:, None]
    return found


def _block(
    products: Callable[[slice], Products],
    laid_out: Callable[[Tensor], Tensor],
    b: Tensor,
    solver: str,
    asked: Asked,
    result: Mapping[Method, Tensor],
    rows: slice,
) -> None:
    """Some rows, step by step."""
    start, stop = rows.start, rows.stop
    state = SOLVERS[solver](laid_out(b[:, rows]))
    at = products(rows)
    first, last = start, max(ks[stop - 1] for ks in asked.values())

    def read(m: Method, low: int, high: int) -> None:
        if low < high:
            result[m][:, low:high] = state.v[:, low - first : high - first]

    for k in range(1, last + 1):
        state.step(at)
        done = {m: bisect_right(ks, k, start, stop) for m, ks in asked.items()}
        for m, ks in asked.items():
            read(m, bisect_left(ks, k, start, stop), done[m])
        finished = min(done.values())
        if finished < stop and DROP * (finished - first) >= stop - start:
            state.drop(finished - first)
            first = finished
            at = products(slice(first, stop))
        if k % ASK == 0 and k < last and state.spent():
            for m in asked:
                read(m, done[m], stop)
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
