"""Bounds over the ball that was asked for last: the same object for the same ball, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import user_problems as users

from boundcheck.numerics.estimate import last_ball
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds


def proof() -> ProgramProof:
    return ProgramProof.of(users.logistic_pair(users.soft_plus, size=12, features=5).user)


def test_one_ball_is_enclosed_once() -> None:
    of_problem = proof()
    w = torch.full((5,), 0.1, dtype=torch.float64)
    first = of_problem.lower_bounds(w, 0.5)
    assert of_problem.lower_bounds(w.clone(), 0.5) is first
    assert of_problem.outer_bounds(w, 0.5) is of_problem.outer_bounds(w, 0.5)
    assert of_problem.lower_bounds(w, 0.5) is first  # each program has its own last ball
    assert replace(of_problem, outer=None).lower_bounds(w, 0.5) is first


def test_another_ball_has_other_bounds() -> None:
    of_problem = proof()
    w = torch.full((5,), 0.1, dtype=torch.float64)
    at_other_lam = replace(of_problem, problem=of_problem.problem.at(2 * of_problem.problem.lam))
    for other in (
        lambda: of_problem.lower_bounds(w, 0.25),
        lambda: of_problem.lower_bounds(w + 1, 0.5),
        lambda: at_other_lam.lower_bounds(w, 0.5),
    ):
        before = of_problem.lower_bounds(w, 0.5)
        bounds, there = before, other()
        assert isinstance(bounds, ScalarBounds)
        assert isinstance(there, ScalarBounds)
        assert there is not bounds
        assert (there.smallest, there.largest) != (bounds.smallest, bounds.largest)


def test_large_bounds_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_ball, "MOST_KEPT", 10)
    of_problem = proof()
    w = torch.full((5,), 0.1, dtype=torch.float64)
    assert of_problem.lower_bounds(w, 0.5) is not of_problem.lower_bounds(w, 0.5)
