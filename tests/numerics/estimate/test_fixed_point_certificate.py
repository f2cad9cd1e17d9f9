"""The proof that there is a fixed point next to a computed one, against fixed points that are known."""

import pytest
import torch
from torch import Tensor

import boundcheck as bc


@pytest.mark.parametrize("seed", range(4))
def test_distances_of_a_float32_problem_are_upper_bounds(seed: int) -> None:
    """The norm of w_0 − w alone, in float32, was below ‖w_0 − w*‖ for two of these."""
    generator = torch.Generator().manual_seed(seed)
    X, y = torch.randn(20, 5, generator=generator), torch.randn(20, generator=generator)
    w_0 = torch.randn(5, generator=generator)

    def outer_loss(w: Tensor, lam: Tensor) -> Tensor:
        return 0.5 * ((X @ w - y) ** 2).mean()

    def inner_loss(w: Tensor, lam: Tensor) -> Tensor:
        return outer_loss(w, lam) + 0.5 * lam.exp().sum() * (w**2).sum()

    problem = bc.Problem.from_loss(inner_loss, outer_loss, w_0, torch.zeros(1), 0.3)
    constants = bc.estimate_constants(problem, ball="local", budget=10)
    X, y = X.double(), y.double()
    w_star = torch.linalg.solve(X.T @ X / 20 + torch.eye(5), X.T @ y / 20)
    assert constants["D"].side.value == constants["r_0"].side.value == "upper"
    assert constants["D"].value >= float(w_star.norm())
    assert constants["r_0"].value >= float((w_0 - w_star).norm())
