"""Random programs of everything: no formula that is read off one has ever to be thrown away for another value."""

from __future__ import annotations

import logging

import pytest
import torch
from random_programs import RandomProgram, random_program

import boundcheck as bc
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.bilevel.loss_gradient import gradient
from boundcheck.numerics.bilevel.quick.quick_problem import quick

PROGRAMS, GROUP, STEP = 80, 20, 1e-3


def problem_of(program: RandomProgram) -> bc.Problem:
    """A gradient step on it, or the map itself, as if a user had written it."""
    layout = Layout(("",), (program.w.shape,), lambda leaves: next(leaves))
    names = {"name": str(program.seed), "w0": program.w, "lam": program.lam, "w_layout": layout}
    if not program.scalar:
        return bc.Problem(**names, phi_at=program, outer_at=lambda w, lam: (w**2).sum())
    slope = gradient(program)
    return bc.Problem(
        **names, phi_at=lambda w, lam: w - STEP * slope(w, lam), outer_at=program, inner_at=program,
        step_at=lambda lam: STEP, symmetric=True, frozen_step=True,
    )  # fmt: skip


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_formulas_of_random_programs_are_right(first: int, caplog: pytest.LogCaptureFixture) -> None:
    programs = [random_program(seed) for seed in range(first, first + GROUP)]
    made = []
    with caplog.at_level(logging.DEBUG, logger="boundcheck"):
        for program in programs:
            problem = problem_of(program)
            made.append(quick(problem) is not problem)
    assert "formula has another" not in caplog.text
    assert sum(made) >= 0.9 * GROUP
    assert any(program.w.dtype is torch.float32 for program in programs)
