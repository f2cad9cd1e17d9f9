"""Direct solves with few data beside a diagonal, against dense matrices."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pieces import normal
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.formulas import DataMatrix
from boundcheck.numerics.solvers import linear_systems, reference
from boundcheck.numerics.solvers.linear_systems import Dense, FewData

EPS = torch.finfo(torch.float64).eps
ROWS, DATA, D = 3, 4, 12


def gram(least: float = 0.1, weights: float = 1.0) -> DataMatrix:
    """I less it has a diagonal from `least` to 1; for columns (D, ROWS, 1)."""
    a = torch.logspace(math.log10(least), 0, D, dtype=torch.float64)
    return DataMatrix(normal(DATA, D), -weights * normal(DATA, ROWS, 1, seed=1).abs(), (1 - a)[:, None, None])


def matrices(of: DataMatrix) -> Tensor:
    diagonal = of.diagonal.expand(-1, ROWS, -1)
    return torch.eye(D).double() - DataMatrix(of.U, of.weight, diagonal).matrices()[:, 0]


@pytest.mark.parametrize("weights", [1.0, 1e-6, 1e3, -0.01, 0.0])
@pytest.mark.parametrize("least", [0.1, 1e-4, 1e-7])
def test_it_solves_as_well_as_dense_pivots(least: float, weights: float) -> None:
    """Residuals are rounding of ‖A‖‖x‖, where the identity alone would lose the condition of the diagonal."""
    of = gram(least, weights)
    system, A, b = FewData.of(of, ROWS), matrices(of), normal(ROWS, D, seed=2)
    assert system is not None
    dense = Dense(A)
    assert torch.allclose(system.product_T(b), dense.product_T(b), rtol=1e-13, atol=1e-13)
    for x in (system.solve(b), system.solve_T(b), dense.solve(b), dense.solve_T(b)):
        left = (b - dense.product_T(x)).norm(dim=-1)
        assert bool((left <= 40 * EPS * (torch.linalg.matrix_norm(A, 2) * x.norm(dim=-1) + b.norm(dim=-1))).all())


def test_a_dense_matrix_that_is_not_symmetric() -> None:
    A, b = torch.eye(D).double() + 0.1 * normal(ROWS, D, D), normal(ROWS, D, seed=2)
    assert torch.allclose((A @ Dense(A).solve(b)[..., None])[..., 0], b, rtol=1e-12)
    assert torch.allclose((A.mT @ Dense(A).solve_T(b)[..., None])[..., 0], b, rtol=1e-12)
    assert torch.allclose((A.mT @ b[..., None])[..., 0], Dense(A).product_T(b), rtol=1e-12)


def test_where_it_does_not_apply() -> None:
    few = gram()
    many, nothing_beside = replace(few, U=normal(D, D)), replace(few, diagonal=torch.ones_like(few.diagonal))
    assert FewData.of(few, ROWS) is not None
    assert [FewData.of(other, ROWS) for other in (None, lambda v: v, many, nothing_beside, gram(1e-9))] == [None] * 5


@pytest.mark.parametrize("numbers", ["one for each row", "one"])
@pytest.mark.parametrize("own", [False, True])
def test_with_numbers_for_weights_and_data_of_each_row(own: bool, numbers: str) -> None:
    """As the formulas of HR and BR give them."""
    U = normal(DATA, D, ROWS, 1) if own else normal(DATA, D)
    weight, diagonal = torch.tensor([0.3, 0.2, 0.1]).double()[:, None], torch.tensor([0.9, 0.8, 0.5]).double()[:, None]
    if numbers == "one":
        weight, diagonal = weight[0, 0], diagonal[0, 0]
    system, b = FewData.of(DataMatrix(U, -weight, diagonal), ROWS), normal(ROWS, D, seed=2)
    assert system is not None
    for i, x in enumerate(system.solve(b)):
        data = U[..., i, 0] if own else U
        c, k = (x[i, 0] if numbers != "one" else x for x in (weight, diagonal))
        A = (1 - k) * torch.eye(D).double() + c * data.T @ data
        assert torch.allclose(A @ x, b[i], rtol=1e-13, atol=1e-13)
        assert torch.allclose(system.product_T(b)[i], A @ b[i], rtol=1e-13, atol=1e-13)


def test_the_reference_is_the_same_without_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where λ goes down to 1e-5, where the Newton step and v are as large as their condition makes them."""
    problem = bc.problems.logistic_regression(seed=1, size=8, features=24)
    lams = problem.sample(4, seed=1)
    lams[1:, :3] = 1e-5
    dense = reference.reference(replace(problem, d1phi_T_at=None), lams)
    monkeypatch.setattr(reference, "Dense", None)
    few = reference.reference(problem, lams)
    monkeypatch.setattr(linear_systems, "REFINED", 0)
    bare = reference.reference(problem, lams)
    for row in range(4):
        assert float(few.residual_v[row]) <= 4 * EPS * float(few.v[row].norm())
        assert float(few.residual_w[row]) <= 4 * EPS * float(few.w[row].norm())
        assert float(few.residual_v[row]) <= 1.1 * float(bare.residual_v[row]) + EPS
    assert torch.allclose(few.w, dense.w, rtol=1e-7, atol=1e-9)
    assert torch.allclose(few.v, dense.v, rtol=1e-7, atol=1e-9)
    assert torch.allclose(few.value, dense.value, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_that_is_singular_to_rounding_is_named(dtype: torch.dtype) -> None:
    X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    flat = (0.1 * X.mT @ X)[None]  # of rank 3
    assert Dense(flat).is_singular()
    shift = 1e3 * torch.finfo(dtype).eps
    assert not Dense(flat + shift * torch.eye(8, dtype=dtype)).is_singular()


def test_few_data_with_a_negative_weight_may_be_singular() -> None:
    U, a = torch.eye(1, 4, dtype=torch.float64)[None], torch.ones(1, 4, dtype=torch.float64)
    for weight, singular in ((-1.0, True), (-0.5, False), (1.0, False)):
        assert FewData(U, torch.tensor([[weight]], dtype=torch.float64), a).is_singular() is singular
