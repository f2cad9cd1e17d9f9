"""The lasso by soft thresholding, as people write it: the map has kinks, and is symmetric at some w only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import boundcheck as bc

G = torch.Generator().manual_seed(3)
X = torch.randn(40, 6, generator=G, dtype=torch.float64) @ torch.diag(torch.tensor([3.0, 2, 1, 0.5, 0.3, 0.2]).double())
X = X @ torch.linalg.qr(torch.randn(6, 6, generator=G, dtype=torch.float64)).Q
y = X[:, 0] - 0.5 * X[:, 3] + 0.1 * torch.randn(40, generator=G, dtype=torch.float64)
STEP = 30 / float(torch.linalg.matrix_norm(X[:30], 2)) ** 2


def soft_thresholding(w: Tensor, lam: Tensor) -> Tensor:
    z = w - STEP * (X[:30].T @ (X[:30] @ w - y[:30])) / 30
    return torch.sign(z) * torch.relu(z.abs() - STEP * lam.exp())


def validation(w: Tensor, lam: Tensor) -> Tensor:
    return ((X[30:] @ w - y[30:]) ** 2).mean()


def lasso() -> bc.Problem:
    zeros = torch.zeros(6, dtype=torch.float64)
    return bc.Problem.from_map(soft_thresholding, validation, zeros, zeros - 3)


def by_active_set(w: Tensor, lam: Tensor) -> Tensor:
    """On its support S, w = (X_Sᵀ X_S)⁻¹(X_Sᵀ y − n e^λ sign w), so ∂w/∂λ_j = −n (X_Sᵀ X_S)⁻¹_j e^λ_j sign w_j."""
    S = w != 0
    A = X[:30][:, S]
    grad_w = (2 * X[30:].T @ (X[30:] @ w - y[30:]) / 10)[S]
    g = torch.zeros_like(lam)
    g[S] = -30 * torch.linalg.solve(A.T @ A, grad_w) * lam.exp()[S] * w[S].sign()
    return g


def test_to_a_tolerance_it_is_proved() -> None:
    """Conjugate gradient, which applies at the first w, took 100,000 steps at each of the next ones."""
    problem = lasso()
    g = bc.hypergradient(problem, rtol=0.01)
    assert g.how == "proved"
    assert g.descent is True
    assert g.products < 5000
    w = bc.hypergradient(problem, "exact").w
    assert 0 < int((w == 0).sum()) < 6
    truth = by_active_set(w, problem.lam)
    assert float((g.value - truth).norm()) <= g.error.upper <= 0.0101 * float(truth.norm())
    assert float((g.value - truth).norm()) >= g.error.lower


def test_an_enclosure_is_proved() -> None:
    enclosure = bc.enclose(lasso(), bc.hypergradient(lasso(), "itd", 400))
    assert enclosure.side is bc.Side.UPPER


@pytest.mark.parametrize("threshold", [-1e-3, 1e-3])
def test_a_negative_threshold_is_no_soft_threshold(threshold: float) -> None:
    """sign(z)·max(|z| − t, 0) jumps at 0 if t < 0, so nothing may be proved on a ball with a 0 of z."""

    def step(w: Tensor, lam: Tensor) -> Tensor:
        z = w / 4 + lam
        return torch.sign(z) * torch.relu(z.abs() - threshold)

    start = torch.full((2,), 0.5, dtype=torch.float64)
    lam = torch.tensor([-0.3, -0.01], dtype=torch.float64)
    problem = bc.Problem.from_map(step, lambda w, lam: (w**2).sum(), start, lam)
    q = bc.estimate_constants(problem, ball="paper", budget=20)["q"]
    assert (q.side is bc.Side.UPPER) is (threshold > 0)
