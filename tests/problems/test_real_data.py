"""The three problems of section 4.2 on the real data where present, and what is said where not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from on_disk import needs
from pieces import normal
from torch.func import grad

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import fashion_mnist, newsgroups, parkinson
from boundcheck.problems.fashion_mnist import load as load_fashion
from boundcheck.problems.parkinson import load as load_parkinson


@pytest.mark.parametrize("make", [parkinson, newsgroups, fashion_mnist])
def test_without_data(make: Callable[..., Problem], empty: Path) -> None:
    with pytest.raises(InputError, match="not found: put the file"):
        make(download=False)


@needs("parkinsons/")
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


@needs("sklearn_home/")
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


@needs("fashion-mnist/")
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
