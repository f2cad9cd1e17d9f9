"""Second and third derivatives of a scalar as sums of parts, and bounds of their norms.

D²f lies between two matrices in the order of symmetric matrices, up to a slack. D³f is a sum of trilinear forms
Σ_g c_g T_g(A_g x, B_g y, C_g z) with ‖T_g‖ ≤ 1, where A_g is a row, or a block of rows. Two ways bound its norm:

- by pairing: Σ_g |c_g|‖A_g x‖‖B_g y‖‖C_g z‖ ≤ ‖A‖ λmax(N(B) ∘ N(C))^½ with N(B)_gh = ‖B_g B_hᵀ‖, after |c_g|^⅓ has gone
  into each factor; or ≤ ‖diag(n)^½A‖ ‖diag(n)^½B‖ with n_g = ‖C_g‖;
- as one tensor: where the rows are single and the c_g are known up to a radius, the middle is formed, and its norm is
  at most that of each of its three flattenings.

docs/proofs.md derives both. Rounding is in every number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, largest_eigenvalue, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, euclidean, total
from boundcheck.numerics.program.rounding_rules.ball import gamma

MOST_BLOCKS = 2_000  # of which a matrix N is formed
MOST_ENTRIES = 25_000_000  # of a tensor that is formed
WORTH = 0.98  # a tensor is formed where it may gain more than this


@dataclass(frozen=True, eq=False)
class Curvature:
    """A part of D²f by two inputs: between `lo` and `up`, or for two different inputs `lo` = `up`, up to `slack`."""

    lo: Tensor
    up: Tensor
    slack: float


@dataclass(frozen=True, eq=False)
class Trilinear:
    """A part of D³f: Σ_g c_g T_g(A_g x, B_g y, C_g z) up to `slack`; A, B, C have shapes (G, rows, k).

    With one row a block, T_g is the product of three numbers and the sign of c_g counts.
    """

    c: Interval
    A: Tensor
    B: Tensor
    C: Tensor
    slack: float

    @property
    def single(self) -> bool:
        """Is there something, and every block one row?"""
        return bool(len(self.c.lo)) and self.A.shape[1] == self.B.shape[1] == self.C.shape[1] == 1


def trilinear_norm(parts: Iterable[Trilinear]) -> float:
    """At least the norm of the sum of the parts, sup over unit x, y and z."""
    parts = list(parts)
    slack = math.fsum(part.slack for part in parts) * UP
    paired = math.fsum(_paired(part.c.size, part) for part in parts)
    single = [part for part in parts if part.single]
    if not single or not all(math.isfinite(float(part.c.size.sum())) for part in single):
        return paired * UP + slack
    entries = math.prod(X.shape[2] for X in (single[0].A, single[0].B, single[0].C))
    if entries > MOST_ENTRIES:
        return paired * UP + slack
    rest = math.fsum(_paired(part.c.size, part) for part in parts if not part.single)
    rest += math.fsum(_paired(part.c.rad, part) for part in single)
    if rest >= WORTH * paired or paired <= _of_one_entry(single) / WORTH:  # then the tensor would gain next to nothing
        return paired * UP + slack
    return min(paired, _as_one_tensor(single) + rest) * UP + slack


def _of_one_entry(parts: Sequence[Trilinear]) -> float:
    """The largest single term of the sums, which their norms mostly exceed."""
    largest = [part.c.mid.abs() * block_norms(part.A) * block_norms(part.B) * block_norms(part.C) for part in parts]
    return max(float(sizes.max()) for sizes in largest)


def _paired(c: Tensor, part: Trilinear) -> float:
    """By the least of the ways to pair the three factors."""
    c = c.abs()
    used = c != 0
    if not bool(used.any()):
        return 0.0
    if not bool(c.isfinite().all()):
        return math.inf
    root = (c[used] ** (1 / 3) * UP)[:, None, None]
    factors = [X[used] * root for X in (part.A, part.B, part.C)]
    same = part.A is part.B is part.C
    best = math.inf
    for first in range(1 if same else 3):
        X, Y, Z = factors[first], factors[(first + 1) % 3], factors[(first + 2) % 3]
        n = block_norms(X)
        by_size = spectral_norm(_rows(Y * n.sqrt()[:, None, None])) * spectral_norm(_rows(Z * n.sqrt()[:, None, None]))
        best = min(best, by_size)
        if len(X) <= MOST_BLOCKS:
            best = min(best, spectral_norm(_rows(X)) * _hadamard(Y, Z))
    return best * UP


def _rows(X: Tensor) -> Tensor:
    return X.reshape(-1, X.shape[-1])


def block_norms(X: Tensor) -> Tensor:
    """At least the norm of each block."""
    sizes: Tensor = euclidean(X.flatten(1), 1) * (UP + gamma(X.shape[1] * X.shape[2]))
    return sizes


def _hadamard(Y: Tensor, Z: Tensor) -> float:
    """λmax(N(Y) ∘ N(Z))^½, with room for the rounding of N: its entries are at most ‖Y_g‖‖Y_h‖."""
    k = max(Y.shape[-1], Z.shape[-1]) * max(Y.shape[1], Z.shape[1])
    p = block_norms(Y) * block_norms(Z)
    margin = 4 * gamma(k + 2) * total(p * p)
    return math.sqrt(largest_eigenvalue(_gram(Y) * _gram(Z)) + margin)


def _gram(Y: Tensor) -> Tensor:
    """The inner products of single rows; of blocks, at least ‖Y_g Y_hᵀ‖, by its entries or its row and column sums."""
    if Y.shape[1] == 1:
        inner: Tensor = Y[:, 0] @ Y[:, 0].T
        return inner
    G, rows, k = Y.shape
    flat = Y.reshape(G * rows, k)
    products = (flat @ flat.T).reshape(G, rows, G, rows)
    frobenius_norms = (products**2).sum((1, 3)).sqrt()
    by_sums = (products.abs().sum(1).amax(-1) * products.abs().sum(3).amax(1)).sqrt()
    return torch.minimum(frobenius_norms, by_sums) * (UP + gamma(rows * rows))


def _as_one_tensor(parts: Sequence[Trilinear]) -> float:
    """The least norm of the three flattenings of the sum of the middles."""
    tensor, loss = _middles(parts)
    flat = (tensor.flatten(1), tensor.transpose(0, 1).flatten(1), tensor.flatten(0, 1))
    return min(spectral_norm(matrix) for matrix in flat) + loss


def _middles(parts: Sequence[Trilinear]) -> tuple[Tensor, float]:
    """The sum of the middles as one tensor, and at least the norm of its rounding."""
    ks = [X.shape[2] for X in (parts[0].A, parts[0].B, parts[0].C)]
    tensor = torch.zeros(ks, dtype=torch.float64)
    loss = 0.0
    for part in parts:
        c = part.c.mid
        A, B, C = part.A[:, 0], part.B[:, 0], part.C[:, 0]
        for start in range(0, ks[0], max(1, MOST_ENTRIES // max(1, len(c) * ks[1]))):
            some = slice(start, start + max(1, MOST_ENTRIES // max(1, len(c) * ks[1])))
            AB = ((c[:, None] * A[:, some])[:, :, None] * B[:, None, :]).reshape(len(c), -1)
            tensor[some] += (AB.T @ C).reshape(-1, ks[1], ks[2])
        sizes = c.abs() * block_norms(part.A) * block_norms(part.B) * block_norms(part.C)
        loss += gamma(len(c) + len(parts) + 4) * total(sizes)
    return tensor, loss


@dataclass(frozen=True, eq=False)
class Middle:
    """A tensor, and at least the norm of what D³f differs from it by, anywhere on the ball."""

    tensor: Tensor
    off: float


def middle_of(parts: Sequence[Trilinear], most: int) -> Middle | None:
    """The parts as one tensor of at most `most` entries and a rest; None where it would be larger or is not finite."""
    single = [part for part in parts if part.single]
    if not single or math.prod(X.shape[2] for X in (single[0].A, single[0].B, single[0].C)) > most:
        return None
    if not all(math.isfinite(float(part.c.size.sum())) for part in single):
        return None
    tensor, loss = _middles(single)
    off = loss + math.fsum(part.slack for part in parts)
    off += math.fsum(_paired(part.c.rad if part.single else part.c.size, part) for part in parts)
    return Middle(tensor, off * UP) if math.isfinite(off) and bool(tensor.isfinite().all()) else None


def congruence(F: Tensor, s: Tensor, G: Tensor) -> Tensor:
    """F diag(s) Gᵀ for F of shape (k₁, m) and G of shape (k₂, m)."""
    product: Tensor = (F * s) @ G.T
    return product


def sum_of_products(s: Tensor, *norms: Tensor) -> float:
    """At least Σ_i |s_i| Π norms_i, where 0 times infinity is 0."""
    factors = (s.abs(), *norms)
    product = factors[0]
    for n in norms:
        product = product * n
    zero = torch.stack([torch.broadcast_to(x == 0, product.shape) for x in factors]).any(0)
    return total(torch.where(zero, torch.zeros_like(product), product)) * (1 + 1e-13)


def nothing(slack: float) -> Trilinear:
    """A part of which only a bound is known."""
    none = torch.zeros(0, 1, 1, dtype=torch.float64)
    return Trilinear(Interval(none[:, 0, 0], none[:, 0, 0]), none, none, none, slack)


def norm_of(parts: Sequence[Curvature]) -> float:
    """At least the norm of D²f by two different inputs, or at one point."""
    if not parts:
        return 0.0
    middle = sum((part.lo for part in parts[1:]), parts[0].lo)
    slack = math.fsum(part.slack for part in parts)
    slack += gamma(len(parts)) * math.fsum(frobenius(part.lo) for part in parts)
    return (spectral_norm(middle) + slack) * UP


def ends_of(parts: Sequence[Curvature]) -> tuple[float, float]:
    """At most the smallest and at least the largest eigenvalue of D²f by one input."""
    if not parts:
        return 0.0, 0.0
    slack = math.fsum(part.slack for part in parts)
    rounding = gamma(len(parts)) * math.fsum(frobenius(part.lo) + frobenius(part.up) for part in parts)
    lo = sum((part.lo for part in parts[1:]), parts[0].lo)
    up = sum((part.up for part in parts[1:]), parts[0].up)
    slack = (slack + rounding) * UP
    return -largest_eigenvalue(-lo) - slack, largest_eigenvalue(up) + slack
