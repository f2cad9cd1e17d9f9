"""How much closer to w* every point of a ball comes: proved, tight in one variable, less than what q allows."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

import boundcheck as bc
from boundcheck.numerics.estimate.mean_contraction import NearbyStep, OnBall, towards
from boundcheck.numerics.program.enclosure.curvature_form import Curvature

GENERATOR = torch.Generator().manual_seed(5)
X = 3 * torch.randn(12, 5, generator=GENERATOR, dtype=torch.float64)
LAM = 0.05 + torch.rand(5, generator=GENERATOR, dtype=torch.float64)
FAR = 1.3  # of the start, in every coordinate


def inner(w: Tensor, lam: Tensor) -> Tensor:
    return softplus(X[:, : len(w)] @ w).sum() + (lam * w * w).sum() / 2


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return (w - 1).square().sum()


def problem(d: int) -> bc.Problem:
    Y = X[:, :d]
    step = 1.9 / (float(torch.linalg.eigvalsh(Y.T @ Y / 4)[-1]) + float(LAM[:d].max()))
    return bc.Problem.from_loss(inner, outer, torch.full((d,), FAR, dtype=torch.float64), LAM[:d], step)


def solution(d: int) -> Tensor:
    """w*, by Newton's method, which starts close enough."""
    w = torch.zeros(d, dtype=torch.float64)
    for _ in range(50):
        gradient, H = torch.func.grad(inner)(w, LAM[:d]), torch.func.hessian(inner)(w, LAM[:d])
        w = w - torch.linalg.solve(H, gradient)
    return w


def shrinks(p: bc.Problem, w_star: Tensor, steps: Tensor) -> Tensor:
    """‖Φ(w) − w*‖/‖w − w*‖ at w* + s for every row s."""
    alpha = float(p.step_at(p.prepare(p.lam)))
    gradients = torch.func.vmap(torch.func.grad(inner), (0, None))(w_star + steps, p.lam)
    return (steps - alpha * gradients).norm(dim=1) / steps.norm(dim=1)


def test_it_is_close_to_the_supremum_in_one_variable() -> None:
    p, w_star = problem(1), solution(1)
    q = bc.estimate_constants(p, ball="local", smaller_balls=True)["q"]
    assert len(q.towards) > 10
    radii, factors = torch.tensor(q.towards, dtype=torch.float64).T
    s = radii[:, None] * torch.linspace(-1, 1, 2000, dtype=torch.float64)
    worst = shrinks(p, w_star, s.reshape(-1, 1)).reshape(s.shape).amax(1)
    assert bool((worst <= factors).all())
    assert bool((1 - factors > 0.8 * (1 - worst)).all())  # the balls are a step function, so not all of it


def test_no_point_of_a_ball_comes_closer_by_less() -> None:
    p, w_star = problem(5), solution(5)
    q = bc.estimate_constants(p, ball="local", smaller_balls=True)["q"]
    assert q.side is bc.Side.UPPER
    assert 1 - q.towards[0][1] > 1.5 * (1 - q.value)
    lasting = torch.linalg.eigh(torch.func.hessian(inner)(w_star, LAM))[1].T  # where a step does least
    directions = torch.cat((lasting, -lasting, torch.randn(200, 5, generator=GENERATOR, dtype=torch.float64)))
    directions = directions / directions.norm(dim=1, keepdim=True)
    radii, factors = torch.tensor(q.towards, dtype=torch.float64).T
    shares = torch.tensor((0.01, 0.3, 0.7, 1.0), dtype=torch.float64)
    lengths = (radii[:, None] * shares).reshape(-1, 1, 1)
    worst = shrinks(p, w_star, (lengths * directions).flatten(0, 1)).reshape(len(radii), -1).amax(1)
    assert bool((worst <= factors * (1 + 1e-9)).all())


def test_eigenvalues_are_those_of_the_mean() -> None:
    """Each ball has a direction that bends little, but not the same one: no mean of eigenvalues would do."""
    turned = [torch.diag(torch.tensor(ends, dtype=torch.float64)) for ends in ((0.0, 1.0), (1.0, 0.0))]
    balls = [OnBall(r, Curvature(H, H, 0.0)) for r, H in zip((2.0, 1.0), turned, strict=True)]
    (_, outer_factor), (_, inner_factor) = towards(balls, NearbyStep(1.0, 0.0))
    assert 0 <= outer_factor - 0.5 < 1e-12
    assert outer_factor == inner_factor or inner_factor <= outer_factor


def test_a_wide_ball_counts_with_its_share_of_the_way() -> None:
    hessians = [Curvature(torch.eye(2).double() * h, torch.eye(2).double() * h, 0.0) for h in (0.1, 0.5, 0.9)]
    balls = [OnBall(r, H) for r, H in zip((4.0, 2.0, 1.0), hessians, strict=True)]
    factors = [factor for _, factor in towards(balls, NearbyStep(1.0, 0.0))]
    by_hand = [1 - (2 * 0.1 + 0.5 + 0.9) / 4, 1 - (0.5 + 0.9) / 2, 0.1]
    assert all(0 <= got - want < 1e-12 for got, want in zip(factors, by_hand, strict=True))


def test_rounding_of_the_step_and_of_the_matrices_is_added() -> None:
    H = Curvature(torch.eye(1).double(), torch.eye(1).double(), 0.25)
    ((_, factor),) = towards([OnBall(1.0, H)], NearbyStep(1.0, 0.125))
    assert 0 <= factor - (0.25 + 0.125 * 1.25) < 1e-12


def test_a_quadratic_loss_has_none() -> None:
    def quadratic(w: Tensor, lam: Tensor) -> Tensor:
        return (X @ w - 1).square().sum() / 2 + (lam * w * w).sum() / 2

    p = bc.Problem.from_loss(quadratic, outer, torch.ones(5, dtype=torch.float64), LAM, 1e-3)
    assert not bc.estimate_constants(p, ball="local", smaller_balls=True)["q"].towards
