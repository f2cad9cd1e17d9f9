"""What every problem promises, run over every problem that is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small import NAMES, small
from torch import Tensor
from torch.utils._pytree import tree_flatten

from boundcheck.numerics.bilevel.derivatives import jacobian, rows, used
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves import lambda_products
from boundcheck.numerics.curves.batch import Batch
from boundcheck.numerics.curves.jacobian import Formula, as_columns, transposed
from boundcheck.numerics.solvers.reference import reference

EPS = torch.finfo(torch.float64).eps


@pytest.fixture(params=NAMES)
def problem(request: pytest.FixtureRequest) -> Problem:
    made = small(request.param)
    return made.at(made.sample(1, seed=11)[0])  # some start at a λ that hides things, such as 0


def points(problem: Problem, count: int = 3, scale: float = 0.3) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return problem.w0 + scale * torch.randn(count, problem.d, generator=generator, dtype=torch.float64)


def d1phi(problem: Problem, w: Tensor) -> Tensor:
    return jacobian(lambda x: problem.phi(x, problem.lam), w)


def test_the_solution_is_a_fixed_point(problem: Problem) -> None:
    w_star = reference(problem, problem.lam[None]).w[0]
    # Φ itself is computed with rounding of some tens of ε
    assert (problem.phi(w_star, problem.lam) - w_star).norm() <= 100 * EPS * max(1, float(w_star.norm()))
    if problem.solution is not None:
        closed = problem.solution(problem.prepare(problem.lam))
        assert (closed - w_star).norm() <= 1e-9 * w_star.norm()


def test_lam_is_drawn_from_the_seed_inside_the_domain(problem: Problem) -> None:
    drawn = problem.sample(4, seed=3)
    assert drawn.shape == (4, problem.n)
    assert torch.equal(drawn, problem.sample(4, seed=3))
    assert torch.equal(drawn[:2], problem.sample(2, seed=3))
    assert not torch.equal(drawn, problem.sample(4, seed=4))
    for lam in (*drawn, problem.lam):
        problem.checked(lam, "lam")


def test_a_seed_means_the_same_data(problem: Problem) -> None:
    w = points(problem, 1)[0]
    again, other = small(problem.name), small(problem.name, seed=1)
    assert torch.equal(again.phi(w, problem.lam), problem.phi(w, problem.lam))
    assert torch.equal(again.outer(w, problem.lam), problem.outer(w, problem.lam))
    if problem.name != "scalar":  # which has no data
        pairs = ((p.phi(w, problem.lam), p.outer(w, problem.lam)) for p in (other, problem))
        assert not all(torch.equal(a, b) for a, b in zip(*pairs, strict=True))


def test_derivatives_are_those_of_finite_differences(problem: Problem) -> None:
    """Through what was prepared, with the parts that are held fixed held fixed; then `prepare` itself."""
    prepared = Prepared(problem, problem.lam)
    leaves, w = prepared.leaves, points(problem, 1)[0].requires_grad_()
    tensors = tuple(leaf.clone().requires_grad_() for leaf in leaves.tensors)
    for function in (problem.phi_at, problem.outer_at):
        assert torch.autograd.gradcheck(
            lambda w, *tensors, f=function: f(w, leaves.ready(tensors)), (w, *tensors), fast_mode=True
        )

    def active(lam: Tensor) -> tuple[Tensor, ...]:
        flat = tree_flatten(problem.prepare(lam))[0]
        return tuple(flat[i] for i in leaves.active)

    assert torch.autograd.gradcheck(active, problem.lam.clone().requires_grad_(), fast_mode=True)


def test_phi_is_a_gradient_step_where_there_is_a_loss(problem: Problem) -> None:
    if problem.inner_at is None:
        pytest.skip("a fixed-point map without a loss")
    for w in points(problem):
        step = w - problem.phi(w, problem.lam)
        gradient = torch.func.grad(problem.inner)(w, problem.lam)
        alpha = step @ gradient / (gradient @ gradient)
        assert alpha > 0
        assert (step - alpha * gradient).norm() <= 1e-12 * (step.norm() + alpha * w.norm())


def test_declared_symmetry_is_true(problem: Problem) -> None:
    J = d1phi(problem, points(problem, 1)[0])
    skew = (J - J.T).norm() / J.norm()
    if problem.symmetric:
        assert skew <= 100 * EPS
    else:
        assert problem.symmetric is not None, "a built-in problem says what it is"
        assert skew > 1e-3


def test_declared_affinity_is_true(problem: Problem) -> None:
    one, other, _ = (d1phi(problem, w) for w in points(problem, 3, scale=2.0))
    assert bool(((one - other).norm() <= 1e-12 * one.norm()).item()) == problem.affine


def test_the_contraction_constant_bounds_the_jacobian(problem: Problem) -> None:
    if problem.contraction is None:
        pytest.skip("no contraction constant known")
    q = problem.contraction(problem.prepare(problem.lam))
    for w in points(problem, 5, scale=2.0):
        assert torch.linalg.matrix_norm(d1phi(problem, w), 2) <= q * (1 + 1e-12)


def test_the_curvature_encloses_the_hessian(problem: Problem) -> None:
    if problem.curvature is None:
        pytest.skip("no curvature known")
    found = problem.curvature(problem.prepare(problem.lam))
    for w in points(problem, 5):
        H = jacobian(lambda x: torch.func.grad(problem.inner)(x, problem.lam), w)
        eigenvalues = torch.linalg.eigvalsh((H + H.T) / 2)
        slack = 1e-10 * found.L
        assert found.mu <= eigenvalues[0] + slack
        assert eigenvalues[-1] <= found.L + slack


def test_rows_are_the_same_as_one_at_a_time(problem: Problem) -> None:
    lams, w = problem.sample(2, seed=5), points(problem, 6).reshape(2, 3, -1)
    ready = Prepared(problem, lams).ready
    for function, one in ((problem.phi_at, problem.phi), (problem.outer_at, problem.outer)):
        batched = rows(function)(w, ready)
        for i, lam in enumerate(lams):
            for j in range(3):
                expected = one(w[i, j], lam)
                assert (batched[i, j] - expected).norm() <= 1e-12 * (1 + expected.norm())


def test_dtype_follows(problem: Problem) -> None:
    single = small(problem.name, dtype=torch.float32)
    assert single.w0.dtype == single.lam.dtype == torch.float32
    w = points(problem, 1)[0]
    expected = problem.phi(w, problem.lam)
    assert (single.phi(w.float(), problem.lam.float()).double() - expected).norm() <= 1e-4 * (1 + expected.norm())
    assert single.sample(1, seed=0).dtype == torch.float32


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
@pytest.mark.parametrize("kappa", [3.0, 100.0, 5000.0])
def test_the_condition_number_can_be_dialled(name: str, kappa: float) -> None:
    problem = small(name, kappa=kappa)
    assert problem.curvature is not None
    found = problem.curvature(problem.prepare(problem.lam))
    assert float(found.L / found.mu) == pytest.approx(kappa, rel=1e-9)


@pytest.mark.parametrize("name", ["lr", "krr", "hr"])
def test_the_step_is_differentiated_on_request_only(name: str) -> None:
    """With α(λ) differentiated, ∂₂Φ gains −∇₁ℓ ∇αᵀ: seen by finite differences of Φ in λ."""
    fixed, moving = small(name), small(name, differentiate_step=True)
    w = points(fixed, 1)[0]
    v = torch.ones_like(w)

    def derivative(problem: Problem) -> Tensor:
        return torch.func.grad(lambda lam: v @ problem.phi(w, lam))(problem.lam)

    direction = torch.linspace(-1, 1, fixed.n, dtype=torch.float64)
    h = 1e-6 * float(fixed.lam.abs().min())
    up, down = (v @ fixed.phi(w, fixed.lam + sign * h * direction) for sign in (1, -1))
    numerical = (up - down) / (2 * h)
    assert float(derivative(moving) @ direction) == pytest.approx(float(numerical), rel=1e-5)
    assert abs(float((derivative(fixed) - derivative(moving)) @ direction)) > 1e-3 * abs(float(numerical))


def test_the_formula_for_products_is_the_derivative(problem: Problem) -> None:
    """At one point, and at rows of points for each of several λ, one vector or several at each."""
    if problem.d1phi_T_at is None:
        pytest.skip("products by autograd")
    v = points(problem, 2)
    w = points(problem, 1)[0]
    by_hand = problem.d1phi_T_at(w, problem.prepare(problem.lam))
    J = d1phi(problem, w)
    assert torch.allclose(by_hand(v[0]), J.T @ v[0], rtol=1e-12, atol=1e-14)
    prepared = Prepared(problem, problem.sample(2, seed=1))
    at = points(problem, 6).view(2, 3, -1)
    vectors = points(problem, 6, scale=1).view(2, 3, -1)
    batch, bare = (Batch(p, prepared, at) for p in (problem, replace(problem, d1phi_T_at=None)))
    for found, expected in (
        (batch.products(at), bare.products(at)),
        *zip(batch.products_along(at, 3), bare.products_along(at, 3), strict=True),
    ):
        assert isinstance(found, Formula)
        for v in (vectors, as_columns(vectors)):
            assert torch.allclose(found.d1_T(v), expected.d1_T(v), rtol=1e-12, atol=1e-14)
        right = expected.d1_T(vectors)
        v = as_columns(vectors)
        assert torch.allclose(transposed(found, v, torch.empty_like(v)), right, rtol=1e-12, atol=1e-14)
        assert torch.allclose(transposed(found, v, v), right, rtol=1e-12, atol=1e-14)


def test_the_formulas_for_derivatives_by_lam_are_the_derivatives(problem: Problem) -> None:
    """At rows of points of each of two λ, with several vectors at each."""
    if problem.d2phi_T_at is None and problem.d2outer_at is None:
        pytest.skip("derivatives by autograd")
    bare = replace(problem, d2phi_T_at=None, d2outer_at=None)
    prepared = Prepared(problem, problem.sample(2, seed=1))
    w, v = points(problem, 6).view(2, 3, -1), points(problem, 12, scale=1).view(2, 3, 2, -1)
    of_phi, of_outer = (used(prepared.leaves, rows(f), w) for f in (problem.phi_at, problem.outer_at))
    for by_formula, by_autograd in (
        (of(problem), of(bare))
        for of in (
            lambda p: lambda_products.d2phi_T_v(Batch(p, prepared, w), of_phi, w, v),
            lambda p: lambda_products.d2phi(Batch(p, prepared, w), of_phi, w),
            lambda p: lambda_products.d2outer(Batch(p, prepared, w), of_outer, w),
        )
    ):
        scale = float(by_autograd.abs().max())
        assert torch.allclose(by_formula, by_autograd, rtol=1e-11, atol=1e-13 * scale)
