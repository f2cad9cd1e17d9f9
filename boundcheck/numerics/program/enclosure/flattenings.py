"""Norms of the flattenings of a tensor Σ_g c_g A_g⊗B_g⊗C_g, formed as a sparse tensor if most entries are 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.sparse import coo_matrix, csr_matrix, identity
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import SPARSE, norm_of_sparse, spectral_norm

MOST_AT_ONCE = 25_000_000  # largest number of numbers formed at a time
Part = tuple[Tensor, tuple[Tensor, Tensor, Tensor | None]]  # c of shape (G,), and A, B, C of shapes (G, 1, k)


def least_norm_of_flattenings(parts: Sequence[Part], lengths: Sequence[int]) -> float:
    """Return an upper bound of the least norm of the three flattenings of the sum, as computed in float64.

    C may be None for the identity.
    """
    products = sum(int(_products(factors).sum()) for _, factors in parts)
    if products <= SPARSE * math.prod(lengths):
        return _of_sparse([(c, [_sparse(X, len(c)) for X in factors]) for c, factors in parts], lengths)
    tensor = formed_tensor(parts, lengths)
    flat = [tensor.flatten(1)]
    if not all(A is B is C for _, (A, B, C) in parts):  # for a symmetric tensor, all three are equal
        flat += [tensor.transpose(0, 1).flatten(1), tensor.flatten(0, 1)]
    return min(spectral_norm(matrix) for matrix in flat)


def formed_tensor(parts: Sequence[Part], lengths: Sequence[int]) -> Tensor:
    """Return the sum as a dense tensor of these lengths."""
    tensor = torch.zeros(*lengths, dtype=torch.float64)
    for c, (A, B, C) in parts:
        C_rows = torch.eye(len(c), dtype=torch.float64) if C is None else C[:, 0]
        if int(_products((A, B)).sum()) <= SPARSE * len(c) * lengths[0] * lengths[1]:
            tensor += _of_sparse_pairs(c, A, B, C_rows).reshape(*lengths)
            continue
        step = max(1, MOST_AT_ONCE // max(1, len(c) * lengths[1]))
        for start in range(0, lengths[0], step):
            piece = slice(start, start + step)
            AB = ((c[:, None] * A[:, 0, piece])[:, :, None] * B[:, 0, None, :]).reshape(len(c), -1)
            tensor[piece] += (AB.T @ C_rows).reshape(-1, lengths[1], lengths[2])
    return tensor


def _products(factors: Sequence[Tensor | None]) -> Tensor:
    """Return the number of nonzero numbers that each term g has."""
    counts = torch.ones((), dtype=torch.long)
    for X in factors:
        counts = counts if X is None else counts * X[:, 0].count_nonzero(-1)
    return counts


def _sparse(X: Tensor | None, count: int) -> csr_matrix:
    """Return the rows of a factor as a sparse matrix."""
    return identity(count, format="csr") if X is None else csr_matrix(X[:, 0].numpy())


@dataclass(frozen=True, eq=False)
class _Terms:
    """The nonzero entries of all c_g X_g⊗Y_g⊗…: the term g, the places and the value of each."""

    g: Tensor
    places: list[Tensor]
    values: Tensor


def _terms(c: Tensor, rows: Sequence[csr_matrix]) -> _Terms:
    widths = [torch.from_numpy(X.indptr).long().diff() for X in rows]
    counts = torch.stack(widths).prod(0)
    g = torch.arange(len(c)).repeat_interleave(counts)
    number = torch.arange(len(g)) - (counts.cumsum(0) - counts)[g]  # number of the entry among those of its term
    values, places = c[g], []
    for X, width in zip(rows, widths, strict=True):
        position = torch.from_numpy(X.indptr[:-1]).long()[g] + number % width[g]
        number = torch.div(number, width[g], rounding_mode="floor")
        places.append(torch.from_numpy(X.indices).long()[position])
        values = values * torch.from_numpy(X.data)[position]
    return _Terms(g, places, values)


def _of_sparse_pairs(c: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Return Σ_g c_g A_g⊗B_g⊗C_g with a row for each pair of entries of A_g and B_g, most of which are 0."""
    terms = _terms(c, [_sparse(X, len(c)) for X in (A, B)])
    row = terms.places[0] * B.shape[2] + terms.places[1]
    shape = A.shape[2] * B.shape[2], len(c)
    pairs = csr_matrix((terms.values.numpy(), (row.numpy(), terms.g.numpy())), shape=shape)
    return torch.from_numpy(pairs @ C.numpy())


def _of_sparse(parts: Sequence[tuple[Tensor, Sequence[csr_matrix]]], lengths: Sequence[int]) -> float:
    all_terms = [_terms(c, rows) for c, rows in parts]
    i, j, k = (torch.cat([terms.places[place] for terms in all_terms]) for place in range(3))
    data = torch.cat([terms.values for terms in all_terms]).numpy()
    norms = []
    for own, one, two, length in ((i, j, k, lengths[2]), (j, i, k, lengths[2]), (k, i, j, lengths[1])):
        of_rest, place = torch.unique(one * length + two, return_inverse=True)
        shape = (int(own.max()) + 1 if len(own) else 0, len(of_rest))
        norms.append(norm_of_sparse(coo_matrix((data, (own.numpy(), place.numpy())), shape=shape).tocsr()))
    return min(norms)
