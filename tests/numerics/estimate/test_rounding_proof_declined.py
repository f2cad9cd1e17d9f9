"""What is not proved is declined by name, and programs in every style are followed."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from pieces import normal
from torch import Tensor
from torch.nn import functional as F

import boundcheck as bc
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_noise
from boundcheck.numerics.estimate.rounding_proof import EnclosedNorms, NoProof, balls, proved


@pytest.fixture(autouse=True)
def any_problem_may_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding is followed here, whatever finite differences say of a program that cancels or detaches."""
    monkeypatch.setattr(derivative_check, "on_arrival", lambda problem: None)


X = normal(6, 3)
numbers = count()


def at(phi: Callable[[Any, Any], Any], w: Tensor | None = None) -> Problem:
    start = normal(3, seed=2).abs() + 0.1 if w is None else w
    return Problem.from_map(phi, lambda w, lam: (w * w).sum() / 2, start, normal(3, seed=3))


def said(problem: Problem) -> EnclosedNorms | NoProof:
    return proved(problem, problem.w0, torch.ones_like(problem.w0), problem.lam)


def swallowed(w: Tensor, lam: Tensor) -> Tensor:
    try:
        return w / 2 + lam + torch.from_numpy(np.sin(w.detach().numpy()))
    except Exception:
        return w / 2 + lam


def into(w: Tensor, lam: Tensor) -> Tensor:
    mask = torch.empty(3, dtype=torch.bool)
    torch.gt(torch.sin(w) - torch.sin(w.clone()), 0, out=mask)
    return w / 2 + lam * mask


NOT_PROVED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "numpy": (lambda w, lam: w / 2 + torch.from_numpy(np.sin(w.detach().numpy())), r"Tensor\.numpy"),
    "asarray": (lambda w, lam: w / 2 + torch.tensor(np.asarray(w.detach())), r"Tensor\.(__array__|numpy)"),
    "tolist": (lambda w, lam: w / 2 + torch.tensor(w.tolist(), dtype=torch.float64), r"Tensor\.tolist"),
    "caught": (swallowed, r"Tensor\.numpy"),
    "item": (lambda w, lam: w / 2 + lam * float(w.sum()), "_local_scalar_dense"),
    "counter": (lambda w, lam: w / 2 + lam * next(numbers), "depends on the point"),
    "random": (lambda w, lam: w / 2 + lam + 0 * torch.rand(3, dtype=torch.float64), r"aten\.rand"),
    "complex": (lambda w, lam: w / 2 + lam + torch.view_as_real(torch.exp(1j * w))[..., 0], "complex"),
    "fourier": (lambda w, lam: w / 2 + torch.fft.fft(w).real * lam, r"aten\._fft"),
    "unknown": (lambda w, lam: w / 2 + torch.lgamma(w) + lam, r"aten\.lgamma.* has no rule"),
    "bits": (lambda w, lam: w / 2 + lam * (w.sin().view(torch.int64) > 0), "another dtype"),
    "python": (lambda w, lam: w / 2 + lam * np.sin(float(w[0])), "depends on the point"),
    "many": (lambda w, lam: torch._foreach_mul([w, lam], 0.5)[0] + lam, r"aten\._foreach_mul"),
    "vectors": (lambda w, lam: w / 2 + torch.linalg.eigvalsh(torch.outer(lam, lam)), "nothing is known"),
    "kink": (lambda w, lam: torch.relu(w.sin() - w.clone().sin()) + lam, "rounding alone decides"),
    "out": (into, "rounding alone decides"),
    "largest": (lambda w, lam: torch.stack((w.sin(), w.clone().sin())).max(0).values + lam, "rounding alone decides"),
    "overflow": (lambda w, lam: w / 2 + (torch.exp(1e4 * w) * 0 + lam), "not finite"),
    "zero": (lambda w, lam: w / 2 + lam / (1 + (w - w.clone())).log(), "may be 0"),
    "singular": (lambda w, lam: w / 2 + torch.linalg.solve(torch.outer(lam, lam) + 1e-17, lam), "singular"),
    "reduce": (lambda w, lam: w / 2 + lam.scatter(0, torch.tensor([0, 0]), w[:2], reduce="multiply"), r"aten\.scatter"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PROVED)
@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
def test_it_is_declined_by_name(name: str) -> None:
    phi, reason = NOT_PROVED[name]
    problem = at(lambda w, lam: w / 2 + lam)
    problem = Problem(
        name="user", w0=problem.w0, lam=problem.lam, phi_at=phi, outer_at=lambda w, lam: (w * w).sum() / 2
    )  # without the checks of the door, which some of these do not pass
    found = said(problem)
    assert isinstance(found, NoProof)
    assert re.search(reason, found.reason), found.reason


def writes(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.empty_like(w)
    x[:2] = w[:2] / 3
    x[2:] = w[2:].sin()
    view = x.view(3, 1)
    view += lam[:, None]
    x.add_(1e8).sub_(1e8)
    return x


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * grad


def loop(w: Tensor, lam: Tensor) -> Tensor:
    for _ in range(5):
        w = 0.3 * torch.tanh(w) + lam
    return w


FOLLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "writes": writes,
    "branch": lambda w, lam: w / 2 + lam * (2 if w[0] > 0 else 1),
    "branch on a computed number": lambda w, lam: w / 2 + lam * (2 if w.sin().sum() > -3 else 1),
    "stop": lambda w, lam: w / 2 + 0.4 * torch.sin(w).detach() + lam,
    "function": lambda w, lam: 0.1 * Square.apply(w) + lam,
    "vmap": lambda w, lam: 0.3 * torch.func.vmap(lambda a, b: a * b.exp())(w, lam),
    "loop": loop,
    "gradient inside": lambda w, lam: w - 0.1 * torch.func.grad(lambda x: F.huber_loss(X @ x, X[:, 0]) + lam @ x**2)(w),
    "logistic": lambda w, lam: w - 0.1 * torch.func.grad(
        lambda x: F.binary_cross_entropy_with_logits(X @ x, (X[:, 0] > 0).double()) + lam.exp() @ x**2)(w),
    "entropy": lambda w, lam: w - 0.1 * torch.func.grad(
        lambda x: F.cross_entropy(X * x, torch.tensor([0, 1, 2, 0, 1, 2])) + lam.exp() @ x**2)(w),
    "einsum": lambda w, lam: 0.1 * torch.einsum("ij,j,ik->k", X, w, X) + lam,
    "index": lambda w, lam: 0.3 * w[[1, 0, 2]] + torch.where(w > 0, w, lam) / 5 + lam,
    "largest": lambda w, lam: 0.3 * w.max() + 0.1 * w.sort().values + lam,
    "step": lambda w, lam: w - 2 / (torch.linalg.eigvalsh(X.T @ X).sum()) * (X.T @ (X @ w)) + lam,
    "factors": lambda w, lam: 0.1 * torch.cholesky_solve(
        w[:, None], torch.linalg.cholesky(X.T @ X + torch.diag(lam**2)))[:, 0],
    "layer": lambda w, lam: 0.1 * F.layer_norm(w, (3,), lam) + 0.1 * F.conv1d(w[None, None], lam[None, None, :1])[0, 0],
    "embedding": lambda w, lam: 0.1 * F.embedding(torch.tensor([0, 0, 1]), w[:, None]).cumsum(0)[:, 0] + lam,
    "start": lambda w, lam: 0.3 * torch.relu(X[:3] @ (0 * w)) + lam + w / 2,
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_programs_in_every_style_are_followed(name: str) -> None:
    """What PyTorch computes differs from the midpoints by its own rounding, which is as large as ours."""
    problem = at(FOLLOWED[name])
    found = said(problem)
    assert isinstance(found, EnclosedNorms), found
    v = torch.ones_like(problem.w0)
    ours, theirs = balls(problem, problem.w0, v), rounding_noise._parts(problem, problem.w0, v)
    for ball, computed in zip(ours, theirs, strict=True):
        assert bool(((ball.mid - computed).abs() <= 10 * ball.rad + 1e-15).all())
        assert float(ball.rad.norm()) < (1e-7 if name == "writes" else 1e-12)


def test_a_float32_program_is_enclosed_in_float64() -> None:
    """0.1 is the number of Python, not its float32 neighbour, and w what is stored."""
    w, lam = normal(3, dtype=torch.float32), normal(3, seed=1, dtype=torch.float32)
    problem = Problem.from_map(lambda w, lam: 0.1 * w + lam, lambda w, lam: (w * w).sum() / 2, w, lam)
    exact = w.double() - (0.1 * w.double() + lam.double())
    found = balls(problem, w, w)[0]
    assert bool(((found.mid - exact).abs() <= found.rad + 1e-16).all())
    assert float(found.rad.max()) < 1e-15
    assert float((found.mid - rounding_noise._parts(problem, w, w)[0]).abs().max()) > 1e-9


def test_memory_that_changes_keeps_its_numbers_from_before() -> None:
    """Data that the program writes to: x + x after x += w, in memory that was a constant before."""

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        x = torch.full((3,), 1 / 3, dtype=torch.float64)
        y = x * 3
        x += w
        return (x + y) / 4 + lam

    problem = at(phi)
    found = balls(problem, problem.w0, problem.w0)[0]
    exact = problem.w0 - ((1 / 3 + problem.w0 + 1) / 4 + problem.lam)
    assert bool(((found.mid - exact).abs() <= found.rad + 1e-15).all())


def test_a_condition_that_rounding_changed_is_declined() -> None:
    """In float32, 1 + 1e-9 > 1 is false, and in exact arithmetic true."""
    w = torch.full((3,), 1e-9, dtype=torch.float32)
    problem = Problem.from_map(
        lambda w, lam: w / 2 + torch.where(1 + w > 1, lam, 2 * lam), lambda w, lam: w.sum(), w, torch.ones(3)
    )
    found = proved(problem, w, w, w)
    assert found == NoProof("aten.gt.Scalar: rounding changed a condition or an index")


def test_no_derivative_is_proved_at_a_kink() -> None:
    """Φ(w) = 0.9w next to 0, and autograd says 0.5 at 0, where the sign of w jumps. That was said to be exact."""

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        z = w * (1 + lam)
        return 0.5 * w + 0.4 * torch.sign(z) * torch.relu(z.abs() - lam * w.abs())

    start, one = torch.tensor([0.2], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    problem = bc.Problem.from_map(phi, lambda w, lam: ((w - 1) ** 2).sum() / 2, start, one)
    constants = bc.estimate_constants(problem, ball="local", budget=6)
    for name in ("q_star", "L_Phi_star", "W"):
        assert constants[name].side is bc.Side.LOWER
    assert "a comparison at its edge" in constants["q_star"].provenance.how


@pytest.mark.parametrize(
    ("cubic", "is_proved"), [(lambda x: x * x * x.abs(), True), (lambda x: x * x * torch.sign(x), False)]
)
def test_a_kink_that_a_factor_cancels_is_no_kink(cubic: Callable[[Tensor], Tensor], is_proved: bool) -> None:
    """x²|x| has two derivatives at 0. A sign that jumps in the function itself is refused, whatever its factors are."""
    start, one = torch.tensor([0.2], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + 0.01 * cubic(w * lam), lambda w, lam: ((w - 1) ** 2).sum() / 2, start, one
    )
    q_star = bc.estimate_constants(problem, ball="local", budget=6)["q_star"]
    assert q_star.is_safe is is_proved
    assert q_star.value == pytest.approx(0.5)
