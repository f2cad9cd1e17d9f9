"""Spectral projections against dense matrices of the same operators."""

from __future__ import annotations

import pytest
import torch
from pieces import normal
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.problems.parts.projections import convolution_norm, project_convolution, project_matrix

# Singular values of these matrices (at most 75 × 75, norm at most 30) are right to some hundred units in the last place
EPS = 1e-12


def dense(K: Tensor, side: int, *, sign: int = 1, circular: bool = True) -> Tensor:
    """The matrix of cross-correlation (sign 1) or convolution (sign −1) with K, entry by entry."""
    out, into, k, _ = K.shape
    M = torch.zeros(out, side, side, into, side, side, dtype=K.dtype)
    for y in range(side):
        for x in range(side):
            for a in range(k):
                for b in range(k):
                    u, v = y + sign * (a - k // 2), x + sign * (b - k // 2)
                    if circular or (0 <= u < side and 0 <= v < side):
                        M[:, y, x, :, u % side, v % side] += K[:, :, a, b]
    return M.reshape(out * side**2, into * side**2)


def norm_of(M: Tensor) -> float:
    return float(torch.linalg.matrix_norm(M, ord=2))


@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (3, 3, 3, 3), (2, 3, 3, 3), (3, 1, 3, 3), (2, 2, 1, 1)])
@pytest.mark.parametrize("side", [3, 4, 5])
def test_norm_of_a_convolution(shape: tuple[int, ...], side: int) -> None:
    K = normal(*shape)
    for sign in (1, -1):
        assert float(convolution_norm(K, side)) == pytest.approx(norm_of(dense(K, side, sign=sign)), rel=EPS)


@pytest.mark.parametrize("side", [3, 4, 5])
def test_zero_padding_is_bounded_on_the_next_torus(side: int) -> None:
    for seed in range(8):
        K = normal(2, 2, 3, 3, seed=seed)
        assert norm_of(dense(K, side, circular=False)) <= float(convolution_norm(K, side + 1)) * (1 + EPS)


def test_zero_padding_is_not_bounded_on_the_same_torus() -> None:
    """Taps in one row: a circulant and a Toeplitz matrix, repeated."""
    K = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    K[0, 0, 1] = torch.tensor([-1.0, 2.0, -1.0])
    assert norm_of(dense(K, 3, circular=False)) == pytest.approx(2 + 2**0.5, rel=EPS)
    assert float(convolution_norm(K, 3)) == pytest.approx(3, rel=EPS)
    assert float(convolution_norm(K, 4)) == pytest.approx(4, rel=EPS)


def test_nor_at_the_size_of_the_paper() -> None:
    K = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    K[0, 0, 1] = torch.tensor([-0.5, 0.0, 1.0])
    ones = torch.ones(13, dtype=torch.float64)
    one_row = torch.diag(ones, 1) - torch.diag(ones, -1) / 2
    assert norm_of(one_row) / float(convolution_norm(K, 14)) == pytest.approx(1.0038, abs=5e-5)


def test_project_matrix_clips_singular_values() -> None:
    A = normal(7, 4)
    S = torch.linalg.svdvals(A)
    projected = project_matrix(A, 1.5)
    assert S[0] > 1.5 > S[-1]
    torch.testing.assert_close(torch.linalg.svdvals(projected), S.clamp(max=1.5), rtol=EPS, atol=EPS)
    torch.testing.assert_close(project_matrix(projected, 1.5), projected, rtol=EPS, atol=EPS)


def test_project_matrix_is_the_nearest() -> None:
    """P is the projection of A onto a convex set if and only if ⟨A − P, X − P⟩ ≤ 0 for all X in the set."""
    A = normal(5, 5)
    P = project_matrix(A, 0.9)
    for seed in range(1, 50):
        X = normal(5, 5, seed=seed)
        X *= 0.9 / norm_of(X)
        assert float(((A - P) * (X - P)).sum()) <= EPS


def test_what_is_inside_stays_to_the_bit() -> None:
    A, K = normal(4, 4), normal(2, 2, 3, 3)
    assert torch.equal(project_matrix(A, 100.0), A)
    assert torch.equal(project_convolution(K, 5, 100.0), K)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("grid", [3, 4, 5])
@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (3, 3, 3, 3), (2, 3, 3, 3)])
def test_project_convolution_keeps_the_bound(shape: tuple[int, ...], grid: int, rounds: int) -> None:
    K = normal(*shape)
    projected = project_convolution(K, grid, 0.999, rounds)
    assert projected.shape == K.shape
    assert norm_of(dense(K, grid)) > 0.999
    for sign in (1, -1):
        assert norm_of(dense(projected, grid, sign=sign)) <= 0.999 * (1 + EPS)
    torch.testing.assert_close(project_convolution(projected, grid, 0.999, rounds), projected, rtol=EPS, atol=EPS)


def test_without_a_crop_it_is_the_projection_of_the_matrix() -> None:
    """A kernel as large as the torus is not cropped, so nothing is left to scale."""
    K = normal(3, 2, 3, 3)
    projected = project_convolution(K, 3, 2.0)
    torch.testing.assert_close(dense(projected, 3), project_matrix(dense(K, 3), 2.0), rtol=EPS, atol=EPS)


def cropped(K: Tensor, grid: int, norm: float) -> Tensor:
    """Clip and crop of Sedghi et al. by the dense matrix, whose first row holds the kernel of the clipped operator."""
    M = project_matrix(dense(K, grid), norm).reshape(K.shape[0], grid, grid, K.shape[1], grid, grid)
    u = torch.arange(-1, 2) % grid
    return M[:, 0, 0][:, :, u][..., u]


def test_clip_and_crop_alone_breaks_the_bound() -> None:
    K = normal(2, 2, 3, 3)
    alone = cropped(K, 5, 1.0)
    assert float(convolution_norm(alone, 5)) > 1.1
    scaled = alone / convolution_norm(alone, 5)
    torch.testing.assert_close(project_convolution(K, 5, 1.0), scaled, rtol=EPS, atol=EPS)


def test_many_rounds_give_the_nearest_kernel() -> None:
    """Again ⟨K − P, X − P⟩ ≤ 0, up to what 200 rounds leave; one round misses it by far."""
    K = normal(1, 1, 3, 3)
    once, many = project_convolution(K, 4, 1.0), project_convolution(K, 4, 1.0, rounds=200)

    def worst(P: Tensor) -> float:
        tried = [once, many, K, K - P, *(normal(1, 1, 3, 3, seed=seed) for seed in range(1, 50))]
        return max(float(((K - P) * (X / convolution_norm(X, 4) - P)).sum()) for X in tried)

    assert float((K - many).norm()) < float((K - once).norm())
    assert worst(many) < 1e-3 < 1e-1 < worst(once)


def test_float32() -> None:
    A, K = normal(5, 5, dtype=torch.float32), normal(2, 2, 3, 3, dtype=torch.float32)
    P, Q = project_matrix(A, 0.9), project_convolution(K, 4, 0.9)
    assert P.dtype == Q.dtype == torch.float32
    assert norm_of(P) <= 0.9 * (1 + 1e-5)
    assert float(convolution_norm(Q, 4)) <= 0.9 * (1 + 1e-5)


def test_norm_zero() -> None:
    assert norm_of(project_matrix(normal(3, 3), 0.0)) < EPS
    assert not project_convolution(normal(2, 2, 3, 3), 4, 0.0).any()
    assert not project_convolution(torch.zeros(2, 2, 3, 3), 4, 0.0).any()


def test_refused() -> None:
    A, K = normal(3, 3), normal(2, 2, 3, 3)
    for norm in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=rf"norm = {norm} is not a spectral norm"):
            project_matrix(A, norm)
        with pytest.raises(InputError, match=rf"norm = {norm} is not a spectral norm"):
            project_convolution(K, 4, norm)
    with pytest.raises(InputError, match=r"shape \(2, 2, 3, 3\) does not fit a torus of side 2"):
        convolution_norm(K, 2)
    with pytest.raises(InputError, match=r"shape \(3, 3\) does not fit"):
        convolution_norm(A, 4)
    with pytest.raises(InputError, match="rounds = 0 would not project"):
        project_convolution(K, 4, 0.9, rounds=0)
