"""Users' problems with formulas derived from their programs, on a device that pretends: as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pretend import DEVICE, Pretend, host, pretending
from torch import Tensor

from boundcheck import error_curves, hypergradient
from boundcheck.numerics.bilevel.formulas import for_columns
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick import quick_problem
from boundcheck.numerics.program import unusable

Where = dict[str, Any]  # dtype and device
T = 3


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a real device are plain ones, so those that pretend count as plain too."""
    monkeypatch.setattr(unusable, "PLAIN", (*unusable.PLAIN, Pretend))


def points(where: Where, *shape: int) -> Tensor:
    count = torch.Size(shape).numel()
    return (torch.linspace(-1, 1, count, **where) ** 3 + 0.2).reshape(shape)


def logistic(where: Where) -> Problem:
    X, y, zeros = points(where, 4, 3), torch.tensor([1.0, -1.0, 1.0, 1.0], **where), torch.zeros(3, **where)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return F.softplus(-y * (X @ w)).sum() + 0.5 * (lam.exp() * w**2).sum()

    return Problem.from_loss(inner, lambda w, lam: (X @ w - y).square().mean(), zeros, zeros, 0.1)


def kernel(where: Where) -> Problem:
    X, y, zeros = points(where, 4, 3), points(where, 4), torch.zeros(4, **where)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        K = torch.exp(-((X[:, None] - X) ** 2 * lam).sum(-1)) + torch.eye(4, **where)
        return 0.5 * w @ (K @ w) - w @ y

    return Problem.from_loss(inner, lambda w, lam: (w - y).square().sum(), zeros, torch.ones(3, **where), 0.1)


def classes(where: Where) -> Problem:
    X, y = points(where, 4, 3), torch.tensor([0, 1, 1, 0], device=where["device"])
    params = {"W": torch.zeros(3, 2, **where), "b": torch.zeros(2, **where)}

    def inner(params: dict[str, Tensor], lam: Tensor) -> Tensor:
        penalty = (lam.exp()[:, None] * params["W"] ** 2).sum() + params["b"].square().sum()
        return F.cross_entropy(X @ params["W"] + params["b"], y) + penalty

    def outer(params: dict[str, Tensor], lam: Tensor) -> Tensor:
        return F.cross_entropy(X @ params["W"], y)

    return Problem.from_loss(inner, outer, params, torch.zeros(3, **where), 0.1)


def written(where: Where) -> Problem:
    """A loss that writes into memory of its own; a view of what pretends has memory of another name, so not by one."""
    X, y, zeros = points(where, 4, 3), points(where, 4), torch.zeros(3, **where)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        residual = X @ w
        residual -= y
        weights = torch.empty_like(lam)
        weights.zero_()
        weights += lam.exp()
        return residual.square().sum() + (weights * w**2).sum()

    return Problem.from_loss(inner, lambda w, lam: (X @ w - y).square().mean(), zeros, zeros, 0.1)


def layer(where: Where) -> Problem:
    X, zeros = points(where, 4, 2), torch.zeros(4, 3, **where)
    lam = {"A": 0.2 * points(where, 3, 3), "B": points(where, 3, 2)}
    y = torch.tensor([0, 1, 1, 0], device=where["device"])

    def phi(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return torch.tanh(w @ lam["A"].T + X @ lam["B"].T)

    return Problem.from_map(phi, lambda w, lam: F.cross_entropy(w, y), zeros, lam)


def network(where: Where) -> Problem:
    """With sin, as autograd detaches results that it keeps, such as those of tanh, where a tensor has its own class."""
    X, y = points(where, 4, 2), points(where, 4)
    params = [0.1 * points(where, 2, 2), points(where, 2)]

    def inner(params: list[Tensor], lam: Tensor) -> Tensor:
        error = F.mse_loss(torch.sin(X @ params[0]) @ params[1], y)
        return error + lam.exp() * sum((p**2).sum() for p in params)

    def outer(params: list[Tensor], lam: Tensor) -> Tensor:
        return F.mse_loss(torch.sin(X @ params[0]) @ params[1], y)

    return Problem.from_loss(inner, outer, params, torch.zeros((), **where), 0.1)


PROBLEMS: dict[str, tuple[Callable[[Where], Problem], bool]] = {  # and whether ∂₁Φ has a formula for columns
    "logistic": (logistic, True),
    "kernel": (kernel, True),
    "classes": (classes, False),
    "written": (written, True),
    "layer": (layer, False),
    "network": (network, False),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [("logistic", torch.float32), ("layer", torch.float32), *((x, torch.float64) for x in PROBLEMS)]
)
def test_recognised_problems(name: str, dtype: torch.dtype) -> None:
    make, has_columns = PROBLEMS[name]
    same = make({"dtype": dtype, "device": "cpu"})
    with pretending():
        problem = make({"dtype": dtype, "device": DEVICE})
        formulas = quick_problem.quick(problem)
    assert formulas is not problem
    assert type(formulas.d1phi_T_at) is type(quick_problem.quick(same).d1phi_T_at)
    assert (for_columns(formulas.d1phi_T_at) is not None) is has_columns
    for method in ("aid-fp", "itd"):
        with pretending():
            result = hypergradient(problem, method, T)
        agrees(result.value, hypergradient(same, method, T).value)
    with pretending():
        curves = error_curves(problem, ["itd", "aid-fp"], T)
    expected = error_curves(same, ["itd", "aid-fp"], T)
    for method in curves:
        assert curves[method] == pytest.approx(expected[method], rel=torch.finfo(dtype).eps ** 0.5), method


def agrees(value: Tensor, expected: Tensor) -> None:
    """Other kernels of the CPU, so another rounding: √ε, as in `test_devices.py`."""
    assert value.dtype == expected.dtype
    assert (host(value) - expected).norm() <= torch.finfo(expected.dtype).eps ** 0.5 * expected.norm()
