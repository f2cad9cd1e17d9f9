"""Suprema in one precision, and on a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import make as tiny
from measuring import FUNCTIONS, measure
from pretend import OnlyDtype, pretending

from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.estimate import supremum_search
from boundcheck.numerics.estimate.supremum_search import Effort
from boundcheck.numerics.solvers import reference


@pytest.mark.parametrize("constant", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_precision(constant: str, dtype: torch.dtype) -> None:
    problem, double = tiny("lr", dtype, "cpu"), tiny("lr", torch.float64, "cpu")
    w_star = reference.reference(double, double.lam[None]).w[0]
    expected = measure(constant, double, 1.0, w_star, budget=5000)
    with OnlyDtype(dtype):
        found = measure(constant, problem, 1.0, w_star.to(dtype), budget=5000)
    assert found.value == pytest.approx(expected.value, rel=1e-3)


BUDGET = 2 * supremum_search.BUDGET.needed + 1


@pytest.mark.parametrize("constant", FUNCTIONS)
@pytest.mark.parametrize("name", ["lr", "krr", "eqm"])
def test_on_a_device(name: str, constant: str) -> None:
    """As on the CPU but for rounding, in a few steps of few starts; waiting for the device a few times, not in each."""
    problem, same = tiny(name, torch.float64, "pretend"), tiny(name, torch.float64, "cpu")
    w_star = reference.reference(same, same.lam[None]).w[0]
    expected = measure(constant, same, 1.0, w_star, budget=BUDGET)
    with pretending():
        there = w_star.to(problem.device)
        prepared: Any = Prepared(problem, problem.lam[None])
    with pretending() as waits:
        found = FUNCTIONS[constant](problem, prepared, Region("w_star", there, 1.0), there, Effort(budget=BUDGET))
    assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)
    assert 0 < waits.total() <= 20, waits
