"""Evaluation: shapes, sides, defaults, rates, and every kind of bad input."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import boundcheck as bc
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.side import Side
from boundcheck.theory.evaluation import geometric_sum

C = {"q": 0.9, "nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4, "D": 1.0, "L_E": 2.0, "L_Phi": 3.0}
LOCAL = {**C, "r_0": 1.0, "W": 5.0, "g_star": 1.0, "L_Phi_star": 1.0}
ITD, FP = bc.bounds["itd"], bc.bounds["aid-fp"]


def test_itd_by_hand() -> None:
    c_1, c_2, c_3 = (0.4 + 0.3 * 30) * 1.0, (0.2 + 0.1 * 30) * 2.0, 2.0 * 30
    assert ITD.evaluate(C, t=5).values == pytest.approx((c_1 + c_2 * 5 / 0.9 + c_3) * 0.9**5, rel=1e-14)


def test_ji_by_hand() -> None:
    values = {"L": 2.0, "mu": 0.5, "alpha": 0.25, "L_E": 3.0, "hat_rho_1": 5.0, "hat_rho_2": 7.0, "r_0": 11.0}
    x = 1 - 0.25 * 0.5
    first = 2.0 * (2.0 + 0.5) / 0.5 * x ** (9 / 2)
    second = 2 * 3.0 * (7.0 * 0.5 + 2.0 * 5.0) / 0.5**2 * x ** ((9 - 1) / 2)
    by_hand = (first + second) * 11.0 + 2.0 * 3.0 / 0.5 * x**9
    assert bc.bounds["ji-itd"].evaluate(values, t=9).values == pytest.approx(by_hand, rel=1e-14)


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


@pytest.mark.parametrize("gap", [1.0, 0.75, 0.5, 1e-12, 2.0**-53, 1e-60])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000])
def test_geometric_sum_does_not_cancel(gap: float, n: int) -> None:
    with mpmath.workdps(90):
        exact = mpmath.fsum((1 - mpmath.mpf(gap)) ** i for i in range(n))
    assert float(geometric_sum(gap, n)) == pytest.approx(float(exact), rel=8 * 2.0**-53)


def test_huge_constants_neither_overflow_nor_underflow_on_the_way() -> None:
    """c₂ overflows on its own, and q^t underflows on its own; the bound does neither."""
    huge = {**C, "D": 1e200, "L_E": 1e200}
    assert ITD.evaluate(huge, t=10**6).values == pytest.approx(0, abs=1e-323)
    assert math.isinf(ITD.evaluate(huge, t=1).values)
    big = {**LOCAL, "r_0": 1e300, "W": 1e300}
    for t in (6000, 7074, 9000):
        exact = bc.bounds["itd-local"].evaluate(big, t=t, rigorous=True).values
        assert bc.bounds["itd-local"].evaluate(big, t=t).values == pytest.approx(exact, rel=1e-10)
    result = bc.bounds["itd-local"].iterations(big, 1e-3)
    assert result.t is not None
    before, after = bc.bounds["itd-local"].evaluate(big, t=[result.t - 1, result.t]).values
    assert after <= 1e-3 < before


def test_a_tiny_step_size_loses_nothing() -> None:
    """1−q = αμ is not computed from q: with α = 1e-60, q is 1 in double precision."""
    bound = bc.bounds["aid-fp-gd"]
    values = {n: 1.0 for n in bound.symbols if n not in ("t", "k")} | {"L": 2.0, "alpha": 1e-60}
    assert bound.evaluate(values, t=3).values == pytest.approx(3.0, rel=1e-14)
    assert bound.evaluate(values, t=3, rigorous=True).values == pytest.approx(3.0, rel=1e-14)


def test_rigorous_recursion_does_not_stop_where_doubles_stand_still() -> None:
    q = 1 - 2.0**-53
    values = {"q": q, "q_star": q, "nu_1": 0.0, "nu_2": 1.2 * 2.0**-53, "W": 1.0, "r_0": 1.0, "g_star": 1.0}
    values |= {"eta_1": 0.0, "eta_2": 0.0}
    recursive, closed = (
        bc.bounds[x].evaluate(values, 3000, rigorous=True).values for x in ("itd-recursive", "itd-local")
    )
    assert recursive == pytest.approx(closed, rel=4 * 2.0**-53)


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
    assumed = local.evaluate(LOCAL, t=10, k=10, sigma="fixed-point").values
    measured = local.evaluate(LOCAL, t=10, k=10, r_t=0.0, solve_error=0.0).values
    assert measured == 0 < assumed


# --- sides -----------------------------------------------------------------------------------------------------------


def with_side(**sides: str) -> Constants:
    return Constants.given(**C, sides=sides)


def test_side_follows_the_weakest_constant() -> None:
    assert ITD.evaluate(with_side(), t=1).side is Side.EXACT
    assert ITD.evaluate(with_side(q="upper"), t=1).side is Side.UPPER
    result = ITD.evaluate(with_side(q="upper", nu_1="lower", D="lower"), t=1)
    assert result.side is Side.LOWER
    assert result.weakest == ("nu_1", "D")


def test_a_constant_the_bound_does_not_use_does_not_count() -> None:
    assert ITD.evaluate(Constants.given(**C, W=1.0, sides={"W": "lower"}), t=1).side is Side.EXACT


def test_probabilities_add_up() -> None:
    likely = [Constant(n, C[n], Side.HIGH_PROBABILITY, Provenance("Lanczos", delta=0.01)) for n in ("q", "D")]
    result = ITD.evaluate(Constants.given(**C).replace(*likely), t=1)
    assert result.side is Side.HIGH_PROBABILITY
    assert result.delta == pytest.approx(0.02)
    assert set(result.weakest) == {"q", "D"}


def test_strong_convexity_is_safe_from_below() -> None:
    values = {n: 0.5 for n in bc.bounds["itd-gd"].symbols if n != "t"} | {"L": 2.0, "alpha": 0.5}
    for side, worth in (("lower", Side.UPPER), ("upper", Side.LOWER)):
        result = bc.bounds["itd-gd"].evaluate(Constants.given(**values, sides={"mu": side}), t=1)
        assert result.side is worth


def test_a_step_size_is_chosen_so_only_its_exact_value_will_do() -> None:
    values = {n: 0.5 for n in bc.bounds["itd-gd"].symbols if n != "t"} | {"L": 2.0, "alpha": 0.5}
    likely = Constant("alpha", 0.5, Side.HIGH_PROBABILITY, Provenance("guess", delta=0.01))
    for alpha in (Constant("alpha", 0.5, Side.UPPER), Constant("alpha", 0.5, Side.LOWER), likely):
        result = bc.bounds["itd-gd"].evaluate(Constants.given(**{**values, "alpha": alpha}), t=1)
        assert result.side is Side.LOWER
        assert result.weakest == ("alpha",)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "at", "message"),
    [
        ({"q": 1.03}, {"t": 1}, r"q = 1\.03 ≥ 1, so Assumption 2 .* fails; .*step size"),
        ({"q": bc.Constant("q", 1.03, Side.UPPER)}, {"t": 1}, r"only q ≤ 1\.03 is proved, so .* is not known to hold"),
        ({"q": bc.Constant("q", 1.03, Side.LOWER)}, {"t": 1}, r"q = 1\.03 ≥ 1, so .* fails"),
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
        ({}, {"t": 10**400}, r"is not a whole number"),
        ({}, {"t": 2**60}, r"more than a double counts exactly"),
        ({}, {"t": 1 + 2j}, r"is not a whole number"),
        ({"D": 10**400}, {"t": 1}, r"is not a number"),
        ({}, {"t": 1, "D": bc.Constant("q", 0.1)}, r"stored as 'D' is named 'q'"),
    ],
)
def test_bad_values(change: dict[str, float], at: dict[str, float], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message):
        ITD.evaluate({**C, **change}, **at)


def test_missing_constants_are_all_named_with_their_meaning() -> None:
    with pytest.raises(bc.MissingConstantError, match=r"itd needs D \(bound on ‖w\(λ\)‖\), L_E .*give D=…"):
        ITD.evaluate({n: v for n, v in C.items() if n not in ("D", "L_E")}, t=1)


def test_a_misspelt_constant_is_pointed_out() -> None:
    with pytest.raises(bc.MissingConstantError, match=r"nu_1 .*'nu1' is not a symbol"):
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
    result = truncated.evaluate(Constants.given(**C, K=1, sides={"K": "lower"}), t=5)
    assert result.values == truncated.evaluate(C, t=5, K=1).values
    assert result.side is Side.EXACT
    with pytest.raises(bc.InputError, match=r"K = 1\.5 is not a whole number"):
        truncated.evaluate({**C, "K": 1.5}, t=5)


def test_heavy_ball_leaves_the_ball() -> None:
    """Assumption 3(ii) wants ρ(t) ≤ 1, which heavy ball breaks on its way."""
    with pytest.raises(bc.AssumptionError, match=r"aid-fp: rho = [\d.]+ > 1 at t = 5; Assumption 3\(ii\) fails"):
        FP.evaluate({**C, "kappa": 100.0}, t=[0, 5], rho="heavy-ball")


@pytest.mark.parametrize(
    ("name", "at", "message"),
    [
        ("aid-fp", {"t": [1, 2], "k": [1, 2, 3]}, r"shapes do not fit together: .*t \(2,\), k \(3,\)"),
        ("itd-recursive", {"t": 1, "nu_1": [0.1, 0.2]}, "a recursion takes one number"),
        ("itd-recursive", {"t": 1, "r_t": 0.5}, "computes r_t by its recursion"),
        ("itd-recursive", {"t": 10**9}, "too long for a recursion"),
        ("aid-contraction", {"t": 1}, r"needs sigma \(rate of the linear solver"),
    ],
)
def test_inputs_that_do_not_fit_the_bound(name: str, at: dict[str, float], message: str) -> None:
    constants = {n: v for n, v in {**LOCAL, "q_star": 0.8}.items() if n not in at}
    with pytest.raises(bc.BoundcheckError, match=message):
        bc.bounds[name].evaluate(constants, **at)


@pytest.mark.parametrize("constants", [None, [0.9], {1: 0.9}])
def test_constants_that_are_no_mapping(constants: object) -> None:
    with pytest.raises(bc.InputError, match="is not a mapping from names"):
        ITD.evaluate(constants, t=1)


def test_rates_mean_the_norm_and_the_constants_of_their_bound() -> None:
    gd = bc.bounds["aid-fp-gd"]
    values = {n: 0.5 for n in gd.symbols if n not in ("t", "k")} | {"L": 2.0, "alpha": 0.5, "q": 0.1}
    assert gd.evaluate(values, 5, rho="contraction").values == gd.evaluate(values, 5).values
    weighted = bc.bounds["aid-fp-weighted"]
    values = {n: 0.5 for n in weighted.symbols if n not in ("t", "k")}
    with pytest.raises(bc.InputError, match="'nesterov' is a Euclidean rate; give rho as numbers"):
        weighted.evaluate({**values, "kappa": 4.0}, 5, rho="nesterov")


def test_unknown_rate() -> None:
    with pytest.raises(bc.UnknownNameError, match="unknown rate for rho 'heavyball'; did you mean heavy-ball"):
        FP.evaluate(C, t=1, rho="heavyball")
    with pytest.raises(bc.UnknownNameError, match="unknown rate for rho 'cg'"):
        FP.evaluate(C, t=1, rho="cg")


def test_unknown_bound() -> None:
    with pytest.raises(bc.UnknownNameError, match="unknown bound 'itd-loca'; did you mean itd-local"):
        bc.bounds["itd-loca"]
    assert "nothing" not in bc.bounds
