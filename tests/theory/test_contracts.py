"""What every bound in the catalogue promises; a new file in bounds/ is tested by being there."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import sympy as sp
from exactly import exactly
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import constants_for

import boundcheck as bc
from boundcheck.theory.bound import Bound
from boundcheck.theory.coefficients import COEFFICIENTS
from boundcheck.theory.iterations import Hump, Split
from boundcheck.theory.symbols import QUANTITIES

U = 2.0**-53
ALL = sorted(bc.bounds)
PAPER = ("itd", "itd-derivative", "aid", "aid-contraction", "aid-fp", "aid-fp-derivative", "aid-cg", "aid-cgn")

WITH_CHAIN = [name for name in ALL if bc.bounds[name].chain]
WITH_CLOSED_FORM = [name for name in ALL if bc.bounds[name].shape]

every_bound = pytest.mark.parametrize("bound", [bc.bounds[name] for name in ALL], ids=ALL)
few = settings(max_examples=25)


@every_bound
def test_is_described(bound: Bound) -> None:
    assert bound.title
    assert bound.reference.label
    assert bound.assumptions
    assert all(symbol.name in QUANTITIES for symbol in bound.expression.free_symbols)
    assert set(COEFFICIENTS).isdisjoint(bound.expression.free_symbols)
    assert "nan" not in bound.latex().lower()


LABEL = re.compile(r"\b(?:ass|eq|lem|lm|th|thm):\w|eq\d|appB|boundSolver|boundFixed")


@every_bound
def test_what_people_read_has_no_latex_label(bound: Bound) -> None:
    because = [link.because for link in bound.chain.links] if bound.chain else []
    assert [text for text in (str(bound.reference), bound.title, bound.not_run, *because) if LABEL.search(text)] == []


@every_bound
def test_is_in_the_file_of_its_name(bound: Bound) -> None:
    assert bc.bounds[bound.name] is bound


@every_bound
def test_coefficients_expand_to_the_expression(bound: Bound) -> None:
    if bound.in_coefficients is not None:
        assert sp.simplify(bound.expand(bound.in_coefficients) - bound.expression) == 0


@every_bound
@given(data=st.data())
@few
def test_moves_as_declared(bound: Bound, data: st.DataObject) -> None:
    """Monotone in every constant, in the direction from which the side of a value is derived."""
    low = data.draw(constants_for(bound))
    t = np.array([max(bound.t_min, 0), 1, 2, 7, 40])
    k = np.array([0, 3, 1, 7, 60])
    before = bound.evaluate(low, t, k).values
    for name, value in low.items():
        direction = bound.direction(name)
        if direction == 0:
            continue
        share = data.draw(st.floats(0.01, 0.99))
        top = {"q": 1.0, "q_star": 1.0, "q_P": 1.0, "rho": 1.0, "mu": low.get("L", math.inf)}.get(name, 2 * value + 1)
        raised = value + share * (min(top, 2 * value) - value) if name == "L" else value + share * (top - value)
        try:
            after = bound.evaluate({**low, name: min(raised, np.nextafter(top, 0))}, t, k).values
        except bc.AssumptionError:  # there the theorem no longer speaks
            continue
        slack = 2000 * U * np.maximum(before, after)  # (50 + 16t)u per evaluation, see test_is_accurate
        assert (direction * (after - before) >= -slack).all(), name


@every_bound
@given(data=st.data())
@few
def test_is_accurate(bound: Bound, data: st.DataObject) -> None:
    """Within (50 + 16t)u of the exact value: dozens of operations, and products of powers of a rate rounded four times.

    Below 1e-280 a power that underflowed on the way may be missing, unless a constant is huge.
    """
    values = data.draw(constants_for(bound))
    t, k = data.draw(st.integers(bound.t_min, 300)), data.draw(st.integers(0, 300))
    exact = exactly(bound, values, t, k)
    tolerance = (50 + 16 * max(t, k)) * U
    assert float(bound.evaluate(values, t, k).values) == pytest.approx(float(exact), rel=tolerance, abs=1e-280)


@every_bound
@given(data=st.data())
@few
def test_rigorous_is_above_and_close(bound: Bound, data: st.DataObject) -> None:
    values = data.draw(constants_for(bound))
    t, k = data.draw(st.integers(bound.t_min, 60)), data.draw(st.integers(0, 300))
    exact = exactly(bound, values, t, k)
    result = bound.evaluate(values, t, k, rigorous=True)
    assert result.rigorous
    assert float(result.values) >= exact
    # rounded up once at the end, and the states of a recursion once each before (coarsely where they underflow)
    assert float(result.values) <= exact * (1 + 8 * U) + 1e-300


@every_bound
@pytest.mark.parametrize("q", [0.0, 0.5, 1 - 2.0**-53])
def test_edges(bound: Bound, q: float) -> None:
    """t = 0, k = 0, q = 0, q → 1, and t = 10⁶ where q^t underflows: finite, not negative, and no warning."""
    far = 10**6 if q < 0.9 else 10**5  # next to 1 nothing underflows, and a recursion runs to the end
    values = {
        name: {
            "q": q,
            "q_star": q,
            "q_P": q,
            "kappa": 1.0,
            "mu": 1.0,
            "L": 1.0,
            "alpha": 1.0,
            "rho": 0.5,
            "newton_t": 0.1,
            "eps_w": 0.1,
            "eta": 0.3 * (1 - q) ** 4,
            "beta": 2 / ((1 - q) * (1 + q)),
            "gamma": 10 / (1 - q) ** 4,
        }.get(name, 0.7)
        for name in bound.symbols
        if QUANTITIES[name].kind != "index"
    }
    t = np.array([bound.t_min, 1, 2, far, far])
    k = np.array([0, 0, 1, 0, far])
    result = bound.evaluate(values, t, k).values
    assert np.isfinite(result).all()
    assert (result >= 0).all()


@pytest.mark.parametrize("name", WITH_CLOSED_FORM)
def test_closed_form_is_the_bound(name: str) -> None:
    """`shape`, which `iterations` inverts, is the formula."""
    bound = bc.bounds[name]
    assert isinstance(bound.shape, Hump | Split)
    t, k = sp.symbols("t k", positive=True, integer=True)
    difference = bound.substitute(bound.expand(bound.shape.expression()), frozenset()) - bound.resolved()
    difference = difference.subs({QUANTITIES["t"].symbol: t, QUANTITIES["k"].symbol: k}).doit()
    if QUANTITIES["q"].symbol in bound.where:  # q and 1−q written apart: tie them together again
        difference = difference.replace(sp.Min, lambda *args: 1 - sp.Max(*(1 - arg for arg in args)))
    assert sp.simplify(difference) == 0


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_theorems_carry_their_proof(name: str) -> None:
    bound = bc.bounds[name]
    assert bound.chain is not None
    assert bound.chain.links[0].formula == bound.bounds
    assert all(link.because for link in bound.chain.links)


@pytest.mark.parametrize("name", WITH_CHAIN)
def test_chain_ends_at_the_bound(name: str) -> None:
    bound = bc.bounds[name]
    assert bound.chain is not None
    assert sp.simplify((bound.expand(bound.chain.links[-1].formula) - bound.primitive).doit()) == 0
