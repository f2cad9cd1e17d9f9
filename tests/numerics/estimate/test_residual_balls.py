"""Residuals of a reference by arb balls: at least the truth of 50 digits, and next to it."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch import Tensor
from user_problems import PAIRS, convolution, ridge

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import residual_balls, residual_bounds, rounding_proof
from boundcheck.numerics.estimate.rounding_proof import EnclosedNorms, NoProof
from boundcheck.numerics.program import arb_numbers
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference

X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
y = X.sum(1).sign()
ALPHA = 0.1


def inner(w: Tensor, lam: Tensor) -> Tensor:
    return torch.nn.functional.softplus(-y * (X @ w)).sum() + (lam * w**2).sum() / 2


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return ((X @ w - y) ** 2).sum() / 2 + (lam * w).sum()


def logistic(dtype: torch.dtype = torch.float64) -> Problem:
    zeros = torch.zeros(3, dtype=dtype)
    return bc.Problem.from_loss(inner, outer, zeros, zeros + 0.7, ALPHA)


def solved(problem: Problem) -> ReferenceSolution:
    return reference(problem, problem.lam[None])


def exact(w: Tensor, v: Tensor, lam: Tensor, value: Tensor) -> EnclosedNorms:
    """The three residuals in the precision of mpmath."""
    w_, v_, lam_, g_ = (mpmath.matrix([mpmath.mpf(x) for x in t.tolist()]) for t in (w, v, lam, value))
    A = mpmath.matrix([[mpmath.mpf(x) for x in row] for row in X.tolist()])
    labels, alpha, d = [mpmath.mpf(x) for x in y.tolist()], mpmath.mpf(ALPHA), range(3)
    margins = A * w_
    s = [1 / (1 + mpmath.exp(b * m)) for b, m in zip(labels, margins, strict=True)]
    slope = [lam_[j] * w_[j] - mpmath.fsum(labels[i] * s[i] * A[i, j] for i in range(8)) for j in d]
    along = A * v_
    of_v = [lam_[j] * v_[j] + mpmath.fsum(s[i] * (1 - s[i]) * along[i] * A[i, j] for i in range(8)) for j in d]
    of_E = [mpmath.fsum((margins[i] - labels[i]) * A[i, j] for i in range(8)) + lam_[j] for j in d]
    residuals = (
        [alpha * slope[j] for j in d],
        [alpha * of_v[j] - of_E[j] for j in d],
        [g_[j] - w_[j] + alpha * w_[j] * v_[j] for j in d],
    )
    return EnclosedNorms(*(mpmath.norm(mpmath.matrix(r)) for r in residuals))


def test_residuals_are_those_of_fifty_digits() -> None:
    """Above the truth, by no more than the rounding of a float and of the balls."""
    problem = logistic()
    solution = solved(problem)
    w, v, value = solution.w[0], solution.v[0], solution.value[0]
    ours, old = residual_balls.proved(problem, w, v, value), rounding_proof.proved(problem, w, v, value)
    assert isinstance(ours, EnclosedNorms)
    assert isinstance(old, EnclosedNorms)
    with mpmath.workdps(50):
        truth = exact(w, v, problem.lam, value)
        for name in ("residual_w", "residual_v", "error_g"):
            assert getattr(truth, name) <= getattr(ours, name) <= getattr(truth, name) * (1 + 1e-12) + 1e-30
            assert getattr(ours, name) <= getattr(old, name)


@pytest.mark.parametrize("name", PAIRS)
def test_no_residual_is_wider_than_by_running_error_analysis(name: str) -> None:
    sizes = {"eqm": {"size": 3, "hidden": 2, "features": 2, "classes": 2}, "hr": {"size": 5, "features": 3}}
    problem = PAIRS[name](**sizes.get(name, {"size": 12, "features": 3})).user
    solution = solved(problem)
    point = solution.w[0], solution.v[0], solution.value[0]
    ours, old = residual_balls.proved(problem, *point), rounding_proof.proved(problem, *point)
    assert isinstance(ours, EnclosedNorms), ours
    if isinstance(old, NoProof):  # which has no rule for it
        assert name == "lr, bce"
        return
    assert ours.residual_w <= old.residual_w
    assert ours.residual_v <= old.residual_v
    assert ours.error_g <= old.error_g


def test_what_was_used_is_said() -> None:
    problem = ridge()
    assert residual_bounds.of(problem, solved(problem)).how == "arb balls"
    held = convolution()
    assert residual_bounds.of(held, solved(held)).how == "running error analysis"
    refused = residual_balls.proved(held, *(x[0] for x in _point(held)))
    assert isinstance(refused, NoProof)
    assert "aten.convolution has no rule for balls" in refused.reason


def _point(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    solution = solved(problem)
    return solution.w, solution.v, solution.value


def test_without_flint_all_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = logistic()
    solution = solved(problem)
    narrow = bc.enclose(problem, bc.hypergradient(problem, "itd", t=5))
    monkeypatch.setattr(arb_numbers, "flint", None)
    residual_bounds.of.cache_clear()
    found = residual_bounds.of(problem, solution)
    assert found.how == "running error analysis"
    assert not found.doubt
    wide = bc.enclose(problem, bc.hypergradient(problem, "itd", t=5))
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper
    residual_bounds.of.cache_clear()


def test_a_residual_is_not_forgotten() -> None:
    """At a point that is off by 10⁻³, the residual is as large as autograd says."""
    problem = logistic()
    solution = solved(problem)
    w, v = solution.w[0] + 1e-3, solution.v[0] - 2e-3
    found = residual_balls.proved(problem, w, v, solution.value[0])
    assert isinstance(found, EnclosedNorms)
    ready = problem.prepare(problem.lam)
    assert found.residual_w == pytest.approx(float((w - problem.phi_at(w, ready)).norm()), rel=1e-9)
    _, back = torch.func.vjp(lambda w: problem.phi_at(w, ready), w)
    gap = v - back(v)[0] - torch.func.grad(lambda w: problem.outer_at(w, ready))(w)
    assert found.residual_v == pytest.approx(float(gap.norm()), rel=1e-9)


def test_a_step_that_is_computed_is_a_ball() -> None:
    """α = (λ + 10⁶) − 10⁶ is 5·10⁻¹¹ too large; the residual covers both."""
    start = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, lam: ((w - 1) ** 2).sum() / 2 + lam.exp().sum() * w.sum(), lambda w, lam: (w**2).sum(), start,
        torch.tensor([0.3], dtype=torch.float64), lambda lam: (lam.sum() + 1e6) - 1e6,
    )  # fmt: skip
    w = start + 0.5
    found = residual_balls.proved(problem, w, start, torch.zeros(1, dtype=torch.float64))
    slope = abs(-0.5 + math.exp(0.3)) * 2**0.5
    assert isinstance(found, EnclosedNorms)
    assert 0.3 * slope < found.residual_w <= 0.3 * slope * (1 + 1e-6)
