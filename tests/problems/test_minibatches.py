"""Built-in problems as finite sums: unbiased, with curvatures of single examples, and quick on sparse rows."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.sparse
import torch
from small import small
from torch import Tensor

import boundcheck as bc
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems.loading import load_asked
from boundcheck.problems.parts.sparse_rows import SparseRows

OPTIONS: dict[str, tuple[str, dict[str, Any], bool]] = {  # is ∂₂Φ the same on every minibatch?
    "lr": ("lr", {}, True),
    "lr, differentiated step": ("lr", {"differentiate_step": True}, False),
    "lr, kappa": ("lr", {"kappa": 20.0}, True),
    "newsgroups": ("newsgroups", {}, True),
    "fashion-mnist": ("fashion-mnist", {}, False),
}
EVERY = pytest.mark.parametrize("name", OPTIONS)


def finite(name: str, batch: int = 2, **more: Any) -> Problem:
    base, options, _ = OPTIONS[name]
    problem = small(base, batch=batch, **options, **more)
    return problem.at(problem.sample(1, seed=5)[0])


def point(problem: Problem) -> Tensor:
    return problem.w0 + torch.linspace(-0.6, 0.5, problem.d, dtype=torch.float64)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@EVERY
def test_a_minibatch_is_unbiased(name: str) -> None:
    """Φ, ∂₁Φ and ∂₂Φ are the means over single examples, taken one by one or in one batch of runs."""
    problem = finite(name)
    sums, w, ready = problem.finite_sum, point(problem), problem.prepare(problem.lam)
    each = torch.arange(sums.examples)[:, None]
    phi = torch.stack([sums.phi_on(w, ready, i) for i in each])
    close(phi.mean(0), problem.phi_at(w, ready))
    close(sums.phi_on(w, ready, torch.tensor([2, 0, 2])), (2 * phi[2] + phi[0]) / 3)
    by_w = torch.func.vmap(torch.func.jacrev(sums.phi_on), (None, None, 0))(w, ready, each)
    close(by_w.mean(0), torch.func.jacrev(problem.phi_at)(w, ready))

    def by_lam(at: Any) -> Tensor:
        return torch.func.jacrev(lambda lam: at(w, problem.prepare(lam)))(problem.lam)

    alone = torch.stack([by_lam(lambda w, ready, i=i: sums.phi_on(w, ready, i)) for i in each])
    close(alone.mean(0), by_lam(problem.phi_at))
    apart = OPTIONS[name][2]
    assert sums.lam_apart is apart
    assert torch.allclose(alone[0], alone[1], rtol=1e-11, atol=1e-12) is apart


@EVERY
def test_the_loss_on_a_minibatch_is_that_of_its_step(name: str) -> None:
    problem = finite(name)
    sums, w, ready = problem.finite_sum, point(problem), problem.prepare(problem.lam)
    some = torch.tensor([1, 2])
    slope = torch.func.grad(sums.inner_on)(w, ready, some)
    whole = torch.func.grad(problem.inner_at)(w, ready)
    alpha = (w - problem.phi_at(w, ready)) @ whole / (whole @ whole)
    close(w - alpha * slope, sums.phi_on(w, ready, some))


@EVERY
def test_many_runs_at_once(name: str) -> None:
    """Every run has its own w and its own minibatch."""
    problem = finite(name, replacement=False)
    sums, ready = problem.finite_sum, problem.prepare(problem.lam)
    indices = sums.draw(torch.Generator().manual_seed(1), 4, problem.device)
    W = torch.randn(4, problem.d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    together = torch.func.vmap(sums.phi_on, (0, None, 0))(W, ready, indices)
    close(together, torch.stack([sums.phi_on(w, ready, i) for w, i in zip(W, indices, strict=True)]))


@EVERY
@pytest.mark.parametrize("radius", [0.0, 0.1])
def test_slopes_enclose_the_curvature_of_each_example(name: str, radius: float) -> None:
    problem = finite(name)
    sums, centre, ready = problem.finite_sum, point(problem), problem.prepare(problem.lam)
    least, largest = sums.slopes(ready, centre, radius).T
    generator = torch.Generator().manual_seed(3)
    each = torch.arange(sums.examples)[:, None]
    for _ in range(4 if radius else 1):
        direction = torch.randn(problem.d, generator=generator, dtype=torch.float64)
        w = centre + radius * direction / direction.norm()
        H = torch.func.vmap(torch.func.hessian(sums.inner_on), (None, None, 0))(w, ready, each)
        values = torch.linalg.eigvalsh(H)
        assert bool((values[:, 0] >= least - 1e-10).all())
        assert bool((values[:, -1] <= largest + 1e-10).all())
        assert bool((largest <= 3 * values[:, -1]).all())  # and not by far


def test_products_with_rows_of_a_sparse_matrix() -> None:
    """In both directions, with a row that comes twice and one without entries, and every derivative of them."""
    dense = scipy.sparse.random(6, 5, 0.4, format="lil", random_state=0)
    dense[3] = 0
    matrix = bc.SparseMatrix.from_scipy(dense, dtype=torch.float64)
    rows = torch.tensor([[4, 3, 4], [0, 1, 5]])
    full = torch.from_numpy(dense.toarray())
    W, R = (
        torch.randn(2, *shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        for shape in ((5, 2), (3, 2))
    )
    forth = lambda W, rows: SparseRows(matrix, rows).matmul(W)  # noqa: E731
    back = lambda R, rows: SparseRows(matrix, rows).transposed_matmul(R)  # noqa: E731
    close(torch.func.vmap(forth)(W, rows), full[rows] @ W)
    close(torch.func.vmap(back)(R, rows), full[rows].mT @ R)
    close(torch.func.vmap(forth, (None, 0))(W[0], rows), full[rows] @ W[0])
    close(torch.func.vmap(torch.func.vmap(forth, (0, None)), (None, 0))(W, rows), (full[rows][:, None] @ W))
    for function, V in ((forth, W[0]), (back, R[0])):
        assert torch.autograd.gradcheck(lambda V, f=function: f(V, rows[0]), V.clone().requires_grad_(), fast_mode=True)
        assert torch.autograd.gradgradcheck(
            lambda V, f=function: f(V, rows[0]) ** 2, V.clone().requires_grad_(), fast_mode=True
        )
        product, tangent = torch.func.jvp(lambda V, f=function: f(V, rows[0]), (V,), (V,))
        close(product, tangent)


def test_minibatches_are_an_option() -> None:
    assert bc.problems.logistic_regression(size=9, features=3).finite_sum is None
    problem = load_asked("lr", 3, ["batch=4", "replacement=false", "size=9", "features=3"])
    assert (problem.finite_sum.batch, problem.finite_sum.replacement, problem.seed) == (4, False, 3)
    single = bc.load_problem("lr", size=9, features=3, batch=4).with_batch(2, replacement=False).in_dtype(torch.float32)
    assert (single.finite_sum.batch, single.finite_sum.replacement, single.dtype) == (2, False, torch.float32)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 0}, "batch = 0 is not a number of examples"),
        ({"batch": 20, "replacement": False}, "batch = 20 > 12 examples"),
        ({"replacement": False}, "replacement = False without minibatches"),
    ],
)
def test_bad_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        small("lr", **options)
