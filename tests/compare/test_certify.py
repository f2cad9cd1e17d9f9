"""The certificate of a reference: above its true error wherever the reference is, and attained on one number."""

from __future__ import annotations

import pytest
import torch
from pieces import normal
from small import small

import boundcheck as bc
from boundcheck.compare.certify import certify, proved
from boundcheck.constants import Constant, Constants, Side
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.products import jacobian, outer_gradients, rows_d2
from boundcheck.solvers.exact import Reference, reference


def moved(problem: Problem, by: float, off: float) -> tuple[Reference, float]:
    """What a reference would be that is `by` away from w* and `off` from the solution of its system; ‖w'‖ there."""
    prepared = Prepared(problem, problem.lam[None])
    ready, found = prepared.leaves.at(0), reference(problem, problem.lam[None])
    direction, other = (x / x.norm() for x in normal(2, problem.d))
    w = found.w[0] + by * direction
    Y = jacobian(lambda x: problem.phi_at(x, ready), w)
    Z = rows_d2(problem.phi_at, w[None, None], prepared, prepared.leaves, problem.d)[0, 0]
    A = torch.eye(problem.d, dtype=w.dtype) - Y
    alone = Prepared(problem, problem.lam)
    outer = outer_gradients(problem, w, alone.leaves)
    v = torch.linalg.solve(A.T, outer.w) + off * other
    value = alone.pull_back(outer.lam) + Z.T @ v
    residuals = (w - problem.phi_at(w, ready)).norm(), (A.T @ v - outer.w).norm()
    made = Reference(*(x[None] for x in (value, w, v, *residuals)))
    return made, float(torch.linalg.matrix_norm(torch.linalg.solve(A, Z), 2))


@pytest.mark.parametrize(("by", "off"), [(1e-3, 0.0), (0.0, 1e-3), (1e-5, 1e-6), (1e-7, 1e-7)])
@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr", "eqm"])
def test_it_is_above_the_error(name: str, by: float, off: float) -> None:
    problem = small(name)
    truth = reference(problem, problem.lam[None]).value[0]
    made, W = moved(problem, by, off)
    constants = bc.estimate_constants(problem, ball="local").replace(Constant("W", W))
    found = certify(made, constants, problem.dtype)
    error = float((made.value[0] - truth).norm())
    assert found is not None
    assert found.side is Side.UPPER
    assert proved(found)
    assert error <= found.value
    assert found.value <= 1e3 * error  # and worth having: κ of these problems is below 100


@pytest.mark.parametrize(("by", "off"), [(1e-4, 0.0), (0.0, 1e-4)])
def test_it_is_attained_on_one_number(by: float, off: float) -> None:
    """Φ = λw + b and E = w: g(w) = w/(1 − λ), so both terms are equalities."""
    problem = bc.load_problem("scalar")
    made, W = moved(problem, by, off)
    constants = bc.estimate_constants(problem, ball="local").replace(Constant("W", W))
    error = float((made.value - reference(problem, problem.lam[None]).value).norm())
    assert certify(made, constants, problem.dtype).value == pytest.approx(error, rel=1e-6)


def test_where_nothing_bounds_it() -> None:
    problem = small("lr")
    found, constants = reference(problem, problem.lam[None]), bc.estimate_constants(problem, ball="local")
    missing = Constants({name: c for name, c in constants.items() if name != "W"})
    assert certify(found, missing, problem.dtype) is None
    curved = constants.replace(Constant("nu_1", 1e20, Side.UPPER))
    assert certify(found, curved, problem.dtype) is None
    assert not proved(None)
