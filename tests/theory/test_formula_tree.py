"""One walk, three arithmetics: intervals, batches of doubles in torch, and 50 digits in mpmath."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
import torch

from boundcheck.theory.evaluation import evaluate
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.intervals import enclose, evaluate_upwards, interval, upper_end
from boundcheck.worst_case import formula
from boundcheck.worst_case.arithmetic import DECIMAL, DOUBLE, decimal

x, y, n = sp.symbols("x y n", positive=True)
X, Y = 0.3, 1.7
FORMULAS = {
    "a symbol": x,
    "a sum": x + y,
    "a product": x * y,
    "a coefficient that no double holds": x * y / 3,
    "a lone number": x + sp.Rational(1, 2),
    "a power": x**3,
    "a negative power": x**-2 * y,
    "a root": sp.sqrt(x),
    "a root below": y / sp.sqrt(x),
    "an odd half": x ** sp.Rational(3, 2),
    "a maximum with a number": sp.Max(x, 1),
    "a minimum": sp.Min(x, y),
    "a geometric sum": GeometricSum(1 - x, sp.Integer(4)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_three_agree(name: str) -> None:
    expression = FORMULAS[name]
    wide = enclose(expression, {"x": interval(X), "y": interval(Y)})
    doubles = {"x": torch.tensor([X], dtype=torch.float64), "y": torch.tensor([Y], dtype=torch.float64)}
    double = float(formula.value(expression, doubles, DOUBLE)[0])
    digits = formula.value(expression, {"x": decimal([X]), "y": decimal([Y])}, DECIMAL)[0]
    # 160 bits are about 48 digits, of which a few operations lose less than two
    assert abs(float(digits - decimal([float(wide.mid)])[0])) <= 2.0**-52 * abs(float(digits))
    assert float(wide.delta) <= 1e-45
    assert double == pytest.approx(float(digits), rel=8 * 2.0**-53)


def test_a_coefficient_is_applied_to_all_digits() -> None:
    """1/3 as a double would be wrong from the 17th digit on."""
    third = formula.value(x / 3, {"x": decimal([1.0])}, DECIMAL)[0]
    assert abs(3 * third - 1) < 1e-45


def test_an_exponent_that_is_half_an_index() -> None:
    enclosure = enclose(x ** (n / 2), {"x": interval(0.25), "n": interval(3)})
    assert enclosure.a <= 0.125 <= enclosure.b
    with pytest.raises(ValueError, match="no enclosure for the exponent"):
        enclose(x**y, {"x": interval(0.25), "y": interval(0.3)})
    with pytest.raises(ValueError, match="no value for the exponent 1/3"):
        formula.value(x ** sp.Rational(1, 3), {"x": torch.ones(1)}, DOUBLE)


def test_branches() -> None:
    expression = sp.Piecewise((0, n >= y), (x, True))
    for steps, result in ((1, X), (2, 0.0)):
        enclosure = enclose(expression, {"x": interval(X), "y": interval(Y), "n": interval(steps)})
        assert upper_end(enclosure) == result
    with pytest.raises(ValueError, match="branches has no value for a batch"):
        formula.value(expression, {"x": torch.ones(1), "y": torch.ones(1), "n": 1}, DOUBLE)
    with pytest.raises(ValueError, match=r"no branch of .* is certain"):
        enclose(sp.Piecewise((x, n >= y)), {"x": interval(X), "y": interval(Y), "n": interval(1)})
    with pytest.raises(ValueError, match="write it as left ≥ right"):
        enclose(sp.Piecewise((x, n < y), (y, True)), {"x": interval(X), "y": interval(Y), "n": interval(1)})


def test_a_function_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="a formula with sin has no value here"):
        enclose(sp.sin(x), {"x": interval(X)})


def test_upwards_is_never_below() -> None:
    values = {"x": np.array([0.1, 0.7, 1e-300]), "y": np.array(3.0)}
    upper = evaluate_upwards(x / y, values)
    assert upper.shape == (3,)
    for i, top in enumerate(upper):
        exact = sp.Rational(*float(values["x"][i]).as_integer_ratio()) / 3
        assert sp.Rational(*float(top).as_integer_ratio()) >= exact
    assert upper == pytest.approx(evaluate(x / y, values), rel=2 * 2.0**-53)


def test_a_geometric_sum_of_a_rate_with_several_terms_has_brackets() -> None:
    assert sp.latex(GeometricSum(1 - x, n)) == r"\frac{1-x^{n}}{1-x}"
    assert sp.latex(GeometricSum(x * y, n)) == r"\frac{1-\left(- x y + 1\right)^{n}}{x y}"
