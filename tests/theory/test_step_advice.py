"""Advice on the step size: what is recommended contracts, what it says of the step in use is true."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boundcheck as bc
from boundcheck.side import Side
from boundcheck.theory.gradient_methods import gradient_descent
from boundcheck.theory.step_advice import advise, contraction, rounded_down

SAFE = {"mu": "lower", "L": "upper"}
AT_W_STAR = {"mu": "upper", "L": "lower", "q": "lower"}


@given(mu=st.floats(1e-4, 1), ratio=st.floats(1, 1e6), share=st.floats(0.01, 3), at_solution=st.floats(0.1, 1))
@settings(max_examples=200)
def test_what_is_recommended_contracts_and_what_is_kept_does(
    mu: float, ratio: float, share: float, at_solution: float
) -> None:
    L = mu * ratio
    alpha = share / L
    q, q_star = gradient_descent(mu, L, alpha).q, gradient_descent(mu, mu + at_solution * (L - mu), alpha).q
    advice = advise(bc.Constants.given(mu=mu, L=L, alpha=alpha, q=q, q_star=q_star))
    assert advice is not None
    assert advice.alpha is not None
    assert advice.standing == "proved"
    taken = gradient_descent(mu, L, advice.alpha)
    assert taken.contracts
    assert advice.q == pytest.approx(taken.q, abs=1e-12)
    assert (advice.alpha == alpha) == advice.keep
    assert ("keep it" in advice.sentence) == advice.keep
    assert (advice.in_use_where == "on the ball of the iterates") == (q < 1)
    assert ("not contract" in advice.sentence or "but not" in advice.sentence) == (q >= 1)
    assert 1 - taken.q >= (1 - q) / 1.0001


@pytest.mark.parametrize(
    ("values", "sides", "sentence"),
    [
        (
            {"mu": 0.05, "L": 5.8, "alpha": 1.236, "q": 6.169, "q_star": 0.938}, SAFE,
            "step α = 1.236 (default) contracts at w* (q = 0.938), but not on the whole ball; use α = 0.3418, "
            "which does (q ≤ 0.983, proved)",
        ),
        (
            {"mu": 0.05, "L": 1.2, "alpha": 1.236, "q": 6.179, "q_star": 0.938}, {"mu": "lower", "L": "lower"},
            "step α = 1.236 (default) contracts at w* (q = 0.938), but not on the whole ball; use α = 0.3413, "
            "which does (q ≥ 0.9829, estimated)",
        ),
        (
            {"mu": 0.05, "L": 1.2, "alpha": 1.236, "q": 6.179, "q_star": 0.938}, AT_W_STAR,
            "step α = 1.236 (default) contracts at w* (q = 0.938), but not on the whole ball; keep it, as "
            "no step is known to contract there (none above 0.3446 does)",
        ),
        (
            {"mu": 0.05, "L": 8.1, "alpha": 0.3, "q": 8.0, "q_star": 1.43}, AT_W_STAR,
            "step α = 0.3 (default) does not contract, not even at w* (q = 1.43); use α = 0.2453, which contracts "
            "at w* (q ≥ 0.9877, estimated); on the whole ball no step above 0.06673 does",
        ),
        (
            {"mu": 0.05, "L": 1.0, "alpha": 1.0, "q": 0.95, "q_star": 0.9}, AT_W_STAR,
            "step α = 1 (default) contracts on the ball of the iterates (q ≥ 0.95, estimated); keep it",
        ),
        (
            {"mu": -0.1, "L": 1.0, "alpha": 1.0, "q": 1.1, "q_star": 1.1}, {},
            "the loss is not strongly convex (μ = -0.1 ≤ 0), so no step size contracts",
        ),
        (
            {"mu": -0.1, "L": 3.0, "alpha": 1.0, "q": 2.0, "q_star": 0.9}, {"mu": "lower", "L": "upper", "q": "upper"},
            "step α = 1 (default) contracts at w* (q = 0.9), but is not known to on the whole ball; steps below 0.6666 "
            "do if the loss is strongly convex there",
        ),
        ({"mu": 1.0, "L": 4.0}, {}, "use α = 0.4, which contracts on the ball of the iterates (q = 0.6, proved)"),
        (
            {"mu": 1.0, "L": 4.0, "alpha": 0.1, "q": 0.9, "q_star": 0.9}, {},
            "step α = 0.1 (default) contracts on the ball of the iterates (q = 0.9, proved); α = 0.4 contracts more "
            "(q = 0.6, proved)",
        ),
    ],
)  # fmt: skip
def test_sentences(values: dict[str, float], sides: dict[str, str], sentence: str) -> None:
    advice = advise(bc.Constants.given(**values, sides=sides))
    assert advice is not None
    assert advice.sentence == sentence
    assert advice.as_json()["sentence"] == sentence


def test_a_step_that_was_given_is_not_called_the_default_one() -> None:
    constants = bc.Constants.given(mu=1.0, L=4.0, alpha=0.4, q=0.6, q_star=0.6)
    for chosen in ("given", None):
        advice = advise(constants, chosen=chosen)
        assert advice is not None
        assert advice.sentence.startswith("step α = 0.4 contracts")
    assert "on the ball ‖w‖ ≤ 2D" in advise(constants, ball="paper").sentence  # type: ignore[union-attr]


def test_the_ball_of_the_paper_is_told_apart() -> None:
    local = bc.Constants.given(mu=1.0, L=4.0, alpha=0.4, q=0.6, q_star=0.6)
    wider = bc.Constants.given(mu=1.0, L=4.0, alpha=0.4, q=2.0, sides={"q": "lower"})
    for paper, told in ((wider, True), (local, False), (None, False)):
        advice = advise(local, paper)
        assert advice is not None
        assert advice.sentence.endswith("on the paper's ball ‖w‖ ≤ 2D it does not (q ≥ 2)") is told


@pytest.mark.parametrize("values", [{}, {"q": 0.5, "q_star": 0.5}, {"alpha": 1.0, "q": 2.0}])
def test_no_advice_where_no_curvature_is_known(values: dict[str, float]) -> None:
    assert advise(bc.Constants.given(**values)) is None


def test_a_step_that_probably_contracts_is_probable() -> None:
    likely = bc.Provenance("Lanczos", delta=0.01)
    L = bc.Constant("L", 4.0, Side.HIGH_PROBABILITY, likely)
    advice = advise(bc.Constants.given(mu=1.0, L=L))
    assert advice is not None
    assert advice.standing == "probable"
    assert "(q ≤ 0.6, probable)" in advice.sentence


@pytest.mark.parametrize("x", [0.034, 1.0, 9.9999, 12345.6, 3.21987e-7, 1e-300])
def test_steps_are_rounded_down(x: float) -> None:
    assert x * (1 - 1e-3) <= rounded_down(x) <= x


def test_contraction_constants_are_rounded_to_their_side() -> None:
    assert contraction(0.98811, Side.UPPER) == "q ≤ 0.9882"
    assert contraction(0.98819, Side.LOWER) == "q ≥ 0.9881"
    assert contraction(0.99995, Side.EXACT) == "q = 1 − 5.0e-05"
    assert contraction(1 - 4.99e-5, Side.UPPER) == "q ≤ 1 − 4.9e-05"
