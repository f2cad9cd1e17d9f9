"""TorchDEQ: models with a DEQ layer as they are, against the package itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import boundcheck as bc
from boundcheck.errors import InputError

torchdeq = pytest.importorskip("torchdeq", reason="needs TorchDEQ: pip install 'boundcheck[audit]'")
ADAPTER = bc.adapters.torchdeq
X = torch.tensor([[1.0, -0.5], [0.3, 0.8]], dtype=torch.float64)
SOLVED = {"f_tol": 1e-13, "b_tol": 1e-13, "f_max_iter": 200, "b_max_iter": 200}


class Model(nn.Module):
    """z = tanh(Az + Bx) with ‖A‖ = 0.5, then a linear layer; in one state, or in two that act on one another."""

    def __init__(self, states: int = 1, **options: Any) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.A = nn.Parameter(torch.randn(3, 3, dtype=torch.float64, generator=generator))
        self.B = nn.Parameter(torch.randn(2, 3, dtype=torch.float64, generator=generator))
        self.C = nn.Parameter(torch.randn(3, 1, dtype=torch.float64, generator=generator))
        self.unused = nn.Parameter(torch.ones(1, dtype=torch.float64), requires_grad=False)
        with torch.no_grad():
            self.A.mul_(0.5 / torch.linalg.matrix_norm(self.A, 2))
        self.states, self.deq = states, torchdeq.get_deq(**options)

    def forward(self, x: Tensor) -> Tensor:
        injected, zeros = x @ self.B, torch.zeros(len(x), 3, dtype=x.dtype)
        if self.states == 1:
            z_out, info = self.deq(lambda z: torch.tanh(z @ self.A + injected), zeros)
            assert info["abs_lowest"] is not None
            return z_out[-1] @ self.C
        z_out, _ = self.deq(lambda a, b: (torch.tanh(b @ self.A + injected), torch.tanh(a @ self.A)), (zeros, zeros))
        return (z_out[-1][0] + z_out[-1][1]) @ self.C


def loss(model: nn.Module) -> Tensor:
    value: Tensor = ((model(X) - 1) ** 2).sum() / 2
    return value


def unrolled(model: Model) -> dict[str, Tensor]:
    """The gradient through 200 plain steps: 0.5^200 is below rounding."""
    a = b = torch.zeros(len(X), 3, dtype=X.dtype)
    for _ in range(200):
        if model.states == 1:
            a = torch.tanh(a @ model.A + X @ model.B)
        else:
            a, b = torch.tanh(b @ model.A + X @ model.B), torch.tanh(a @ model.A)
    value = (((a + b) @ model.C - 1) ** 2).sum() / 2
    names = ["A", "B", "C"]
    return dict(zip(names, torch.autograd.grad(value, [getattr(model, name) for name in names]), strict=True))


def distance(g: dict[str, Tensor], exact: dict[str, Tensor]) -> float:
    return float(torch.cat([(g[name] - exact[name]).reshape(-1) for name in g]).norm())


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize(
    ("options", "least", "most"),
    [({}, 0.05, 1.0), ({"ift": True}, 1e-9, 1e-2), ({"ift": True, **SOLVED}, 0.0, 1e-10)],
    ids=["default", "ift", "ift solved"],
)
def test_the_error_is_that_of_an_unrolled_gradient(
    states: int, options: dict[str, Any], least: float, most: float
) -> None:
    model = Model(states, **options)
    problem = ADAPTER.problem(model, loss)
    model.zero_grad()
    loss(model).backward()
    g, exact = ADAPTER.gradients(model), unrolled(model)
    error, enclosure = distance(g, exact), bc.enclose(problem, g)
    assert least <= error <= most
    assert enclosure.lower - 1e-12 <= error <= enclosure.upper + 1e-12  # 200 steps of float64 round far below that
    assert enclosure.upper - enclosure.lower < 1e-9
    assert enclosure.side is bc.Side.UPPER
    assert "unused" not in g


def test_the_layer_is_the_same_afterwards() -> None:
    model = Model(ift=True)
    before = model(X)
    problem = ADAPTER.problem(model, loss)
    z = torch.linspace(-1, 1, 6, dtype=X.dtype)
    step = torch.tanh(z.reshape(2, 3) @ model.A + X @ model.B)
    torch.testing.assert_close(problem.phi(z, problem.lam), step.detach().reshape(-1))  # one step of f, not two
    assert "forward" not in vars(model.deq)
    assert torch.equal(model(X), before)


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="the model has 0 DEQ layers"):
        ADAPTER.problem(nn.Linear(2, 1), loss)
    two = Model()
    two.second = torchdeq.get_deq()
    with pytest.raises(InputError, match="the model has 2 DEQ layers"):
        ADAPTER.problem(two, loss)
    with pytest.raises(InputError, match="called the DEQ layer 2 times"):
        ADAPTER.problem(Model(), lambda model: loss(model) + loss(model))
    with pytest.raises(InputError, match="called the DEQ layer 0 times"):
        ADAPTER.problem(Model(), lambda model: model.A.sum())
    with pytest.raises(InputError, match=r"no parameter of the model has a \.grad"):
        ADAPTER.gradients(Model())
