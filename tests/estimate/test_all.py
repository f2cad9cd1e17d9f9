"""`estimate_constants`: sides, sources, claims, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pieces import normal
from small import NAMES, small

import boundcheck as bc
from boundcheck.constants import Constants, Side
from boundcheck.estimate import spectral
from boundcheck.problem import Problem

NEEDED = {"q", "q_star", "nu_1", "nu_2", "eta_1", "eta_2", "D", "L_E", "L_Phi", "L_Phi_star", "r_0", "W", "g_star"}


def quadratic(alpha: float | None = None, d: int = 5, scale: float = 1.0) -> Problem:
    """ℓ = ½wᵀHw − λᵀw with the spectrum 1 … 4 of H, E = ½‖w − 1‖²."""
    Q = torch.linalg.qr(normal(d, d)).Q
    H = scale * (Q * torch.linspace(1, 4, d, dtype=torch.float64)) @ Q.T

    def inner(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return w @ H @ w / 2 - lam @ w

    return bc.Problem.from_loss(
        inner, lambda w, lam: ((w - 1) ** 2).sum() / 2, torch.zeros(d).double(), torch.ones(d).double(), alpha
    )


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


def test_ends_that_are_not_certified_are_on_their_unsafe_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the spectrum μ is too large, not too small: a lower bound of it would be a safe one."""
    certified = spectral.dense_symmetric

    def uncertified(H: torch.Tensor) -> spectral.Symmetric:
        ends = certified(H)
        return spectral.Symmetric(replace(ends.largest, side=Side.LOWER), replace(ends.smallest, side=Side.LOWER))

    monkeypatch.setattr(spectral, "dense_symmetric", uncertified)
    found = bc.estimate_constants(quadratic())
    assert (found["mu"].side, found["L"].side, found["kappa"].side) == (Side.UPPER, Side.LOWER, Side.LOWER)


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


def test_claims_are_kept_unless_they_are_refuted() -> None:
    problem = quadratic()
    claimed = Constants.given(q=0.5, L=10.0, side="upper")
    found = bc.estimate_constants(problem, known=claimed)
    assert found["q"].value == pytest.approx(0.6)
    assert found["q"].side is Side.EXACT
    assert "given as at most 0.5, but 0.6 was found" in found["q"].provenance.how
    assert (found["L"].value, found["L"].side) == (10.0, Side.UPPER)


def test_claims_from_below_and_exact_ones_are_checked_too() -> None:
    """μ = 1 and η₁ = 1: more convex than it is, and an exact value that is not."""
    claimed = Constants.given(mu=1.5, eta_1=0.9, L=4.0, sides={"mu": "lower"})
    found = bc.estimate_constants(quadratic(), known=claimed)
    assert found["mu"].value == pytest.approx(1)
    assert "given as at least 1.5, but 1 was found" in found["mu"].provenance.how
    assert found["eta_1"].value == pytest.approx(1)
    assert "given as 0.9, but 1 was found" in found["eta_1"].provenance.how
    assert found["L"].provenance.how == "given by the user"


def test_no_contraction_is_reported_as_such() -> None:
    """α = 0.5075 and L = 4: q = 1.03."""
    found = bc.estimate_constants(quadratic(alpha=0.5075))
    assert found["q"].value == pytest.approx(1.03)
    with pytest.raises(bc.AssumptionError, match=r"q = 1\.03 ≥ 1"):
        bc.bounds["itd"].evaluate(found, t=3)


def test_d_is_certified_by_convexity_where_there_is_no_contraction_and_by_nothing_without_a_loss() -> None:
    problem = quadratic(alpha=0.5075)
    found = bc.estimate_constants(problem)
    w_star = bc.hypergradient(problem, "exact").w
    assert found["D"].side is found["r_0"].side is Side.UPPER
    assert "αμ" in found["D"].provenance.how
    assert float(w_star.norm()) <= found["D"].value <= float(w_star.norm()) * (1 + 1e-12)
    as_map = replace(problem, inner_at=None)
    assert bc.estimate_constants(as_map)["D"].side is Side.LOWER


def test_twice_the_same_from_one_seed() -> None:
    problem = small("eqm")
    first, second = (bc.estimate_constants(problem, seed=4, budget=100) for _ in range(2))
    assert {name: c.value for name, c in first.items()} == {name: c.value for name, c in second.items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ball": "square"}, "unknown ball 'square'; known: local, paper"),
        ({"delta": 0.0}, "delta = 0.0 is no probability"),
        ({"budget": 0}, "budget = 0 pays for nothing"),
        ({"peak": 0.5}, "peak = 0.5 < 1"),
    ],
)
def test_bad_input_gets_one_clear_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message):
        bc.estimate_constants(small("br"), **options)  # type: ignore[arg-type]
