"""Derivatives without their zeros say the same as those with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.cholesky_certificate import spectral_norm
from boundcheck.numerics.program.enclosure import linear, sparse_derivative, value
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse, norm_of_blocks
from boundcheck.numerics.program.recorded_program import Declined

ROUNDING = 1e-12  # both are sums of fewer than a hundred products, in another order
generator = torch.Generator().manual_seed(3)
X, Y = (torch.randn(4, 3, generator=generator, dtype=torch.float64) for _ in range(2))
mask = torch.tensor([True, False, True, True])

# w has 5 numbers, λ has 15
SCALARS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "learnt features": lambda w, lam: ((X @ lam.reshape(3, 5) @ w - Y[:, 0]) ** 2).sum(),
    "features from the right": lambda w, lam: ((w @ (lam.reshape(5, 3) @ X.T)) ** 2).sum(),
    "a kernel": lambda w, lam: (
        w[:4] @ torch.exp(-((X[:, None] - Y[None]) ** 2 * lam[:3]).sum(-1)) @ w[1:] + (w**2).sum() * lam[3]
    ),
    "moves": lambda w, lam: (torch.cat([lam[:7], w, lam[9:12]]).reshape(5, 3).T.tril()[:, :3].exp() * X[:3]).sum(),
    "factors": lambda w, lam: (torch.tanh(w * (2 * lam[:5] - lam[5:10] / 4)) * -lam[10:]).mean(),
    "means": lambda w, lam: ((lam.reshape(3, 5).mean(0) - 3 * lam.reshape(3, 5).sum(0)) * w).cos().sum(),
    "a selection": lambda w, lam: (lam[:4][mask] * w[:3]).exp().sum() + lam.flip(0)[:5].dot(w),
    "sums of sums": lambda w, lam: (1 + (lam[:5] + lam[5:10]) * w).pow(2).sum() - (lam[10:] @ w),
    "a matrix of w": lambda w, lam: (w[:4, None] * w[None, 1:] @ lam[:12].reshape(4, 3)).sin().sum(),
}
MAPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a layer": lambda w, lam: 0.1 * torch.tanh(w @ lam[:5].diag() + lam[5:10]) + lam[10:],
    "states": lambda w, lam: torch.cat([torch.tanh(w[:4].reshape(2, 2) @ lam[:4].reshape(2, 2)).reshape(-1), w[:1]]),
}


@contextmanager
def without_zeros() -> Iterator[None]:
    """Every derivative is kept without its zeros."""
    with (
        patch.object(sparse_derivative, "LARGE", 0),
        patch.object(linear, "LARGE", 0),
        patch.object(value, "LARGE", 0),
        patch.object(sparse_derivative, "SPARSE", 1.0),
    ):
        yield


def vectors() -> tuple[Tensor, Tensor]:
    some = torch.Generator().manual_seed(7)
    w, lam = (torch.rand(size, generator=some, dtype=torch.float64) for size in (5, 15))
    return w, lam


@pytest.mark.parametrize("radius", [0.0, 0.3])
@pytest.mark.parametrize("name", SCALARS)
def test_bounds_of_a_scalar_are_the_same(name: str, radius: float) -> None:
    w, lam = vectors()
    program = capture(SCALARS[name], w, lam, EXPANSIONS)

    def bounds() -> tuple[list[float], bool]:
        b = ScalarBounds(program, w, lam, radius)
        sparse = any(isinstance(s.held, Sparse) for x in b.over.enclosures.values for s in x.slopes.values())
        return [b.smallest, b.largest, b.gradient, b.cross, b.third, b.third_cross], sparse

    plain, none = bounds()
    with without_zeros():
        ours, some = bounds()
    assert some
    assert not none
    assert ours == pytest.approx(plain, rel=ROUNDING, abs=ROUNDING)


@pytest.mark.parametrize("name", MAPS)
def test_bounds_of_a_map_are_the_same(name: str) -> None:
    w, lam = vectors()
    program = capture(MAPS[name], w, lam, EXPANSIONS)

    def bounds() -> list[float]:
        b = MapBounds(program, w, lam, 0.2)
        return [b.slope, b.lam_slope, b.bend, b.lam_bend]

    plain = bounds()
    with without_zeros():
        ours = bounds()
    assert ours == pytest.approx(plain, rel=ROUNDING, abs=ROUNDING)


def test_norms_are_those_of_the_matrix() -> None:
    some = torch.Generator().manual_seed(1)
    J = torch.zeros(12, 9, dtype=torch.float64)
    J[:5, :4], J[5:10, 4:8] = (torch.randn(5, 4, generator=some, dtype=torch.float64) for _ in range(2))
    J[11, 8] = 1e-200
    D = Sparse(csr_matrix(J.numpy()), torch.Size((3, 4)))
    truth = float(torch.linalg.matrix_norm(J, 2))
    assert truth <= D.norm() <= truth * (1 + ROUNDING)
    rows = J.norm(dim=1).reshape(3, 4)
    assert bool((D.row_norms() >= rows).all())
    assert torch.allclose(D.row_norms(), rows, rtol=ROUNDING, atol=1e-199)
    assert float(D.row_norms()[2, 3]) >= 1e-200
    assert torch.equal(D.formed(), J.T.reshape(9, 3, 4))
    squares = D.line_norms(-1, 10)
    assert squares is not None
    for line, square in zip(J.reshape(3, 4, 9), squares, strict=True):
        assert spectral_norm(line) ** 2 <= float(square) * (1 + ROUNDING)
    assert Sparse(D.rows, D.shape).line_norms(-1, 2) is None


def test_a_block_that_is_too_large_is_bounded_by_its_sums() -> None:
    J = csr_matrix(torch.ones(3, 4).double().numpy())
    with patch.object(sparse_derivative, "MOST_FORMED", 5):
        assert 12**0.5 <= norm_of_blocks(J) <= 12**0.5 * (1 + ROUNDING)
        with pytest.raises(Declined, match="too large to be formed"):
            Sparse(J, torch.Size((3,))).formed()


def test_blocks_that_are_not_finite_have_no_norm() -> None:
    J = torch.eye(3).double()
    J[1, 1] = torch.nan
    assert norm_of_blocks(csr_matrix(J.numpy())) == torch.inf
    assert norm_of_blocks(csr_matrix((3, 4))) == 0
