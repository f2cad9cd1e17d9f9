"""Norms and eigenvalues of matrices that are mostly zeros: the same as those of full ones."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import (
    gram,
    is_sparse,
    largest_eigenvalue,
    largest_eigenvalue_of_sparse,
    spectral_norm,
)
from boundcheck.numerics.program.enclosure.flattenings import least_norm_of_flattenings
from boundcheck.numerics.program.enclosure.forms import Factor, Trilinear, _hadamard, trilinear_norm
from boundcheck.numerics.program.enclosure.intervals import point

CLOSE = 1e-9  # the margin of a certificate of some hundred rows


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mostly_zero(seed: int, *shape: int, share: float = 0.01) -> Tensor:
    kept = torch.rand(*shape, generator=torch.Generator().manual_seed(seed + 1)) < share
    return normal(seed, *shape) * kept


@pytest.mark.parametrize("shape", [(700, 300), (300, 700), (400, 400)])
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e150])
def test_the_norm_of_a_sparse_matrix_is_certified(shape: tuple[int, int], size: float) -> None:
    J = size * mostly_zero(0, *shape)
    assert is_sparse(J)
    truth = size * float(torch.linalg.matrix_norm(J / size, 2))
    assert truth * (1 - 1e-14) <= spectral_norm(J) <= truth * (1 + CLOSE)


def test_a_matrix_of_blocks_has_the_eigenvalue_of_one_of_them() -> None:
    blocks = [normal(seed, 1 + seed % 7, 1 + seed % 7) for seed in range(120)]
    H = torch.block_diag(*(B + B.T for B in blocks))
    order = torch.randperm(len(H), generator=torch.Generator().manual_seed(0))
    for sign in (1.0, -1.0):
        truth = float(torch.linalg.eigvalsh(sign * H)[-1])
        assert truth * (1 - 1e-13) <= largest_eigenvalue(sign * H[order][:, order]) <= truth * (1 + 1e-11)


def test_a_negative_diagonal_stays_negative() -> None:
    H = -torch.diag(torch.linspace(1, 2, 300, dtype=torch.float64))
    assert -1 <= largest_eigenvalue(H) <= -1 + 1e-12


def test_infinity_and_nothing() -> None:
    J = torch.zeros(300, 300, dtype=torch.float64)
    assert spectral_norm(J) == 0
    J[3, 5] = math.inf
    assert spectral_norm(J) == math.inf


def test_inner_products_of_sparse_rows() -> None:
    J = mostly_zero(3, 500, 200)
    assert torch.allclose(gram(J), J @ J.T, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("identity", [False, True])
def test_flattenings_of_a_sparse_tensor_are_those_of_the_full_one(identity: bool) -> None:
    c, A, B = normal(5, 40), mostly_zero(6, 40, 1, 50, share=0.06), mostly_zero(8, 40, 1, 45, share=0.06)
    C = None if identity else mostly_zero(10, 40, 1, 30, share=0.1)
    formed = torch.eye(40, dtype=torch.float64) if C is None else C[:, 0]
    tensor = torch.einsum("g,gi,gj,gk->ijk", c, A[:, 0], B[:, 0], formed)
    flat = (tensor.flatten(1), tensor.transpose(0, 1).flatten(1), tensor.flatten(0, 1))
    truth = min(float(torch.linalg.matrix_norm(M, 2)) for M in flat)
    parts = [(c, (A, B, C))]
    assert least_norm_of_flattenings(parts, tensor.shape) == pytest.approx(truth, rel=CLOSE)
    full = [(c, (A + 1e-30, B + 1e-30, C))]  # not sparse any more
    assert least_norm_of_flattenings(full, tensor.shape) == pytest.approx(truth, rel=CLOSE)


def test_the_identity_as_a_factor_need_not_be_formed() -> None:
    c, A, B = point(normal(12, 30).abs()), normal(13, 30, 1, 8), normal(14, 30, 1, 9)
    eye = torch.eye(30, dtype=torch.float64)[:, None]
    ours, theirs = (trilinear_norm([Trilinear(c, A, B, C, 0.0)]) for C in (None, eye))
    assert ours == pytest.approx(theirs, rel=CLOSE)
    r = normal(15, 30).abs()
    for weights in (None, normal(16, 30).abs()):
        assert Factor(r, None).norm(weights) == pytest.approx(Factor(r, eye).norm(weights), rel=CLOSE)
    assert torch.allclose(Factor(r, None).gram, Factor(r, eye).gram)


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_eigenvalue_of_a_sparse_matrix(seed: int) -> None:
    """Blocks, the last numbers alone, and one block that has only negative eigenvalues."""
    H = torch.zeros(300, 300, dtype=torch.float64)
    for start in range(0, 280, 10):
        B = normal(seed + start, 10, 10)
        H[start : start + 10, start : start + 10] = B + B.T
    H[:10, :10] -= 40 * torch.eye(10, dtype=torch.float64)
    truth, ours = float(torch.linalg.eigvalsh(H)[-1]), largest_eigenvalue_of_sparse(csr_matrix(H.numpy()))
    assert truth * (1 - 1e-13) <= ours <= truth * (1 + 1e-10)
    assert largest_eigenvalue_of_sparse(csr_matrix((3, 3))) == 0
    assert largest_eigenvalue_of_sparse(csr_matrix([[math.nan]])) == math.inf


@pytest.mark.parametrize("which", ["both", "first", "second", "identity"])
def test_products_of_sparse_inner_products(which: str) -> None:
    full, few = normal(1, 300, 1, 300), mostly_zero(2, 300, 300)[:, None]
    r = normal(3, 300).abs()
    Y, Z = {"both": (few, few), "first": (few, full), "second": (full, few), "identity": (None, few)}[which]
    one, two = Factor(r, Y), Factor(r, Z)
    assert (one.sparse is not None) == (which != "second")
    truth = float(torch.linalg.eigvalsh(one.gram * two.gram)[-1]) ** 0.5
    assert truth * (1 - 1e-13) <= _hadamard(one, two) <= truth * (1 + 1e-9)
