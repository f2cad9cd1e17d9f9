"""Constants are read-only, named, finite and never forget their side."""

from __future__ import annotations

import dataclasses
import math

import pytest

from boundcheck.ball import Ball
from boundcheck.constants import NAMES, Constant, Constants, Provenance
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.side import Side, direction, estimate_side, safe_side
from boundcheck.theory.symbols import QUANTITIES


def test_given_by_hand() -> None:
    constants = Constants.given(q=0.9, D=1, side="upper", sides={"D": "exact"})
    assert constants["q"] == Constant("q", 0.9, Side.UPPER)
    assert constants["D"].side is Side.EXACT
    assert list(constants) == ["q", "D"]
    assert len(constants) == 2


def test_a_constant_keeps_its_own_side() -> None:
    sampled = Constant("q", 0.8, Side.LOWER, Provenance("ascent", samples=100, seed=0, ball=Ball("w_star", 1.0)))
    assert Constants.given(q=sampled, side="upper")["q"] is sampled


def test_read_only() -> None:
    constants = Constants.given(q=0.9)
    with pytest.raises(TypeError):
        constants["q"] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        constants["q"].value = 1.0
    source = {"q": Constant("q", 0.9)}
    made = Constants(source)
    source["D"] = Constant("D", 1.0)
    assert "D" not in made


def test_replace_makes_a_copy() -> None:
    before = Constants.given(q=0.9, D=1.0)
    after = before.replace(Constant("q", 0.5))
    assert (before["q"].value, after["q"].value, after["D"].value) == (0.9, 0.5, 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_finite(value: float) -> None:
    with pytest.raises(InputError, match=r"q = .*(nan|inf) is not finite"):
        Constant("q", value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant("q", "x"), "q = 'x' is not a number"),
        (lambda: Constants.given(q=0.9, side="above"), "side = 'above' is not a side; use one of exact, upper"),
        (lambda: Constants.given(q=0.9, sides={"D": "upper"}), "sides names 'D', which has no value"),
        (lambda: Constant("q", 0.9, Side.HIGH_PROBABILITY), "needs 0 < delta < 1, got delta = None"),
        (lambda: Constants({"q": 0.9}), "q = 0.9 is a bare value"),
        (lambda: Constants({"q": Constant("D", 0.9)}), "stored as 'q' is named 'D'"),
    ],
)
def test_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="unknown constant 'nu1'; did you mean nu_1"):
        Constants.given(nu_1=0.1)["nu1"]
    assert Constants.given(nu_1=0.1).get("nu1") is None


def test_to_ask_for_a_name_that_is_missing_makes_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error looks for similar names, which takes far longer than the answer."""

    def refuse(*args: object) -> None:
        raise AssertionError("an error was made")

    monkeypatch.setattr(UnknownNameError, "among", refuse)
    constants, other = Constants.given(nu_1=0.1), Constant("nu_2", 0.2)
    assert "nu_1" in constants
    assert "nu2" not in constants
    assert constants.get("nu_1") is constants["nu_1"]
    assert constants.get("nu2") is None
    assert constants.get("nu2", other) is other
    assert constants.get("nu2", default=0) == 0


@pytest.mark.parametrize("name", sorted({*QUANTITIES, *NAMES}))
def test_the_safe_side_is_that_of_the_theory(name: str) -> None:
    assert direction(name) == QUANTITIES[name].direction
    assert safe_side(name) is {+1: Side.UPPER, 0: Side.EXACT, -1: Side.LOWER}[QUANTITIES[name].direction]
    assert not Side.is_safe_for(estimate_side(name), direction(name))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("q", {Side.EXACT, Side.UPPER, Side.HIGH_PROBABILITY}),
        ("mu", {Side.EXACT, Side.LOWER, Side.HIGH_PROBABILITY}),
        ("alpha", {Side.EXACT}),
    ],
)
def test_is_safe(name: str, safe: set[Side]) -> None:
    constants = [Constant(name, 0.5, side, Provenance("", delta=0.1)) for side in Side]
    assert {constant.side for constant in constants if constant.is_safe} == safe


@pytest.mark.parametrize(("name", "side"), [("q", Side.UPPER), ("mu_inv", Side.LOWER)])
def test_high_probability_states_the_safe_side(name: str, side: Side) -> None:
    assert Constant(name, 0.5, Side.HIGH_PROBABILITY, Provenance("", delta=0.1)).stated_side is side
    assert Constant(name, 0.5, Side.EXACT).stated_side is Side.EXACT
