"""The side of a computed value is right for every truth that the sides of its terms allow; what is known is said."""

from __future__ import annotations

import doctest
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundcheck import side_arithmetic
from boundcheck.constants import Constant, Provenance
from boundcheck.errors import InputError
from boundcheck.side import Side, safe_side
from boundcheck.side_arithmetic import SidedValue, sided

EXACT, UPPER, LOWER = Side.EXACT, Side.UPPER, Side.LOWER
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
NUMBERS = st.fractions(0, 100, max_denominator=50)


@dataclass(frozen=True)
class Term:
    """A value and the truth that it stands for, as fractions, so that nothing is rounded."""

    known: SidedValue
    truth: Fraction

    @property
    def is_right(self) -> bool:
        value, side = self.known.value, self.known.side
        return {EXACT: value == self.truth, UPPER: value >= self.truth, LOWER: value <= self.truth, None: True}[side]

    def allows(self, sign: str, other: Term) -> bool:
        """Are the terms of a product at least 0, and is a divisor positive?"""
        if sign in "+-":
            return True
        least = min(other.known.value, other.truth)
        return min(self.known.value, self.truth) >= 0 and (least > 0 if sign == "/" else least >= 0)


@st.composite
def leaves(draw: Callable[..., Fraction]) -> Term:
    truth, off, side = draw(NUMBERS), draw(NUMBERS), draw(st.sampled_from((EXACT, UPPER, LOWER, None)))
    value = {EXACT: truth, UPPER: truth + off, LOWER: max(truth - off, Fraction(0)), None: off}[side]
    return Term(SidedValue(value, side), truth)


def joined(first: Term, sign: str, second: Term) -> Term:
    apply = OPERATIONS[sign if first.allows(sign, second) else "+"]
    return Term(apply(first.known, second.known), apply(first.truth, second.truth))


TERMS = st.recursive(leaves(), lambda terms: st.builds(joined, terms, st.sampled_from("+-*/"), terms), max_leaves=8)


@given(TERMS)
def test_the_side_of_a_formula_is_right(term: Term) -> None:
    assert term.is_right


@given(TERMS, NUMBERS)
def test_a_bound_of_what_is_wanted_is_right(term: Term, slack: Fraction) -> None:
    """What is wanted does not exceed the formula, or reaches it."""
    assert Term(term.known.bounds_above(), term.truth - slack).is_right
    assert Term(term.known.bounds_below(), term.truth + slack).is_right


@pytest.mark.parametrize(
    ("first", "sign", "second", "result"),
    [
        (EXACT, "+", EXACT, EXACT),
        (EXACT, "*", UPPER, UPPER),
        (LOWER, "*", EXACT, LOWER),
        (UPPER, "+", LOWER, None),
        (EXACT, "-", UPPER, LOWER),
        (EXACT, "-", LOWER, UPPER),
        (UPPER, "-", LOWER, UPPER),
        (UPPER, "/", LOWER, UPPER),
        (UPPER, "/", UPPER, None),
        (EXACT, "/", LOWER, UPPER),
        (LOWER, "/", UPPER, LOWER),
        (None, "*", EXACT, None),
        (EXACT, "/", None, None),
    ],
)
def test_all_that_is_known_is_said(first: Side | None, sign: str, second: Side | None, result: Side | None) -> None:
    assert OPERATIONS[sign](SidedValue(3.0, first), SidedValue(2.0, second)).side is result


def test_numbers_are_exact() -> None:
    two = SidedValue(2.0, UPPER)
    results = (two + 1, two - 1, two * 3, two / 4, 1 + two, 1 - two, 3 * two, 4 / two)
    assert [(x.value, x.side) for x in results] == [
        (3, UPPER), (1, UPPER), (6, UPPER), (0.5, UPPER), (3, UPPER), (-1, LOWER), (6, UPPER), (2, LOWER),
    ]  # fmt: skip


def likely(name: str, value: float, delta: float) -> Constant:
    return Constant(name, value, Side.HIGH_PROBABILITY, Provenance("random starts", delta=delta))


def test_failure_probabilities_add_up_once_for_each_source() -> None:
    q, L_Phi = likely("q", 0.5, 0.01), likely("L_Phi", 2.0, 0.02)
    W = (sided(L_Phi) / (1 - sided(q))).named("W", Provenance("L_Φ/(1 − q)"))
    assert (W.value, W.side, W.provenance.delta) == (4.0, Side.HIGH_PROBABILITY, 0.03)
    kappa = ((1 + sided(q)) / (1 - sided(q))).named("kappa", Provenance("(1 + q)/(1 − q)"))
    assert (kappa.value, kappa.side, kappa.provenance.delta) == (3.0, Side.HIGH_PROBABILITY, 0.01)


def test_high_probability_is_the_safe_side_of_the_name() -> None:
    """1 − q is below where q is above, which is safe for μ_λ and not for κ."""
    q, mu = likely("q", 0.5, 0.01), likely("mu", 0.5, 0.01)
    assert (sided(q).side, sided(mu).side) == (UPPER, LOWER)
    assert (1 - sided(q)).named("mu_inv", Provenance("1 − q")).side is Side.HIGH_PROBABILITY
    assert (1 - sided(q)).named("kappa", Provenance("1 − q")).side is LOWER
    assert sided(likely("alpha", 0.5, 0.01)).side is None


def test_certificates_that_are_sure_to_fail_leave_an_estimate() -> None:
    q, L_Phi = likely("q", 0.5, 0.6), likely("L_Phi", 2.0, 0.6)
    W = (sided(L_Phi) / (1 - sided(q))).named("W", Provenance("L_Φ/(1 − q)"))
    assert (W.side, W.provenance.delta) == (LOWER, 1.0)


@pytest.mark.parametrize("name", ["kappa", "mu_inv"])
@pytest.mark.parametrize("side", [EXACT, UPPER, LOWER, None])
def test_what_is_not_proved_to_be_safe_is_an_estimate(name: str, side: Side | None) -> None:
    constant = SidedValue(2.0, side).named(name, Provenance("a formula", products=3))
    assert constant.is_safe == (side in (EXACT, safe_side(name)))
    assert constant.side is side or not constant.is_safe
    assert constant.provenance == Provenance("a formula", products=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SidedValue(-1.0) * 2, r"-1 · 2 has no side; both factors must be at least 0"),
        (lambda: 2 / SidedValue(0.0), r"2/0 has no side; the divisor must be positive"),
    ],
)
def test_refused(make: Callable[[], SidedValue], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_the_example_runs() -> None:
    assert doctest.testmod(side_arithmetic).failed == 0
