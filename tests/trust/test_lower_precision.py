"""Functions that compute in a lower precision than their problem: its rounding is part of every error."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.program.lower_precision import coarsest

D = torch.float64
_generator = torch.Generator().manual_seed(0)
X, X_val = (torch.randn(30, 5, generator=_generator, dtype=D) for _ in range(2))
Y, Y_val = (torch.randn(30, generator=_generator, dtype=D) for _ in range(2))
LAM = torch.tensor([-1.1], dtype=D)
Cast = Callable[[Tensor], Tensor]


def ridge(data: Cast = Tensor.clone, lam: Cast = Tensor.clone, outer: Cast = Tensor.clone) -> bc.Problem:
    def inner_loss(w: Tensor, h: Tensor) -> Tensor:
        return ((data(X) @ w - Y) ** 2).mean() / 2 + lam(h).exp().sum() * (w @ w) / 2

    def outer_loss(w: Tensor, h: Tensor) -> Tensor:
        return (outer(X_val @ w - Y_val) ** 2).mean()

    return bc.Problem.from_loss(inner_loss, outer_loss, torch.zeros(5, dtype=D), LAM, 0.2)


@cache
def truth() -> Tensor:
    return bc.hypergradient(ridge(), "exact").value


def single(x: Tensor) -> Tensor:
    return x.float().double()


def half(x: Tensor) -> Tensor:
    return x.half().double()


@pytest.mark.parametrize("where", ["data", "lam", "outer"])
@pytest.mark.parametrize("cast", [single, half])
def test_the_error_counts_what_a_cast_rounds(where: str, cast: Cast) -> None:
    """With 1e-10 the errors were said to be 4e-15 to 2e-12 of ‖∇f‖; they are 6e-9 to 3e-4."""
    problem = ridge(**{where: cast})
    with pytest.raises(bc.ToleranceError) as caught:
        bc.hypergradient(problem, rtol=1e-10, t=500)
    found = caught.value.best
    assert found.error.upper >= float((found.value - truth()).norm())
    assert found.relative_error < 0.1


def test_an_error_with_cast_data_is_not_proved() -> None:
    """It was: at most 4.1e-8 of ‖∇f‖, and it is 1.3e-7."""
    found = bc.hypergradient(ridge(data=single), rtol=1e-3)
    assert found.how == "estimated"
    assert "computes with its data in float64, and rounds (aten._to_copy" in found.why_not_proved


def test_a_cast_that_rounds_nothing_is_none() -> None:
    whole = X.round()
    assert coarsest(D, lambda: (X > 0).float() * 2 + whole.half().sum()) is D
    assert coarsest(D, lambda: X.bfloat16().double() @ X.T.float().double()) is torch.bfloat16
    assert coarsest(D, lambda: torch.sigmoid(whole.float()).double()) is torch.float32
    assert coarsest(torch.float32, lambda: X.float() @ X.float().T) is torch.float32
    written = torch.zeros(30, 5, dtype=torch.float32)
    assert coarsest(D, lambda: written.copy_(X)) is torch.float32
