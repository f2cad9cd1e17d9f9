"""`estimate_constants`: sides, sources, claims, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from black_boxes import quadratic, tanh
from pieces import zeros
from small import NAMES, small

import boundcheck as bc
from boundcheck.numerics.estimate import at_solution, hessians, lanczos
from boundcheck.numerics.solvers import reference
from boundcheck.side import Side

NEEDED = {"q", "q_star", "nu_1", "nu_2", "eta_1", "eta_2", "D", "L_E", "L_Phi", "L_Phi_star", "r_0", "W", "g_star"}


@pytest.mark.parametrize("ball", ["paper", "local"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "conv-eqm"])
def test_every_problem_has_every_constant(name: str, ball: str) -> None:
    found = bc.estimate_constants(small(name), ball=ball, budget=200)
    assert set(found) >= NEEDED
    for constant in found.values():
        assert math.isfinite(constant.value)
        assert constant.provenance.how


def test_a_quadratic_black_box_is_known_exactly() -> None:
    """Nothing was said of it, and yet only L_E is not exact: a sum of two exact numbers that bounds it."""
    problem = quadratic()
    found = bc.estimate_constants(problem)
    alpha = 2 / 5
    truth = {
        "mu": 1, "L": 4, "kappa": 4, "alpha": alpha, "q": 0.6, "q_star": 0.6, "nu_1": 0, "nu_2": 0, "eta_1": 1,
        "eta_2": 0, "L_Phi": alpha, "L_Phi_star": alpha, "W": 1,
    }  # fmt: skip
    for name, value in truth.items():
        assert found[name].value == pytest.approx(value, rel=1e-9, abs=1e-12), name
        assert found[name].side is Side.EXACT, name
    w_star = problem.w0 + bc.hypergradient(problem, "exact").w
    D = float(w_star.norm())
    assert found["D"].side is Side.UPPER
    assert D <= found["D"].value <= D * (1 + 1e-12)
    assert found["L_E"].side is Side.UPPER
    assert found["L_E"].value == pytest.approx(5**0.5 + 2 * D, rel=1e-9)
    values = bc.bounds["itd"].evaluate(found, t=[1, 5, 20])
    assert values.side is Side.UPPER


@pytest.mark.usefixtures("without_program")
def test_ends_that_are_not_certified_are_on_their_unsafe_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the spectrum μ is too large, not too small: a lower bound of it would be a safe one."""
    certified = lanczos.dense_symmetric

    def uncertified(H: torch.Tensor) -> lanczos.Symmetric:
        ends = certified(H)
        return lanczos.Symmetric(replace(ends.largest, side=Side.LOWER), replace(ends.smallest, side=Side.LOWER))

    monkeypatch.setattr(lanczos, "dense_symmetric", uncertified)
    found = bc.estimate_constants(quadratic())
    assert (found["mu"].side, found["L"].side, found["kappa"].side) == (Side.UPPER, Side.LOWER, Side.LOWER)


@pytest.mark.usefixtures("without_program")
def test_what_is_found_by_ascent_is_from_below_and_says_so() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: torch.tanh(0.9 * w + lam), lambda w, lam: torch.cos(w).sum(), torch.zeros(1).double(),
        torch.tensor([0.3]).double(),
    )  # fmt: skip
    found = bc.estimate_constants(problem)
    assert found["q"].side is Side.LOWER
    assert 0.89 < found["q"].value <= 0.9 + 1e-12
    assert "by ascent from" in found["q"].provenance.how
    assert bc.bounds["itd"].evaluate(found, t=5).side is Side.LOWER


def test_no_contraction_is_reported_as_such() -> None:
    """α = 0.5075 and L = 4: q = 1.03."""
    found = bc.estimate_constants(quadratic(alpha=0.5075))
    assert found["q"].value == pytest.approx(1.03)
    with pytest.raises(bc.AssumptionError, match=r"q = 1\.03 ≥ 1"):
        bc.bounds["itd"].evaluate(found, t=3)


def test_d_is_certified_by_convexity_where_there_is_no_contraction_and_by_the_program_without_a_loss() -> None:
    problem = quadratic(alpha=0.5075)
    found = bc.estimate_constants(problem)
    w_star = bc.hypergradient(problem, "exact").w
    assert found["D"].side is found["r_0"].side is Side.UPPER
    assert "αμ" in found["D"].provenance.how
    assert float(w_star.norm()) <= found["D"].value <= float(w_star.norm()) * (1 + 1e-12)
    as_map = replace(problem, inner_at=None)
    assert "Newton-Kantorovich" in bc.estimate_constants(as_map)["D"].provenance.how


def test_the_region_is_not_left() -> None:
    """√(1 − w²) ends at 1, and the ball of the paper is ‖w‖ ≤ 0.2: nothing is asked of Φ out there."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.1 * torch.sqrt(1 - w * w) * lam, lambda w, lam: w.sum(), zeros(1), zeros(1) + 1
    )
    assert bc.estimate_constants(problem, budget=500)["q"].value < 0.03


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("budget", [1, 5, 39])
def test_a_small_budget_gives_a_cheap_answer(budget: int) -> None:
    found = bc.estimate_constants(tanh(), budget=budget)
    for name in ("q", "nu_1"):
        assert found[name].side is Side.LOWER
        assert found[name].provenance.products <= max(budget, 5)
        assert "from one start, stopped by the budget" in found[name].provenance.how
    assert found["q_star"].value <= found["q"].value <= 0.9  # w* is in the ball


def without_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reference, at_solution, hessians):
        monkeypatch.setattr(module, "DENSE", 0)


@pytest.mark.usefixtures("without_program")
def test_w_follows_from_norms_at_w_star_where_no_matrix_is_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """q is known from below only, but ‖∂₁Φ(w*)‖ with high probability."""
    truth = bc.estimate_constants(tanh(5), budget=100)["W"]
    without_matrices(monkeypatch)
    found = bc.estimate_constants(tanh(5), budget=100)
    assert found["q"].side is Side.LOWER
    assert found["W"].side is Side.HIGH_PROBABILITY
    assert truth.value <= found["W"].value <= 1.5 * truth.value


@pytest.mark.usefixtures("without_program")
def test_certificates_that_fail_half_of_the_time_still_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """κ needs both ends of the spectrum, W two norms: each is certified to δ/2."""
    without_matrices(monkeypatch)
    found = bc.estimate_constants(quadratic(), delta=0.6)
    for name in ("kappa", "eta_1", "W"):
        assert found[name].side is Side.HIGH_PROBABILITY
        assert 0 < found[name].provenance.delta <= 0.6


@pytest.mark.parametrize("name", ["lr", "krr", "hr"])
def test_a_differentiated_step_is_measured_too(name: str) -> None:
    """What is prepared holds numbers besides vectors."""
    found = bc.estimate_constants(small(name, differentiate_step=True), budget=100)
    assert found["grad_alpha"].value > 0
    assert found["nu_2"].side is Side.UPPER


def test_twice_the_same_from_one_seed() -> None:
    problem = small("eqm")
    first, second = (bc.estimate_constants(problem, seed=4, budget=100) for _ in range(2))
    assert {name: c.value for name, c in first.items()} == {name: c.value for name, c in second.items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ball": "square"}, "unknown ball 'square'; known: local, paper"),
        ({"delta": 0.0}, "delta must be between 0 and 1"),
        ({"budget": 0}, "budget must be at least 1 product"),
        ({"budget": 1.5}, "budget must be at least 1 product"),
        ({"peak": 0.5}, "peak = 0.5 < 1"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"known": {"q": 0.5}}, r"known is a dict; give Constants\.given"),
    ],
)
def test_bad_input_gets_one_clear_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message):
        bc.estimate_constants(small("br"), **options)  # type: ignore[arg-type]
