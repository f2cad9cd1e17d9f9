"""A support vector machine with squared hinges as people write it: the Hessian jumps, and the bounds hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import boundcheck as bc

Hinge = Callable[[Tensor], Tensor]


def machine(hinge: Hinge) -> bc.Problem:
    generator = torch.Generator().manual_seed(4)
    X = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    y = torch.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0).double()
    zero = torch.zeros((), dtype=torch.float64)

    def inner(p: dict[str, Tensor], h: Tensor) -> Tensor:
        margins = y[:40] * (X[:40] @ p["w"] + p["b"])
        return h.exp() * hinge(1 - margins).mean() + (p["w"] ** 2).sum() / 2 + p["b"] ** 2 / 2

    def outer(p: dict[str, Tensor], h: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-y[40:] * (X[40:] @ p["w"] + p["b"])).mean()

    return bc.Problem.from_loss(inner, outer, {"w": torch.zeros(5, dtype=torch.float64), "b": zero}, zero)


@pytest.mark.parametrize(
    "hinge",
    [
        lambda m: torch.relu(m) ** 2,
        lambda m: m.clamp(min=0).square(),
        lambda m: torch.max(m, torch.zeros_like(m)).pow(2),
    ],
    ids=("relu", "clamp", "maximum"),
)
def test_bounds_hold(hinge: Hinge) -> None:
    report = bc.check(machine(hinge), ["itd", "aid-fp"], t=15)
    assert report.constants["local"]["q"].side is bc.Side.UPPER
    assert report.verdicts["itd", "itd-local"] is bc.Verdict.HOLDS


def test_a_hessian_of_which_nothing_is_known_is_no_error() -> None:
    """The factor 2 hides the square from the rule. Numbers that were not finite ended the report."""
    report = bc.check(machine(lambda m: (2 * torch.relu(m)) ** 2 / 4), ["itd"], t=15)
    assert report.verdict is bc.Verdict.CONSISTENT
    assert report.constants["local"]["q"].side is bc.Side.LOWER
