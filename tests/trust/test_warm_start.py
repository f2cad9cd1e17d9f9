"""What a warm start is worth: ‖w'‖ at one λ, or at both ends, says nothing of how far w(λ) moves between them."""

from __future__ import annotations

import pytest
import sympy as sp
import torch
from torch import Tensor

import boundcheck as bc

Q, T = 0.5, 3


def stair() -> bc.Problem:
    """Φ = qw + (1−q)h(λ), h = λ²(3−2λ) + λ/50: w = h has w' = 1/50 at 0 and at 1, and moves by 1.02 between them.

    Without λ/50 it would be 0 at both ends, which finite differences cannot confirm.
    """

    def fp_map(w: Tensor, lam: Tensor) -> Tensor:
        return Q * w + (1 - Q) * (lam**2 * (3 - 2 * lam) + lam / 50)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return (w**2).sum() / 2 + (lam - 2).pow(2).sum() / 2

    start = torch.zeros(1, dtype=torch.float64)
    return bc.Problem.from_map(fp_map, outer, start, start, symmetric=True, name="stair")


def number(x: float) -> Tensor:
    return torch.tensor([x], dtype=torch.float64)


def test_the_derivative_at_both_ends_does_not_bound_the_drift() -> None:
    """‖w'‖ is proved to be 1/50 at both ends of the segment, whose length is 1, and w moves by 1.02 along it."""
    for end in (0.0, 1.0):
        W = bc.estimate_constants(stair().at(number(end)))["W"]
        assert W.value == pytest.approx(1 / 50, rel=1e-9)
        assert W.is_safe
    low, high = (bc.hypergradient(stair(), "exact", lam=number(end)).w for end in (0.0, 1.0))
    assert float((high - low).norm()) == pytest.approx(1.02, abs=1e-14)


def test_nor_at_any_finite_number_of_points() -> None:
    """w' = c ∏(λ − p_i)² is 0 at every p_i and never negative; c makes w move by 1. In rational numbers."""
    lam, points = sp.Symbol("lam"), [sp.Rational(i, 4) for i in range(5)]
    slope = sp.prod((lam - p) ** 2 for p in points)
    c = 1 / sp.integrate(sp.expand(slope), (lam, 0, 1))
    w = sp.integrate(sp.expand(c * slope), lam)
    assert w.subs(lam, 1) - w.subs(lam, 0) == 1
    assert all(sp.diff(w, lam).subs(lam, p) == 0 for p in points)


def test_the_watch_calls_it_an_estimate_and_says_that_it_failed() -> None:
    problem, watch = stair(), bc.Watch(stair(), t=T)
    w = problem.w0
    for lam in (number(0.0), number(1.0)):
        g = bc.hypergradient(problem, "aid-fp", t=T, lam=lam, w0=w)
        row = watch(lam, g.w, g)
        w = g.w
    r_t = Q**T * 1.02  # from a start that is 1.02 away
    assert row.r_t.lower - 1e-14 <= r_t <= row.r_t.upper + 1e-14
    assert row.estimate.value == pytest.approx(Q**T / 50, rel=1e-9)
    assert not row.estimate.proved
    assert row.estimate_held is False
    assert row.bound.proved
    assert row.bound.value == pytest.approx(r_t, rel=1e-9)
    assert row.from_residual.proved
    assert row.from_residual.value == pytest.approx(r_t, rel=1e-9)
    assert "the estimate from ‖w'‖ at the previous λ held at 0 of 1 steps" in watch.trace.summary()


def test_a_ball_around_the_start_of_radius_r_0_is_not_enough() -> None:
    """Φ = −qw on [0, 2] and 10w below 0: it contracts on B(w_0, r_0), and its second step goes away from w* = 0."""
    w, path = 1.0, []
    for _ in range(3):
        w = -0.9 * w if w >= 0 else 10 * w
        path.append(abs(w))
    assert path[1] > 0.9**2 * 1.0


def equilibrium() -> bc.Problem:
    generator = torch.Generator().manual_seed(1)
    A = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    A *= 0.8 / torch.linalg.matrix_norm(A, 2)
    B, b = (torch.randn(6, n, generator=generator, dtype=torch.float64) for n in (2, 1))

    def fp_map(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(A @ w + B @ lam + b[:, 0])

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return (w**2).sum() / 2

    zeros = torch.zeros(6, dtype=torch.float64)
    return bc.Problem.from_map(fp_map, outer, zeros, zeros[:2], symmetric=False, name="tanh")


def test_a_map_that_is_not_symmetric_against_dense_solves() -> None:
    """w(λ) by 400 steps of Φ, a contraction with q ≤ 0.8, so to rounding; ∇f with dense Jacobians."""
    problem = equilibrium()
    lams: list[Tensor] = []

    def keep(step: int, values: dict[str, float]) -> None:
        rows.append(values)

    rows: list[dict[str, float]] = []
    watch = bc.Watch(problem, t=3, callback=keep)
    lam, w = problem.lam, problem.w0
    for _ in range(4):
        lams.append(lam)
        g = bc.hypergradient(problem, "aid-fp", t=3, lam=lam, w0=w)
        row = watch(lam, g.w, g)
        w_star = problem.w0
        for _ in range(400):
            w_star = problem.phi(w_star, lam)
        Y, Z = torch.func.jacrev(problem.phi, argnums=(0, 1))(w_star, lam)
        truth = Z.T @ torch.linalg.solve((torch.eye(6, dtype=torch.float64) - Y).T, w_star)
        assert row.proved
        error = float((g.value - truth).norm())
        assert row.accuracy.error.lower - 1e-12 <= error <= row.accuracy.error.upper + 1e-12
        away = float((g.w - w_star).norm())
        assert row.r_t.lower - 1e-12 <= away <= row.r_t.upper + 1e-12
        if row.bound is not None:
            assert row.bound.proved
            assert away <= row.bound.value <= row.from_residual.value
        lam, w = lam - 0.2 * g.value, g.w
    assert len(rows) == 4
