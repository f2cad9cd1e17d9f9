"""Operations on parts of D³f: contraction with a vector, composition with a matrix, and means over several balls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, spectral_norm
from boundcheck.numerics.program.enclosure.forms import Trilinear, nothing, sizes_of_terms, trilinear_norm
from boundcheck.numerics.program.enclosure.intervals import UP, around, euclidean, norm, outward, point, total


def rows_of(M: Tensor) -> Trilinear:
    """Return xᵀMy as a form of x, y and one number."""
    d = len(M)
    eye = torch.eye(d, dtype=torch.float64)[:, None]
    return Trilinear(point(torch.ones(d, dtype=torch.float64)), eye, M[:, None], _ones(d), 0.0)


def negative(part: Trilinear) -> Trilinear:
    """Return the part times −1."""
    return replace(part, c=-part.c)


def contracted(part: Trilinear, v: Tensor, slot: int) -> Trilinear:
    """Return the part with v as one input, as a form of the two other inputs and one number."""
    if not part.single:
        return nothing(trilinear_norm([part]) * norm(v) * UP)
    factors = list(part.factors)
    X = factors.pop(slot)
    if X is None:
        s = point(v)
    else:
        rounding = gamma(len(v) + 2) * euclidean(X[:, 0], 1) * norm(v) * UP
        s = around(X[:, 0] @ v, rounding)
    A, B = factors[0], _formed(factors[1], len(part.c.lo))
    assert A is not None
    return Trilinear(part.c * s, A, B, _ones(len(A)), part.slack * norm(v) * UP)


def composed(part: Trilinear, slot: int, M: Tensor) -> Trilinear:
    """Return the part with M z instead of the input z."""
    if not len(part.c.lo):
        return nothing(part.slack * spectral_norm(M) * UP)
    factors = list(part.factors)
    X = factors[slot]
    slack = part.slack * spectral_norm(M)
    if X is None:
        factors[slot] = M[:, None]
    else:
        slack += gamma(X.shape[2] + 2) * frobenius(M) * total(sizes_of_terms(part, part.c.size))
        factors[slot] = X @ M
    A, B, C = factors
    assert A is not None
    assert B is not None
    return Trilinear(part.c, A, B, C, slack * UP)


def mean_of(lists: Sequence[list[Trilinear]], shares: Sequence[float]) -> list[Trilinear]:
    """Return the means of the parts with these shares, which may have two roundings each.

    If the parts differ in their form, the first list is returned.
    """
    first = lists[0]
    if not all(_same_form(first, other) for other in lists[1:]):
        return first
    return [_mean([parts[number] for parts in lists], shares) for number in range(len(first))]


def _same_form(parts: list[Trilinear], others: list[Trilinear]) -> bool:
    return len(parts) == len(others) and all(
        X is Y or (X is not None and Y is not None and torch.equal(X, Y))
        for part, other in zip(parts, others, strict=True)
        for X, Y in zip(part.factors, other.factors, strict=True)
    )


def _mean(parts: Sequence[Trilinear], shares: Sequence[float]) -> Trilinear:
    ends = []
    for end in ("lo", "hi"):
        ends.append(sum(share * getattr(part.c, end) for part, share in zip(parts, shares, strict=True)))
    sizes = sum(share * part.c.size for part, share in zip(parts, shares, strict=True))
    slack = math.fsum(share * part.slack for part, share in zip(parts, shares, strict=True))
    error = gamma(len(parts) + 4) * sizes
    return replace(parts[0], c=outward(ends[0] - error, ends[1] + error), slack=slack * UP)


def _formed(X: Tensor | None, count: int) -> Tensor:
    return torch.eye(count, dtype=torch.float64)[:, None] if X is None else X


def _ones(count: int) -> Tensor:
    return torch.ones(count, 1, 1, dtype=torch.float64)
