"""The step size that boundcheck chooses contracts at the solution, and runs with it converge."""

from __future__ import annotations

import first_use_problems
import pytest
import torch

import boundcheck as bc
from boundcheck.numerics.bilevel.default_step import default_step


def test_a_network_with_a_proximal_term_gets_a_step_that_contracts_at_the_solution() -> None:
    """2/(μ+L) of the start swings around w* for ever, through points that are no sharper than the start."""
    problem = first_use_problems.imaml()
    w_star = bc.hypergradient(problem, "exact").w
    ready = problem.prepare(problem.lam)
    H = torch.func.hessian(lambda w: problem.inner_at(w, ready))(problem.checked(w_star, "w0"))
    eigenvalues = torch.linalg.eigvalsh(H)
    alpha = float(problem.step_at(ready))
    assert float(eigenvalues[0]) > 0
    assert alpha * float(eigenvalues[-1]) < 2
    assert alpha * float(eigenvalues[-1]) > 1.8  # and it is no shorter than it needs to be
    errors = bc.error_curves(problem, ["itd"], 400)["itd"][0]
    assert errors[-1] < 0.01 * errors[0]


@pytest.mark.parametrize(("mu", "share"), [(1.0, 2 / 5 * 4), (0.0, 1.9), (-1.0, 1.9)])
def test_where_the_loss_is_not_strictly_convex_the_step_is_not_at_the_edge(mu: float, share: float) -> None:
    H = torch.tensor([mu, 4.0], dtype=torch.float64)
    step = default_step(lambda w, lam: (H * w * w).sum() / 2, torch.tensor([0.0, 1.0]).double(), H)
    assert step == pytest.approx(share / 4)


def test_who_chose_the_step_is_told() -> None:
    assert first_use_problems.ridge().about()["step"] == "default"
    assert first_use_problems.ridge(0.1).about()["step"] == "given"
    assert first_use_problems.graph().about()["step"] is None


def test_a_step_that_is_too_long_gets_a_proved_one() -> None:
    """The program proves μ > 0 and L over the ball, though no contraction with the step that was given."""
    constants = bc.estimate_constants(first_use_problems.clean(9.0), ball="local", budget=200)
    assert constants["q"].value >= 1
    advice = bc.step_sizes.advise(constants, chosen="given")
    assert advice is not None
    assert (advice.standing, advice.where, advice.keep) == ("proved", "on the ball of the iterates", False)
    again = bc.estimate_constants(first_use_problems.clean(advice.alpha), ball="local", budget=200)
    assert again["q"].is_safe
    assert again["q"].value < 1
