"""Bounds whose constants are those of the smallest ball that contains w_t: exact, monotone, rigorous."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import constants_for

import boundcheck as bc
from boundcheck.theory.shells import place, shells_of

NAMES = ("itd-shrinking", "aid-fp-shrinking", "aid-cg-shrinking")
RADII = (0.6, 0.35, 0.1, 0.01)
Q = (0.97, 0.9, 0.7, 0.4, 0.2)  # on the ball of radius 1, then on those of RADII
T = np.arange(60)

every_name = pytest.mark.parametrize("name", NAMES)


def table(name: str, values: tuple[float, ...], radii: tuple[float, ...] = RADII) -> bc.Constant:
    return bc.Constant(name, values[0], on_smaller=tuple(zip(radii, values[1:], strict=True)))


SMALLER = ("q", "nu_1", "nu_2", "eta_1", "eta_2", "kappa")


@st.composite
def with_tables(draw: st.DrawFn, name: str) -> dict[str, float | bc.Constant]:
    """Constants of a bound with tables over up to four radii, values falling."""
    c: dict[str, float | bc.Constant] = dict(draw(constants_for(bc.bounds[name])))
    r_0 = float(c["r_0"])
    shares = sorted(draw(st.sets(st.floats(0.01, 0.99), max_size=4)), reverse=True)
    radii = [r_0 * share for share in shares if r_0 * share > 1e-6]
    for symbol in SMALLER:
        if symbol in c and radii:
            outer, low = float(c[symbol]), {"q": float(c["q_star"]), "kappa": 1.0}.get(symbol, 0.0)
            falls = sorted((draw(st.floats(0, 1)) for _ in radii), reverse=True)
            values = [low + (outer - low) * fall for fall in falls]
            pairs = zip(radii, np.minimum(values, outer).tolist(), strict=True)
            c[symbol] = bc.Constant(symbol, outer, on_smaller=tuple(pairs))
    q = c["q"]
    if isinstance(q, bc.Constant) and draw(st.booleans()):
        factors = sorted((q.value * draw(st.floats(0, 1)) for _ in radii), reverse=True)
        c["q"] = replace(q, towards=tuple(zip(radii, factors, strict=True)))
    return c


def on_one_ball(c: dict[str, float | bc.Constant]) -> dict[str, float]:
    return {name: x.value if isinstance(x, bc.Constant) else x for name, x in c.items()}


GRID = np.array([0, 1, 2, 5, 20, 80])


@every_name
@given(data=st.data())
@settings(max_examples=40)
def test_smaller_balls_never_make_it_worse(name: str, data: st.DataObject) -> None:
    c = data.draw(with_tables(name))
    bound = bc.bounds[name]
    local = bc.bounds[f"{name.removesuffix('shrinking')}local"]
    values, one = (bound.evaluate(some, GRID).values for some in (c, on_one_ball(c)))
    mu_inv = {"mu_inv": 1 - on_one_ball(c)["q"]}
    assert (values <= one * (1 + 1e-12) + 1e-300).all()
    assert (one <= local.evaluate(on_one_ball(c) | mu_inv, GRID).values * (1 + 1e-12) + 1e-300).all()


@every_name
@given(data=st.data())
@settings(max_examples=40)
def test_grows_with_every_entry_of_a_table(name: str, data: st.DataObject) -> None:
    c = data.draw(with_tables(name))
    before = bc.bounds[name].evaluate(c, GRID).values
    for symbol, constant in c.items():
        if isinstance(constant, bc.Constant) and constant.on_smaller:
            row = data.draw(st.integers(0, len(constant.on_smaller) - 1))
            radius, value = constant.on_smaller[row]
            top = constant.on_smaller[row - 1][1] if row else constant.value
            raised = min(top, value + data.draw(st.floats(0, 1)) * (top - value))
            rows = (*constant.on_smaller[:row], (radius, raised), *constant.on_smaller[row + 1 :])
            after = bc.bounds[name].evaluate({**c, symbol: replace(constant, on_smaller=rows)}, GRID)
            assert (after.values >= before * (1 - 1e-12)).all(), symbol


def at(constant: float | bc.Constant, radius: mpmath.mpf) -> mpmath.mpf:
    """The value on the smallest ball that contains this radius."""
    if not isinstance(constant, bc.Constant):
        return mpmath.mpf(constant)
    fitting = [value for ball, value in constant.on_smaller if ball >= radius]
    return mpmath.mpf(fitting[-1] if fitting else constant.value)


def next_distance(c: dict[str, float | bc.Constant], r: mpmath.mpf) -> mpmath.mpf:
    """The integral over [0, r] of what bounds ‖∂₁Φ‖ at each distance, the lesser of two bounds on every shell.

    Up to each ball it is no more than the factor of the ball allows.
    """
    balls = {ball for x in (c["q"], c["nu_1"]) if isinstance(x, bc.Constant) for ball, _ in x.on_smaller}
    balls |= {ball for x in c.values() if isinstance(x, bc.Constant) for ball, _ in x.on_smaller}
    ends = [mpmath.mpf(0), *sorted(mpmath.mpf(ball) for ball in balls if ball < r), r]
    total, towards = mpmath.mpf(0), c["q"].towards if isinstance(c["q"], bc.Constant) else ()
    for low, high in pairwise(ends):
        q, nu_1, q_star = at(c["q"], high), at(c["nu_1"], high), mpmath.mpf(c["q_star"])
        total += min(q * (high - low), q_star * (high - low) + nu_1 * (high**2 - low**2) / 2)
        total = min([total, *(mpmath.mpf(factor) * high for ball, factor in towards if ball >= high)])
    return total


def by_hand(c: dict[str, float | bc.Constant], t: int) -> mpmath.mpf:
    """`itd-shrinking` as docs/proofs.md has it, in 60 digits."""
    with mpmath.workdps(60):
        q_star, W, Z, g = (mpmath.mpf(c[name]) for name in ("q_star", "W", "L_Phi_star", "g_star"))
        r, off, size = mpmath.mpf(c["r_0"]), W, mpmath.mpf(0)
        for _ in range(t):
            q, nu_1, nu_2 = (at(c[name], r) for name in ("q", "nu_1", "nu_2"))
            shift = min(nu_1 * r, q + q_star)
            one = min(q, q_star + nu_1 * r) * off + shift * W + nu_2 * r
            other = q_star * off + shift * min(size, W + off) + nu_2 * r
            size = q * size + Z + nu_2 * r
            off = min(one, other, W + size)
            r = next_distance(c, r)
        eta_1, eta_2 = at(c["eta_1"], r), at(c["eta_2"], r)
        return (eta_2 + eta_1 * W) * r + (g + eta_1 * r) * off


@given(data=st.data(), t=st.integers(0, 50))
@settings(max_examples=60)
def test_is_rigorous_and_close(data: st.DataObject, t: int) -> None:
    c = data.draw(with_tables("itd-shrinking"))
    exact = by_hand(c, t)
    bound = bc.bounds["itd-shrinking"]
    upward = float(bound.evaluate(c, t, rigorous=True).values)
    assert upward >= exact
    plain = float(bound.evaluate(c, t).values)
    assert upward == pytest.approx(plain, rel=1e-12, abs=1e-280)
    edges = [ball for x in c.values() if isinstance(x, bc.Constant) for ball, _ in x.on_smaller]
    if not edges:  # otherwise a distance may be at the very edge of a ball
        assert plain == pytest.approx(float(exact), rel=1e-12, abs=1e-280)


def test_is_what_a_person_computes() -> None:
    c = {"q": table("q", Q), "nu_1": table("nu_1", (3.0, 2.0, 1.0, 0.5, 0.5)), "nu_2": 0.3, "eta_1": 0.7, "eta_2": 0.1}
    c |= {"q_star": 0.15, "W": 2.0, "L_Phi_star": 1.5, "g_star": 1.2, "r_0": 0.9}
    values = bc.bounds["itd-shrinking"].evaluate(c, T).values
    np.testing.assert_allclose(values, [float(by_hand(c, int(t))) for t in T], rtol=1e-12)


def aid_by_hand(name: str, c: dict[str, float | bc.Constant], t: int, k: int) -> float:
    """`aid-fp-shrinking` step by step, and `aid-cg-shrinking` with the Chebyshev polynomial itself."""
    r = mpmath.mpf(c["r_0"])
    for _ in range(t):
        r = next_distance(c, r)
    q, nu_1, nu_2, eta_1, eta_2, kappa, mu_inv = (
        float(at(c[symbol], r)) for symbol in ("q", "nu_1", "nu_2", "eta_1", "eta_2", "kappa", "mu_inv")
    )
    q_star, W, g, R = (float(x) for x in (c["q_star"], c["W"], c["g_star"], r))
    slope, shift, z, b = min(q, q_star + nu_1 * R), min(nu_1 * R, q + q_star), c["L_Phi_star"] + nu_2 * R, g + eta_1 * R
    if name == "aid-cg-shrinking":
        v, T_k = b / mu_inv, float(mpmath.chebyt(k, (kappa + 1) / (kappa - 1)))
        one = eta_1 * W * R + (nu_2 * R + shift * W) * v + z * v / T_k
        return eta_2 * R + min(one, W * g + z * v)
    sizes = [z * sum(slope**i for i in range(j)) for j in range(k + 1)]  # of u_j
    one = other = W
    for j in range(k):
        one = slope * one + (shift * W if j else 0.0) + nu_2 * R  # u_0 = 0: the first step has no δ
        other = q_star * other + (shift * sizes[k - 1] if j else 0.0) + nu_2 * R
    return (eta_2 + eta_1 * W) * R + b * min(one, other, W + sizes[k])


BENDING = (0.01, 1.0, 100.0)  # ν₁ for which each of the three bounds on the derivative is the least somewhere


@pytest.mark.parametrize("nu_1", BENDING)
@pytest.mark.parametrize("W", [0.1, 2.0, 50.0])
@pytest.mark.parametrize("name", NAMES[1:])
def test_aid_is_what_a_person_computes(name: str, W: float, nu_1: float) -> None:
    c: dict[str, float | bc.Constant] = {"q": table("q", Q), "nu_1": table("nu_1", (nu_1, nu_1, 0.7 * nu_1, 0.0, 0.0))}
    c |= {"kappa": table("kappa", (40.0, 30.0, 9.0, 3.0, 2.0)), "nu_2": 0.3, "eta_1": 0.7, "eta_2": 0.1}
    c |= {"q_star": 0.15, "W": W, "L_Phi_star": 1.5, "g_star": 1.2, "r_0": 0.9}
    c |= {"mu_inv": bc.Constant("mu_inv", 0.03, on_smaller=tuple((r, 0.1 + 0.1 * i) for i, r in enumerate(RADII)))}
    for t in (0, 3, 8, 30):
        for k in (0, 1, 2, 7, 30):
            value = float(bc.bounds[name].evaluate(c, t, k).values)
            assert value == pytest.approx(aid_by_hand(name, c, t, k), rel=1e-11), (t, k)


def test_a_turned_derivative_is_attained() -> None:
    """∂₁Φ is q* at w* and −q at w_1, in one variable: w_1' = ∂₂Φ, w_2' = (1 − q)∂₂Φ, and δ = q + q* is needed."""
    q, q_star = 0.9, 0.6
    c = {"q": q, "q_star": q_star, "nu_1": 1e9, "W": 1.0, "L_Phi_star": 1 - q_star, "g_star": 1.0, "r_0": 1.0}
    zeros = dict.fromkeys(("nu_2", "eta_1", "eta_2"), 0.0)
    error = abs((1 - q) * (1 - q_star) - 1)
    assert float(bc.bounds["itd-shrinking"].evaluate(c | zeros, 2).values) == pytest.approx(error, rel=1e-14)


def test_a_derivative_of_the_other_sign_needs_both_sizes() -> None:
    """∂₂Φ is 0.1 at w* and −2.9 beside it, so that w' = 1 and u_1 = −2.9."""
    c = {"q": 0.9, "q_star": 0.9, "nu_1": 1e9, "W": 1.0, "L_Phi_star": 0.1, "g_star": 1.0, "r_0": 1.0, "nu_2": 3.0}
    values = bc.bounds["aid-fp-shrinking"].evaluate(c | dict.fromkeys(("eta_1", "eta_2"), 0.0), 0, 1).values
    assert float(values) >= 3.9


@every_name
def test_iterations_are_the_first_that_are_enough(name: str) -> None:
    bound = bc.bounds[name]
    c: dict[str, float | bc.Constant] = {"q": table("q", Q), "nu_1": 5.0, "nu_2": 0.3, "eta_1": 0.7, "eta_2": 0.1}
    c |= {"q_star": 0.15, "W": 2.0, "L_Phi_star": 1.5, "g_star": 1.2, "r_0": 0.9, "kappa": 20.0}
    result = bound.iterations(c, 1e-4)
    one_ball = bound.iterations(on_one_ball(c), 1e-4)
    assert result.t is not None
    assert result.t < one_ball.t
    k = result.k if result.k is not None else 0
    assert float(bound.evaluate(c, result.t, k).values) <= 1e-4 < float(bound.evaluate(c, result.t - 1, k).values)


def test_the_side_is_that_of_the_constant_with_its_table() -> None:
    c = bc.Constants.given(
        q=0.9, nu_1=0.5, nu_2=0.3, eta_1=0.7, eta_2=0.1, q_star=0.15, W=2.0, L_Phi_star=1.5, g_star=1, r_0=1
    )
    for side in ("upper", "lower"):
        worth = bc.bounds["itd-shrinking"].evaluate(c.replace(bc.Constant("q", 0.9, side, on_smaller=((0.1, 0.5),))), 3)
        assert worth.side.value == side


def test_shells_hold_the_constants_of_their_ball() -> None:
    shells = shells_of({"q": 0.9, "nu_1": 3.0}, {"q": ((0.5, 0.8), (0.1, 0.7)), "nu_1": ((0.2, 1.0),)})
    assert [shell.inner for shell in shells] == [0.5, 0.2, 0.1, 0.0]
    assert [shell.constants["q"] for shell in shells] == [0.9, 0.8, 0.8, 0.7]
    assert [shell.constants["nu_1"] for shell in shells] == [3.0, 3.0, 1.0, 1.0]
    assert [place(shells, radius) for radius in (0.6, 0.5, 0.4, 0.2, 0.15, 0.1, 0.09, 0.0)] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (((0.5, 0.8), (0.6, 0.7)), "the radius 0.6 follows 0.5; give falling positive radii"),
        (((0.0, 0.8),), "the radius 0 follows inf"),
        (((0.5, 0.95),), "q = 0.95 on radius 0.5 is more than 0.9 on the ball around"),
    ],
)
def test_a_table_that_is_not_in_order_is_refused(pairs: tuple[tuple[float, float], ...], message: str) -> None:
    with pytest.raises(bc.InputError, match=message):
        bc.Constant("q", 0.9, on_smaller=pairs)
    with pytest.raises(bc.InputError, match=message):
        bc.Constant("q", 0.9, towards=pairs)


def test_constants_with_tables_go_through_json() -> None:
    constants = bc.Constants(
        {"q": table("q", Q), "mu_inv": bc.Constant("mu_inv", 0.1, "lower", on_smaller=((0.5, 0.2),))}
    )
    assert bc.Constants.from_json(constants.as_json()) == constants
    towards = bc.Constants({"q": bc.Constant("q", 0.9, towards=((0.5, 0.8),))})
    assert bc.Constants.from_json(towards.as_json()) == towards != bc.Constants.given(q=0.9)
    assert "on_smaller" not in bc.Constants.given(q=0.5).as_json()["q"]
