"""The rounding floor, measured and from the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck.constants import Constants
from boundcheck.numerics.estimate import rounding_floor
from boundcheck.numerics.solvers.reference import reference


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_a_problem_is_made_again_with_the_same_data(name: str) -> None:
    problem = bc.load_problem(name, seed=3)
    other = problem.in_dtype(torch.float32)
    assert other is not None
    assert other.dtype == torch.float32
    assert torch.equal(other.lam, problem.lam.float())
    w = torch.ones_like(problem.w0)
    phi = problem.phi(w, problem.lam)
    assert (other.phi(w.float(), other.lam).double() - phi).norm() <= 1e-4 * phi.norm()
    again = other.in_dtype(torch.float64)
    assert again is not None
    assert torch.equal(again.phi(w, problem.lam), phi)


@pytest.mark.parametrize("name", ["krr", "br", "hr"])
def test_the_measured_floor_is_where_the_error_stops(name: str) -> None:
    """After convergence the error against the reference is rounding: within the factor that verdicts allow."""
    problem = small(name)
    t = 3000
    found = rounding_floor.measured(problem, ["aid-cg"], [t])
    assert found is not None
    error = float((bc.hypergradient(problem, "aid-cg", t).value - bc.hypergradient(problem, "exact").value).norm())
    assert error <= rounding_floor.FACTOR * found["aid-cg"][0]
    assert found["aid-cg"][0] <= 1e-9 * float(bc.hypergradient(problem, "exact").value.norm())


def test_a_problem_of_the_user_has_one_precision() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: w.sum(), torch.zeros(2).double(), torch.ones(2).double()
    )
    assert problem.in_dtype(torch.float32) is None
    assert rounding_floor.measured(problem, ["itd"], [5]) is None


def test_the_floor_of_float32_is_its_distance_to_float64() -> None:
    problem = small("br", dtype=torch.float32)
    found = rounding_floor.measured(problem, ["aid-cg"], [3000])
    assert found is not None
    error = float((bc.hypergradient(problem, "aid-cg", 3000).value - bc.hypergradient(problem, "exact").value).norm())
    truth = bc.hypergradient(small("br"), "exact").value
    away = float((bc.hypergradient(problem, "aid-cg", 3000).value.double() - truth).norm())
    assert error <= rounding_floor.FACTOR * found["aid-cg"][0]
    assert away <= 2 * found["aid-cg"][0]
    assert 1e-9 < found["aid-cg"][0] / float(truth.norm()) < 1e-3


def test_the_model_in_numbers() -> None:
    """u·κ·(S_w M_t + L_Φ*‖v‖) for Φ = w/2 + λ, E = ½w²: w* = v = 2λ, κ = 1, S_w = η₁W = 2, and M_t falls to ‖w*‖ = 2.

    The start adds (1−q)(t+1)q^t r_0 to it, with r_0 = 2⁴⁰ here.
    """
    problem = bc.Problem.from_map(
        lambda w, lam: w / 2 + lam, lambda w, lam: (w * w).sum() / 2, torch.zeros(1).double(), torch.ones(1).double()
    )
    found = reference(problem, problem.lam[None])
    constants = Constants.given(q=0.5, kappa=1, eta_1=1, eta_2=0, nu_1=0, nu_2=0, W=2, L_Phi_star=1, r_0=2.0**40)
    sizes = rounding_floor.model(constants, found, torch.float64, np.array([0, 3, 1000]))
    M = np.array([2 + 2.0**39, 2 + 2.0**38, 2])
    np.testing.assert_allclose(sizes, 2.0**-53 * (2 * M + 4), rtol=1e-12)
    with pytest.raises(bc.InputError, match="without a contraction there is no model"):
        rounding_floor.model(constants.replace(*Constants.given(q=1.5).values()), found, torch.float64, np.array([1]))


def test_divergence_has_no_floor() -> None:
    problem = bc.load_problem("scalar").in_dtype(torch.float64)
    assert problem is not None
    found = rounding_floor.measured(problem, ["itd"], [1, 50])
    assert found is not None
    assert np.isfinite(found["itd"]).all()
