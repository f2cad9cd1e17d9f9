"""AID at every t where ∂₁Φ is symmetric: one Krylov basis for each row serves every solver and every k.

Lanczos' recursion from x_0 = b/‖b‖ takes J = ∂₁Φ to a tridiagonal matrix: JX = XT + β x_m e_{m−1}ᵀ for the columns
x_0 … x_{m−1} of X. After k steps FP and CG have reached Xu with coefficients u that come of T alone,

    FP: u ← Tu + ‖b‖e_0, k times from 0;    CG: (I − T_k)u = ‖b‖e_0 with the first k rows and columns of T,

so that products are spent once, and on no more vectors than count. Columns lose their orthogonality by rounding, which
does no harm here: JX = XT holds to rounding column by column, hence v = Xu goes through v ← Jv + b with a forcing of
rounding in each step, and the residual b − (I − J)Xu of CG is the one of its coefficients, up to rounding.

A basis is long enough when what it leaves out is rounding: for FP the forcing β u_{m−1} in every step, for CG the
residual. FP needs about √k vectors, as polynomials of degree k are near such of degree √k (Sachdeva and Vishnoi, Faster
Algorithms via Approximation Theory, 2014, theorem 3.3); CG as many as it has steps until it comes to rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from boundcheck.compare.batch import Products, transposed
from boundcheck.methods import Method
from boundcheck.solvers.conjugate_gradient import not_definite

SOLVERS = ("aid-fp", "aid-cg")
DEEP = 256  # vectors at most; what needs more is left to the solvers themselves
ASK = 8  # vectors after which the host asks whether they are enough
REST = 0.25  # times ε‖b‖: a residual that is less than the rounding of b
GIVE_UP = 16  # steps of FP after which the host asks whether the basis is too short already
DROP = 8  # rows are dropped when one in this many is done


@dataclass(frozen=True)
class Room:
    """Memory for bases, used again for rows of the same shape."""

    vectors: list[Tensor] = field(default_factory=list)

    def vector(self, i: int, like: Tensor) -> Tensor:
        """The i-th one, of the shape and layout of `like`, with anything in it."""
        if i == 0 and self.vectors and self.vectors[0].shape != like.shape:
            self.vectors.clear()
        while len(self.vectors) <= i:
            self.vectors.append(torch.empty_like(like))
        return self.vectors[i]


def solve(at: Products, b: Tensor, asked: Mapping[Method, Sequence[int]], room: Room) -> dict[Method, Tensor]:
    """v of every method after the k of each row, ascending, of shape (λ, rows, d); less what needs a longer basis."""
    by_cg = {m: ks for m, ks in asked.items() if m.name == "aid-cg"}
    by_fp = {m: ks for m, ks in asked.items() if m not in by_cg}
    most = max(ks[-1] for ks in asked.values())
    if most == 0:
        return {m: torch.zeros_like(b) for m in asked}
    basis = Basis(b, room)
    cg = Pivots(basis, by_cg) if by_cg else None
    fp = FixedPoint({}, enough=True)
    cg_rests = False
    while basis.size < min(most, DEEP):
        for _ in range(min(ASK, min(most, DEEP) - basis.size)):
            basis.grow(at)
            if cg is not None:
                cg.grow()
        cg_rests = cg is None or basis.size >= most or cg.spent()
        if cg_rests or basis.size == DEEP:
            fp = fixed_point(basis, by_fp)
            if cg_rests and (fp.enough or basis.size >= most):
                break
    found = fp.coefficients if fp.enough or basis.size >= most else {}
    if cg is not None and cg_rests:
        cg.refuse_unless_definite()
        found = found | {m: cg.coefficients(ks) for m, ks in by_cg.items()}
    return basis.combined(found)


class Basis:
    """x_0 … x_m for each row, the diagonal of T, and beside it β_0 … β_{m−1}, of which the last leads to x_m."""

    def __init__(self, b: Tensor, room: Room) -> None:
        self._room, self._like = room, b
        self._product = room.vector(0, b)
        self.tiny = torch.finfo(b.dtype).tiny
        largest = b.abs().amax(dim=-1)
        scale = torch.where(largest > 0, largest, 1)  # or squares leave the range of numbers before b does
        scaled = torch.div(b, scale[..., None], out=room.vector(1, b))
        self.length = scale * self._dot(scaled, scaled).sqrt()
        self.x = [torch.div(b, self.length.clamp(min=self.tiny)[..., None], out=room.vector(1, b))]
        self.a: list[Tensor] = []
        self.beta: list[Tensor] = []

    @property
    def size(self) -> int:
        return len(self.a)

    def grow(self, at: Products) -> None:
        """β_j x_{j+1} = Jx_j − a_j x_j − β_{j−1}x_{j−1}; once that is 0 the space is exhausted, and the rest are 0."""
        x = self.x[-1]
        room = self._room.vector(self.size + 2, self._like)
        y = transposed(at, x, room)
        self.a.append(self._dot(x, y))
        y = torch.addcmul(y, x, self.a[-1][..., None], value=-1, out=room)
        if self.beta:
            y.addcmul_(self.x[-2], self.beta[-1][..., None], value=-1)
        self.beta.append(self._dot(y, y).sqrt())
        self.x.append(y.div_(self.beta[-1].clamp(min=self.tiny)[..., None]))

    def _dot(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.mul(x, y, out=self._product).sum(dim=-1)

    def combined(self, coefficients: Mapping[Method, Tensor]) -> dict[Method, Tensor]:
        """Xu for each u, of shape (vectors, λ, rows)."""
        v = {m: torch.zeros_like(self._like) for m in coefficients}
        for j, x in enumerate(self.x):
            for m, u in coefficients.items():
                if j < len(u):
                    v[m].addcmul_(x, u[j][..., None])
        return v


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The coefficients of FP, of shape (vectors, λ, rows); and is the basis long enough for them?"""

    coefficients: dict[Method, Tensor]
    enough: bool


def fixed_point(basis: Basis, asked: Mapping[Method, Sequence[int]]) -> FixedPoint:
    """u ← Tu + ‖b‖e_0, of which the first k entries move in k steps."""
    if not asked:
        return FixedPoint({}, enough=True)
    m, last, count = basis.size, max(ks[-1] for ks in asked.values()), basis.length.shape[-1]
    a, beta, b = torch.stack(basis.a), torch.stack(basis.beta), basis.length
    u, new = torch.zeros_like(a), torch.zeros_like(a)
    found = {method: a.new_zeros(min(m, ks[-1]), *a.shape[1:]) for method, ks in asked.items()}
    first, cut = 0, torch.zeros_like(b)  # rows before `first` are done; the largest |u_{m−1}| of each
    noise = torch.finfo(b.dtype).eps * b  # β|u_{m−1}| above it counts
    for k in range(1, last + 1):
        h = min(k, m)
        torch.mul(a[:h], u[:h], out=new[:h])
        new[1:h].addcmul_(beta[: h - 1], u[: h - 1])
        new[: h - 1].addcmul_(beta[: h - 1], u[1:h])
        new[0] += b
        u, new = new, u
        if m <= k < last:
            torch.maximum(cut[:, first:], u[-1].abs(), out=cut[:, first:])
            if k % GIVE_UP == 0 and _counts(cut * basis.beta[-1], noise):
                return FixedPoint({}, enough=False)
        for method, ks in asked.items():
            low, high = bisect_left(ks, k), bisect_right(ks, k)
            if low < high:
                found[method][..., low:high] = u[: len(found[method]), :, low - first : high - first]
        done = min(bisect_right(ks, k) for ks in asked.values())
        if done < count and DROP * (done - first) >= count - first:
            a, beta, u, new, b = (x[..., done - first :] for x in (a, beta, u, new, b))
            first = done
    return FixedPoint(found, enough=not _counts(cut * basis.beta[-1], noise))


def _counts(forcing: Tensor, noise: Tensor) -> bool:
    """Is any above the noise, or no number, other than where b is none?"""
    return bool((~(forcing <= noise) & torch.isfinite(noise)).any())


class Pivots:
    """I − T = LDLᵀ as it grows: δ_j on the diagonal of D, β_j/δ_j beside that of −L, and c_j, the residual of CG."""

    def __init__(self, basis: Basis, asked: Mapping[Method, Sequence[int]]) -> None:
        self._basis = basis
        self._last = torch.tensor([max(ks) for ks in zip(*asked.values(), strict=True)], device=basis.length.device)
        self._floor = REST * torch.finfo(basis.length.dtype).eps * basis.length
        self.delta: list[Tensor] = []
        self.ratio: list[Tensor] = []
        self.c = [basis.length]

    def grow(self) -> None:
        delta = 1 - self._basis.a[-1]
        if self.delta:
            delta = delta.addcmul_(self._basis.beta[-2], self.ratio[-1], value=-1)
        self.delta.append(delta)
        self.ratio.append(self._basis.beta[-1] / delta)
        self.c.append(self.c[-1] * self.ratio[-1])

    def spent(self) -> bool:
        """Is the residual of every row that goes on rounding?"""
        return not bool(((self.c[-1].abs() > self._floor) & (self._last > len(self.delta))).any())

    def refuse_unless_definite(self) -> None:
        """By pᵀ(I − J)p = c_j²δ_j for the directions p of CG, as far as rows go."""
        c, delta = torch.stack(self.c[:-1]), torch.stack(self.delta)
        counts = (c.abs() > self._floor) & torch.isfinite(delta) & self._before(self._last)
        if bool((least := torch.where(counts, delta, torch.inf).min()) <= 0):
            raise not_definite(float(least), "pᵀ(I − ∂₁Φᵀ)p/‖r‖² at some t")

    def coefficients(self, ks: Sequence[int]) -> Tensor:
        """LDLᵀu = ‖b‖e_0, where c = L⁻¹‖b‖e_0, in the first k entries of each row."""
        k = torch.tensor(ks, device=self._last.device)
        size = min(len(self.delta), int(ks[-1]))
        u = torch.stack(self.c[:-1]) / torch.stack(self.delta)
        u = torch.where(self._before(k), u, 0)[:size]
        for j in range(size - 2, -1, -1):
            u[j].addcmul_(self.ratio[j], u[j + 1])
        return u

    def _before(self, k: Tensor) -> Tensor:
        """Is the number of a vector less than k? Of shape (vectors, 1, rows)."""
        return torch.arange(len(self.delta), device=k.device)[:, None, None] < k
