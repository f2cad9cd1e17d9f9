"""The three steps before an evaluation, each by itself: gather, resolve, check."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
import sympy as sp

import boundcheck as bc
from boundcheck.constants import Constant, Constants
from boundcheck.theory import arguments
from boundcheck.theory.arguments import Inputs
from boundcheck.theory.rates import CG, CONTRACTION, Rate
from boundcheck.theory.symbols import QUANTITIES, k, q, rho, sigma, t

C = {"q": 0.9, "nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4, "D": 1.0, "L_E": 2.0, "L_Phi": 3.0}
ITD, FP, AID, RECURSIVE = (bc.bounds[name] for name in ("itd", "aid-fp", "aid-contraction", "itd-recursive"))


def inputs(constants: dict[str, float], rates: tuple[Rate, ...] = (), **numbers: float) -> Inputs:
    arrays = {name: np.asarray(value, float) for name, value in numbers.items()}
    return Inputs(arguments.as_constants(constants), MappingProxyType(arrays), rates)


# --- gather ----------------------------------------------------------------------------------------------------------


def test_gather_sorts_by_what_each_input_is() -> None:
    gathered = arguments.gather(AID, C, {"t": [1, 2], "k": None, "sigma": "cg", "r_t": 0.5, "q": Constant("q", 0.8)})
    assert gathered.constants["q"].value == 0.8
    assert set(gathered.constants) == set(C)
    assert {name: array.tolist() for name, array in gathered.arrays.items()} == {"t": [1, 2], "r_t": 0.5}
    assert gathered.rates == (CG,)
    assert gathered.names == {*C, "t", "r_t"}


def test_bare_numbers_become_exact_constants() -> None:
    constants = arguments.as_constants({"q": 0.9, "D": Constant("D", 1.0, bc.Side.UPPER)})
    assert (constants["q"].side, constants["D"].side) == (bc.Side.EXACT, bc.Side.UPPER)
    same = Constants.given(q=0.9)
    assert arguments.as_constants(same) is same


def test_known_symbols_leave_out_what_is_none() -> None:
    assert arguments.known_symbols({"t": 1, "k": None}) == {"t": 1}
    with pytest.raises(bc.UnknownNameError, match="unknown symbol 'foo'"):
        arguments.known_symbols({"foo": 1})


def test_rates_by_name_or_as_an_object() -> None:
    assert arguments.rates_by_name(AID, {"rho": "contraction", "sigma": CG}) == (CONTRACTION, CG)
    with pytest.raises(bc.InputError, match="'cg' is a Euclidean rate; give sigma as numbers"):
        arguments.rates_by_name(bc.bounds["aid-fp-weighted"], {"sigma": "cg"})


@pytest.mark.parametrize("value", [3, [0, 1, 2], np.arange(4)])
def test_counts_become_arrays(value: object) -> None:
    assert (arguments.count("t", value) == np.asarray(value)).all()


def test_a_count_below_the_first_is_refused() -> None:
    with pytest.raises(bc.InputError, match="t = 0 < 1; the bound holds for t ≥ 1"):
        arguments.count("t", [3, 0], low=1, holds="the bound")


# --- resolve ---------------------------------------------------------------------------------------------------------


def test_resolve_takes_k_from_t() -> None:
    resolved = arguments.resolve(FP, inputs(C, t=4))
    assert resolved.arrays["k"] == resolved.arrays["t"] == 4
    assert {constant.name for constant in resolved.used} == set(C)
    assert {"t", "k"} < set(resolved.names)
    assert arguments.resolve(FP, inputs(C, t=4, k=2)).arrays["k"] == 2


def test_resolve_puts_in_defaults_and_rates() -> None:
    assert rho not in arguments.resolve(FP, inputs(C, t=4)).expression.free_symbols
    assert rho in arguments.resolve(FP, inputs(C, t=4, rho=0.5)).expression.free_symbols
    resolved = arguments.resolve(AID, inputs(C, (CG,), t=4))
    assert sigma not in resolved.expression.free_symbols
    assert "kappa" in resolved.names


def test_a_measured_number_comes_before_a_constant() -> None:
    resolved = arguments.resolve(ITD, inputs(C, t=4, D=0.25))
    assert resolved.arrays["D"] == 0.25
    assert "D" not in {constant.name for constant in resolved.used}


def test_names_that_an_evaluation_needs() -> None:
    names = arguments.needed_names(FP, q**t + q**k, ())
    assert set(names) == {"q", "t", "k"} | {symbol.name for symbol in FP.in_conditions}
    order = list(QUANTITIES)
    assert list(names) == sorted(names, key=order.index)
    assert "t" in arguments.needed_names(RECURSIVE, sp.Integer(0), ())


def test_what_a_recursion_computes_cannot_be_given() -> None:
    with pytest.raises(bc.InputError, match="itd-recursive computes r_t by its recursion; leave r_t out"):
        arguments.refuse_state(RECURSIVE, frozenset({"r_t"}))
    arguments.refuse_state(RECURSIVE, frozenset({"q"}))
    arguments.refuse_state(ITD, frozenset({"r_t"}))


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_returns_every_number() -> None:
    given = inputs(C, t=4)
    arrays = arguments.check(ITD, given, arguments.resolve(ITD, given))
    assert {name: float(array) for name, array in arrays.items()} == {**C, "t": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"q": 1.5}, r"q = 1\.5 ≥ 1"), ({"D": -1.0}, r"D = -1 < 0"), ({"K": 1.5}, r"K = 1\.5 is not a whole number")],
)
def test_check_refuses_what_is_out_of_its_domain(change: dict[str, float], message: str) -> None:
    truncated, given = bc.bounds["itd-truncated"], inputs({**C, **change}, t=4)
    with pytest.raises(bc.BoundcheckError, match=message):
        arguments.check(truncated, given, arguments.resolve(truncated, given))


def test_check_names_what_is_missing() -> None:
    given = inputs({name: value for name, value in C.items() if name != "D"}, t=4)
    with pytest.raises(bc.MissingConstantError, match="itd needs D "):
        arguments.check(ITD, given, arguments.resolve(ITD, given))


def test_shapes_must_broadcast() -> None:
    with pytest.raises(bc.InputError, match=r"shapes do not fit together: t \(2,\), k \(3,\)"):
        arguments.refuse_shapes(FP, {"t": np.arange(2), "k": np.arange(3), "q": np.asarray(0.5)})
    with pytest.raises(bc.InputError, match=r"nu_1 has shape \(2,\); a recursion takes one number"):
        arguments.refuse_shapes(RECURSIVE, {"t": np.arange(2), "nu_1": np.ones(2)})
    with pytest.raises(bc.InputError, match="too long for a recursion"):
        arguments.refuse_shapes(RECURSIVE, {"t": np.array([1e9])})
    arguments.refuse_shapes(FP, {"t": np.arange(2)[:, None], "k": np.arange(3)})
