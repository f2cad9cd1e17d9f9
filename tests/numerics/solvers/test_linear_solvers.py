"""CG by its own invariants, what it refuses, early stopping, and what is said of divergence."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from small import small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.solvers import conjugate_gradient, normal_equations

EYE = torch.eye(30, dtype=torch.float64)


def symmetric(kappa: float, seed: int = 0) -> Tensor:
    """A symmetric Y with I − Y of condition number κ."""
    generator = torch.Generator().manual_seed(seed)
    U = torch.linalg.qr(torch.randn(30, 30, generator=generator, dtype=torch.float64))[0]
    return EYE - U @ torch.diag(torch.logspace(0, -math.log10(kappa), 30, dtype=torch.float64)) @ U.T


def test_cg_keeps_its_invariants() -> None:
    """Residual orthogonal to earlier ones, error in the energy norm falling, and the Chebyshev bound on it."""
    Y, kappa = symmetric(50.0), 50.0
    A, b = EYE - Y, torch.ones(30, dtype=torch.float64)
    x = torch.linalg.solve(A, b)
    iterates = [conjugate_gradient.solve(lambda v: Y.T @ v, b, k, None, None).v for k in range(13)]
    residuals = torch.stack([b - A @ v for v in iterates])
    gram = residuals @ residuals.T
    scale = gram.diag().sqrt()
    off = (gram / (scale[:, None] * scale)).fill_diagonal_(0)
    assert off.abs().max() <= 1e-8
    energy = [float((v - x) @ A @ (v - x)) ** 0.5 for v in iterates]
    assert all(later < earlier for earlier, later in pairwise(energy))
    rate = (kappa**0.5 - 1) / (kappa**0.5 + 1)
    assert all(e <= 2 * rate**k * energy[0] * (1 + 1e-9) for k, e in enumerate(energy))


def test_cg_ends_after_as_many_steps_as_distinct_eigenvalues() -> None:
    Y = torch.diag(torch.tensor([0.1] * 10 + [0.5] * 10 + [0.9] * 10, dtype=torch.float64))
    b = torch.ones(30, dtype=torch.float64)
    v = conjugate_gradient.solve(lambda v: Y @ v, b, 3, None, None).v
    assert (b - (EYE - Y) @ v).norm() <= 1e-12


def test_cg_goes_on_harmlessly_after_convergence() -> None:
    Y = symmetric(10.0)
    b = torch.ones(30, dtype=torch.float64)
    x = torch.linalg.solve(EYE - Y, b)
    for solve in (
        lambda k: conjugate_gradient.solve(lambda v: Y @ v, b, k, None, None).v,
        lambda k: normal_equations.solve(lambda v: Y @ v, lambda u: Y @ u, b, k, None, None).v,
    ):
        assert (solve(2000) - x).norm() <= 1e-12 * x.norm()


def test_the_normal_equations_minimise_the_residual() -> None:
    """CGLS: ‖b − Av_k‖ is least over the Krylov space of AᵀA and Aᵀb, here with Y not symmetric."""
    generator = torch.Generator().manual_seed(1)
    Y = 0.9 * torch.linalg.qr(torch.randn(30, 30, generator=generator, dtype=torch.float64))[0]
    A, b = EYE - Y.T, torch.ones(30, dtype=torch.float64)
    space = [A.T @ b]
    for k in range(1, 6):
        v = normal_equations.solve(lambda v: Y.T @ v, lambda u: Y @ u, b, k, None, None).v
        K = torch.stack(space, dim=1)
        best = torch.linalg.lstsq(A @ K, b[:, None]).solution[:, 0]
        assert (b - A @ v).norm() == pytest.approx(float((b - A @ K @ best).norm()), rel=1e-9)
        space.append(A.T @ A @ space[-1])


def linear(Y: Tensor, **options: object) -> bc.Problem:
    d = len(Y)
    return bc.Problem.from_map(
        lambda w, lam: Y @ w + lam, lambda w, lam: (w**2).sum() / 2, torch.zeros(d, dtype=Y.dtype),
        torch.ones(d, dtype=Y.dtype), **options,
    )  # fmt: skip


def test_cg_refuses_what_is_not_symmetric_and_names_the_way_out() -> None:
    generator = torch.Generator().manual_seed(3)
    Y = 0.1 * torch.randn(30, 30, generator=generator, dtype=torch.float64)
    with pytest.raises(bc.AssumptionError, match=r"user: ∂₁Φ is not symmetric.*use aid-cgn"):
        bc.hypergradient(linear(Y), "aid-cg", t=3)
    with pytest.raises(bc.AssumptionError, match=r"declared not symmetric.*aid-cgn"):
        bc.hypergradient(small("eqm"), "aid-cg", t=3)
    with pytest.raises(bc.AssumptionError, match="aid-cgn"):
        bc.error_curves(linear(Y), ["aid-cg"], t=3)
    bc.hypergradient(linear((Y + Y.T) / 2), "aid-cg", t=3)  # not declared, but symmetric


def test_cg_refuses_what_is_not_definite() -> None:
    Y = torch.diag(torch.cat((torch.full((29,), 0.5), torch.tensor([3.0])))).double()
    with pytest.raises(bc.AssumptionError, match=r"not positive definite.*aid-cgn"):
        bc.hypergradient(linear(Y), "aid-cg", t=0, k=30, w0=torch.ones(30, dtype=torch.float64))
    result = bc.hypergradient(linear(Y), "aid-cgn", t=0, k=30, w0=torch.ones(30, dtype=torch.float64))
    assert result.residual.v <= 1e-10


@pytest.mark.parametrize("method", ["aid-fp", "aid-cg", "aid-cgn"])
def test_early_stopping_is_opt_in_and_says_so(method: str) -> None:
    problem = small("br")
    free = bc.hypergradient(problem, method, t=3000, k=3000)
    assert (free.t, free.k, free.status) == (3000, 3000, "completed")
    stopped = bc.hypergradient(problem, method, t=3000, k=3000, tol=1e-9)
    assert stopped.t < 3000
    assert stopped.k < 3000
    assert f"at t = {stopped.t}" in stopped.status
    assert f"at k = {stopped.k}" in stopped.status
    assert stopped.residual.v <= 1.01e-9 * 1e3
    # the newest iterate: running exactly that long gives the same
    again = bc.hypergradient(problem, method, t=stopped.t, k=stopped.k)
    assert (again.value - stopped.value).norm() <= 1e-12 * stopped.value.norm()


def test_itd_stops_early_too() -> None:
    problem = small("br")
    stopped = bc.hypergradient(problem, "itd", t=3000, tol=1e-6)
    assert stopped.t < 3000
    assert torch.equal(stopped.value, bc.hypergradient(problem, "itd", t=stopped.t).value)


@pytest.mark.parametrize("method", ["itd", "aid-fp", "aid-cgn"])
def test_divergence_is_reported_with_the_iteration(method: str) -> None:
    problem = linear(40.0 * torch.eye(2, dtype=torch.float64))
    w, first = problem.w0, 0
    while bool(torch.isfinite(w).all()):
        w, first = problem.phi(w, problem.lam), first + 1
    with pytest.raises(bc.DivergenceError, match=rf"left the finite numbers at t = {first} of 400"):
        bc.hypergradient(problem, method, t=400, k=None if method == "itd" else 2)


def test_divergence_of_the_linear_solver_is_reported_with_its_iteration() -> None:
    problem = linear(40.0 * torch.eye(2, dtype=torch.float64))
    v, first = torch.zeros(2, dtype=torch.float64), 0
    while bool(torch.isfinite(v).all()):
        v, first = 40.0 * v + 1, first + 1
    with pytest.raises(
        bc.DivergenceError, match=rf"linear solver of aid-fp:400 left the finite numbers at k = {first} of"
    ):
        bc.hypergradient(problem, "aid-fp", t=0, k=400, w0=torch.ones(2, dtype=torch.float64))


def test_no_fixed_point_is_said_to_be_none() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: torch.exp(w) + lam, lambda w, lam: w.sum(), torch.zeros(1), torch.zeros(1)
    )
    with pytest.raises(bc.DivergenceError, match=r"no fixed point found.*contraction"):
        bc.hypergradient(problem, "exact")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": -1}, "t must be at least 0"),
        ({"t": 2.5}, "t must be a whole number, at least 0"),
        ({"k": -3}, "k must be at least 0"),
        ({"method": "aid-cg:ten"}, "k = 'ten'"),
        ({"method": "aid-gc"}, "unknown method 'aid-gc'; did you mean aid-cg"),
        ({"method": "aid-cg:3", "k": 4}, "both fix k"),
        ({"method": "itd", "k": 4}, "itd takes no k"),
        ({"method": "itd-truncated"}, "itd-truncated needs the number of steps"),
        ({"method": "itd", "mode": "backward"}, "unknown mode"),
        ({"method": "itd", "v0": torch.zeros(8)}, "v0 is the start of a linear solver"),
        ({"tol": 0.0}, "tol = 0.0 is not a tolerance"),
        ({"w0": torch.zeros(3)}, r"w0 has shape \(3,\); give a flat tensor of 8 entries"),
        ({"w0": torch.zeros(8, dtype=torch.float32)}, "w0 is torch.float32"),
        ({"lam": torch.full((8,), torch.nan, dtype=torch.float64)}, "lam has entries that are not finite"),
    ],
)
def test_bad_input_gets_one_clear_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message) as caught:
        bc.hypergradient(small("br"), **{"method": "aid-cg", "t": 3, **options})
    assert "\n" not in str(caught.value)


def test_lam_outside_its_domain_is_refused() -> None:
    problem = small("lr")
    with pytest.raises(bc.InputError, match="lr: lam is outside its domain: every entry of lam is > 0"):
        bc.hypergradient(problem, "itd", t=3, lam=-problem.lam)


def test_curves_refuse_what_single_calls_refuse() -> None:
    """∂₁Φ not symmetric at early t only; and symmetric but not definite."""
    ones = torch.ones(2, dtype=torch.float64)
    early = bc.Problem.from_map(
        lambda w, lam: torch.stack((0.5 * w[0] + 0.3 * w[1] ** 2 + lam[0] * w[1], 0.5 * w[1])),
        lambda w, lam: (w**2).sum(), ones, ones,
    )  # fmt: skip
    with pytest.raises(bc.AssumptionError, match=r"not symmetric.*aid-cgn"):
        bc.error_curves(early, ["aid-cg"], t=100)
    Y = torch.diag(torch.tensor([1.5] + [0.1] * 29)).double()
    with pytest.raises(bc.AssumptionError, match=r"not positive definite.*aid-cgn"):
        bc.error_curves(linear(Y), ["aid-cg"], t=5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_cg_accepts_what_is_symmetric_up_to_rounding(name: str, dtype: torch.dtype) -> None:
    """Close to κ = 1 ∂₁Φ is all cancellation, and its rounding is that of the identity."""
    assert bc.hypergradient(small(name, kappa=1.0001, dtype=dtype), "aid-cg", t=3).k == 3


def test_definiteness_is_tested_along_random_directions() -> None:
    with pytest.raises(bc.AssumptionError, match="not positive definite"):
        bc.hypergradient(linear(3 * torch.eye(5, dtype=torch.float64)), "aid-cg", t=0, k=0)


def test_tolerances_are_relative_to_the_right_thing() -> None:
    """The linear residual to ‖∇₁E‖, a step of w to max(1, ‖w‖)."""
    problem = linear(0.9 * torch.eye(2, dtype=torch.float64))
    start = torch.full((2,), 1e3, dtype=torch.float64)
    stopped = bc.hypergradient(problem, "aid-fp", t=0, k=1000, w0=start, tol=1e-3)
    assert stopped.residual.v <= 1e-3 * float(start.norm())
    assert stopped.residual.v >= 0.8e-3 * float(start.norm())
    small_w = bc.Problem.from_map(
        lambda w, lam: 0.9 * w + 1e-9 * lam, lambda w, lam: w.sum(), start * 0, torch.ones(2, dtype=torch.float64)
    )
    assert bc.hypergradient(small_w, "itd", t=1000, tol=1e-6).t == 1


def test_large_but_finite_is_not_called_divergence() -> None:
    problem = linear(2 * torch.eye(1, dtype=torch.float64))
    result = bc.hypergradient(problem, "aid-fp", t=600, k=2)
    assert result.residual.w == pytest.approx(float(result.w[0]) + 1, rel=1e-12)
    assert result.residual.w > 1e180


def test_a_gradient_that_is_not_finite_is_named() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: w.abs().sqrt().sum() + lam.sum(), torch.zeros(1), torch.zeros(1)
    )
    for method in ("aid-fp", "aid-cg", "aid-cgn", "exact"):
        with pytest.raises(bc.DivergenceError, match=r"∇₁E.* is not finite"):
            bc.hypergradient(problem, method, t=3)
