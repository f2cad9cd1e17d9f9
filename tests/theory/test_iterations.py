"""`iterations` against brute force, and at its edges."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import constants_for

import boundcheck as bc

C = {"q": 0.9, "nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4, "D": 1.0, "L_E": 2.0, "L_Phi": 3.0, "kappa": 19.0}
C |= {"r_0": 1.0, "W": 5.0, "g_star": 1.0, "L_Phi_star": 1.0, "q_star": 0.8}
HUMPS = ["itd", "itd-derivative", "itd-quadratic", "itd-weighted", "ghadimi-wang", "itd-gd"]
SPLITS = ["aid-fp-gd", "aid-fp", "aid-fp-derivative", "aid-cg", "aid-cgn", "aid-fp-weighted"]
SEARCHED_PAIRS = ["aid-fp-local", "aid-cg-chebyshev", "aid-cg-energy"]
SEARCHED = ["itd-local", "itd-recursive", "itd-truncated", "heavy-ball", "nesterov"]
MOST = 400


def mild(values: dict[str, float]) -> dict[str, float]:
    """Rates low enough for brute force to reach the answer."""
    capped = {name: min(value, 0.93) if name in ("q", "q_star", "q_P") else value for name, value in values.items()}
    capped["kappa"] = min(capped.get("kappa", 1.0), 300.0)
    if "mu" in capped:
        capped |= {"L": 10 * capped["mu"], "alpha": 0.15 / capped["mu"]}
    return capped


def brute_t(bound: bc.Bound, values: dict[str, float], eps: float) -> int:
    values_at = bound.evaluate(values, np.arange(bound.t_min, MOST * 10)).values
    assume((values_at <= eps).any())
    assume(clear(values_at, eps))
    return int(np.argmax(values_at <= eps)) + bound.t_min


def clear(values: np.ndarray, eps: float) -> bool:
    """No value is so close to eps that its rounding decides."""
    return bool((np.abs(values - eps) > 1e-12 * eps).all())


@pytest.mark.parametrize("name", HUMPS + SEARCHED)
@given(data=st.data(), eps=st.floats(1e-9, 1e2))
@settings(max_examples=40)
def test_smallest_t(name: str, data: st.DataObject, eps: float) -> None:
    bound = bc.bounds[name]
    values = mild(data.draw(constants_for(bound)))
    expected = brute_t(bound, values, eps)
    result = bound.iterations(values, eps)
    assert result.t == expected
    assert result.k is None
    assert result.value <= eps
    assert ("closed form" in result.how) == (name in HUMPS)


@pytest.mark.parametrize("name", SPLITS + SEARCHED_PAIRS)
@given(
    data=st.data(),
    eps=st.floats(1e-6, 1e2),
    cost_t=st.sampled_from([1.0, 0.25, 3.7]),
    cost_k=st.sampled_from([1.0, 2.5]),
)
@settings(max_examples=40)
def test_cheapest_pair(name: str, data: st.DataObject, eps: float, cost_t: float, cost_k: float) -> None:
    bound = bc.bounds[name]
    values = mild(data.draw(constants_for(bound)))
    t, k = np.arange(MOST)[:, None], np.arange(MOST)[None, :]
    grid = bound.evaluate(values, t, k).values
    enough = grid <= eps
    assume(enough.any())
    assume(clear(grid, eps))
    costs = np.where(enough, cost_t * t + cost_k * k, np.inf)
    assume(costs.min() < min(cost_t, cost_k) * MOST)  # else the best pair may lie outside the grid
    result = bound.iterations(values, eps, cost_t=cost_t, cost_k=cost_k)
    assert result.cost == pytest.approx(costs.min())
    assert result.value <= eps
    assert ("closed form" in result.how) == (name in SPLITS)


@pytest.mark.parametrize("eps", [1e-3, 1e-12, 1e-200, 1e-300])
@pytest.mark.parametrize("q", [0.0, 1e-8, 0.5, 0.999, 1 - 1e-9])
def test_itd_far_out(q: float, eps: float) -> None:
    """Where brute force cannot go: enough at t, not enough at t−1; e^{−y} underflows inside Lambert W."""
    bound = bc.bounds["itd"]
    values = {**C, "q": q}
    t = bound.iterations(values, eps).t
    assert t is not None
    after, before = bound.evaluate(values, [t, max(t - 1, 0)]).values
    assert after <= eps < before


@pytest.mark.parametrize("nu_2", [0.0, 1e-30, 1e-14, 1e-8])
def test_itd_with_hardly_a_hump(nu_2: float) -> None:
    """a/b huge: the two terms of the closed form would cancel."""
    bound = bc.bounds["itd"]
    values = {**C, "nu_1": 0.0, "nu_2": nu_2}
    t = bound.iterations(values, 1e-6).t
    assert t is not None
    after, before = bound.evaluate(values, [t, t - 1]).values
    assert after <= 1e-6 < before


def test_a_bound_already_below_needs_no_iteration_even_if_it_rises_later() -> None:
    values = {**C, "eta_1": 0.0, "eta_2": 0.0, "L_Phi": 0.001, "nu_1": 0.0, "nu_2": 1.0}
    bound = bc.bounds["itd"]
    start, peak = bound.evaluate(values, [0, 10]).values
    assert start < peak
    assert bound.iterations(values, (start + peak) / 2).t == 0


def test_split_far_out_is_optimal_to_a_step() -> None:
    """q = 1 − 10⁻⁷: a moved step in either direction costs more or is not enough."""
    bound, values, eps = bc.bounds["aid-fp"], {**C, "q": 1 - 1e-7}, 1e-6
    result = bound.iterations(values, eps)
    assert result.t is not None
    assert result.k is not None
    for dt, dk in ((-1, 0), (0, -1), (-2, 1), (1, -2), (-1001, 1000), (1000, -1001)):
        assert bound.evaluate(values, result.t + dt, result.k + dk).values > eps


def test_equal_costs_split_the_accuracy() -> None:
    """With t + k = N fixed, t* = (N + ln(A/c₃)/ln(1/q))/2 (theory, complexity)."""
    bound, eps = bc.bounds["aid-contraction"], 1e-8
    result = bound.iterations(C, eps, sigma="fixed-point")
    A = float(bound.evaluate(C, t=0, sigma=0.0).values)
    c_3 = float(bound.evaluate(C, t=0, rho=0.0, sigma=1.0).values)
    assert result.t is not None
    assert result.k is not None
    assert result.t == pytest.approx((result.t + result.k + math.log(A / c_3) / -math.log(0.9)) / 2, abs=2)


def test_rates_change_the_answer() -> None:
    aid = bc.bounds["aid-contraction"]
    fixed_point, cg = (aid.iterations(C, 1e-6, sigma=rate) for rate in ("fixed-point", "cg"))
    assert cg.cost < fixed_point.cost
    assert cg.how == "search"
    assert cg.cost == bc.bounds["aid-cg"].iterations(C, 1e-6).cost


def test_side_comes_along() -> None:
    constants = bc.Constants.given(**C, sides={"q": "lower"})
    assert bc.bounds["itd"].iterations(constants, 1e-3).side is bc.Side.LOWER


@pytest.mark.parametrize(
    ("name", "given_", "eps", "message"),
    [
        ("itd", {}, 0.0, "eps = 0.0 is not positive"),
        ("itd", {}, -1.0, "eps = -1.0 is not positive"),
        ("itd", {}, math.nan, "eps = nan is not positive"),
        ("itd", {"cost_t": 0.0}, 1e-3, "cost_t = 0.0 is not positive"),
        ("itd-one-step", {}, 1e-3, "no number of iterations up to"),
        ("aid-fp", {"rho": 0.5}, 1e-9, "no number of iterations"),
        ("itd", {}, 1e-310, "below what double precision resolves"),
        ("itd", {}, "small", "eps = 'small' is not a number"),
        ("itd", {}, 10**400, "is not a number"),
        ("aid-fp", {"cost_t": 1e-12}, 1e-3, "differ too much"),
        ("aid-contraction", {"rho": 0.5, "sigma": 0.5}, 1e-9, "has no t or k to choose"),
    ],
)
def test_bad_requests(name: str, given_: dict[str, float], eps: float, message: str) -> None:
    with pytest.raises(bc.InputError, match=message):
        bc.bounds[name].iterations(C, eps, **given_)


@pytest.mark.parametrize("name", ["itd-gd", "aid-fp-gd"])
def test_a_rate_that_rounds_to_one(name: str) -> None:
    values = {n: 1.0 for n in bc.bounds[name].symbols if n not in ("t", "k")} | {"L": 2.0, "alpha": 1e-20}
    with pytest.raises(bc.InputError, match=r"no number of iterations|stays above eps"):
        bc.bounds[name].iterations(values, 1e-3)


def test_posteriori_has_nothing_to_choose() -> None:
    values = {**C, "eps_w": 0.1, "eps_v": 0.1, "Z_t": 1.0, "g_t": 1.0}
    with pytest.raises(bc.InputError, match=re.escape("aid-posteriori has no t or k to choose")):
        bc.bounds["aid-posteriori"].iterations(values, 1e-3)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("stochastic-constant", {"eta": 0.8}, r"eta = 0.8 > 1/\(sigma_2 \+ 1\) = 0.5; take η at most 1/\(1\+σ₂\)"),
        ("stochastic-decreasing", {"beta": 1.0, "gamma": 9.0}, r"= 1.33333 ≥ beta = 1; take β above 1/\(1−q²\)"),
        ("stochastic-decreasing", {"beta": 4.0, "gamma": 2.0}, r"beta\*\(sigma_2 \+ 1\) = 8 > gamma = 2"),
    ],
)
def test_steps_that_a_theorem_forbids_are_refused_with_the_numbers(
    name: str, values: dict[str, float], message: str
) -> None:
    """And not as an accuracy that takes too many iterations."""
    known = {"q": 0.5, "sigma_1": 0.1, "sigma_2": 1.0, "mse_0": 1.0, **values}
    with pytest.raises(bc.AssumptionError, match=message):
        bc.bounds[name].iterations(known, 0.1)
