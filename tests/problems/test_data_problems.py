"""The three problems of section 4.2: steps, derivatives, constants and refusals, on synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from data_problems import MAKES, each, point
from pieces import normal
from torch import Tensor
from torch.func import grad, vmap

from boundcheck import problems
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel import derivatives
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.problems import fashion_mnist, newsgroups, parkinson
from boundcheck.problems.parts.newsgroups_documents import load_documents as newsgroups_parts


def step_of(problem: Problem, ready: Any) -> Any:
    """α, out of Φ = w − α∇₁ℓ in the direction of ∇₁ℓ."""
    w = normal(problem.d, dtype=problem.dtype, seed=7)
    gradient = grad(problem.inner_at)(w, ready)
    return (w - problem.phi_at(w, ready)) @ gradient / (gradient @ gradient)


@each
def test_in_the_catalogue(name: str) -> None:
    assert problems.CATALOGUE[name].title
    assert MAKES[name]().name == name


@each
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_phi_is_a_gradient_step(name: str, dtype: torch.dtype) -> None:
    problem = MAKES[name](dtype=dtype)
    w, lam = point(problem)
    ready = problem.prepare(lam)
    alpha = step_of(problem, ready)
    expected = w - alpha * grad(problem.inner_at)(w, ready)
    phi = problem.phi(w, lam)
    assert phi.dtype == w.dtype == dtype
    # some ten products of ten terms each on the way
    tolerance = 100 * torch.finfo(dtype).eps * float(expected.abs().max())
    torch.testing.assert_close(phi, expected, rtol=0, atol=tolerance)


def test_step_sizes() -> None:
    for name in ("newsgroups", "fashion-mnist"):
        problem = MAKES[name](step_size=0.7)
        assert float(step_of(problem, problem.prepare(problem.lam))) == pytest.approx(0.7, rel=1e-12)
    problem = MAKES["fashion-mnist"]()
    found = problem.curvature(problem.prepare(problem.lam))  # type: ignore[misc]
    alpha = step_of(problem, problem.prepare(point(problem)[1]))
    assert float(alpha * found.mu) == pytest.approx(1e4 / 7840, rel=1e-12)  # as in the paper


@each
def test_derivatives_against_finite_differences(name: str) -> None:
    options = {"differentiate_step": True} if name == "parkinson" else {}
    problem = MAKES[name](**options)
    w, lam = (x.requires_grad_() for x in point(problem))
    assert torch.autograd.gradcheck(problem.phi, (w, lam))
    assert torch.autograd.gradcheck(problem.outer, (w, lam))
    assert torch.autograd.gradcheck(problem.inner, (w, lam))
    assert torch.autograd.gradgradcheck(problem.outer, (w, lam))


def test_step_is_held_fixed_unless_asked() -> None:
    fixed, free = (MAKES["parkinson"](differentiate_step=d) for d in (False, True))
    w, lam = point(fixed)
    alpha = fixed.prepare(lam).steps.alpha
    v = normal(fixed.d, seed=8)

    def frozen(lam: Tensor) -> Tensor:
        return v @ (w - alpha * (fixed.prepare(lam).H @ w))

    held, moving = (grad(lambda lam, p=p: v @ p.phi(w, lam))(lam) for p in (fixed, free))
    torch.testing.assert_close(held, grad(frozen)(lam), rtol=1e-12, atol=1e-14)
    assert float((held - moving).norm() / held.norm()) > 1e-3


@each
def test_batches_of_points_and_lambdas(name: str) -> None:
    problem = MAKES[name]()
    lams = torch.stack([point(problem)[1], problem.lam, problem.sample(1, seed=3)[0]])
    w = normal(3 * 2 * problem.d).reshape(3, 2, problem.d)
    ready = vmap(problem.prepare)(lams)
    for function, plain in ((problem.phi_at, problem.phi), (problem.outer_at, problem.outer)):
        found = derivatives.rows(function)(w, ready)
        expected = torch.stack([torch.stack([plain(w[i, j], lams[i]) for j in range(2)]) for i in range(3)])
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@each
def test_curvature_and_contraction_hold(name: str) -> None:
    problem = MAKES[name]()
    assert problem.curvature is not None
    assert problem.contraction is not None
    for lam in (problem.lam, *problem.sample(3)):
        ready = problem.prepare(lam)
        found, q = problem.curvature(ready), problem.contraction(ready)
        assert float(q) < 1
        for seed, scale in ((1, 0.0), (2, 1.0), (3, 10.0)):
            w = scale * normal(problem.d, seed=seed)
            H = derivatives.jacobian(lambda w, ready=ready: grad(problem.inner_at)(w, ready), w)
            eigenvalues = torch.linalg.eigvalsh((H + H.T) / 2)
            rounding = 1e-13 * float(found.L)
            assert float(found.mu) - rounding <= float(eigenvalues[0])
            assert float(eigenvalues[-1]) <= float(found.L) + rounding
            J = derivatives.jacobian(lambda w, ready=ready: problem.phi_at(w, ready), w)
            torch.testing.assert_close(J, J.T, rtol=0, atol=1e-13)
            assert float(torch.linalg.matrix_norm(J, ord=2)) <= float(q) + 1e-13
        if name == "parkinson":
            assert float(eigenvalues[0]) == pytest.approx(float(found.mu), rel=1e-12)
            assert float(eigenvalues[-1]) == pytest.approx(float(found.L), rel=1e-12)


@each
def test_contraction_is_what_the_iterates_do(name: str) -> None:
    problem = MAKES[name](dynamics="gradient-descent")
    ready = problem.prepare(problem.sample(1)[0])
    assert problem.contraction is not None
    q, w = float(problem.contraction(ready)), problem.w0
    residuals = []
    for _ in range(30):
        after = problem.psi_at(w, ready)
        residuals.append(float((after - w).norm()))
        w = after
    for t, residual in enumerate(residuals):
        assert residual <= q**t * residuals[0] * (1 + 1e-12) + 1e-15 * float(w.norm())


@pytest.mark.parametrize("dynamics", ["heavy-ball", "nesterov"])
@pytest.mark.parametrize("name", ["newsgroups", "fashion-mnist"])
def test_constant_momentum(name: str, dynamics: str) -> None:
    problem = MAKES[name](dynamics=dynamics, momentum=0.3)
    ready = problem.prepare(point(problem)[1])
    w, before = normal(problem.d, seed=1), normal(problem.d, seed=2)
    y = w + 0.3 * (w - before)
    expected = problem.phi_at(w, ready) + 0.3 * (w - before) if dynamics == "heavy-ball" else problem.phi_at(y, ready)
    z = problem.psi_at(torch.cat((w, before)), ready)
    torch.testing.assert_close(z, torch.cat((expected, w)), rtol=0, atol=1e-13 * float(expected.abs().max()))


@each
def test_a_seed_means_the_same_problem_in_every_dtype(name: str) -> None:
    double, single, other = (MAKES[name](), MAKES[name](dtype=torch.float32), MAKES[name](seed=1))
    w, lam = point(double)
    value = float(double.outer(w, lam))
    assert float(single.outer(w.float(), lam.float())) == pytest.approx(value, rel=1e-5)
    assert float(MAKES[name]().outer(w, lam)) == value
    assert float(other.outer(w, lam)) != pytest.approx(value, rel=1e-3)
    assert single.sample(2).dtype == torch.float32
    torch.testing.assert_close(double.sample(2, seed=9), double.sample(2, seed=9), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (newsgroups, {"size": 5}, "size = 5 without synthetic=True; the data fix it"),
        (newsgroups, {"synthetic": True, "classes": 1}, "classes = 1 is too small for a problem"),
        (newsgroups, {"synthetic": True, "step_size": 0.0}, "step_size = 0.0 is not a step"),
        (newsgroups, {"synthetic": True, "momentum": 0.9}, "momentum = 0.9 with gradient-descent, which has none"),
        (newsgroups, {"synthetic": True, "dynamics": "heavy-ball", "momentum": 1.0}, "beta = 1.0 is not momentum"),
        (fashion_mnist, {"classes": 5}, "classes = 5 without synthetic=True; the data fix it"),
        (fashion_mnist, {"synthetic": True, "beta": 0.0}, "beta = 0.0 is not a penalty"),
        (fashion_mnist, {"synthetic": True, "step_size": float("nan")}, "step_size = nan is not a step"),
        (parkinson, {"features": 4}, "features = 4 without synthetic=True; the data fix it"),
    ],
)
def test_bad_arguments_are_named(make: Callable[..., Problem], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**options)


@each
def test_unknown_dynamics(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown dynamics 'heavy'; did you mean heavy-ball"):
        MAKES[name](dynamics="heavy")


def test_words_of_no_training_document_can_be_left_out() -> None:
    given = {"synthetic": True, "size": 8, "features": 60, "classes": 3}
    whole, parts = newsgroups(**given), newsgroups_parts(**given)
    fewer = newsgroups(used_words=True, step_size=float(step_of(whole, whole.prepare(whole.lam))), **given)
    documents = (parts.X @ torch.eye(60, dtype=torch.float64) != 0).sum(0)  # with each word
    kept = documents.argsort(descending=True, stable=True)[: int((documents > 0).sum())]
    assert 3 < len(kept) < 57
    assert fewer.d == 3 * len(kept)
    left_out = documents == 0
    lam = whole.sample(1, 3)[0]
    ours, theirs = (
        hypergradient(problem, "itd", 20, lam=at).value for problem, at in ((fewer, lam[kept]), (whole, lam))
    )
    torch.testing.assert_close(ours, theirs[kept])
    assert float(theirs[left_out].abs().max()) == 0
    assert float(theirs[kept].abs().min()) > 0
