"""The estimator on a device: the same constants as on the CPU, and nothing that mixes the two."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cases import EVERY_PROBLEM, make
from pretend import DEVICE, pretending

from boundcheck.constants import Constants
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_proof, rounding_proof_matrices
from boundcheck.numerics.estimate.estimate_constants import estimate_constants
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.program.rounding_rules.ball import Refusal
from boundcheck.side import Side

FEW = 60  # products: a climb of one start and a fixed number of steps, which differs by the rounding of these alone


@pytest.fixture(autouse=True)
def no_proof_of_rounding(monkeypatch: pytest.MonkeyPatch, without_program: None) -> None:
    """Rounding is proved on the CPU only, and tensors that pretend are not recorded; both take the same way here."""
    monkeypatch.setattr(rounding_proof, "balls", _refuse)
    monkeypatch.setattr(rounding_proof_matrices, "_followed", lambda *_, **__: NoProof("not here"))


def _refuse(*_: object) -> None:
    raise Refusal("not here")


@EVERY_PROBLEM
def test_constants(name: str) -> None:
    agree(make(name, torch.float64, "cpu"), make(name, torch.float64, str(DEVICE)))


@pytest.mark.parametrize("name", ["lr", "eqm"])
def test_constants_of_a_black_box(name: str) -> None:
    """Without closed forms, so that all are measured."""
    here, there = (replace(make(name, torch.float64, device), known=None) for device in ("cpu", str(DEVICE)))
    assert agree(here, there)["nu_1"].side is Side.LOWER


def agree(here: Problem, there: Problem) -> Constants:
    expected = estimate_constants(here, budget=FEW)
    with pretending():
        result = estimate_constants(there, budget=FEW)
    assert set(result) == set(expected)
    for key, constant in result.items():
        assert constant.side is expected[key].side, key
        assert constant.value == pytest.approx(expected[key].value, rel=1e-12, abs=1e-15), key
    return result
