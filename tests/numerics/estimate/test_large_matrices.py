"""Matrices that are too large for balls: their rounding is not proved, so their norms are estimates."""

from __future__ import annotations

import pytest
import torch
from pieces import normal

import boundcheck as bc
from boundcheck.numerics.estimate import rounding_proof_matrices
from boundcheck.side import Side

SAFE = (Side.EXACT, Side.UPPER)


def quadratic() -> bc.Problem:
    X = normal(6, 3)
    return bc.Problem.from_loss(
        lambda w, lam: ((X @ w) ** 2).sum() / 2 + (lam * w**2).sum() - w.sum(),
        lambda w, lam: ((w - 1) ** 2).sum() / 2,
        torch.zeros(3).double(), torch.ones(3).double(), step_size=0.05,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["lr", "own"])
def test_what_has_no_balls_is_an_estimate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = quadratic() if name == "own" else bc.problems.logistic_regression(size=20, features=3, low=1.0)
    monkeypatch.setattr(rounding_proof_matrices, "LARGEST", 0)
    monkeypatch.setattr("boundcheck.numerics.estimate.setting.at_point", lambda *given: "no program")
    constants = bc.estimate_constants(problem)
    assert {constants[name].side for name in ("q_star", "L_Phi_star", "W")} == {Side.LOWER}
    assert not [x for x in constants if constants[x].side in SAFE and "not proved" in constants[x].provenance.how]


def test_matrices_of_some_hundred_rows_have_balls() -> None:
    problem = bc.problems.logistic_regression(size=200, features=200, low=1.0)
    assert rounding_proof_matrices.are_small(problem)
    assert not isinstance(rounding_proof_matrices.of_phi(problem, problem.w0), rounding_proof_matrices.NoProof)
