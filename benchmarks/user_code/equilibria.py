"""Equilibrium models as papers and repositories have them: w = Φ(w, λ), with λ as the parameters of a layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import boundcheck as bc
from user_code.linear_models import FLOAT64, normal


class Cell(nn.Module):
    """tanh(Az + Bx), and a classifier of the states."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.A = nn.Linear(hidden, hidden, bias=False)
        self.B = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, classes)
        with torch.no_grad():
            self.A.weight.mul_(0.6 / torch.linalg.matrix_norm(self.A.weight, 2))

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        """One step."""
        return torch.tanh(self.A(z) + self.B(x))


def deep_equilibrium() -> bc.Problem:
    """A deep equilibrium model with nn.Linear layers."""
    X, y = normal(1, 10, 4), torch.arange(10) % 3
    torch.manual_seed(0)
    cell = Cell(4, 6, 3).double()

    def step(z: Tensor, cell: Cell) -> Tensor:
        return cell(z, X)

    def loss(z: Tensor, cell: Cell) -> Tensor:
        return F.cross_entropy(cell.out(z), y)

    return bc.Problem.from_map(step, loss, torch.zeros(10, 6, dtype=FLOAT64), cell, name="deq")


def normalised_equilibrium(size: float = 0.3) -> bc.Problem:
    """z = LayerNorm(x + A σ(z)), ‖A‖ = `size`: the norm at the end of a residual layer, as in transformers."""
    X, y = normal(2, 6, 4), normal(3, 6)
    A = normal(4, 4, 4)
    lam = {
        "A": size * A / torch.linalg.matrix_norm(A, 2),
        "gain": 0.5 * torch.ones(4, dtype=FLOAT64),
        "v": normal(5, 4),
    }

    def step(z: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return F.layer_norm(2 * X + torch.sigmoid(z) @ lam["A"], (4,), lam["gain"])

    def loss(z: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(z @ lam["v"], y)

    return bc.Problem.from_map(step, loss, torch.zeros(6, 4, dtype=FLOAT64), lam, name="layer norm deq")


def convolutional_equilibrium() -> bc.Problem:
    """z = softplus(K ⋆ z + K' ⋆ x + c) on small images, with a mean over pixels before the classifier."""
    images, y = normal(6, 3, 1, 5, 5), torch.tensor([0, 1, 2])
    K = normal(7, 2, 2, 3, 3)
    lam = {
        "K": K * (0.5 / K.abs().sum((1, 2, 3)).max()),
        "K_in": normal(8, 2, 1, 3, 3) / 3,
        "c": 0.1 * normal(9, 2),
        "head": normal(10, 3, 2),
    }

    def step(z: Tensor, lam: dict[str, Tensor]) -> Tensor:
        z = F.conv2d(z, lam["K"], lam["c"], padding=1)
        z += F.conv2d(images, lam["K_in"], padding=1)
        return F.softplus(z)

    def loss(z: Tensor, lam: dict[str, Tensor]) -> Tensor:
        pooled = F.adaptive_avg_pool2d(z, 1).flatten(1)
        return F.cross_entropy(F.linear(pooled, lam["head"]), y)

    return bc.Problem.from_map(step, loss, torch.zeros(3, 2, 5, 5, dtype=FLOAT64), lam, name="conv deq")
