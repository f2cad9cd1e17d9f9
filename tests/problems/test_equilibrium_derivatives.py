"""The derivatives of the equilibrium models, one at a time and in batches."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from equilibria import EPS, Make, fixed_point
from pieces import normal
from torch import Tensor
from torch.func import vjp, vmap

from boundcheck.numerics.bilevel.derivatives import Linearisation, jacobian, rows
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import conv_equilibrium


def test_derivatives_by_finite_differences(tiny: Problem) -> None:
    w, lam = normal(tiny.d).requires_grad_(), tiny.lam.clone().requires_grad_()
    assert torch.autograd.gradcheck(tiny.phi, (w, lam))
    assert torch.autograd.gradcheck(tiny.outer, (w, lam))
    assert torch.autograd.gradgradcheck(tiny.phi, (w, lam), fast_mode=True)
    assert torch.autograd.gradgradcheck(tiny.outer, (w, lam), fast_mode=True)


def test_hypergradient_by_finite_differences(tiny: Problem) -> None:
    """∇f = ∇₂E + ∂₂Φᵀ(I − ∂₁Φᵀ)⁻¹∇₁E against central differences of f(λ) = E(w(λ), λ), of error O(1e-10)."""
    lam, w = tiny.lam, fixed_point(tiny, tiny.lam)
    Y = jacobian(lambda w: tiny.phi(w, lam), w)
    grad_w, grad_lam = vjp(tiny.outer, w, lam)[1](torch.ones((), dtype=w.dtype))
    v = torch.linalg.solve(torch.eye(tiny.d, dtype=w.dtype) - Y.T, grad_w)
    gradient = grad_lam + vjp(lambda lam: tiny.phi(w, lam), lam)[1](v)[0]

    def f(lam: Tensor) -> Tensor:
        return tiny.outer(fixed_point(tiny, lam), lam)

    for seed in range(3):
        step = 1e-5 * normal(tiny.n, seed=seed)
        assert float(f(lam + step) - f(lam - step)) / 2e-5 == pytest.approx(float(gradient @ step) / 1e-5, abs=1e-8)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own, inside jvp
def test_forward_products(make: Make) -> None:
    problem = make()
    ready = problem.prepare(problem.lam)
    w, u, v = normal(3, problem.d)
    at = Linearisation(problem.phi_at, w, ready)
    _, forward = torch.func.jvp(lambda w: problem.phi_at(w, ready), (w,), (u,))
    torch.testing.assert_close(at.d1(u), forward, rtol=EPS, atol=EPS)
    assert float(v @ at.d1(u)) == pytest.approx(float(at.d1_T(v) @ u), rel=1e-10)


def test_ties_of_equal_states_do_not_matter(digits: SimpleNamespace) -> None:
    """On a black image max-pooling meets nothing but ties: ∇₁E is a matter of convention, the hypergradient is not.

    The problem gives the derivative to the first of equal entries, `amax` gives equal shares.
    """
    digits.train_images[:] = 0
    problem = conv_equilibrium(mnist=True, size=1, hidden=2)
    lam = problem.lam.clone().requires_grad_()
    ready, w = problem.prepare(lam), problem.w0
    for _ in range(30):
        w = problem.phi_at(w, ready)
    logits = w.reshape(2, 7, 2, 7, 2).amax((2, 4)).reshape(1, -1) @ ready.theta.T + ready.b
    label = int(torch.func.grad(lambda b: problem.outer_at(w, ready._replace(b=b)))(ready.b).argmin())
    shared = torch.logsumexp(logits, -1)[0] - logits[0, label]
    first = problem.outer_at(w, ready)
    by_first, by_share = (torch.autograd.grad(E, (w, lam), retain_graph=True) for E in (first, shared))
    torch.testing.assert_close(first, shared, rtol=EPS, atol=0)
    assert (by_first[0] - by_share[0]).norm() > 0.1 * by_first[0].norm()
    torch.testing.assert_close(by_first[1], by_share[1], rtol=EPS, atol=EPS)


def test_batches_are_the_loop(make: Make) -> None:
    problem = make()
    lams, w, v = problem.sample(2, seed=5), normal(2, 3, problem.d), normal(2, 3, problem.d, seed=1)
    ready = vmap(problem.prepare)(lams)

    def loop(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        return torch.stack([torch.stack([function(w[i, j], lams[i], v[i, j]) for j in range(3)]) for i in range(2)])

    def close(got: Tensor, function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        torch.testing.assert_close(got, loop(function), rtol=EPS, atol=EPS)

    def pulled(w: Tensor, lam: Tensor, v: Tensor) -> Tensor:
        """∂₂Φᵀ v."""
        result: Tensor = vjp(lambda lam: problem.phi(w, lam), lam)[1](v)[0]
        return result

    close(rows(problem.phi_at)(w, ready), lambda w, lam, v: problem.phi(w, lam))
    close(rows(problem.outer_at)(w, ready), lambda w, lam, v: problem.outer(w, lam))
    close(vmap(vmap(pulled, in_dims=(0, None, 0)))(w, lams, v), pulled)
    batch = Linearisation(rows(problem.phi_at), w, ready)
    close(batch.d1_T(v), lambda w, lam, v: Linearisation(problem.phi, w, lam).d1_T(v))
    close(batch.d1(v), lambda w, lam, v: Linearisation(problem.phi, w, lam).d1(v))
    slopes = Linearisation(rows(problem.outer_at), w, ready).d1_T(torch.ones(2, 3, dtype=w.dtype))
    close(slopes, lambda w, lam, v: Linearisation(problem.outer, w, lam).d1_T(torch.ones((), dtype=w.dtype)))
    torch.testing.assert_close(
        vmap(problem.contraction)(ready),
        torch.stack([problem.contraction(problem.prepare(lam)) for lam in lams]),
        rtol=EPS,
        atol=0,
    )
