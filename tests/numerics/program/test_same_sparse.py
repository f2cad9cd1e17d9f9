"""A program with a sparse matrix is compared number for number too, so that nothing proved rests on points."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import scipy.sparse
import torch
from pieces import zeros
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.same_program import Snapshot


def loss_of(X: object) -> object:
    def loss(w: Tensor, lam: Tensor) -> Tensor:
        return torch.exp(-1e6 * ((X @ w - 5) ** 2)).sum() + (w**2).sum() * lam.sum()

    return loss


def test_one_number_that_no_point_shows_is_seen() -> None:
    """Where |Xw − 5| is large, the loss does not depend on X in floating point."""
    X = bc.SparseMatrix.from_scipy(scipy.sparse.eye(3, format="csr"), dtype=torch.float64)
    function = loss_of(X)
    w, lam = zeros(3), zeros(1) + 1
    snapshot = Snapshot.of(capture(function, w, lam, {}), sparse=True)
    assert snapshot.is_of(capture(function, w, lam, {}))
    X.X.values()[1] = 2.0
    assert not snapshot.is_of(capture(function, w, lam, {}))


def test_an_object_that_is_not_understood_is_declined() -> None:
    @dataclass
    class Box:
        X: Tensor
        more: list[int]

    program = capture(lambda w, lam: (w * lam).sum(), zeros(3), zeros(1), {})
    operation = program.operations[-1]
    object.__setattr__(operation, "args", (*operation.args, Box(zeros(3), [])))
    with pytest.raises(Declined, match="an argument of type Box"):
        Snapshot.of(program, sparse=True)
