"""`bc.hypergradient` with a method that draws minibatches, and what refuses these methods."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from random_instances import layer

import boundcheck as bc
from boundcheck.errors import InputError
from boundcheck.numerics.solvers.neumann import run_neumann
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.step_schedule import StepSchedule

HALF, TENTH = StepSchedule.constant(0.5), StepSchedule.constant(0.1)


def test_one_run_with_what_was_asked_for() -> None:
    problem = layer()
    g = bc.hypergradient(problem, "sid", 4, 5, seed=3, steps=HALF, steps_v=TENTH)
    same = run_sid(problem, 4, 5, steps=HALF, steps_v=TENTH, runs=1, seed=3)
    assert torch.equal(g.value, same.value[0][0])
    assert (g.method, g.t, g.k, g.status, g.dynamics) == ("sid:5", 4, 5, "completed", "stochastic fixed-point, η = 0.5")
    assert g.residual.w == pytest.approx(float((g.w - problem.phi(g.w, problem.lam)).norm()), rel=1e-12)
    exact = bc.hypergradient(problem, "aid-fp", 0, 0, w0=g.w, v0=g.v)  # its residuals are those of the same w and v
    assert g.residual.v == pytest.approx(exact.residual.v, rel=1e-12)
    assert torch.equal(g.value, bc.hypergradient(problem, "sid:5", 4, seed=3, steps=HALF, steps_v=TENTH).value)


def test_neumann_and_its_length() -> None:
    problem = layer()
    g = bc.hypergradient(problem, "neumann", 4, 3, steps=HALF)
    assert torch.equal(g.value, run_neumann(problem, 4, 3, steps=HALF, runs=1, seed=0).value[0][0])


@pytest.mark.parametrize("steps", [None, "paper"])
def test_steps_from_the_theory(steps: str | None) -> None:
    """On lr with strong penalties and many examples at once the noise is small, so that the run comes close."""
    problem = bc.problems.logistic_regression(size=30, features=3, low=20.0, high=30.0, batch=25)
    g = bc.hypergradient(problem, "sid", 300, steps=steps)
    exact = bc.hypergradient(problem, "exact").value
    assert (g.value - exact).norm() <= 0.3 * exact.norm()


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("sid", {"steps": 0.1}, "steps = 0.1 are not steps"),
        ("sid", {"steps": HALF, "tol": 0.1}, "tol = 0.1 cannot be used with sid"),
        ("sid", {"steps": HALF, "mode": "forward"}, "mode = 'forward' cannot be used with sid"),
        ("neumann", {"steps": HALF, "steps_v": HALF}, "neumann has none"),
        ("neumann", {"steps": HALF, "v0": torch.zeros(3, dtype=torch.float64)}, "neumann has none"),
        ("aid-fp", {"seed": 1}, "seed = 1 is for the methods sid and neumann"),
        (None, {"rtol": 0.1, "steps": HALF}, "not for a tolerance"),
    ],
)
def test_options_that_mean_nothing(method: str | None, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        bc.hypergradient(layer(), method, 3, **options)


def test_a_problem_without_examples() -> None:
    with pytest.raises(
        InputError, match="sid draws minibatches, and the lower level is not a mean over examples; give data="
    ):
        bc.hypergradient(bc.problems.scalar(), "sid", 3)


@pytest.mark.parametrize("ask", [bc.check, bc.error_curves, lambda problem, names: bc.plan(problem, 0.1, names)])
@pytest.mark.parametrize("method", ["sid", "neumann:3"])
def test_what_is_for_methods_without_chance(ask: Any, method: str) -> None:
    with pytest.raises(InputError, match=f"{method} draws minibatches, so its error is a random number"):
        ask(layer(), ["aid-fp", method])
