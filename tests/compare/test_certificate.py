"""The certificate of a reference: above its true error wherever the reference is, and attained on one number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pieces import normal
from small import small

import boundcheck as bc
from boundcheck.compare.certificate import certify, distance, proved, residual_is_enough
from boundcheck.compare.observations import distances_from_w_star
from boundcheck.constants import Constant, Constants
from boundcheck.methods import parse
from boundcheck.numerics.bilevel.derivatives import jacobian, outer_gradients, rows_d2
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_noise
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.side import Side


def moved(problem: Problem, by: float, off: float) -> tuple[ReferenceSolution, float]:
    """What a reference would be that is `by` away from w* and `off` from the solution of its system; ‖w'‖ there."""
    prepared = Prepared(problem, problem.lam[None])
    ready, result = prepared.leaves.at(0), reference(problem, problem.lam[None])
    direction, other = (x / x.norm() for x in normal(2, problem.d))
    w = result.w[0] + by * direction
    Y = jacobian(lambda x: problem.phi_at(x, ready), w)
    Z = rows_d2(problem.phi_at, w[None, None], prepared, prepared.leaves, problem.d)[0, 0]
    A = torch.eye(problem.d, dtype=w.dtype) - Y
    alone = Prepared(problem, problem.lam)
    outer = outer_gradients(problem, w, alone.leaves)
    v = torch.linalg.solve(A.T, outer.w) + off * other
    value = alone.pull_back(outer.lam) + Z.T @ v
    residuals = (w - problem.phi_at(w, ready)).norm(), (A.T @ v - outer.w).norm()
    made = ReferenceSolution(*(x[None] for x in (value, w, v, *residuals)))
    return made, float(torch.linalg.matrix_norm(torch.linalg.solve(A, Z), 2))


@pytest.mark.parametrize(("by", "off"), [(1e-3, 0.0), (0.0, 1e-3), (1e-5, 1e-6), (1e-7, 1e-7)])
@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr", "eqm"])
def test_it_is_above_the_error(name: str, by: float, off: float) -> None:
    problem = small(name)
    truth = reference(problem, problem.lam[None]).value[0]
    made, W = moved(problem, by, off)
    constants = bc.estimate_constants(problem, ball="local").replace(Constant("W", W))
    result = certify(problem, made, constants)
    error = float((made.value[0] - truth).norm())
    assert result is not None
    assert result.side is Side.UPPER
    assert proved(result)
    assert error <= result.value
    assert result.value <= 1e3 * error  # and worth having: κ of these problems is below 100


@pytest.mark.parametrize(("by", "off"), [(1e-4, 0.0), (0.0, 1e-4)])
def test_it_is_attained_on_one_number(by: float, off: float) -> None:
    """Φ = λw + b and E = w: g(w) = w/(1 − λ), so both terms are equalities."""
    problem = bc.load_problem("scalar")
    made, W = moved(problem, by, off)
    constants = bc.estimate_constants(problem, ball="local").replace(Constant("W", W))
    error = float((made.value - reference(problem, problem.lam[None]).value).norm())
    assert certify(problem, made, constants).value == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("name", ["lr", "krr", "eqm"])
def test_how_far_the_reference_is_from_w_star(name: str) -> None:
    problem = small(name)
    constants = bc.estimate_constants(problem, ball="local")
    assert 1e-4 * (1 - 1e-6) <= distance(problem, moved(problem, 1e-4, 0.0)[0], constants).value < 1e-1
    near = distance(problem, reference(problem, problem.lam[None]), constants)
    assert near.value < 1e-10
    assert near.doubt == ""
    unknown = Constants({name: c for name, c in constants.items() if name != "mu_inv"})
    assert distance(problem, reference(problem, problem.lam[None]), unknown).doubt.endswith("that nothing certifies")


def test_distances_along_the_path_count_how_far_the_reference_is() -> None:
    itd = parse("itd")
    seen = {itd: {"r_t": np.array([3.0, 2.0, 1.0]), "path_t": np.array([0.0, 3.0, 3.5]), "g_t": np.ones(3)}}
    result = distances_from_w_star(seen, 1.0, 0.5, np.array([1, 2, 3]))[itd]
    np.testing.assert_array_equal(result["r_t"], [4, 3, 2])
    np.testing.assert_array_equal(result["path_t"], [0, 4, 5])  # of r_j + 1: 0, 4, 4/2 + 3
    np.testing.assert_array_equal(result["g_t"], np.ones(3))


def test_where_nothing_bounds_it() -> None:
    problem = small("lr")
    result, constants = reference(problem, problem.lam[None]), bc.estimate_constants(problem, ball="local")
    missing = Constants({name: c for name, c in constants.items() if name != "W"})
    assert certify(problem, result, missing) is None
    curved = constants.replace(Constant("nu_1", 1e20, Side.UPPER))
    assert certify(problem, result, curved) is None
    assert not proved(None)


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e6])
def test_what_cancels_on_the_way_is_not_called_proved(shift: float) -> None:
    """Φ = w/2 + ((s + λ/3) − s) and E = ½w²: w* = 2λ/3 and ∇f = 4λ/9, which rounding in s + λ/3 hides."""
    problem = bc.Problem.from_map(
        lambda w, lam: w / 2 + ((shift + lam / 3) - shift), lambda w, lam: (w * w).sum() / 2, normal(1) * 0,
        normal(1) * 0 + 1.1, symmetric=True,
    )  # fmt: skip
    result = bc.enclose(problem, 4 * problem.lam / 9)
    assert result.lower == 0
    assert result.upper < 1e-13 * (1 + shift)


def test_rounding_where_autograd_makes_zeros_without_memory() -> None:
    """The derivative of sign(w)w² by w asks for one; reading it ends the process."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.4 * w - 0.1 * torch.sign(w) * w * w + lam, lambda w, lam: (w * w).sum() / 2, normal(1) * 0,
        normal(1) * 0 + 0.5, symmetric=True,
    )  # fmt: skip
    result = reference(problem, problem.lam[None])
    seen = rounding_noise.measured(problem, result.w[0], result.v[0])
    assert 0 < seen.w < 1e-14
    with rounding_noise._RandomRounding(0):
        nothing = torch._efficientzerotensor((2,), dtype=torch.float64) * torch.ones(2, dtype=torch.float64)
    assert nothing._is_zerotensor() or not nothing.any()


def test_a_residual_says_nothing_of_a_map_that_turns() -> None:
    """I − ∂₁Φ may be inverted everywhere, and points far from w* still have no residual, as 2πi of e^z − 1."""
    problem = replace(small("eqm"), symmetric=None)
    constants = bc.estimate_constants(problem, ball="local")
    assert residual_is_enough(problem, constants)
    claimed = constants.replace(Constant("mu_inv", 2 * (1 - constants["q"].value)))
    assert not residual_is_enough(problem, claimed)
    assert certify(problem, reference(problem, problem.lam[None]), claimed) is None
    flat = claimed.replace(Constant("nu_1", 0.0))
    assert residual_is_enough(problem, flat)
