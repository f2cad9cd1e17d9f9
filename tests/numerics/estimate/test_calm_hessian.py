"""A Hessian that jumps has no Lipschitz constant, but one of how fast it leaves its value at w*."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import hessian

import boundcheck as bc
from boundcheck.numerics.estimate.calm_hessian import calm_hessian
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds

GENERATOR = torch.Generator().manual_seed(4)
X, X_VAL = (torch.randn(9, 3, generator=GENERATOR, dtype=torch.float64) for _ in range(2))
Y, Y_VAL = (2 * torch.randn(9, generator=GENERATOR, dtype=torch.float64) for _ in range(2))
LAM = torch.zeros(3, dtype=torch.float64)


def bound_of(kink: float, radius: float) -> float:
    """For w²/2 up to |w| = `kink` and a line beyond, plus w²/2, around 0."""

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return F.huber_loss(w, torch.zeros_like(w), delta=kink) + (w * w).sum() / 2

    zero = torch.zeros(1, dtype=torch.float64)
    program = capture(f, zero, zero, EXPANSIONS)

    def around(size: float) -> ScalarBounds:
        return ScalarBounds(program, zero, zero, size)

    return calm_hessian(around(radius), around, radius, 0.0)


@pytest.mark.parametrize("radius", [1.5, 8.0, 1000.0])
def test_one_jump_over_its_distance(radius: float) -> None:
    """The jump is 1. The ball of radius 1 is the largest power of 2 without it, so the bound is 1/1."""
    kink = 1.0001
    assert 1 / kink <= bound_of(kink, radius) <= 1 + 1e-9


def test_nothing_changes_where_there_is_no_jump() -> None:
    assert bound_of(1.0001, 1.0) <= 1e-290  # rounding of 0


def test_a_jump_at_the_point_has_no_bound() -> None:
    assert bound_of(1e-9, 1.0) == math.inf


def inner(w: Tensor, lam: Tensor) -> Tensor:
    return F.huber_loss(X @ w, Y, delta=0.7) + (lam.exp() * w * w).sum() / 2


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return F.huber_loss(X_VAL @ w, Y_VAL, delta=0.7)


@pytest.mark.parametrize("ball", ["paper", "local"])
def test_nu_1_of_huber_regression_is_proved(ball: str) -> None:
    problem = bc.Problem.from_loss(inner, outer, torch.zeros(3, dtype=torch.float64), LAM, 0.4)
    constants = bc.estimate_constants(problem, ball=ball)
    nu_1, D = constants["nu_1"], constants["D"].value
    assert nu_1.side is bc.Side.UPPER
    assert "w*" in nu_1.provenance.how
    w = problem.w0
    for _ in range(200):
        w = problem.phi_at(w, problem.prepare(LAM))
    H = hessian(inner)
    generator = torch.Generator().manual_seed(5)
    seen = 0.0
    for size in torch.logspace(-3, 0, 60, dtype=torch.float64):
        step = torch.randn(3, generator=generator, dtype=torch.float64)
        step *= D * size / step.norm()  # ‖w + step‖ ≤ 2D
        seen = max(seen, 0.4 * float(torch.linalg.matrix_norm(H(w + step, LAM) - H(w, LAM), 2) / step.norm()))
    assert 0 < seen <= nu_1.value <= 20 * seen


def test_bounds_of_huber_regression_hold() -> None:
    problem = bc.Problem.from_loss(inner, outer, torch.zeros(3, dtype=torch.float64), LAM, 0.4)
    report = bc.check(problem, t=5, methods=["itd"])
    assert report.verdicts["itd", "itd-local"] is bc.Verdict.HOLDS
