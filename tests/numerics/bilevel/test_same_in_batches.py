"""A function that gives another value in a batch, or while it is differentiated, is refused in words that say why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from pieces import normal, zeros
from torch import Tensor

import boundcheck as bc

Function = Callable[[Tensor, Tensor], Tensor]
X, y = normal(5, 2), normal(5)


def square(w: Tensor, lam: Tensor) -> Tensor:
    return (w**2).sum()


def half(w: Tensor, lam: Tensor) -> Tensor:
    return 0.5 * w + lam


def make(phi: Function = half, outer: Function = square) -> bc.Problem:
    return bc.Problem.from_map(phi, outer, zeros(2), zeros(2) + 1)


def if_single(single: Function, other: Function) -> Function:
    """One function where numbers can be read, and another where that is an error."""

    def function(w: Tensor, lam: Tensor) -> Tensor:
        try:
            bool((w < 1e9).all())
        except RuntimeError:
            return other(w, lam)
        return single(w, lam)

    return function


@pytest.mark.parametrize("other", [lambda w, lam: 4 * square(w, lam), square])
def test_errors_that_are_caught_in_a_batch(other: Function) -> None:
    with pytest.raises(bc.InputError, match=r"outer_loss catches an error \(__bool__, test_same_in.*in a batch only"):
        make(outer=if_single(square, other))
    with pytest.raises(bc.InputError, match=r"fp_map catches an error \(__bool__"):
        make(if_single(half, lambda w, lam: 0.5 * w + 2 * lam))


def of_loss(inner: Function) -> bc.Problem:
    return bc.Problem.from_loss(inner, square, zeros(2), zeros(2) + 1, step_size=0.1)


def test_errors_that_are_caught_in_a_batch_of_a_loss() -> None:
    def loss(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - lam) ** 2).sum()

    with pytest.raises(bc.InputError, match=r"the gradient step on inner_loss catches an error \(__bool__"):
        of_loss(if_single(loss, lambda w, lam: 2 * loss(w, lam)))


@pytest.mark.parametrize("asks", [lambda w: w.requires_grad, lambda w: torch.is_grad_enabled()])
def test_functions_that_ask_whether_they_are_differentiated(asks: Callable[[Tensor], bool]) -> None:
    def phi(w: Tensor, lam: Tensor) -> Tensor:
        return half(w, lam) if asks(w) else 0.9 * w + lam

    with pytest.raises(bc.InputError, match=r"a value of fp_map is .* in a plain call and .* while it is diff"):
        make(phi)


def test_another_value_in_a_batch() -> None:
    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return square(w, lam) * (1 + 1e-6 * torch._C._functorch.is_batchedtensor(w))

    with pytest.raises(bc.InputError, match=r"a value of outer_loss is .* in a plain call and .* in a batch"):
        make(outer=outer)


@pytest.mark.parametrize(
    "outer",
    [
        lambda w, lam: ((X @ w - y) ** 2).sum(),
        lambda w, lam: ((w + 1e8) - 1e8).square().sum(),
        lambda w, lam: (w @ (X.T @ X) @ w - 2 * (y @ X) @ w + y @ y - ((X @ w - y) ** 2).sum()) * 1e9 + w.sum(),
        lambda w, lam: (X @ w).relu().max() + w.abs().sum(),
    ],
)
def test_what_differs_by_rounding_is_one_function(outer: Function) -> None:
    make(outer=outer)


def test_an_error_that_every_call_catches() -> None:
    def outer(w: Tensor, lam: Tensor) -> Tensor:
        with suppress(RuntimeError):
            torch.zeros(2) @ torch.zeros(3)
        return square(w, lam)

    make(outer=outer)


def test_a_function_without_a_second_derivative_is_refused_where_that_matters() -> None:
    of_loss(lambda w, lam: torch.cdist(X, w[None]).pow(2).sum() + (lam * w**2).sum())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_step_that_reaches_the_solution_at_once_differs_by_rounding(dtype: torch.dtype) -> None:
    """One weight: the default step is the inverse of the curvature, and 1 − αh is what rounding leaves."""
    zero = torch.zeros(1, dtype=dtype)
    for seed in range(8):
        x, y = torch.randn(2, 5, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)

        def inner(w: Tensor, lam: Tensor, x: Tensor = x, y: Tensor = y) -> Tensor:
            return ((x @ w - y[:, 0]) ** 2).mean() / 2 + (lam.exp() * w**2).sum() / 2

        bc.Problem.from_loss(inner, lambda w, lam: ((w - 1) ** 2).sum(), zero, zero)  # refuses it if they differ


def test_an_ill_conditioned_system_is_rounded_otherwise_in_a_batch() -> None:
    """Its derivative by λ is off by 1e-8 in a batch, which is what rounding of the matrix does."""
    n = 8
    hilbert = torch.tensor([[1 / (i + j + 1) for j in range(n)] for i in range(n)], dtype=torch.float64)

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        b = (lam[:1] * torch.ones(n, dtype=lam.dtype))[:, None]
        return 0.5 * w + 1e-4 * torch.cholesky_solve(b, torch.linalg.cholesky(hilbert))[:2, 0]

    make(phi)
