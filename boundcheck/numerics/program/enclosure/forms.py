"""Third derivatives of a scalar as sums of parts, and bounds of their norms.

D³f is a sum of trilinear forms Σ_g c_g T_g(A_g x, B_g y, C_g z) with ‖T_g‖ ≤ 1, where A_g is a row or a block of rows.
Its norm is bounded in two ways:

- by pairing: each factor takes |c_g|^⅓, and Σ_g ‖A_g x‖‖B_g y‖‖C_g z‖ ≤ ‖A‖ λmax(N(B) ∘ N(C))^½ with
  N(B)_gh = ‖B_g B_hᵀ‖, or ≤ ‖diag(n)^½A‖ ‖diag(n)^½B‖ with n_g = ‖C_g‖;
- as one tensor: if blocks are single rows and the c_g are known up to a radius, the sum of the middles is formed. Its
  norm is at most the norm of each of its three flattenings.

docs/proofs.md derives both. All bounds include rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import (
    gram,
    is_worth_it,
    largest_eigenvalue,
    largest_eigenvalue_of_sparse,
    sparse_gram,
    spectral_norm,
)
from boundcheck.numerics.program.enclosure.flattenings import formed_tensor, least_norm_of_flattenings
from boundcheck.numerics.program.enclosure.flattenings_by_factors import least_norm_by_factors
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, euclidean, total
from boundcheck.numerics.program.enclosure.kept_norms import Numbers, kept
from boundcheck.numerics.program.rounding_rules.ball import gamma

MOST_BLOCKS = 2_000  # largest number of blocks for which a matrix N is formed
MOST_PARTS = 200  # number of parts whose norms are computed one by one; all others are bounded by sizes
MOST_ENTRIES = 25_000_000  # largest number of entries of a tensor to form
WORTH = 0.98  # a tensor is formed if it may improve the bound by more than this factor


@dataclass(frozen=True, eq=False)
class Trilinear:
    """A part of D³f: Σ_g c_g T_g(A_g x, B_g y, C_g z) up to `slack`. A, B, C have shapes (G, rows, k).

    If blocks are single rows, T_g is the product of three numbers, and the sign of c_g matters. C may be None for the
    identity, C_g z = z_g.
    """

    c: Interval
    A: Tensor
    B: Tensor
    C: Tensor | None
    slack: float

    @property
    def factors(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """A, B and C."""
        return self.A, self.B, self.C

    @property
    def lengths(self) -> list[int]:
        """The lengths of x, y and z."""
        return [len(self.c.lo) if X is None else X.shape[2] for X in self.factors]

    @property
    def single(self) -> bool:
        """Whether there are blocks, and all of them are single rows."""
        return bool(len(self.c.lo)) and all(X is None or X.shape[1] == 1 for X in self.factors)


def trilinear_norm(parts: Iterable[Trilinear]) -> float:
    """Return an upper bound of the norm of the sum of the parts, the supremum over unit x, y and z."""
    parts = list(parts)
    slack = math.fsum(part.slack for part in parts) * UP
    if not math.isfinite(slack) or not all(bool(part.c.size.isfinite().all()) for part in parts):
        return math.inf
    parts = [part for part in parts if len(part.c.lo)]
    return kept("trilinear", _numbers(parts), lambda: _without_slack(parts)) + slack


def _numbers(parts: Sequence[Trilinear]) -> Numbers:
    """All but the slacks."""
    return tuple(number for part in parts for number in (part.c.lo, part.c.hi, *part.factors))


def _without_slack(parts: list[Trilinear]) -> float:
    parts, small = _split(parts)
    norms = [_paired(part.c.size, part) for part in parts]
    paired = math.fsum(norms)
    single = [part for part in parts if part.single]
    if not single or math.prod(single[0].lengths) > MOST_ENTRIES:
        return paired * UP + small
    rest = math.fsum(norm for norm, part in zip(norms, parts, strict=True) if not part.single)
    if rest >= WORTH * paired or paired <= _largest_term(single) / WORTH:  # the tensor would gain next to nothing
        return paired * UP + small
    rest += math.fsum(_paired(part.c.rad, part) for part in single)
    if rest >= WORTH * paired:
        return paired * UP + small
    return min(paired, _as_one_tensor(single) + rest) * UP + small


def _split(parts: list[Trilinear]) -> tuple[list[Trilinear], float]:
    """Return the largest parts, and an upper bound of the norm of the others by the sizes of their terms."""
    if len(parts) <= MOST_PARTS:
        return parts, 0.0
    by_size = sorted(((total(sizes_of_terms(part, part.c.size)), part) for part in parts), key=lambda pair: -pair[0])
    return [part for _, part in by_size[:MOST_PARTS]], math.fsum(size for size, _ in by_size[MOST_PARTS:]) * UP


def _largest_term(parts: Sequence[Trilinear]) -> float:
    """Return the size of the largest term; the norm of a sum is mostly larger."""
    return max(float(sizes_of_terms(part).max()) for part in parts)


def sizes_of_terms(part: Trilinear, c: Tensor | None = None) -> Tensor:
    """Return upper bounds of |c_g|‖A_g‖‖B_g‖‖C_g‖. By default, c is the middle of its interval."""
    sizes = part.c.mid.abs() if c is None else c
    for X in part.factors:
        sizes = sizes * (1.0 if X is None else block_norms(X))
    return sizes


def _paired(c: Tensor, part: Trilinear) -> float:
    """Return the least of the bounds by pairing the three factors."""
    return kept("paired", (c, *part.factors), lambda: _least_pairing(c, part))


def _least_pairing(c: Tensor, part: Trilinear) -> float:
    c = c.abs()
    used = c != 0
    if not bool(used.any()):
        return 0.0
    if not bool(c.isfinite().all()):
        return math.inf
    root = c[used] ** (1 / 3) * UP
    factors: list[Factor] = []
    for X in part.factors:
        equal = (factor for factor, Y in zip(factors, part.factors, strict=False) if _equal(X, Y))
        factors.append(next(equal, None) or Factor(root, None if X is None else X[used]))
    best = math.inf
    for place, first in enumerate(factors):
        if first in factors[:place]:  # the same pair again
            continue
        second, third = factors[(place + 1) % 3], factors[(place + 2) % 3]
        weights = first.sizes.sqrt()
        length = second.norm(weights)
        best = min(best, length * (length if third is second else third.norm(weights)))
        if len(root) <= MOST_BLOCKS:
            best = min(best, first.norm() * _hadamard(second, third))
    return best * UP


def _equal(X: Tensor | None, Y: Tensor | None) -> bool:
    """Are they the same numbers, or both the identity?"""
    return X is Y or (X is not None and Y is not None and torch.equal(X, Y))


@dataclass(frozen=True, eq=False)
class Factor:
    """Blocks of rows r_g X_g, or r_g times the unit vector g if X is None; r is not negative."""

    r: Tensor
    X: Tensor | None

    @cached_property
    def blocks(self) -> Tensor:
        """The blocks as a tensor."""
        X = torch.eye(len(self.r), dtype=torch.float64)[:, None] if self.X is None else self.X
        return X * self.r[:, None, None]

    @cached_property
    def sizes(self) -> Tensor:
        """Upper bounds of the norms of the blocks."""
        return self.r * UP if self.X is None else block_norms(self.blocks)

    def norm(self, weights: Tensor | None = None) -> float:
        """Return an upper bound of the norm of all blocks together, each times its weight."""
        if self.X is None:
            return float((self.r if weights is None else self.r * weights).max()) * UP
        rows = self.blocks if weights is None else self.blocks * weights[:, None, None]
        return spectral_norm(rows.reshape(-1, rows.shape[-1]))

    @property
    def terms(self) -> int:
        """The number of terms of an inner product of blocks."""
        return 1 if self.X is None else self.X.shape[1] * self.X.shape[2]

    @cached_property
    def sparse(self) -> csr_matrix | None:
        """The inner products of single rows as a sparse matrix; None for blocks, or if there are few zeros."""
        if self.X is None:
            squares = diags((self.r * self.r).numpy(), format="csr")
            return squares if is_worth_it(squares) else None
        return sparse_gram(self.blocks[:, 0]) if self.X.shape[1] == 1 else None

    @cached_property
    def gram(self) -> Tensor:
        """The inner products of single rows; for blocks, upper bounds of ‖X_g X_hᵀ‖ by its entries or row sums."""
        if self.X is None:
            return torch.diag(self.r * self.r)
        G, rows, k = self.X.shape
        inner = gram(self.blocks.reshape(G * rows, k))
        if rows == 1:
            return inner
        products = inner.reshape(G, rows, G, rows)
        frobenius_norms = (products**2).sum((1, 3)).sqrt()
        by_sums = (products.abs().sum(1).amax(-1) * products.abs().sum(3).amax(1)).sqrt()
        return torch.minimum(frobenius_norms, by_sums) * (UP + gamma(rows * rows))


def block_norms(X: Tensor) -> Tensor:
    """Return upper bounds of the norms of the blocks."""
    sizes: Tensor = euclidean(X.flatten(1), 1) * (UP + gamma(X.shape[1] * X.shape[2]))
    return sizes


def _hadamard(Y: Factor, Z: Factor) -> float:
    """Return λmax(N(Y) ∘ N(Z))^½ with a margin for the rounding of N, whose entries are at most ‖Y_g‖‖Y_h‖."""
    p = Y.sizes * Z.sizes
    margin = 4 * gamma(max(Y.terms, Z.terms) + 2) * total(p * p)
    if Y.sparse is not None:
        other = Z.gram.numpy() if Z.sparse is None else Z.sparse
        return math.sqrt(largest_eigenvalue_of_sparse(csr_matrix(Y.sparse.multiply(other))) + margin)
    if Z.sparse is not None:
        return math.sqrt(largest_eigenvalue_of_sparse(csr_matrix(Z.sparse.multiply(Y.gram.numpy()))) + margin)
    return math.sqrt(largest_eigenvalue(Y.gram * Z.gram) + margin)


def _as_one_tensor(parts: Sequence[Trilinear]) -> float:
    """Return an upper bound of the least norm of the three flattenings of the sum of the middles."""
    pairs = [(part.c.mid, part.factors) for part in parts]
    size = math.fsum(total(sizes_of_terms(part)) for part in parts) * UP
    by_factors = least_norm_by_factors(pairs, parts[0].lengths, size)
    if by_factors is not None:
        return by_factors
    return least_norm_of_flattenings(pairs, parts[0].lengths) + _rounding_of_tensor(parts)


def _rounding_of_tensor(parts: Sequence[Trilinear]) -> float:
    """Return an upper bound of the norm of the rounding error of the sum of the middles as one tensor."""
    return math.fsum(gamma(len(part.c.lo) + len(parts) + 4) * total(sizes_of_terms(part)) for part in parts)


@dataclass(frozen=True, eq=False)
class Middle:
    """A tensor, and an upper bound `off` of the norm of its difference to D³f anywhere on the ball."""

    tensor: Tensor
    off: float


def middle_of(parts: Sequence[Trilinear], most: int) -> Middle | None:
    """Return the parts as one tensor of at most `most` entries, and a bound of the rest.

    None if the tensor would be larger, or is not finite.
    """
    slack, formed = math.fsum(part.slack for part in parts), [part for part in parts if len(part.c.lo)]
    middle = kept(f"middle of at most {most}", _numbers(formed), lambda: _middle_of(formed, most))
    off = math.inf if middle is None else (middle.off + slack) * UP
    return None if middle is None or not math.isfinite(off) else Middle(middle.tensor, off)


def _middle_of(parts: Sequence[Trilinear], most: int) -> Middle | None:
    single = [part for part in parts if part.single]
    if not single or math.prod(single[0].lengths) > most:
        return None
    if not all(math.isfinite(float(part.c.size.sum())) for part in single):
        return None
    tensor = formed_tensor([(part.c.mid, part.factors) for part in single], single[0].lengths)
    off = _rounding_of_tensor(single)
    off += math.fsum(_paired(part.c.rad if part.single else part.c.size, part) for part in parts)
    return Middle(tensor, off * UP) if math.isfinite(off) and bool(tensor.isfinite().all()) else None


def sum_of_products(s: Tensor, *norms: Tensor) -> float:
    """Return an upper bound of Σ_i |s_i| Π norms_i, where 0 times infinity is 0."""
    factors = (s.abs(), *norms)
    product = factors[0]
    for n in norms:
        product = product * n
    zero = torch.stack([torch.broadcast_to(x == 0, product.shape) for x in factors]).any(0)
    return total(torch.where(zero, torch.zeros_like(product), product)) * (1 + 1e-13)


def nothing(slack: float) -> Trilinear:
    """Return a part without blocks, of which only the bound `slack` is known."""
    empty = torch.zeros(0, 1, 1, dtype=torch.float64)
    return Trilinear(Interval(empty[:, 0, 0], empty[:, 0, 0]), empty, empty, empty, slack)
