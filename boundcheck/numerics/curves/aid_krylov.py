"""AID at every t for a symmetric ∂₁Φ: FP and CG use one Krylov basis for each row, for every k.

Lanczos' recursion from x_0 = b/‖b‖ transforms J = ∂₁Φ to a tridiagonal matrix: JX = XT + β x_m e_{m−1}ᵀ for the columns
x_0 … x_{m−1} of X. After k steps, FP and CG have computed Xu, with coefficients u that depend on T alone,

    FP: u ← Tu + ‖b‖e_0, k times from 0;    CG: (I − T_k)u = ‖b‖e_0 with the first k rows and columns of T,

so each product is computed only once, and only for the vectors that are needed. Columns lose their orthogonality by
rounding, which does no harm: JX = XT holds up to rounding in each column. Hence v = Xu satisfies v ← Jv + b up to
rounding in each step, and the residual b − (I − J)Xu of CG is that of its coefficients up to rounding.

A basis is long enough for FP if the neglected term β u_{m−1} of every step is below rounding. This takes a few times √k
vectors, because polynomials of degree k are close to polynomials of degree √k (Sachdeva and Vishnoi, Faster Algorithms
via Approximation Theory, 2014, theorem 3.3). CG needs a vector for each step, so at the end of the basis it continues
step by step (aid_stepwise.py). There its residual is c_m x_m, and its direction is c_m Σ (c_m/c_j) x_j.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.methods import Method
from boundcheck.numerics.curves.aid_stepwise import ConjugateGradient
from boundcheck.numerics.curves.batch import tiled
from boundcheck.numerics.curves.jacobian import Products, transposed
from boundcheck.numerics.curves.sizes import WIDTHS, Sizes
from boundcheck.numerics.solvers.conjugate_gradient import not_definite

SOLVERS = ("aid-fp", "aid-cg")
DEEP = 256  # the most vectors in a basis; the stepwise solvers are used if more are needed
EXPECT = 3.5  # FP needs at least EXPECT·√k vectors, so the first test is then
ASK = 8  # vectors between two tests of whether they are enough
REST = 0.25  # a residual of at most REST·ε‖b‖ is below the rounding of b
GIVE_UP = 16  # steps of FP between two tests of whether the basis is too short
MORE = 16  # number of entries by which a window grows when its next entry changes
DROP = 8  # finished rows are dropped when at least one row in this many is finished

OTHERS = 16  # vectors in memory for a row in addition to its basis


def numbers_held(sizes: Sizes, rows: int) -> int:
    """Return the most numbers in memory at once, for one λ and this number of rows."""
    return rows * ((DEEP + OTHERS) * sizes.problem.d + WIDTHS * sizes.width)


class Room:
    """Memory for bases, which is reused for rows of the same shape. `enough` is the last number of vectors needed."""

    def __init__(self) -> None:
        self.vectors: list[Tensor] = []
        self.enough = 0

    def vector(self, i: int, like: Tensor) -> Tensor:
        """Return the i-th vector, with the shape and layout of `like` and arbitrary entries."""
        if i == 0 and self.vectors and self.vectors[0].shape != like.shape:
            self.vectors.clear()
        while len(self.vectors) <= i:
            self.vectors.append(torch.empty_like(like))
        return self.vectors[i]


@dataclass(frozen=True, eq=False)
class Continuation:
    """CG after the last vector of the basis, for the rows from `first` on that need more steps."""

    first: int
    state: ConjugateGradient


@dataclass(frozen=True, eq=False)
class KrylovSolution:
    """v of each method after the k steps of each row, of shape (λ, rows, d); CG stops at the end of the basis."""

    v: dict[Method, Tensor]
    steps: int  # vectors in the basis
    continuation: Continuation | None = None


def solve(jacobian: Products, b: Tensor, ks_by_method: Mapping[Method, Sequence[int]], room: Room) -> KrylovSolution:
    """Solve with FP and, if requested, CG, for k that ascend with the rows; without FP if it needs more than `DEEP`."""
    by_cg = {m: ks for m, ks in ks_by_method.items() if m.name == "aid-cg"}
    by_fp = {m: ks for m, ks in ks_by_method.items() if m not in by_cg}
    most = max(ks[-1] for ks in by_fp.values())
    basis, end = Basis(b, room), min(most, DEEP)
    size = max(room.enough, int(EXPECT * most**0.5))
    while True:
        for _ in range(min(size, end) - basis.size):
            basis.grow(jacobian)
        fp = fixed_point(basis, by_fp)
        if fp.enough or basis.size == end:
            break
        size += ASK
    room.enough = basis.size
    if not by_cg:
        return KrylovSolution(basis.combined(fp.coefficients), basis.size)
    cg = Pivots(basis, by_cg)
    v = basis.combined(fp.coefficients | {m: cg.coefficients(ks) for m, ks in by_cg.items()})
    return KrylovSolution(v, basis.size, cg.continuation(v))


class Basis:
    """x_0 … x_m for each row, the diagonal of T, and β_0 … β_{m−1} next to it. The last β belongs to x_m."""

    def __init__(self, b: Tensor, room: Room) -> None:
        self._room, self._like = room, b
        self._product = room.vector(0, b)
        self.length = self._dot(b, b).sqrt()
        self.x = [torch.div(b, torch.where(self.length == 0, 1, self.length)[..., None], out=room.vector(1, b))]
        self.a: list[Tensor] = []
        self.beta: list[Tensor] = []

    @property
    def size(self) -> int:
        return len(self.a)

    def grow(self, jacobian: Products) -> None:
        """Add a vector by β_j x_{j+1} = Jx_j − a_j x_j − β_{j−1}x_{j−1}. If it is 0, so are all later vectors."""
        x = self.x[-1]
        room = self._room.vector(self.size + 2, self._like)
        y = transposed(jacobian, x, room)
        self.a.append(self._dot(x, y))
        y = torch.addcmul(y, x, self.a[-1][..., None], value=-1, out=room)
        if self.beta:
            y.addcmul_(self.x[-2], self.beta[-1][..., None], value=-1)
        self.beta.append(self._dot(y, y).sqrt())
        beta = self.beta[-1]
        self.x.append(y.mul_(torch.where(beta == 0, 0, 1 / beta)[..., None]))

    def _dot(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.mul(x, y, out=self._product).sum(dim=-1)

    def combined(self, coefficients: Mapping[Method, Tensor]) -> dict[Method, Tensor]:
        """Return Xu for each u, of shape (vectors, λ, rows)."""
        v = {m: torch.zeros_like(self._like) for m in coefficients}
        for j, x in enumerate(self.x):
            for m, u in coefficients.items():
                if j < len(u):
                    v[m].addcmul_(x, u[j][..., None])
        return v

    def combined_from(self, u: Tensor, first: int) -> Tensor:
        """Return Xu for the rows from `first` on, with all vectors x_0 … x_m."""
        v = torch.zeros_like(self._like[:, first:])
        for x, entries in zip(self.x, u, strict=True):
            v.addcmul_(x[:, first:], entries[..., None])
        return v


@dataclass(frozen=True, eq=False)
class KrylovFixedPoint:
    """The coefficients of FP, of shape (vectors, λ, rows), and whether the basis is long enough for them."""

    coefficients: dict[Method, Tensor]
    enough: bool


def fixed_point(basis: Basis, ks_by_method: Mapping[Method, Sequence[int]]) -> KrylovFixedPoint:
    """Do k steps of u ← Tu + ‖b‖e_0 from 0 for each row, which change the first k entries."""
    m, last, rows = basis.size, max(ks[-1] for ks in ks_by_method.values()), basis.length.shape[-1]
    if m == 0:
        return KrylovFixedPoint({method: basis.length.new_zeros(0) for method in ks_by_method}, enough=last == 0)
    recursion = KrylovRecursion(basis)
    coefficients = {
        method: basis.length.new_zeros(min(m, ks[-1]), *basis.length.shape) for method, ks in ks_by_method.items()
    }
    window = recursion.window(entries=0, first=0)
    for k in range(1, last + 1):
        done = min(bisect_left(ks, k) for ks in ks_by_method.values())
        entry_k_moves = window.entries < min(k, m)
        many_rows_done = DROP * (done - window.first) >= rows - window.first
        if entry_k_moves or many_rows_done:
            entries = min(m, window.entries + MORE) if entry_k_moves else window.entries
            window = recursion.window(entries, first=done)
        u = window.step(k)
        basis_ends = m <= k < last
        if basis_ends:
            window.note_last_entry(u)
            if k % GIVE_UP == 0 and recursion.leaves_out_too_much():
                return KrylovFixedPoint({}, enough=False)
        for method, ks in ks_by_method.items():
            low, high = bisect_left(ks, k), bisect_right(ks, k)
            if low < high:
                target = coefficients[method][: window.entries, :, low:high]
                target.copy_(u[: len(target), :, low - window.first : high - window.first])
    enough = m >= last or not recursion.leaves_out_too_much()
    return KrylovFixedPoint(coefficients if enough else {}, enough)


class KrylovRecursion:
    """The recursion u ← Tu + ‖b‖e_0 for all rows, and the term β u_{m−1} that the basis neglects in each step."""

    def __init__(self, basis: Basis) -> None:
        length = basis.length
        self._T = torch.stack(basis.a), torch.stack((length, *basis.beta[:-1])), torch.stack(basis.beta)
        # two buffers for u, before and after a step; each has a 1 in front of u, which adds b, and a 0 after it
        self._u = [length.new_zeros(basis.size + 2, *length.shape) for _ in range(2)]
        self._u[0][0] = self._u[1][0] = 1
        self._largest = torch.zeros_like(length)  # |u_{m−1}| of each row
        self._beta, self._noise = basis.beta[-1], torch.finfo(length.dtype).eps * length

    def window(self, entries: int, first: int) -> Window:
        """Return views of the first entries of u, for the rows from `first` on."""
        diagonal, above, below = (x[:entries, :, first:] for x in self._T)
        even, odd = ([u[i : entries + i, :, first:] for i in range(3)] for u in self._u)
        return Window(entries, first, diagonal, above, below, even, odd, self._largest[:, first:])

    def leaves_out_too_much(self) -> bool:
        """Return whether the neglected term of any row is above the rounding of b, or NaN for a finite b."""
        forcing = self._largest * self._beta
        return bool((~(forcing <= self._noise) & torch.isfinite(self._noise)).any())


@dataclass(frozen=True, eq=False)
class Window:
    """Views of the entries that may have changed, for the rows that are not finished."""

    entries: int
    first: int
    diagonal: Tensor
    above: Tensor
    below: Tensor
    even: list[Tensor]  # u after even steps: each entry's predecessor, the entries themselves, each entry's successor
    odd: list[Tensor]  # u after odd steps, likewise
    largest: Tensor

    def step(self, k: int) -> Tensor:
        """Do the k-th step, and return the new u."""
        (before, now, after), (_, u, _) = (self.even, self.odd) if k % 2 else (self.odd, self.even)
        return torch.mul(self.diagonal, now, out=u).addcmul_(self.above, before).addcmul_(self.below, after)

    def note_last_entry(self, u: Tensor) -> None:
        """Update the largest |u_{m−1}|."""
        torch.maximum(self.largest, u[-1].abs(), out=self.largest)


class Pivots:
    """I − T = LDLᵀ: the diagonal δ_j of D, the entries β_j/δ_j of −L, and c = L⁻¹‖b‖e_0, the residuals of CG."""

    def __init__(self, basis: Basis, ks_by_method: Mapping[Method, Sequence[int]]) -> None:
        self._basis, self._ks_by_method = basis, ks_by_method
        self._floor = REST * torch.finfo(basis.length.dtype).eps * basis.length
        delta: list[Tensor] = []
        for a, beta in zip(basis.a, (None, *basis.beta), strict=False):
            delta.append(1 - a if beta is None else torch.addcdiv(1 - a, beta * beta, delta[-1], value=-1))
        self.delta = torch.stack(delta) if delta else basis.length.new_zeros(0, *basis.length.shape)
        ratio = torch.stack(basis.beta) / self.delta if delta else self.delta
        self.c = torch.cat((basis.length[None], ratio)).cumprod(dim=0)
        self._refuse_unless_definite()

    def _refuse_unless_definite(self) -> None:
        """Raise an error if a direction p of CG shows that I − J is not positive definite: pᵀ(I − J)p = c_j²δ_j."""
        last = torch.tensor([max(ks) for ks in zip(*self._ks_by_method.values(), strict=True)], device=self.c.device)
        counts = (self.c[:-1].abs() > self._floor) & torch.isfinite(self.delta) & self._before(last)
        delta = torch.where(counts, self.delta, torch.inf)
        if delta.numel() and bool((least := delta.min()) <= 0):
            raise not_definite(float(least), "pᵀ(I − ∂₁Φᵀ)p/‖r‖²")

    def coefficients(self, ks: Sequence[int]) -> Tensor:
        """Return u with LDLᵀu = ‖b‖e_0 in the first k entries of a row: c_j u_j = Σ c_i²/δ_i over i = j … k − 1."""
        c = self.c[:-1]
        terms = torch.where(self._before(torch.tensor(ks, device=c.device)), c * c / self.delta, 0)
        total = terms.flip(0).cumsum(dim=0).flip(0)
        return torch.where(total != 0, total / c, 0)

    def continuation(self, v: Mapping[Method, Tensor]) -> Continuation | None:
        """Return the state of CG for the rows with steps after the end of the basis; None if no such row changes."""
        beyond = {method: bisect_right(ks, self._basis.size) for method, ks in self._ks_by_method.items()}
        method = min(beyond, key=beyond.__getitem__)
        count = len(self._ks_by_method[method])
        first = max(0, count - tiled(count - beyond[method], len(self.c[-1])))
        c = self.c[..., first:].clone()
        c[-1, :, : beyond[method] - first] = 0  # these rows are finished and do not change
        floor = self._floor[:, first:]
        going = c[-1].abs() > floor
        if not bool(going.any()):
            return None
        p = self._basis.combined_from(torch.where(going, c[-1] ** 2 / c, 0), first)
        r = self._basis.x[-1][:, first:] * c[-1, ..., None]
        v_now = v[method][:, first:].clone()
        return Continuation(first, ConjugateGradient(v_now, r, p, c[-1, ..., None] ** 2, floor[..., None] ** 2))

    def _before(self, k: Tensor) -> Tensor:
        """Return whether the index of a vector is less than k, of shape (vectors, 1, rows)."""
        return torch.arange(len(self.delta), device=k.device)[:, None, None] < k
