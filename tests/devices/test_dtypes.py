"""One precision from end to end, on the CPU, whose kernels are partly others than those of the pretend device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from cases import (
    DTYPES,
    EVERY_ALGORITHM,
    EVERY_PROBLEM,
    EVERY_SOLVER,
    SOLVERS,
    TINY,
    applies,
    curve_methods,
    make,
    steps_of,
)
from pretend import OnlyDtype
from small import small

from boundcheck import error_curves, hypergradient
from boundcheck.numerics.bilevel.prepared import Prepared


@DTYPES
@EVERY_SOLVER
@EVERY_PROBLEM
def test_solvers(name: str, solver: str, dtype: torch.dtype) -> None:
    """No number of another precision on the way."""
    problem = make(name, dtype, "cpu")
    method, mode = SOLVERS[solver]
    if applies(problem, solver):
        with OnlyDtype(dtype):
            result = hypergradient(problem, method, steps_of(solver)[0], mode=mode)
        results = [x for x in (result.value, result.w, result.v) if x is not None]
        assert [x.dtype for x in results] == [dtype] * len(results)


@DTYPES
@EVERY_ALGORITHM
@EVERY_PROBLEM
def test_curves(name: str, algorithm: str, dtype: torch.dtype) -> None:
    problem = make(name, dtype, "cpu")
    lams = problem.sample(2, seed=1)  # drawn in double precision, the same for every dtype
    with OnlyDtype(dtype):
        curves = error_curves(problem, curve_methods(problem, algorithm), 2, lam=lams, algorithm=algorithm)
    assert (curves.lam.dtype, curves.exact.dtype) == (dtype, dtype)


@pytest.mark.parametrize("name", ["lr", "krr", "hr", "parkinson"])
def test_tangents(name: str) -> None:
    """Forward mode makes double precision of a single number plus, or times, a Python number: not for the caller."""
    prepared = Prepared(problem := small(name, dtype=torch.float32, differentiate_step=True), problem.lam)
    assert {tangent.dtype for tangent in prepared.push_forward(0)} == {torch.float32}


@pytest.fixture
def other_defaults() -> Iterator[None]:
    """A user's torch.set_default_device and torch.set_default_dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            yield
    finally:
        torch.set_default_dtype(before)


@EVERY_PROBLEM
def test_defaults_of_torch_change_nothing(name: str, other_defaults: None) -> None:
    problem = small(name, dtype=torch.float32, **TINY.get(name, {}))
    with torch.device("cpu"):
        torch.set_default_dtype(torch.float32)
        same = small(name, dtype=torch.float32, **TINY.get(name, {}))
        expected = error_curves(same, curve_methods(same), 2, 2, seed=1)
        torch.set_default_dtype(torch.float64)
    curves = error_curves(problem, curve_methods(problem), 2, 2, seed=1)
    for method in curves:
        assert (curves[method] == expected[method]).all()
