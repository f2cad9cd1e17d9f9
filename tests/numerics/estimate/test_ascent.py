"""The pieces of the ascent: none loses height, all stay in the ball, and the top singular value is found."""

from __future__ import annotations

import pytest
import torch
from pieces import normal, zeros
from torch import Tensor

from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.estimate.ascent import FiniteWatch, NormalDraws, Slopes, ascend, project, starts, top, unit

BALL = Region("0", zeros(3), 2.0)


def clustered(d: int, seed: int) -> Tensor:
    """A symmetric matrix with eigenvalues evenly on [0.9, 1], as I − αH has them."""
    U = torch.linalg.qr(normal(d, d, seed=seed)).Q
    return U @ torch.diag(torch.linspace(0.9, 1.0, d, dtype=torch.float64)) @ U.T


def test_top_never_falls_and_beats_the_power_method() -> None:
    A, x = clustered(100, 1), normal(4, 100, seed=2)
    quotients = torch.stack([((y := top(lambda x: x @ A @ A, x, steps)) @ A).norm(dim=-1) for steps in range(60)])
    assert (quotients.diff(dim=0) >= -1e-14).all()
    assert (1 - quotients[-1] < 1e-6).all()
    for _ in range(60):
        x = unit(x @ A @ A)
    assert ((1 - (x @ A).norm(dim=-1)) > 1e-3).all()  # where the power method stands by then
    assert y.norm(dim=-1) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("A", [torch.diag(torch.tensor([0.0, 0.0, 3.0])), torch.zeros(3, 3), torch.eye(3)])
def test_top_of_degenerate_matrices(A: Tensor) -> None:
    A = A.to(torch.float64)
    x = top(lambda x: x @ A @ A, normal(5, 3), 10)
    assert (x @ A).norm(dim=-1) == pytest.approx(float(torch.linalg.matrix_norm(A, 2)), rel=1e-12)


def test_top_of_an_eigenvector_stays() -> None:
    A = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert torch.equal(
        top(lambda x: x @ A @ A, torch.eye(3, dtype=torch.float64), 5), torch.eye(3, dtype=torch.float64)
    )


def bumpy(w: Tensor, v: Tensor) -> Slopes:
    """h = 2 + sin(3w₁) + w₂, with its maximum on the sphere."""
    value = 2 + (3 * w[:, 0]).sin() + w[:, 1]
    by_w = torch.stack((3 * (3 * w[:, 0]).cos(), torch.ones_like(value), torch.zeros_like(value)), dim=-1)
    return Slopes(value, by_w, torch.zeros_like(v))


def test_top_next_to_an_eigenvector_stays_finite() -> None:
    """The square of its gradient underflows."""
    A = torch.diag(torch.tensor([0.994, 0.985], dtype=torch.float64))
    for tiny in (1e-145, 1e-155, 1e-162, 1e-170):
        x = torch.tensor([[1.0, -tiny]], dtype=torch.float64)
        for steps in range(1, 12):
            reached = top(lambda y: y @ A, x, steps)
            assert torch.isfinite(reached).all()
            assert float(((reached @ A) * reached).sum()) >= 0.994 * (1 - 1e-12)


def test_ascent_climbs_and_stays_inside() -> None:
    w, v = NormalDraws(0, BALL.point).points(BALL, 20), zeros(20, 0)
    step, before = torch.ones_like(w[:, :1]), bumpy(w, v).value
    for _ in range(6):
        climb = ascend(bumpy, w, v, BALL, step, 10)
        assert (climb.value >= before).all()
        assert (climb.w.norm(dim=-1) <= BALL.radius * (1 + 1e-15)).all()
        assert torch.equal(bumpy(climb.w, v).value, climb.value)
        w, step, before = climb.w, climb.step, climb.value
    x = torch.linspace(-2, 2, 100_001, dtype=torch.float64)
    assert float(before.max()) == pytest.approx(float((2 + (3 * x).sin() + (4 - x**2).sqrt()).max()), rel=1e-4)


def test_projection() -> None:
    w = torch.stack((zeros(3), torch.full((3,), 9.0, dtype=torch.float64)))
    assert project(BALL, w).norm(dim=-1).tolist() == pytest.approx([0, 2])
    assert torch.equal(project(Region("0", zeros(3), 0.0), w), zeros(2, 3))


def test_starts_fill_up_with_random_points() -> None:
    far = torch.full((1, 3), 9.0, dtype=torch.float64)
    w = starts(BALL, 12, [far, far * float("nan")], NormalDraws(0, BALL.point))
    assert w.shape == (12, 3)
    assert w[0].norm() == pytest.approx(2)
    assert torch.equal(w[1], BALL.point)  # in place of what is not finite
    assert (w.norm(dim=-1) <= 2 * (1 + 1e-15)).all()
    assert (
        len(starts(BALL, 8, [far.expand(100, 3)], NormalDraws(0, BALL.point)).unique(dim=0)) == 3
    )  # 2 of 8 are random


def test_draws_are_the_same_in_every_dtype() -> None:
    single, double = NormalDraws(3, torch.zeros(1)).directions(4, 5), NormalDraws(3, zeros(1)).directions(4, 5)
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), double, atol=1e-6)
    with pytest.raises(InputError, match="seed must be a whole number"):
        NormalDraws(1.5, zeros(1))  # type: ignore[arg-type]


def test_watch_tells_where() -> None:
    watch = FiniteWatch("mine", "∂₁Φ", Region("w_star", torch.ones(3, dtype=torch.float64), 5.0))
    w = torch.stack((zeros(3), 2 * torch.ones(3, dtype=torch.float64)))
    watch.look(torch.tensor([1.0, 2.0]), w)
    assert watch.check(torch.tensor(7.0)) == [7.0]
    watch.look(torch.tensor([1.0, float("inf")]), w)
    watch.look(torch.tensor([float("nan"), 1.0]), w)  # the first counts
    with pytest.raises(DivergenceError, match=r"mine: ∂₁Φ is not finite .*‖w‖ = 3.46, at distance 1.73 .* w_star"):
        watch.check()
