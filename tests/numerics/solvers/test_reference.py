"""The reference: matrix-free as dense, at the fixed point that iterates reach, with a certificate that is true."""

from __future__ import annotations

import pytest
import torch
from pieces import normal, zeros
from small import NAMES, small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.dynamics import NAMES as DYNAMICS
from boundcheck.numerics.bilevel.dynamics import optimal_steps
from boundcheck.numerics.solvers import hypergradient, reference
from boundcheck.theory import step_sizes


@pytest.mark.parametrize("name", NAMES)
def test_matrix_free_is_as_good_as_dense(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(name)
    lam = problem.sample(1, seed=11)
    dense = reference.reference(problem, lam)
    monkeypatch.setattr(reference, "DENSE", 0)
    free = reference.reference(problem, lam)
    assert (free.value - dense.value).norm() <= 1e-9 * (1 + dense.value.norm())
    assert (free.w - dense.w).norm() <= 1e-10 * (1 + dense.w.norm())
    assert (free.v - dense.v).norm() <= 1e-9 * (1 + dense.v.norm())


def test_matrix_free_without_a_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map that is not symmetric and does not say so: found out, and solved by the normal equations."""
    generator = torch.Generator().manual_seed(0)
    Y = 0.2 * torch.randn(6, 6, generator=generator, dtype=torch.float64)
    zeros = torch.zeros(6, dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, lam: torch.tanh(Y @ w + lam), lambda w, lam: (w**2).sum(), zeros, zeros + 0.3
    )
    dense = bc.hypergradient(problem, "exact")
    monkeypatch.setattr(reference, "DENSE", 0)
    free = bc.hypergradient(problem, "exact")
    assert (free.value - dense.value).norm() <= 1e-12
    assert free.residual.v <= 1e-13


def test_newton_is_newton_where_the_jacobian_is_not_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow rotation is far from its end after the first steps of the dynamics; Newton then needs few rounds.

    A round evaluates Φ twice. Steps with the transposed Jacobian turn the wrong way, and do not arrive at all.
    """
    Q = torch.linalg.qr(normal(6, 6)).Q
    calls = []

    def turn(w: Tensor, lam: Tensor) -> Tensor:
        calls.append(1)
        return 0.99 * Q @ torch.asinh(w) + lam

    problem = bc.Problem.from_map(turn, lambda w, lam: (w**2).sum(), zeros(6), zeros(6) + 0.1)
    dense = reference.reference(problem, problem.lam[None])
    monkeypatch.setattr(reference, "DENSE", 0)
    calls.clear()
    free = reference.reference(problem, problem.lam[None])
    assert len(calls) <= reference.START + 20
    assert (free.w - dense.w).norm() <= 2e-13 * dense.w.norm()  # both within 4ε‖w‖/(1 − q), and q ≤ 0.99


def test_the_residual_of_v_is_rounding_on_a_badly_conditioned_system() -> None:
    """Rounding of ‖A‖‖v‖, however small μ is."""
    problem = small("br", kappa=1e9)
    result = bc.hypergradient(problem, "exact")
    assert result.residual.v <= 4e-16 * 2 * float(result.v.norm())


def test_one_refinement_makes_up_for_bad_pivots() -> None:
    """Variables in units that differ by 1/ε: the pivot 2ε is the largest of its column and the smallest of its row.

    (I − ∂₁Φᵀ)v = ∇₁E is 2εv₁ + v₂ = 1 and εv₂ = εv₁, so both are 1/(1 + 2ε) and scaling the rows would make it
    harmless. Elimination alone finds v₁ = (1 − v₂)/(2ε), of which rounding of v₂ leaves half of the digits.
    """
    eps = 3 * 2.0**-28  # so that 1 − ε and 1 − 2ε are exact
    A = torch.tensor([[2 * eps, -eps], [1.0, eps]], dtype=torch.float64)
    problem = bc.Problem.from_map(lambda w, lam: w - A @ w + lam, lambda w, lam: w[0], zeros(2), zeros(2))
    result = reference.reference(problem, problem.lam[None])
    assert torch.linalg.eigvals(torch.eye(2, dtype=torch.float64) - A).abs().max() < 1  # the iterates do converge
    torch.testing.assert_close(result.v[0], torch.full_like(result.v[0], 1 / (1 + 2 * eps)), rtol=1e-15, atol=0)


def test_a_newton_step_is_shortened_where_it_goes_too_far() -> None:
    """Data that few weights separate, with hardly any penalty: far from 0 σ' is next to nothing, and steps are long."""
    problem = bc.problems.logistic_regression(seed=1, size=8, features=24)
    lams = problem.sample(3, seed=1)
    lams[1, :5], lams[2, :5] = 1e-5, 1e-9
    result = reference.reference(problem, lams)
    gradient = torch.stack([torch.func.grad(problem.inner)(*at) for at in zip(result.w, lams, strict=True)])
    assert bool((gradient.norm(dim=-1) <= 1e-12).all())
    assert bool((result.residual_v <= 1e-15 * result.v.norm(dim=-1)).all())
    assert float(result.w[2].norm()) > 30


@pytest.mark.parametrize("many", [False, True])
def test_where_there_are_several_fixed_points_it_is_the_one_iterates_reach(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A double well from near its top: Newton alone would go to the maximum in the middle."""
    if many:
        monkeypatch.setattr(reference, "DENSE", 0)
    problem = bc.Problem.from_loss(
        lambda w, lam: ((w**2 - 1) ** 2).sum() / 4 + 0.1 * lam.sum() * w.sum(), lambda w, lam: (w**2).sum(),
        torch.tensor([0.1], dtype=torch.float64), torch.tensor([0.1], dtype=torch.float64), step_size=0.1,
    )  # fmt: skip
    result, itd = bc.hypergradient(problem, "exact"), bc.hypergradient(problem, "itd", t=500)
    assert float(result.w) == pytest.approx(float(itd.w), abs=1e-12)
    assert float(result.value) == pytest.approx(float(itd.value), abs=1e-12)


def test_the_certificate_follows_from_the_residuals_and_is_true() -> None:
    problem = small("lr")
    result = bc.hypergradient(problem, "exact")
    q = float(problem.contraction(problem.prepare(problem.lam)))
    assert result.certificate.w == pytest.approx(result.residual.w / (1 - q))
    assert result.certificate.v == pytest.approx(result.residual.v / (1 - q))
    off = reference.ReferenceSolution(
        result.value[None], result.w[None] + 1e-3, result.v[None], *torch.tensor([[1.0], [1.0]])
    )
    moved = off.w[0] - problem.phi(off.w[0], problem.lam)
    certified = reference.certificate(
        problem,
        reference.ReferenceSolution(off.value, off.w, off.v, moved.norm()[None], moved.norm()[None]),
        problem.lam,
    )
    assert float((off.w[0] - result.w).norm()) <= certified.w
    assert bc.hypergradient(small("eqm"), "exact").certificate is not None
    assert bc.hypergradient(bc.load_problem("scalar", kind="curved"), "exact").certificate is None


def test_no_certificate_without_a_contraction() -> None:
    problem = small("newsgroups", step_size=1e3)
    assert float(problem.contraction(problem.prepare(problem.lam))) >= 1
    result = reference.reference(problem, problem.lam[None])
    assert reference.certificate(problem, result, problem.lam) is None


def test_checkpoints_keep_square_roots_and_recompute(monkeypatch: pytest.MonkeyPatch) -> None:
    """For t = 16: 12 steps forward and 4 with a graph, then 3 segments of 4 again; and one Φ for the residual."""
    problem = small("lr")
    calls = []
    counted = bc.Problem(  # not from_map, which would record the map and run the record
        name="counted", w0=problem.w0, lam=problem.w0 + 1, outer_at=lambda w, lam: (w**2).sum(),
        phi_at=lambda w, lam: (calls.append(1), 0.5 * w + lam)[1],
    )  # fmt: skip
    counts = {}
    for mode in ("reverse", "checkpoint"):
        calls.clear()
        bc.hypergradient(counted, "itd", t=16, mode=mode)
        counts[mode] = len(calls)
    assert counts == {"reverse": 17, "checkpoint": 29}
    monkeypatch.setattr(hypergradient, "GRAPH_BUDGET", 0)
    calls.clear()
    bc.hypergradient(counted, "itd", t=16)
    assert len(calls) == 29


@pytest.mark.parametrize("name", DYNAMICS)
def test_steps_are_those_of_the_theory(name: str) -> None:
    """The numbers that numerics computes with tensors are those that the theory gives for the same μ and L."""
    mu, L = 0.3, 12.0
    steps = optimal_steps(name, torch.tensor(mu, dtype=torch.float64), torch.tensor(L, dtype=torch.float64))
    assert float(steps.alpha) == pytest.approx(2 / (mu + L), rel=1e-15)
    if name == "gradient-descent":
        assert step_sizes.gradient_descent(mu, L).alpha == pytest.approx(float(steps.alpha), rel=1e-14)
        assert (float(steps.omega), float(steps.beta)) == (1.0, 0.0)
    else:
        theory = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}[name](mu, L)
        assert float(steps.omega * steps.alpha) == pytest.approx(theory.alpha, rel=1e-14)
        assert float(steps.beta) == pytest.approx(theory.beta, rel=1e-14)


def test_a_run_that_was_made_already_leads_to_the_same_fixed_point() -> None:
    """Of w = −1, 0 and 1 the dynamics leave 0.05 for 1, while Newton from 0.05 goes to 0."""
    problem = bc.Problem.from_map(
        lambda w, lam: w - 0.1 * (w**3 - lam * w),
        lambda w, lam: (w * w).sum(),
        torch.tensor([0.05], dtype=torch.float64),
        torch.ones(1, dtype=torch.float64),
    )
    for t in (5, 150):
        result = bc.error_curves(problem, ["aid-fp"], t=t).reference
        assert float(result.w) == pytest.approx(1.0, rel=1e-12)
        assert torch.equal(result.w, reference.reference(problem, problem.lam[None]).w)


def test_a_lower_level_without_a_unique_solution_is_refused() -> None:
    """Least squares with fewer equations than unknowns: ∇f is not defined."""
    X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, lam: ((X @ w - lam) ** 2).mean(),
        lambda w, lam: (w**2).sum(),
        torch.zeros(8, dtype=torch.float64),
        torch.ones(4, dtype=torch.float64),
    )
    with pytest.raises(bc.DivergenceError, match=r"singular at the fixed point.*add a penalty to the lower level"):
        bc.hypergradient(problem, "exact")
