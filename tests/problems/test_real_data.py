"""The three problems of section 4.2: the paper's formulas, finite differences, and the real data where present."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from boundcheck import data, files, problems, products
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.problem import Problem
from boundcheck.problems import fashion_mnist, newsgroups, parkinson
from boundcheck.problems.fashion_mnist import load as load_fashion
from boundcheck.problems.newsgroups import inverse_frequencies
from boundcheck.problems.newsgroups import load as load_newsgroups
from boundcheck.problems.parkinson import load as load_parkinson

GIVEN = os.environ.get("BOUNDCHECK_DATA", "")
MAKES: dict[str, Callable[..., Problem]] = {
    "parkinson": lambda **options: parkinson(synthetic=True, **{"size": 6, "features": 3, **options}),
    "newsgroups": lambda **options: newsgroups(synthetic=True, **{"size": 7, "features": 9, "classes": 3, **options}),
    "fashion-mnist": lambda **options: fashion_mnist(
        synthetic=True, **{"validation_size": 8, "features": 4, "classes": 3, **options}
    ),
}
each = pytest.mark.parametrize("name", MAKES)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """On matrices this small, threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def needs(folder: str) -> pytest.MarkDecorator:
    names = [name for name in files.SHA256 if name.startswith(f"{folder}/")]
    there = bool(GIVEN) and all((Path(GIVEN) / name).is_file() for name in names)
    return pytest.mark.skipif(not there, reason=f"BOUNDCHECK_DATA lacks {folder}")


def normal(size: int, dtype: torch.dtype = torch.float64, seed: int = 5) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def point(problem: Problem) -> tuple[Tensor, Tensor]:
    """A w, and a λ that is not the start, where λ = 0 would hide terms."""
    return normal(problem.d, problem.dtype), problem.lam + 0.3 * normal(problem.n, problem.dtype, seed=6)


def step_of(problem: Problem, ready: Any) -> Any:
    """α, out of Φ = w − α∇₁ℓ in the direction of ∇₁ℓ."""
    w = normal(problem.d, problem.dtype, seed=7)
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
        found = products.rows(function)(w, ready)
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
            H = products.jacobian(lambda w, ready=ready: grad(problem.inner_at)(w, ready), w)
            eigenvalues = torch.linalg.eigvalsh((H + H.T) / 2)
            rounding = 1e-13 * float(found.L)
            assert float(found.mu) - rounding <= float(eigenvalues[0])
            assert float(eigenvalues[-1]) <= float(found.L) + rounding
            J = products.jacobian(lambda w, ready=ready: problem.phi_at(w, ready), w)
            torch.testing.assert_close(J, J.T, rtol=0, atol=1e-13)
            assert float(torch.linalg.matrix_norm(J, ord=2)) <= float(q) + 1e-13
        if name == "parkinson":
            assert float(eigenvalues[0]) == pytest.approx(float(found.mu), rel=1e-12)
            assert float(eigenvalues[-1]) == pytest.approx(float(found.L), rel=1e-12)


def test_newsgroups_is_the_papers_formula() -> None:
    sizes = {"size": 7, "features": 9, "classes": 3}
    problem, parts = MAKES["newsgroups"](), load_newsgroups(synthetic=True, **sizes)
    w, lam = point(problem)
    W = w.reshape(9, 3)
    X, X_val = (matrix.X.to_dense() for matrix in (parts.X, parts.X_val))
    penalty = sum(math.exp(lam[j]) * float(W[j, i]) ** 2 for i in range(3) for j in range(9)) / (2 * 3 * 9)
    inner = float(cross_entropy(X @ W, parts.Y.argmax(1))) + penalty
    assert float(problem.inner(w, lam)) == pytest.approx(inner, rel=1e-13)
    assert float(problem.outer(w, lam)) == pytest.approx(
        float(cross_entropy(X_val @ W, parts.Y_val.argmax(1))), rel=1e-13
    )
    assert float(torch.linalg.matrix_norm(X, ord=2)) ** 2 <= parts.squared_norm
    assert not torch.equal(X, X_val)


def test_fashion_is_the_papers_formula() -> None:
    problem = MAKES["fashion-mnist"](beta=2.5)
    parts = load_fashion(synthetic=True, validation_size=8, features=4, classes=3)
    w, lam = point(problem)
    W, X = w.reshape(4, 3), lam.reshape(3, 4)
    inner = float(cross_entropy(X @ W, torch.arange(3))) + 2.5 / (2 * 3 * 4) * float(w.norm()) ** 2
    assert float(problem.inner(w, lam)) == pytest.approx(inner, rel=1e-13)
    outer = float(cross_entropy(parts.X_val @ W, parts.Y_val.argmax(1)))
    assert float(problem.outer(w, lam)) == pytest.approx(outer, rel=1e-13)


def test_parkinson_is_the_papers_formula() -> None:
    problem, parts = MAKES["parkinson"](), load_parkinson(synthetic=True, size=6, features=3)
    w, lam = point(problem)

    def kernel(A: Tensor) -> Tensor:
        scaled = (A[:, None] - parts.X[None]) ** 2 * lam[1:].exp()
        return torch.exp(-scaled.sum(-1))

    H = kernel(parts.X) + math.exp(lam[0]) * torch.eye(6, dtype=torch.float64)
    assert float(problem.inner(w, lam)) == pytest.approx(float(w @ H @ w / 2 - w @ parts.y), rel=1e-12)
    outer = float((parts.y_val - kernel(parts.X_val) @ w).norm()) ** 2 / 2
    assert float(problem.outer(w, lam)) == pytest.approx(outer, rel=1e-12)
    w_star = problem.solution(problem.prepare(lam))  # type: ignore[misc]
    torch.testing.assert_close(H @ w_star, parts.y, rtol=0, atol=1e-13)
    torch.testing.assert_close(problem.lam, torch.tensor([0.0] + 3 * [-math.log(3)], dtype=torch.float64))
    assert set(parts.y.tolist()) <= {0.0, 1.0}


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


def test_inverse_frequencies_are_those_of_scikit_learn() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    rng = np.random.default_rng(0)
    counts = scipy.sparse.csr_matrix(rng.poisson(0.4, (30, 12)).astype(np.float64))
    expected = text.TfidfTransformer().fit_transform(counts).toarray()
    for features in (counts, data.unit_rows(counts)):  # the scale of a row does not matter
        np.testing.assert_allclose(inverse_frequencies(features).toarray(), expected, rtol=1e-13)
    plain, weighted = (load_newsgroups(synthetic=True, tfidf=t).X.X.to_dense() for t in (False, True))
    assert torch.equal(plain > 0, weighted > 0)
    assert not torch.allclose(plain, weighted, rtol=1e-2)


def test_standardised_by_the_training_part() -> None:
    parts = load_parkinson(synthetic=True, standardise=True)
    torch.testing.assert_close(parts.X.mean(0), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-14)
    torch.testing.assert_close(parts.X.std(0, correction=0), torch.ones(5, dtype=torch.float64))
    assert float(parts.X_val.mean(0).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (newsgroups, {"size": 5}, "size = 5 without synthetic=True; the data fix it"),
        (newsgroups, {"synthetic": True, "classes": 1}, "classes = 1 is too small for a problem"),
        (newsgroups, {"synthetic": True, "step_size": 0.0}, "step_size = 0.0 is no step"),
        (newsgroups, {"synthetic": True, "momentum": 0.9}, "momentum = 0.9 with gradient-descent, which has none"),
        (newsgroups, {"synthetic": True, "dynamics": "heavy-ball", "momentum": 1.0}, "beta = 1.0 is no momentum"),
        (fashion_mnist, {"classes": 5}, "classes = 5 without synthetic=True; the data fix it"),
        (fashion_mnist, {"synthetic": True, "beta": 0.0}, "beta = 0.0 is no penalty"),
        (fashion_mnist, {"synthetic": True, "step_size": float("nan")}, "step_size = nan is no step"),
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


@pytest.mark.parametrize("make", [parkinson, newsgroups, fashion_mnist])
def test_without_data(make: Callable[..., Problem], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOUNDCHECK_DATA", str(tmp_path))
    monkeypatch.setattr(files, "user_cache", lambda: tmp_path / "cache")
    with pytest.raises(InputError, match="not found: put the file"):
        make(download=False)


@needs("parkinsons")
def test_real_parkinson() -> None:
    problem, parts = parkinson(), load_parkinson()
    assert (problem.d, problem.n) == (65, 23)
    assert [len(x) for x in (parts.y, parts.y_val, parts.y_test)] == [65, 65, 65]
    assert float(sum(y.sum() for y in (parts.y, parts.y_val, parts.y_test))) == 147
    assert problem.lam[0] == 0
    assert float(problem.lam[1:].exp().sum()) == pytest.approx(1, rel=1e-13)
    assert problem.solution is not None
    for lam in (problem.lam, *problem.sample(2)):
        ready = problem.prepare(lam)
        w = problem.solution(ready)
        kappa = float(ready.steps.L / ready.steps.mu)
        assert float((problem.phi_at(w, ready) - w).norm()) <= 100 * kappa * 2.0**-52 * float(w.norm())
        z = problem.dynamics.start(problem.w0)
        for _ in range(200):
            z = problem.psi_at(z, ready)
        torch.testing.assert_close(problem.dynamics.iterate(z), w, rtol=0, atol=1e-12)


@needs("sklearn_home")
def test_real_newsgroups() -> None:
    pytest.importorskip("sklearn")
    problem = newsgroups(dtype=torch.float32)
    assert (problem.d, problem.n) == (20 * 101631, 101631)
    ready = problem.prepare(problem.lam)
    assert float(problem.inner_at(problem.w0, ready)) == pytest.approx(math.log(20), rel=1e-5)
    w = problem.phi_at(problem.w0, ready)
    expected = problem.w0 - 1e3 * grad(problem.inner_at)(problem.w0, ready)
    torch.testing.assert_close(w, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert problem.curvature is not None
    assert float(problem.curvature(ready).mu) == pytest.approx(1 / (20 * 101631), rel=1e-6)
    assert 0.1 < float(problem.curvature(ready).L) < 0.2


@needs("fashion-mnist")
def test_real_fashion() -> None:
    problem = fashion_mnist(validation_size=300)
    parts = load_fashion(validation_size=300)
    assert (problem.d, problem.n) == (7840, 7840)
    assert parts.X_val.shape == (300, 784)
    assert parts.X_test.shape == (10000, 784)
    assert 0 == float(parts.X_val.min()) < float(parts.X_val.max()) == 1
    ready = problem.prepare(problem.lam)
    torch.testing.assert_close(problem.phi_at(problem.w0, ready), problem.w0, rtol=0, atol=0)  # W(0) = 0
    assert float(problem.outer_at(problem.w0, ready)) == pytest.approx(math.log(10), rel=1e-12)
    w = normal(problem.d)
    torch.testing.assert_close(problem.phi_at(w, ready), (1 - 1e4 / 7840) * w, rtol=1e-12, atol=0)
    assert problem.contraction is not None
    assert float(problem.contraction(problem.prepare(problem.sample(1)[0]))) < 1
    with pytest.raises(InputError, match="validation_size = 60001; give a whole number from 1 to 60000"):
        fashion_mnist(validation_size=60001)
