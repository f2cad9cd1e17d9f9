"""Which derivatives are the same for all w, read off the program: on code as users write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pieces import normal
from small import small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel import program_degree
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import constant_derivatives
from boundcheck.numerics.estimate.constant_derivatives import Structure
from boundcheck.side import Side

Function = Callable[[Tensor, Tensor], Tensor]
X, y = normal(6, 3), normal(6)
MASK = torch.tensor([True, False, True])
EYE = torch.eye(3).double()


def square(w: Tensor, lam: Tensor) -> Tensor:
    return F.mse_loss(X @ w, y)


def of_loss(loss: Function, outer: Function = square, **options: object) -> Structure:
    start, lam = torch.zeros(3).double(), torch.ones(3).double()
    return constant_derivatives.find(Problem.from_loss(loss, outer, start, lam, **{"step_size": 0.05, **options}))  # type: ignore[arg-type]


def of_map(phi: Function, outer: Function = square) -> Structure:
    return constant_derivatives.find(Problem.from_map(phi, outer, torch.ones(3).double(), torch.ones(3).double()))


@pytest.mark.parametrize(
    ("name", "d1phi", "d2phi", "hessian", "d2E"),
    [
        ("krr", True, False, True, False),
        ("br", True, True, True, True),
        ("hr", True, False, True, False),
        ("lr", False, False, False, True),
        ("eqm", False, False, False, False),
    ],
)
def test_problems_of_the_paper(name: str, d1phi: bool, d2phi: bool, hessian: bool, d2E: bool) -> None:
    """In float32 too, whose rounding once looked like curvature and hid it.

    The maps of krr and hr contain a step size that depends on λ and that autograd holds fixed: by its value, ∂₂Φ is
    not constant, which is the cautious answer.
    """
    for dtype in (torch.float64, torch.float32):
        shape = constant_derivatives.find(small(name, dtype=dtype))
        if name == "br":
            assert shape.d1phi
            assert (shape.hessian_of_E, shape.d2E) == (hessian, d2E)
        else:
            assert shape == Structure(d1phi, d2phi, hessian, d2E)


def linear_layer(w: Tensor, lam: Tensor) -> Tensor:
    return F.linear(X, w[None], None)[:, 0]


def written(w: Tensor, lam: Tensor) -> Tensor:
    z = torch.zeros(3).double()
    z[0], z[1:] = w[1], w[1:]
    return ((z - lam) ** 2).sum()


QUADRATIC: dict[str, Function] = {
    "ridge": lambda w, lam: F.mse_loss(X @ w, y) + (lam.exp() * w**2).sum(),
    "dot": lambda w, lam: ((X @ w - y) ** 2).mean() + lam.exp().sum() * w.dot(w),
    "einsum": lambda w, lam: (torch.einsum("ij,j->i", X, w) - y).pow(2).sum() + ((w - lam) ** 2).sum(),
    "in place": lambda w, lam: ((w - lam).add_(3).mul_(2) ** 2).sum(),
    "written into": written,
    "layer": lambda w, lam: (linear_layer(w, lam) - y).square().mean() + lam.sum() * (w * w).sum(),
    "columns": lambda w, lam: (X @ w.reshape(3, 1)).squeeze().square().sum() + ((w - lam) ** 2).sum(),
    "chosen": lambda w, lam: (w[MASK] ** 2).sum() + torch.where(MASK, w, 2 * w).square().sum() + lam.sum() * w.sum(),
    "a kernel of λ": lambda w, lam: w @ torch.exp(-torch.cdist(X, X)[:3, :3] * lam.sum()) @ w - w.sum(),
}


@pytest.mark.parametrize("name", QUADRATIC)
def test_a_quadratic_is_found_however_it_is_written(name: str) -> None:
    assert of_loss(QUADRATIC[name]).d1phi
    assert of_map(lambda w, lam: 0.5 * w + lam, QUADRATIC[name]).hessian_of_E


NOT_QUADRATIC: dict[str, Function] = {
    "cube": lambda w, lam: (w**3).sum() * lam.sum(),
    "product of squares": lambda w, lam: (w * w).sum() * (w * lam).sum(),
    "written square": lambda w, lam: _square_written(w).square().sum() * lam.sum(),
    "square through a view": lambda w, lam: _square_through_view(w).square().sum() * lam.sum(),
    "softplus": lambda w, lam: F.softplus(X @ w).sum() + (lam * w * w).sum(),
    "norm(p=1)": lambda w, lam: (w - 1.2).norm(p=1) + (lam * w * w).sum(),
    "vector_norm(inf)": lambda w, lam: torch.linalg.vector_norm(w, ord=float("inf")) + (lam * w * w).sum(),
    "pairwise_distance": lambda w, lam: F.pairwise_distance(w, lam, p=1) + (lam * w * w).sum(),
    "floor division": lambda w, lam: torch.div(w, 1.0, rounding_mode="floor").sum() + (lam * w * w).sum(),
    "integers": lambda w, lam: w.to(torch.int64).to(w.dtype).sum() + (lam * w * w).sum(),
    "sum as integers": lambda w, lam: w.sum(dtype=torch.int64).to(w.dtype) + (lam * w * w).sum(),
    "bits": lambda w, lam: w.view(torch.int64).view(w.dtype).sum() + (lam * w * w).sum(),
    "half precision": lambda w, lam: w.half().to(w.dtype).sum() + (lam * w * w).sum(),
    "sign bit": lambda w, lam: torch.signbit(w).to(w.dtype).sum() + (lam * w * w).sum(),
    "angle": lambda w, lam: torch.angle(w).sum() + (lam * w * w).sum(),
    "atan2": lambda w, lam: torch.atan2(w, lam).sum() + (lam * w * w).sum(),
    "complex": lambda w, lam: torch.log(torch.complex(w, lam)).real.sum() + (lam * w * w).sum(),
    "mask of w": lambda w, lam: torch.where(w > 1e3, 2 * w, w).sum() + (lam * w * w).sum(),
    "index of w": lambda w, lam: X[w.argmax()].sum() * w.sum() + (lam * w * w).sum(),
    "number read out": lambda w, lam: (w * float(w.detach().sum() > 1e9)).sum() + (lam * w * w).sum(),
    "shape of w": lambda w, lam: w.sum() * len(w.nonzero()) + (lam * w * w).sum(),
    "division by w": lambda w, lam: (lam / (3 + w)).sum() + (lam * w * w).sum(),
    "solve with w": lambda w, lam: torch.linalg.solve(EYE + torch.diag(w), lam).sum() + (lam * w * w).sum(),
    "flat far away": lambda w, lam: 1e-9 * torch.tanh(w - 1e6).sum() + (lam * w * w).sum(),
}


def _square_written(w: Tensor) -> Tensor:
    z = torch.zeros(3).double()
    z[0] = w[1] ** 2
    return z


def _square_through_view(w: Tensor) -> Tensor:
    z = torch.zeros(3).double()
    z[:2].copy_(w[:2] ** 2)
    return z


@pytest.mark.parametrize("name", NOT_QUADRATIC)
def test_nothing_else_is_taken_for_a_quadratic(name: str) -> None:
    assert program_degree.degree(_problem(NOT_QUADRATIC[name]), NOT_QUADRATIC[name]).value > 2


def _problem(outer: Function) -> Problem:
    problem = Problem.from_map(lambda w, lam: 0.5 * w + lam, square, torch.ones(3).double(), torch.ones(3).double())
    return problem.__class__(**{**vars(problem), "outer_at": outer})


class OwnSquare(torch.autograd.Function):
    """w² with the right derivatives; that they are right is not seen from its operations."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * grad * ctx.saved_tensors[0]


def clipped(w: Tensor, lam: Tensor) -> Tensor:
    x = 1 * w
    if x.requires_grad:
        x.register_hook(lambda g: g.clamp(-2.5, 2.5))
    return ((x - lam) ** 2).sum() / 2


def test_derivatives_of_the_users_own_are_not_those_of_the_operations() -> None:
    """A hook that clips gradients makes the step another map than the loss says; so may any own backward."""
    found = of_loss(clipped)
    assert not found.d1phi
    assert not found.d2phi
    assert not of_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: OwnSquare.apply(w).sum()).hessian_of_E
    assert not of_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: clipped(w, lam)).hessian_of_E


def test_numbers_that_leave_are_not_followed() -> None:
    outside: dict[str, Function] = {
        "numpy": lambda w, lam: (w * torch.from_numpy(w.detach().numpy() ** 2)).sum(),
        "dlpack": lambda w, lam: (w * torch.from_dlpack(w.detach()) ** 2).sum(),
        "list": lambda w, lam: (w * torch.tensor(w.detach().tolist())).sum(),
        "a large power": lambda w, lam: (w**1000).sum(),
    }
    for name, function in outside.items():
        assert program_degree.degree(_problem(function), function).value > 2, name


def test_an_operation_of_another_library_has_no_rule() -> None:
    library = torch.library.Library("own_operations", "DEF")
    library.define("sum(Tensor x) -> Tensor")
    library.impl("sum", lambda x: torch.sin(x).sum(), "CPU")

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        value: Tensor = torch.ops.own_operations.sum(w.detach())
        return value

    assert program_degree.degree(_problem(outer), outer).value > 2


def test_how_the_derivative_by_lam_moves_with_w() -> None:
    """∂₂Φ of a gradient step is constant where w and λ meet in products of one w at most."""
    assert of_loss(lambda w, lam: ((X @ w - y) ** 2).sum() + (w * lam.exp()).sum()).d2phi
    assert not of_loss(lambda w, lam: ((X @ w - y) ** 2).sum() + (w * w * lam.exp()).sum()).d2phi
    assert of_map(lambda w, lam: torch.tanh(w) + lam.cos()).d2phi
    assert not of_map(lambda w, lam: 0.1 * torch.tanh(w) * lam).d2phi
    assert not of_map(lambda w, lam: torch.tanh(w + lam)).d2phi
    assert of_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: torch.exp(w).sum() + lam.sum() ** 3).d2E
    assert not of_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: (w * lam).sum()).d2E


def test_a_step_that_depends_on_lam() -> None:
    """Held fixed, it leaves ∂₂Φ = −α∇²₂₁ℓ; differentiated, ∂₂Φ has −∇₁ℓ∇αᵀ too, which moves with w."""

    def loss(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - lam) ** 2).sum()

    def step(lam: Tensor) -> Tensor:
        return 0.1 / (1 + lam.sum() ** 2)

    assert of_loss(loss, step_size=step).d2phi
    assert not of_loss(loss, step_size=step, differentiate_step=True).d2phi


@pytest.mark.parametrize("name", ["a step far from all points", "a bump far from all points"])
def test_points_that_agree_prove_nothing(name: str) -> None:
    """Φ is affine to the last digit wherever one looks, but for a place in the ball that one does not find."""
    if name.startswith("a step"):
        d, centre = 1, torch.tensor([0.7]).double()
        bend = lambda w: 0.01 * torch.sigmoid(1000 * (w - centre))  # noqa: E731
    else:
        d, centre = 10, torch.tensor([6.0, 6, 6, 0, 0, 0, 0, 0, 0, 0]).double()
        bend = lambda w: 3 * torch.ones(d).double() / d**0.5 * torch.exp(-((w - centre) ** 2).sum() / 2)  # noqa: E731
    start = torch.zeros(d).double()
    start[-1] = 1.0 if d == 1 else 12.0
    lam = torch.full((d,), 0.1).double()
    problem = Problem.from_map(lambda w, lam: 0.5 * w + lam + bend(w), lambda w, lam: (w * w).sum(), start, lam)
    constants = bc.estimate_constants(problem, ball="local", budget=300)
    assert all(constants[name].side is Side.LOWER for name in ("q", "nu_1"))
    assert bc.check(problem, ["itd"], t=5, budget=300).verdict is not bc.Verdict.HOLDS


def test_a_step_outside_of_the_ball_does_no_harm() -> None:
    """The program proves what points could not: the step at 0.7 is not where the iterates go."""
    start = torch.zeros(1).double()
    problem = Problem.from_map(
        lambda w, lam: 0.5 * w + lam + 0.01 * torch.sigmoid(1000 * (w - 0.7)), lambda w, lam: (w * w).sum(), start,
        start + 0.1,
    )  # fmt: skip
    constants = bc.estimate_constants(problem, ball="local")
    assert constants["q"].side is Side.UPPER
    assert constants["q"].value == pytest.approx(0.5)
    assert bc.check(problem, ["itd"], t=5).verdict is bc.Verdict.HOLDS


def test_small_numbers_are_numbers() -> None:
    """E in units in which it is tiny still is no quadratic."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: 1e-14 * (w**4).sum(), torch.ones(2).double(),
        torch.ones(2).double(),
    )  # fmt: skip
    assert not constant_derivatives.find(problem).hessian_of_E
