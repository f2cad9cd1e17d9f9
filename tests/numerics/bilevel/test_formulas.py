"""The matrices that formulas name, against what they say they are."""

from __future__ import annotations

import pytest
import torch
from pieces import normal
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.formulas import DataMatrix, Diagonal, FullMatrices, OuterProducts
from boundcheck.numerics.curves.eigenbasis import spectrum_of, spectrum_of_data

D, DATA, LAMS, COLUMNS = 7, 4, 3, 5


def dense(gram: DataMatrix, lam: int, column: int) -> Tensor:
    """diag(diagonal) + Uᵀdiag(weight)U at one column."""
    U = gram.U if gram.U.dim() == 2 else gram.U[..., lam, 0]
    weight, diagonal = (
        x.expand(n, LAMS, COLUMNS)[:, lam, column] for x, n in ((gram.weight, DATA), (gram.diagonal, D))
    )
    return torch.diag(diagonal) + U.T @ torch.diag(weight) @ U


GRAMS = {
    "a weight for each column": DataMatrix(normal(DATA, D), normal(DATA, LAMS, COLUMNS), normal(D, LAMS, 1)),
    "a diagonal for each column": DataMatrix(normal(DATA, D), normal(DATA, LAMS, COLUMNS), normal(D, LAMS, 1)).spread(),
    "data of its own for each λ": DataMatrix(normal(DATA, D, LAMS, 1), normal(LAMS, 1), normal(LAMS, 1)),
    "two numbers": DataMatrix(normal(DATA, D), normal(1)[0], normal(1)[0]),
}


@pytest.mark.parametrize("gram", GRAMS.values(), ids=GRAMS)
def test_gram(gram: DataMatrix) -> None:
    v = normal(D, LAMS, COLUMNS, seed=1)
    expected = torch.stack(
        [torch.stack([dense(gram, i, j) @ v[:, i, j] for j in range(COLUMNS)], dim=-1) for i in range(LAMS)], dim=1
    )
    room, itself = torch.empty_like(v), v.clone()
    aside = v.permute(1, 2, 0).contiguous().permute(2, 0, 1)  # the same numbers, laid out as rows
    for result in (gram(v), gram(aside), gram(v, room), room, gram(itself, itself), itself):
        assert torch.allclose(result, expected, rtol=1e-13, atol=1e-14)


def test_gram_at_one_column_shared_by_many_vectors() -> None:
    gram = GRAMS["a weight for each column"]
    v = normal(D, LAMS, 2, seed=1)
    result = gram.column(3)(v)
    for i in range(LAMS):
        assert torch.allclose(result[:, i], dense(gram, i, 3) @ v[:, i], rtol=1e-13, atol=1e-14)
    assert GRAMS["two numbers"].column(3) is GRAMS["two numbers"]


def test_gram_of_one_vector_and_as_matrices() -> None:
    gram = GRAMS["a weight for each column"]
    one = DataMatrix(gram.U, gram.weight[:, 1, 2], gram.diagonal[:, 1, 0])
    v = normal(D, seed=1)
    assert torch.allclose(one(v), dense(gram, 1, 2) @ v, rtol=1e-13, atol=1e-14)
    matrices = DataMatrix(gram.U, gram.weight[:, :, 2], gram.diagonal[:, :, 0]).matrices()
    assert torch.allclose(matrices[1], dense(gram, 1, 2), rtol=1e-13, atol=1e-14)
    assert [g.isotropic for g in GRAMS.values()] == [False, False, False, True]


@pytest.mark.parametrize("data", [2, 7, 11])
def test_the_spectrum_of_data_is_that_of_the_matrix(data: int) -> None:
    """More data than entries, fewer, and as many; the rest of the space has one eigenvalue."""
    U, weight, diagonal = normal(LAMS, data, D), -normal(LAMS, seed=1).abs(), normal(LAMS, seed=2)
    J = weight[:, None, None] * (U.mT @ U) + diagonal[:, None, None] * torch.eye(D).double()
    result, expected = spectrum_of_data(U, weight, diagonal), spectrum_of(J)
    assert result.simple == expected.simple == (data >= D - 1)
    assert torch.allclose(result.values, expected.values, rtol=1e-12, atol=1e-13)
    j = result.spread(result.values[:, None])
    assert torch.allclose(result.U * j @ result.U.mT, J, rtol=1e-12, atol=1e-13)
    assert torch.allclose(result.U.mT @ result.U, torch.eye(D).double().expand(LAMS, -1, -1), atol=1e-14)


def test_derivatives_by_lam() -> None:
    w, e, C = normal(4, 3), normal(4, 2, seed=1), normal(3, 2, seed=2)
    outer, v = OuterProducts(e, w, lambda v: v @ C), normal(4, 5, 3, seed=3)
    expected = torch.einsum("ra,rvb->rvab", e, v) + torch.einsum("rva,rb->rvab", v @ C, w)
    assert torch.allclose(outer(v), expected.flatten(-2), rtol=1e-13, atol=1e-14)
    assert torch.allclose(outer.summed(v.transpose(0, 1)), expected.sum(0).flatten(-2), rtol=1e-13, atol=1e-14)
    assert torch.equal(Diagonal(w)(v), v * w[:, None])
    M = normal(4, 6, 3, seed=4)
    assert torch.allclose(FullMatrices(M)(v), torch.einsum("rnd,rvd->rvn", M, v), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ["weight", "diagonal"])
def test_gram_refuses_what_lacks_the_axes_of_columns(name: str) -> None:
    """As long as the data, it would be taken for numbers of columns."""
    given = {"U": normal(DATA, D), "weight": normal(1)[0], "diagonal": normal(1)[0]} | {name: normal(COLUMNS)}
    with pytest.raises(InputError, match=rf"DataMatrix: {name} has shape \(5,\) for columns of shape \(7, 3, 5\)"):
        DataMatrix(**given)(normal(D, LAMS, COLUMNS))
