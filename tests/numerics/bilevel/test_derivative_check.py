"""Stop-gradients are found, and nothing else is: derivatives by autograd against finite differences."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pieces import normal, zeros
from small import NAMES, small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.estimate import validate

Map = Callable[[Tensor], Tensor]
ON_ARRIVAL = derivative_check.on_arrival


@pytest.fixture(autouse=True)
def any_problem_may_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks are tried one by one, so problems are not refused when they are made."""
    monkeypatch.setattr(derivative_check, "on_arrival", lambda problem: None)


class Sine(torch.autograd.Function):
    """A sine whose backward is a tenth too small."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 0.9 * grad * torch.cos(ctx.saved_tensors[0])


def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        factor = 1 + 0.1 * torch.sin(3 * x)
    return x * factor


WRONG: dict[str, Map] = {
    "detach": lambda x: x + 0.05 * torch.sin(x).detach(),
    "all but a tenth": lambda x: 0.1 * x + 0.9 * x.detach(),
    "another copy": lambda x: torch.tanh(x) + 0.3 * torch.cos(x.clone().detach()),
    "no_grad": without_gradient,
    "wrong backward": Sine.apply,
    "a kink besides": lambda x: torch.relu(x) + 0.2 * x + 0.1 * (x**2).detach(),
    "a number": lambda x: x * (1 + 0.2 * float(x.detach().sin().sum())),
}

RIGHT: dict[str, Map] = {
    "linear": lambda x: x,
    "zero": lambda x: 0 * x,
    "relu": torch.relu,
    "abs": torch.abs,
    "max": lambda x: torch.maximum(x, 0.3 * torch.ones_like(x)),
    "huber": lambda x: torch.nn.functional.huber_loss(x, torch.zeros_like(x), reduction="none"),
    "200 kinks": lambda x: torch.relu(x[..., None] - torch.linspace(-2, 2, 200, dtype=x.dtype)).sin().sum(-1),
    "round": torch.round,
    "steps": lambda x: torch.floor(50 * x) / 50,
    "fine steps": lambda x: torch.round(1e4 * x) / 1e4,
    "jump": lambda x: torch.where(x > 0.2, 1 + x, x),
    "stiff": lambda x: torch.sigmoid(1000 * x),
    "very stiff": lambda x: torch.sigmoid(1e6 * x),
    "ripples": lambda x: x + 1e-6 * torch.sin(1e5 * x),
    "waves": lambda x: torch.sin(300 * x),
    "root": lambda x: (x.abs() + 1e-3).sqrt(),
    "cancellation": lambda x: torch.sin((x + 1e5) - 1e5),
    "large": lambda x: torch.cos(x) + 1e5,
    "a bump": lambda x: torch.exp(-(((x - 1) * 50) ** 2)),
    "exp": lambda x: torch.exp(3 * x),
    "domain": lambda x: torch.log(x + 4),
    "norm": lambda x: x.norm(p=1) * torch.ones_like(x),
    "single precision": lambda x: torch.sin(x.float()).to(x.dtype),
}

KINDS = ("map by w", "map by lam", "outer by w", "outer by lam", "loss by w", "loss by lam")


def problem_with(f: Map, kind: str, scale: float = 1.0, d: int = 1, dtype: torch.dtype = torch.float64) -> bc.Problem:
    """A problem that has `f` in the place of `kind`, for w and λ of the size of `scale`."""
    start = zeros(d).to(dtype) if d == 1 else scale * normal(d, seed=3, dtype=dtype)
    lam, c = scale * (normal(d, seed=5, dtype=dtype) + 0.1), normal(d, seed=8, dtype=dtype)

    def at(x: Tensor) -> Tensor:
        return f(x / scale)

    def square(w: Tensor, lam: Tensor) -> Tensor:
        return ((w / scale - c) ** 2).sum()

    def plain(w: Tensor, lam: Tensor) -> Tensor:
        return 0.3 * w + lam

    if kind == "map by w":
        return bc.Problem.from_map(lambda w, lam: 0.2 * w + 0.3 * scale * at(w) + lam, square, start, lam)
    if kind == "map by lam":
        return bc.Problem.from_map(lambda w, lam: 0.3 * w + 0.1 * lam + scale * at(lam), square, start, lam)
    if kind == "outer by w":
        return bc.Problem.from_map(plain, lambda w, lam: (c * (at(w) + 0.2 * w / scale)).sum(), start, lam)
    if kind == "outer by lam":
        return bc.Problem.from_map(plain, lambda w, lam: square(w, lam) + (c * at(lam)).sum(), start, lam)
    step = 0.3 * scale**2
    if kind == "loss by w":
        return bc.Problem.from_loss(
            lambda w, lam: ((w / scale) ** 2).sum() / 2 + (at(w) - w * lam / scale**2).sum(), square, start, lam, step
        )
    return bc.Problem.from_loss(
        lambda w, lam: ((w / scale) ** 2).sum() / 2 - (w / scale * (at(lam) + 0.1 * lam / scale)).sum(), square, start,
        lam, step,
    )  # fmt: skip


def solution(problem: bc.Problem, steps: int = 25) -> Tensor:
    w = problem.w0
    for _ in range(steps):
        w = problem.phi(w, problem.lam)
    return w.detach()


@pytest.mark.parametrize("kind", KINDS)
def test_stop_gradients_are_refused_when_the_problem_is_made(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `hypergradient`, which looks at nothing else, cannot return the derivative of another function."""
    monkeypatch.setattr(derivative_check, "on_arrival", ON_ARRIVAL)
    with pytest.raises(bc.UserCodeError, match=r"autograd's derivative of .* give"):
        problem_with(WRONG["detach"], kind, 1.0, 40)
    problem_with(RIGHT["stiff"], kind, 1.0, 40)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_stop_gradients_are_refused(wrong: str, kind: str) -> None:
    for scale, d in ((1.0, 40), (1e-9, 1)):
        problem = problem_with(WRONG[wrong], kind, scale, d)
        with pytest.raises(bc.UserCodeError, match=r"autograd's derivative of .* by h?params .*does it use detach\(\)"):
            derivative_check.confirm(problem, problem.lam, solution(problem))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["detach", "wrong backward"])
def test_stop_gradients_are_refused_in_single_precision(wrong: str, kind: str) -> None:
    problem = problem_with(WRONG[wrong], kind, 1.0, 40, torch.float32)
    with pytest.raises(bc.UserCodeError, match="finite differences give"):
        derivative_check.confirm(problem, problem.lam, solution(problem))


SIZES = (
    (1.0, 1, torch.float64),
    (1e-12, 40, torch.float64),
    (1e12, 1, torch.float64),
    (1.0, 40, torch.float32),
    (1e-6, 1, torch.float32),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", RIGHT)
def test_no_right_function_is_refused(right: str, kind: str) -> None:
    """Each in every place, at sizes that go round."""
    scale, d, dtype = SIZES[(list(RIGHT).index(right) + KINDS.index(kind)) % len(SIZES)]
    problem = problem_with(RIGHT[right], kind, scale, d, dtype)
    w = solution(problem)
    derivative_check.confirm(problem, problem.lam, w if bool(torch.isfinite(w).all()) else None)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", ["linear", "relu", "norm", "jump"])
def test_plain_functions_are_confirmed(right: str, kind: str, dtype: torch.dtype) -> None:
    problem = problem_with(RIGHT[right], kind, 1.0, 40, dtype)
    assert derivative_check.confirm(problem, problem.lam).unconfirmed == ()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_the_problems_of_the_catalogue_are_confirmed(name: str, dtype: torch.dtype) -> None:
    problem = small(name, dtype=dtype)
    w_star = bc.hypergradient(problem, "exact").w
    assert derivative_check.confirm(problem, problem.lam, w_star).unconfirmed == ()


@pytest.mark.parametrize("kind", KINDS)
def test_straight_through_estimators_are_not_confirmed(kind: str) -> None:
    """Jumps of 40 entries at many places: over steps of some sizes they look like the slope that autograd gives."""
    problem = problem_with(lambda x: x + (torch.round(x) - x).detach(), kind, 1.0, 40)
    with contextlib.suppress(bc.UserCodeError):
        assert derivative_check.confirm(problem, problem.lam, solution(problem)).unconfirmed


def test_the_map_of_the_issue() -> None:
    """Once enclosed in [0, 2.4e-13] with *holds*; the truth is 6.086 against 9.948."""
    one = torch.ones(1, dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + 0.4 * torch.sin(w).detach() + lam, lambda w, lam: (w**2).sum(), 0 * one, one
    )
    with pytest.raises(bc.UserCodeError, match="derivative of fp_map by params"):
        validate.check(problem, problem.lam)
    with pytest.raises(bc.UserCodeError, match="derivative of fp_map by params"):
        bc.check(problem, ["itd"], t=5)


def test_a_frozen_step_is_legal() -> None:
    """∂₂Φ is that of the map at w(λ), and another one elsewhere."""

    def fp_map(w: Tensor, lam: Tensor) -> Tensor:
        return w - (1 / (1 + lam**2)).detach() * ((1 + lam**2) * w - lam) / 2

    problem = bc.Problem.from_map(fp_map, lambda w, lam: (w**2).sum(), zeros(3), normal(3) + 2)
    assert derivative_check.confirm(problem, problem.lam, solution(problem, 60)).unconfirmed == ()
    (message,) = derivative_check.at_solution(problem, problem.lam, solution(problem) + 1).unconfirmed
    assert message.startswith("∂₂Φ: w(λ) is not known well enough")
    by_loss = bc.Problem.from_loss(
        lambda w, lam: ((1 + lam**2) * w**2 / 2 - lam * w).sum(), lambda w, lam: (w**2).sum(), zeros(3), normal(3) + 2,
        step_size=lambda lam: 1 / (2 + 2 * (lam**2).max()),
    )  # fmt: skip
    assert derivative_check.confirm(by_loss, by_loss.lam, solution(by_loss, 400)).unconfirmed == ()


def test_a_kink_in_lam_at_lam_is_no_stop_gradient() -> None:
    for at_zero in (torch.relu, torch.abs, lambda x: torch.maximum(x, -2 * x)):
        problem = bc.Problem.from_map(
            lambda w, lam, f=at_zero: 0.5 * w + f(lam) + 0.1 * lam, lambda w, lam: (w**2).sum(), zeros(3), zeros(3)
        )
        derivative_check.confirm(problem, problem.lam, solution(problem))


def test_lam_at_the_border_of_its_domain() -> None:
    lam = torch.tensor([1e-9, 1.0], dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam.log(), lambda w, lam: (w**2).sum() + lam.sqrt().sum(), zeros(2), lam,
        domain=bc.Domain("every entry of lam is > 0", lambda lam: (lam > 0).all()),
    )  # fmt: skip
    assert derivative_check.confirm(problem, problem.lam, solution(problem, 60)).unconfirmed == ()


def test_what_rounding_hides_is_said_to_be_unconfirmed() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: (w**2).sum() + 1e16, zeros(2), zeros(2) + 1
    )
    (message,) = derivative_check.confirm(problem, problem.lam).unconfirmed
    assert message.startswith("∇₁E: finite differences are too rough")
    nowhere = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + 0 * lam, lambda w, lam: (1e-300 - w.abs()).sqrt().sum(), zeros(2), zeros(2)
    )
    for message in derivative_check.confirm(nowhere, nowhere.lam).unconfirmed:
        assert message[:3] in ("∇₁E", "∇₂E")
        assert message.endswith("it is not finite near the start")


def test_what_the_operations_said_on_arrival_is_not_forgotten() -> None:
    """A stop-gradient of 1e-5 of the derivative: too weak for finite differences, and too small to be sure of."""

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return w.sum() + 1e-5 * torch.sin(w).detach().sum()

    problem = bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, outer, zeros(2) + 0.3, zeros(2) + 1)
    afresh = derivative_check.confirm(problem, problem.lam)
    assert len(afresh.by_operations) == 1
    ON_ARRIVAL(problem)
    later = derivative_check.confirm(problem, problem.lam)
    assert set(afresh.by_operations) <= set(later.unconfirmed)
    assert later.by_operations == ()  # they were not run again
    assert derivative_check.confirm(problem, problem.lam + 1).by_operations


def test_what_was_found_on_arrival_is_known_of_the_problem_that_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivative_check, "on_arrival", ON_ARRIVAL)
    outer = lambda w, lam: w.sum() + 1e-5 * torch.sin(w).detach().sum()  # noqa: E731
    problem = bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, outer, zeros(2) + 0.3, zeros(2) + 1)
    later = derivative_check.confirm(problem, problem.lam)
    assert later.by_operations == ()  # they were not run again
    assert any("the operations" in why for why in later.unconfirmed)
