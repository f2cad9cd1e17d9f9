"""Evaluation: shapes, sides, defaults, rates, and every kind of bad input."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import boundcheck as bc
from boundcheck.constants import Constant, Constants, Provenance, Side
from boundcheck.theory.evaluation import geometric_sum

C = {"q": 0.9, "nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4, "D": 1.0, "L_E": 2.0, "L_Phi": 3.0}
LOCAL = {**C, "r_0": 1.0, "W": 5.0, "g_star": 1.0, "L_Phi_star": 1.0}
ITD, FP = bc.bounds["itd"], bc.bounds["aid-fp"]


def test_itd_by_hand() -> None:
    c_1, c_2, c_3 = (0.4 + 0.3 * 30) * 1.0, (0.2 + 0.1 * 30) * 2.0, 2.0 * 30
    assert ITD.evaluate(C, t=5).values == pytest.approx((c_1 + c_2 * 5 / 0.9 + c_3) * 0.9**5, rel=1e-14)


def test_scalars_lists_and_broadcasting() -> None:
    assert ITD.evaluate(C, t=3).values.shape == ()
    assert ITD.evaluate(C, t=[1, 2, 3]).values.shape == (3,)
    grid = FP.evaluate(C, t=np.arange(4)[:, None], k=np.arange(6)[None, :]).values
    assert grid.shape == (4, 6)
    assert grid[2, 5] == FP.evaluate(C, t=2, k=5).values
    assert ITD.evaluate(C, t=[]).values.shape == (0,)


def test_k_is_t_unless_given() -> None:
    assert (FP.evaluate(C, t=[1, 2]).values == FP.evaluate(C, t=[1, 2], k=[1, 2]).values).all()


def test_a_million_points_in_one_call() -> None:
    t = np.arange(10**6)
    values = ITD.evaluate(C, t=t).values
    assert values.shape == t.shape
    assert np.isfinite(values).all()


def test_zero_contraction_constant() -> None:
    """q = 0: the map reaches its fixed point in one step, its derivative in two."""
    values = ITD.evaluate({**C, "q": 0.0}, t=[0, 1, 2, 3]).values
    assert values[0] == pytest.approx((0.4 + 0.3 * 3) + 2.0 * 3)
    assert values[1] == pytest.approx((0.2 + 0.1 * 3) * 2.0)
    assert (values[2:] == 0).all()


@pytest.mark.parametrize("x", [0.0, 1e-300, 0.5, 1 - 1e-12, 1 - 2.0**-53])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000])
def test_geometric_sum_does_not_cancel(x: float, n: int) -> None:
    with mpmath.workdps(60):
        exact = mpmath.fsum(mpmath.mpf(x) ** i for i in range(n))
    assert float(geometric_sum(x, n)) == pytest.approx(float(exact), rel=8 * 2.0**-53)


def test_huge_constants_do_not_make_nan() -> None:
    """c₂ overflows on its own; the bound at t = 10⁶ does not."""
    huge = {**C, "D": 1e200, "L_E": 1e200}
    assert ITD.evaluate(huge, t=10**6).values == pytest.approx(5e-324, abs=5e-324)
    assert math.isinf(ITD.evaluate(huge, t=1).values)


def test_rates_by_name_and_by_number() -> None:
    aid = bc.bounds["aid-contraction"]
    by_name = aid.evaluate({**C, "kappa": 19.0}, t=10, k=4, sigma="cg").values
    rate = 2 * math.sqrt(19) * ((math.sqrt(19) - 1) / (math.sqrt(19) + 1)) ** 4
    assert by_name == pytest.approx(aid.evaluate(C, t=10, sigma=rate).values, rel=1e-13)
    assert by_name == pytest.approx(bc.bounds["aid-cg"].evaluate({**C, "kappa": 19.0}, t=10, k=4).values, rel=1e-13)


def test_finite_termination_of_cg() -> None:
    aid = bc.bounds["aid-contraction"]
    values = aid.evaluate({**C, "kappa": 19.0, "m": 5}, t=10, k=[4, 5, 6], sigma="cg-finite")
    without = aid.evaluate(C, t=10, sigma=0.0).values
    assert values.values[0] > without
    assert (values.values[1:] == without).all()
    rigorous = aid.evaluate({**C, "kappa": 19.0, "m": 5}, t=10, k=[4, 5, 6], sigma="cg-finite", rigorous=True)
    assert rigorous.values == pytest.approx(values.values, rel=1e-13)


def test_measured_observables_replace_their_bounds() -> None:
    local = bc.bounds["aid-local"]
    assumed = local.evaluate(LOCAL, t=10, k=10).values
    measured = local.evaluate(LOCAL, t=10, k=10, r_t=0.0, solve_error=0.0).values
    assert measured == 0 < assumed


# --- sides -----------------------------------------------------------------------------------------------------------


def with_side(**sides: str) -> Constants:
    return Constants.given(**C, sides=sides)


def test_side_follows_the_weakest_constant() -> None:
    assert ITD.evaluate(with_side(), t=1).side is Side.EXACT
    assert ITD.evaluate(with_side(q="upper"), t=1).side is Side.UPPER
    found = ITD.evaluate(with_side(q="upper", nu_1="lower", D="lower"), t=1)
    assert found.side is Side.LOWER
    assert found.weakest == ("nu_1", "D")


def test_a_constant_the_bound_does_not_use_does_not_count() -> None:
    assert ITD.evaluate(Constants.given(**C, W=1.0, sides={"W": "lower"}), t=1).side is Side.EXACT


def test_probabilities_add_up() -> None:
    likely = [Constant(n, C[n], Side.HIGH_PROBABILITY, Provenance("Lanczos", delta=0.01)) for n in ("q", "D")]
    found = ITD.evaluate(Constants.given(**C).replace(*likely), t=1)
    assert found.side is Side.HIGH_PROBABILITY
    assert found.delta == pytest.approx(0.02)
    assert set(found.weakest) == {"q", "D"}


def test_strong_convexity_is_safe_from_below() -> None:
    values = {n: 0.5 for n in bc.bounds["itd-gd"].symbols if n != "t"} | {"L": 2.0, "alpha": 0.5}
    for side, worth in (("lower", Side.UPPER), ("upper", Side.LOWER)):
        found = bc.bounds["itd-gd"].evaluate(Constants.given(**values, sides={"mu": side}), t=1)
        assert found.side is worth


def test_a_step_size_is_chosen_so_only_its_exact_value_will_do() -> None:
    values = {n: 0.5 for n in bc.bounds["itd-gd"].symbols if n != "t"} | {"L": 2.0, "alpha": 0.5}
    assert bc.bounds["itd-gd"].evaluate(Constants.given(**values, sides={"alpha": "upper"}), t=1).side is Side.LOWER


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "at", "message"),
    [
        ({"q": 1.03}, {"t": 1}, r"q = 1\.03 ≥ 1, so Assumption 2 .* fails; .*step size"),
        ({"q": -0.1}, {"t": 1}, r"q = -0\.1 < 0"),
        ({"q": math.nan}, {"t": 1}, r"q = nan is not finite"),
        ({"D": math.inf}, {"t": 1}, r"D = inf is not finite"),
        ({"D": -1.0}, {"t": 1}, r"D = -1 < 0; bound on ‖w\(λ\)‖ must be at least 0"),
        ({"D": "one"}, {"t": 1}, r"D = 'one' is not a number"),
        ({}, {"t": -1}, r"t = -1 < 0"),
        ({}, {"t": 1.5}, r"t = 1\.5 is not a whole number"),
        ({}, {"t": "ten"}, r"t = 'ten' is not a whole number"),
        ({}, {"t": math.nan}, r"t = nan is not a whole number"),
        ({}, {"t": math.inf}, r"t = inf is not a whole number"),
        ({}, {}, r"itd needs t \(number of lower-level iterations\); give t=…"),
        ({}, {"t": 1, "r_t": math.nan}, r"r_t = nan is not finite"),
        ({}, {"t": 1, "foo": 3}, r"unknown symbol 'foo'"),
    ],
)
def test_bad_values(change: dict[str, float], at: dict[str, float], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message):
        ITD.evaluate({**C, **change}, **at)


def test_missing_constants_are_all_named_with_their_meaning() -> None:
    with pytest.raises(bc.MissingConstantError, match=r"itd needs D \(bound on ‖w\(λ\)‖\), L_E .*give D=…"):
        ITD.evaluate({n: v for n, v in C.items() if n not in ("D", "L_E")}, t=1)


def test_a_misspelt_constant_is_pointed_out() -> None:
    with pytest.raises(bc.MissingConstantError, match=r"nu_1 .*'nu1' is no symbol"):
        ITD.evaluate({**{n: v for n, v in C.items() if n != "nu_1"}, "nu1": 0.1}, t=1)


def test_conditions_of_a_theorem() -> None:
    gd = {n: 0.5 for n in bc.bounds["itd-gd"].symbols if n != "t"}
    with pytest.raises(bc.AssumptionError, match=r"L\*alpha = 2\.5 ≥ 2.* take α below 2/L"):
        bc.bounds["itd-gd"].evaluate({**gd, "L": 5.0, "alpha": 0.5}, t=1)
    with pytest.raises(bc.AssumptionError, match=r"mu = 0\.5 > L = 0\.1"):
        bc.bounds["itd-gd"].evaluate({**gd, "L": 0.1}, t=1)
    with pytest.raises(bc.AssumptionError, match=r"K = 5 > t = 3.*take K ≤ t"):
        bc.bounds["itd-truncated"].evaluate(C, t=3, K=5)
    with pytest.raises(bc.InputError, match=r"t = 0 < 1; itd-one-step holds for t ≥ 1"):
        bc.bounds["itd-one-step"].evaluate(C, t=0)


def test_an_index_among_the_constants_is_still_a_count_and_has_no_side() -> None:
    truncated = bc.bounds["itd-truncated"]
    found = truncated.evaluate(Constants.given(**C, K=1, sides={"K": "lower"}), t=5)
    assert found.values == truncated.evaluate(C, t=5, K=1).values
    assert found.side is Side.EXACT
    with pytest.raises(bc.InputError, match=r"K = 1\.5 is not a whole number"):
        truncated.evaluate({**C, "K": 1.5}, t=5)


def test_heavy_ball_leaves_the_ball() -> None:
    """Assumption 3(ii) wants ρ(t) ≤ 1, which heavy ball breaks on its way."""
    with pytest.raises(bc.AssumptionError, match=r"aid-fp: rho = [\d.]+ > 1 at t = 5; Assumption 3\(ii\) fails"):
        FP.evaluate({**C, "kappa": 100.0}, t=[0, 5], rho="heavy-ball")


def test_unknown_rate() -> None:
    with pytest.raises(bc.UnknownNameError, match="unknown rate for rho 'heavyball'; did you mean heavy-ball"):
        FP.evaluate(C, t=1, rho="heavyball")
    with pytest.raises(bc.UnknownNameError, match="unknown rate for rho 'cg'"):
        FP.evaluate(C, t=1, rho="cg")


def test_unknown_bound() -> None:
    with pytest.raises(bc.UnknownNameError, match="unknown bound 'itd-loca'; did you mean itd-local"):
        bc.bounds["itd-loca"]
    assert "nothing" not in bc.bounds
