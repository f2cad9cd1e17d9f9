"""Constants are read-only, named, finite and never forget their side."""

from __future__ import annotations

import dataclasses
import math

import pytest

from boundcheck.constants import Ball, Constant, Constants, Provenance, Side
from boundcheck.errors import InputError, UnknownNameError


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
