"""Norms of flattenings by the inner products of their factors: those of the tensor, and never less."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.flattenings import Part, least_norm_of_flattenings
from boundcheck.numerics.program.enclosure.flattenings_by_factors import least_norm_by_factors
from boundcheck.numerics.program.enclosure.forms import Trilinear, trilinear_norm
from boundcheck.numerics.program.enclosure.intervals import point

D, GENERATOR = 60, torch.Generator().manual_seed(5)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def size_of(parts: list[Part]) -> float:
    total = 0.0
    for c, factors in parts:
        sizes = c.abs()
        for X in factors:
            sizes = sizes * (1.0 if X is None else X[:, 0].norm(dim=1))
        total += float(sizes.sum())
    return total * (1 + 1e-12)


def truth(parts: list[Part]) -> float:
    """From a tensor of whole numbers, which is exact; its norms in double precision."""
    tensor = torch.zeros(D, D, D, dtype=torch.float64)
    for c, (A, B, C) in parts:
        formed = torch.eye(len(c), dtype=torch.float64) if C is None else C[:, 0]
        tensor += torch.einsum("g,gi,gj,gk->ijk", c, A[:, 0], B[:, 0], formed)
    flat = (tensor.flatten(1), tensor.transpose(0, 1).flatten(1), tensor.flatten(0, 1))
    return min(float(torch.linalg.matrix_norm(M, 2)) for M in flat)


def parts_of(kind: str) -> list[Part]:
    A, B, C = (torch.randint(-9, 10, (20, 1, D), generator=GENERATOR).double() for _ in range(3))
    c = torch.randint(-5, 6, (20,), generator=GENERATOR).double()
    if kind == "symmetric":
        return [(c, (A, A, A))]
    if kind == "identity":
        eye = torch.eye(D, dtype=torch.float64)[:, None]
        return [(c, (A, B, C)), (torch.ones(D, dtype=torch.float64), (eye, eye, None))]
    if kind == "cancels":  # all but one term
        return [(c, (A, B, C)), (-c[1:], (A[1:], B[1:], C[1:]))]
    return [(c, (A, B, C)), (c.flip(0), (B, C, A))]


@pytest.mark.parametrize("kind", ["two parts", "symmetric", "identity", "cancels"])
def test_the_norm_is_that_of_the_tensor(kind: str) -> None:
    parts = parts_of(kind)
    value = least_norm_by_factors(parts, (D, D, D), size_of(parts))
    assert value is not None
    assert value >= truth(parts) * (1 - 1e-13)
    assert value == pytest.approx(truth(parts), rel=1e-9)
    assert value == pytest.approx(least_norm_of_flattenings(parts, (D, D, D)), rel=1e-9)


def test_nothing_is_said_where_the_tensor_is_quicker_or_rounding_too_large() -> None:
    many: list[Part] = [(normal(900), (normal(900, 1, D), normal(900, 1, D), normal(900, 1, D)))]
    assert least_norm_by_factors(many, (D, D, D), size_of(many)) is None
    c, (A, B, C) = parts_of("two parts")[0]
    nearly = [(c, (A, B, C)), (-c * (1 + 1e-9), (A, B, C))]  # what is left is hardly more than rounding
    assert least_norm_by_factors(nearly, (D, D, D), size_of(nearly)) is None
    tiny: list[Part] = [(c, (A * 1e-200, B, C))]
    assert least_norm_by_factors(tiny, (D, D, D), size_of(tiny)) is None


@pytest.mark.parametrize("small", [1e-160, 1e-200])
def test_small_numbers_beside_large_ones_of_other_terms(small: float) -> None:
    """Both terms were lost, and the norm was said to be 0."""
    A, B, C = (torch.zeros(2, 1, D, dtype=torch.float64) for _ in range(3))
    A[0, 0, 0], A[1, 0, 1] = 1, small
    B[0, 0, 0], B[1, 0, 1] = small, 1
    C[0, 0, 0], C[1, 0, 1] = 1, 1
    parts: list[Part] = [(torch.ones(2, dtype=torch.float64), (A, B, C))]
    assert least_norm_by_factors(parts, (D, D, D), 2 * small) is None
    part = Trilinear(point(parts[0][0]), A, B, C, 0.0)
    assert trilinear_norm([part]) >= small
