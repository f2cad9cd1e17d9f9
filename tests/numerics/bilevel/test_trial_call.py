"""Functions that ignore what they are given, or cannot be batched, are refused in words that say why."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pieces import quadratic, zeros
from torch import Tensor

import boundcheck as bc


def plus(w: Tensor, lam: Tensor) -> Tensor:
    return 0.5 * w + lam


def make(inner: Callable[..., object], outer: Callable[..., object] = quadratic, **options: object) -> bc.Problem:
    return bc.Problem.from_loss(inner, outer, zeros(2) + 1, zeros(2) + 2, **options)


def silently(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def without(w: Tensor, lam: Tensor) -> Tensor:
        with torch.no_grad():
            return function(w, lam)

    return without


@pytest.mark.parametrize(
    ("inner", "outer", "message"),
    [
        (lambda w, lam: quadratic(w.detach(), lam), quadratic, "inner_loss does not depend on params"),
        (lambda w, lam: quadratic(w.data, lam), quadratic, "inner_loss does not depend on params"),
        (silently(quadratic), quadratic, "inner_loss does not depend on params"),
        (lambda w, lam: lam.sum(), quadratic, "inner_loss does not depend on params"),
        (quadratic, lambda w, lam: lam.sum(), "outer_loss does not depend on params"),
        (quadratic, lambda w, lam: torch.ones(()).double(), "outer_loss does not depend on params"),
        (quadratic, lambda w, lam: (w > 0).sum().double(), "outer_loss does not depend on params"),
        (
            lambda w, lam: (w**2).sum(), lambda w, lam: w.sum(),
            "neither inner_loss nor outer_loss depends on hparams, so the hypergradient is 0 for every method",
        ),
        (lambda w, lam: (w**2).sum(), quadratic, r"inner_loss does not depend on hparams, so w\(λ\) is constant"),
        (
            lambda w, lam: (w**2).sum() + lam.sum(), quadratic,
            "the gradient of inner_loss by params does not depend on hparams",
        ),
        (lambda w, lam: quadratic(w, lam).item(), quadratic, r"returned a float; return a 0-d tensor, without \.item"),
        (lambda w, lam: quadratic(w, lam).float(), quadratic, "inner_loss returned torch.float32"),
        (
            lambda w, lam: quadratic(w, lam) + torch.tensor(np.sin(w.numpy())).sum(), quadratic,
            r"inner_loss raised RuntimeError: Can't call numpy.*may not use numpy, \.item\(\) or `if`",
        ),
    ],
)  # fmt: skip
def test_losses_that_ignore_what_they_are_given(inner: object, outer: object, message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message) as caught:
        make(inner, outer)
    assert "\n" not in str(caught.value)


def test_maps_that_ignore_what_they_are_given() -> None:
    with pytest.raises(bc.InputError, match="neither fp_map nor outer_loss depends on hparams"):
        bc.Problem.from_map(lambda w, lam: 0.5 * w, lambda w, lam: w.sum(), zeros(2), zeros(2))
    with pytest.raises(bc.InputError, match="fp_map does not depend on hparams"):
        bc.Problem.from_map(lambda w, lam: 0.5 * w + lam.detach(), quadratic, zeros(2), zeros(2))
    constant = bc.Problem.from_map(lambda w, lam: lam**2, lambda w, lam: w.sum(), zeros(2), zeros(2) + 3)
    assert bc.hypergradient(constant, "aid-fp", 1, 1).value.tolist() == [6.0, 6.0]  # q = 0 is a contraction


def test_dependence_goes_through_prepare() -> None:
    make(lambda w, shift: ((w - shift) ** 2).sum(), lambda w, shift: w.sum(), prepare=lambda lam: lam**2)
    with pytest.raises(bc.InputError, match="neither inner_loss nor outer_loss depends on hparams"):
        make(lambda w, shift: ((w - shift) ** 2).sum(), lambda w, _: w.sum(), prepare=lambda lam: lam.detach() ** 2)


def test_a_gradient_that_is_0_is_one() -> None:
    """At the start, ∇₁E = 0 and ∂₂∇₁ℓ = 0; both functions depend on their arguments all the same."""
    problem = bc.Problem.from_loss(
        lambda w, lam: ((lam**2 + 1) * w**2).sum(), lambda w, lam: (w**2).sum(), zeros(2), zeros(2)
    )
    assert bc.hypergradient(problem, "aid-fp", 3, 3).value.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("outer", "rule"),
    [
        (
            lambda w, lam: w.sum() * 2 if w.sum() > 0 else w.sum(),
            "may not use numpy, .item() or `if` on values of tensors",
        ),
        (lambda w, lam: w.sum() * w[0].item(), "does it use detach(), no_grad(), .data, .item()"),
        (lambda w, lam: w.sum() + torch.rand(()).double(), "functions may not draw random numbers"),
    ],
)
def test_what_cannot_be_batched_is_told_with_the_rule(outer: Callable[..., Tensor], rule: str) -> None:
    with pytest.raises(bc.UserCodeError) as caught:
        bc.error_curves(bc.Problem.from_map(plus, outer, zeros(2) + 1, zeros(2) + 1), ["itd"], t=3)
    assert rule in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_tensor_from_outside_is_not_the_argument() -> None:
    lam = (zeros(2) + 1).requires_grad_()
    with pytest.raises(bc.InputError, match="inner_loss uses hparams itself, not the argument that replaces it"):
        bc.Problem.from_loss(lambda w, h: quadratic(w, lam) + h.sum() * w.sum(), quadratic, zeros(2), lam)


def test_a_module_that_is_taken_for_its_parameters() -> None:
    model = torch.nn.Linear(2, 1).double()
    X, lam = torch.ones(3, 2, dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    def loss(params: Any, lam: Tensor) -> Tensor:
        return torch.func.functional_call(model, params, (X,)).sum() ** 2 + lam.sum()

    with pytest.raises(bc.UserCodeError, match=r"call it, as in params\(X\), or give dict\(model\.named_parameters"):
        bc.Problem.from_loss(loss, loss, model, lam)


class Memory(torch.nn.Module):
    """A module that computes its penalty once."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(zeros(2) + 1)

    @functools.cached_property
    def penalty(self) -> Tensor:
        return (self.w**2).sum()


def test_a_tensor_of_an_earlier_call_is_not_that_of_this_one() -> None:
    """In a later call it is a constant: the hypergradient was 0, and was called proved."""
    cache: dict[str, Tensor] = {}

    def remembers(w: Tensor, lam: Tensor) -> Tensor:
        if "rate" not in cache:
            cache["rate"] = lam.exp().sum()
        return ((w - 1) ** 2).sum() + cache["rate"] * (w**2).sum()

    with pytest.raises(bc.InputError, match="inner_loss keeps a tensor that an earlier call computed from hparams"):
        make(remembers)
    with pytest.raises(bc.InputError, match="inner_loss keeps a tensor that an earlier call computed from params"):
        bc.Problem.from_loss(
            lambda m, lam: ((m.w - 1) ** 2).sum() + lam.exp().sum() * m.penalty,
            lambda m, lam: (m.w**2).sum(), Memory(), zeros(1),
        )  # fmt: skip
    cache["rate"] = torch.ones(())  # of data alone
    with pytest.raises(bc.InputError, match="does not depend on hparams"):
        make(remembers)


def test_a_tensor_that_a_gradient_cannot_use_again_is_named_as_kept() -> None:
    """PyTorch says: INTERNAL ASSERT FAILED, please report a bug, escaped?"""
    kept = [torch.zeros((), dtype=torch.float64)]

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        kept[0] = 0.9 * kept[0] + 0.1 * w.mean().detach()
        return quadratic(w, lam) - kept[0]

    with pytest.raises(bc.UserCodeError, match=r"inner_loss raised .* may not keep a tensor from one call to the next"):
        bc.check(make(inner), ["itd"], t=3)
