"""What a program must not do unseen: numbers that leave PyTorch, derivatives that are cut, memory that is written."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.polynomial_degree import NONE, Degree, Degrees
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.replay import differs

W, LAM = torch.tensor([0.4, 1.2], dtype=torch.float64), torch.tensor([0.3, 0.5], dtype=torch.float64)
Function = Callable[[Tensor, Tensor], Tensor]


def reason(f: Function) -> str:
    """Why nothing is proved of a function; empty if something is."""
    try:
        program = capture(f, W, LAM, EXPANSIONS)
        try:
            if why := differs(program, f, W, LAM):
                return why
        except RuntimeError as error:  # as where the constants are proved: the function fails beside w
            return str(error)
        ScalarBounds(program, W, LAM, 0.05)
    except Declined as why:
        return str(why)
    return ""


def elsewhere(number: Any, w: Tensor) -> Tensor:
    """Another function far away from where it is recorded, which no comparison close by can see."""
    return (w**3).sum() if number < 1e3 else (w**5).sum()


def saved(w: Tensor) -> Tensor:
    buffer = io.BytesIO()
    torch.save(w, buffer)
    buffer.seek(0)
    return torch.load(buffer)


LEAVES: dict[str, Function] = {
    "numpy": lambda w, lam: elsewhere(np.linalg.norm(w.numpy()), w),
    "numpy, in a function": lambda w, lam: elsewhere(np.linalg.norm(w), w),
    "asarray": lambda w, lam: elsewhere(np.asarray(w).sum(), w),
    "item": lambda w, lam: elsewhere(w.norm().item(), w),
    "float": lambda w, lam: elsewhere(float(w.norm()), w),
    "int": lambda w, lam: elsewhere(int(w[0]), w),
    "if": lambda w, lam: (w**3).sum() if w.norm() < 1e3 else (w**5).sum(),
    "if of λ": lambda w, lam: (w**3).sum() if lam.norm() < 1e3 else (w**5).sum(),
    "tolist": lambda w, lam: elsewhere(sum(w.tolist()), w),
    "storage": lambda w, lam: elsewhere(sum(w._typed_storage().tolist()), w),
    "deepcopy": lambda w, lam: elsewhere(float(copy.deepcopy(w).norm()), w),
    "pickle": lambda w, lam: elsewhere(float(pickle.loads(pickle.dumps(w)).norm()), w),
    "save": lambda w, lam: elsewhere(float(saved(w).norm()), w),
    "dlpack": lambda w, lam: elsewhere(float(torch.from_dlpack(w).norm()), w),
    "repr": lambda w, lam: elsewhere(len(repr(w)), w),
    "format": lambda w, lam: elsewhere(float(f"{w.norm():.4f}"), w),
    "equal": lambda w, lam: (w**3).sum() if not torch.equal(w, w + 1) else (w**5).sum(),
    "allclose": lambda w, lam: (w**3).sum() if not torch.allclose(w, w + 1) else (w**5).sum(),
    "tensor of a list": lambda w, lam: elsewhere(float(torch.tensor([w[0], w[1]]).norm()), w),
    "as_tensor of a list": lambda w, lam: elsewhere(float(torch.as_tensor([w[0], [w[1]][0]]).norm()), w),
    "new_tensor of a list": lambda w, lam: elsewhere(float(lam.new_tensor([w[0], w[1]]).norm()), w),
    "DoubleTensor of a list": lambda w, lam: elsewhere(float(torch.DoubleTensor([w[0], w[1]]).norm()), w),
    "detach, then a number": lambda w, lam: elsewhere(float(w.detach().norm()), w),
    "apply_": lambda w, lam: w.clone().apply_(lambda x: x * x).sum(),
    "largest": lambda w, lam: max(w[0], w[1]),
    "argmax": lambda w, lam: w[w.argmax()] ** 2,
    "mask": lambda w, lam: (w[w > 0] ** 2).sum(),
    "nonzero": lambda w, lam: (w[torch.nonzero(w)] ** 2).sum(),
}


def unless_error(probe: Callable[[Tensor], object], w: Tensor) -> Tensor:
    """A function of pieces: which of them, an error says that depends on w."""
    try:
        probe(w)
    except (RuntimeError, IndexError):
        return (w**5).sum()
    return (w**3).sum()


ERRORS: dict[str, Callable[[Tensor], object]] = {
    "cholesky": lambda w: torch.linalg.cholesky(torch.diag(w + 1)),
    "cholesky that fails here": lambda w: torch.linalg.cholesky(torch.diag(w - 1)),
    "inv of what is cut off": lambda w: torch.linalg.inv(torch.diag(w.detach())),
    "take": lambda w: torch.zeros(3).take(w.long()),
    "take that fails here": lambda w: torch.zeros(1).take(w.long()),
    "index": lambda w: torch.arange(5.0)[w.to(torch.int32)],
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_that_depends_on_w_and_may_be_caught(name: str) -> None:
    def f(w: Tensor, lam: Tensor) -> Tensor:
        return unless_error(ERRORS[name], w)

    assert "an error may depend on numbers of w" in reason(f)
    assert leaks(f)


def leaks(f: Function) -> bool:
    """Is no degree known of f, as something may return unseen?"""
    degrees, w = Degrees(), W.clone().requires_grad_()
    degrees.set(w, Degree(1, NONE))
    with degrees:
        f(w, LAM)
    return degrees.leaked


def test_an_error_that_is_caught_is_seen_whatever_raised_it() -> None:
    why = reason(lambda w, lam: unless_error(lambda w: torch.ops.aten.mm.default(w[None], w[None]), w))
    assert "raises RuntimeError" in why


def test_errors_of_lam_alone_are_not_those_of_w() -> None:
    assert not leaks(lambda w, lam: w @ torch.linalg.solve(torch.diag(1 + lam), lam))


@pytest.mark.parametrize("name", LEAVES)
def test_a_number_that_leaves_pytorch_is_seen(name: str) -> None:
    why = reason(LEAVES[name])
    assert "takes numbers out of PyTorch" in why or "a number leaves PyTorch" in why or "looked at" in why
    assert ".py:" in why


@pytest.mark.parametrize("name", ["item", "numpy", "repr", "tensor of a list", "if"])
def test_a_function_that_catches_the_refusal_is_declined_too(name: str) -> None:
    def f(w: Tensor, lam: Tensor) -> Tensor:
        try:
            return LEAVES[name](w, lam)
        except BaseException:
            return (w**3).sum()

    assert "PyTorch" in reason(f)


class Tripled(torch.autograd.Function):
    """x ↦ 2x with the derivative 3."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 3


class Hidden(Tripled):
    """The same, and its operations are not under no_grad."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        with torch.enable_grad():
            return x * 2


def hooked(w: Tensor) -> Tensor:
    y = w * 1
    if y.requires_grad:
        y.register_hook(lambda g: 2 * g)
    return y


def with_other_data(w: Tensor) -> Tensor:
    parameter = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    parameter.data = w * 1
    return parameter


CUTS: dict[str, tuple[Function, str]] = {
    "detach": (lambda w, lam: (w.detach() * w).sum(), "∇₁"),
    "aten.detach": (lambda w, lam: (torch.ops.aten.detach(w) * w).sum(), "∇₁"),
    "data": (lambda w, lam: (w.data * w).sum(), "∇₁"),
    "detach of λ": (lambda w, lam: (lam.detach() * w).sum(), "∇₂"),
    "no_grad": (lambda w, lam: (torch.no_grad()(lambda: w * 2)() * w).sum(), "aten.mul.Tensor under no_grad"),
    "inference_mode": (lambda w, lam: (torch.inference_mode()(lambda: w * 2)() * w).sum(), "under no_grad"),
    "autograd.Function": (lambda w, lam: (Tripled.apply(w) ** 2).sum(), "in an autograd.Function"),
    "autograd.Function with enable_grad": (lambda w, lam: (Hidden.apply(w) ** 2).sum(), "∇₁"),
    "hook": (lambda w, lam: (hooked(w) ** 2).sum(), "∇₁"),
    "other data": (lambda w, lam: (with_other_data(w) ** 2).sum() + w.sum(), "∇₁"),
    "requires_grad": (lambda w, lam: (w**4 if w.requires_grad else w**3).sum(), "value"),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_derivative_that_is_cut_is_seen(name: str) -> None:
    f, words = CUTS[name]
    assert words in reason(f)


WRITES: dict[str, tuple[Function, str]] = {
    "w": (lambda w, lam: w.mul_(2).sum(), "aten.mul_.Tensor writes in place, into w, λ"),
    "a part of λ": (lambda w, lam: (lam[:1].mul_(2) * w).sum(), "aten.mul_.Tensor writes in place, into w, λ"),
    "out": (lambda w, lam: torch.mul(w, w, out=torch.empty(2, dtype=torch.float64)).sum(), "aten.mul.out"),
    "set_": (lambda w, lam: (torch.empty(0, dtype=torch.float64).set_(w) ** 2).sum(), "aten.set_"),
    "as_strided": (lambda w, lam: (torch.as_strided(w, (2, 2), (1, 0)) ** 2).sum(), "aten.as_strided has no rule"),
    "bits": (lambda w, lam: (w.view(torch.int64).double() * 1e-18 + w).sum(), "aten.view"),
    "random numbers": (lambda w, lam: (w * torch.randn(2)).sum(), "aten.randn.default: random numbers"),
    "dropout": (lambda w, lam: F.dropout(w, 0.5).sum(), "random numbers"),
    "random numbers of NumPy": (lambda w, lam: (w * torch.as_tensor(np.random.randn(2))).sum(), "another value"),
    "complex": (lambda w, lam: torch.complex(w, w).abs().sum(), "torch.complex128"),
    "Fourier": (lambda w, lam: torch.fft.rfft(w).abs().sum(), "torch.complex128"),
    "float16": (lambda w, lam: (w.half().double() ** 2).sum(), "aten._to_copy to torch.float16"),
    "whole numbers": (lambda w, lam: (w.long() * w).sum(), "_to_copy to torch.int64: an error may depend"),
    "a condition": (lambda w, lam: torch.where(w > 0, w**2, w).sum(), "aten.gt has no rule"),
    "sparse": (lambda w, lam: w.to_sparse().to_dense().sum(), "without memory of its own"),
    "round": (lambda w, lam: (w.round() ** 2).sum(), "aten.round has no rule, test_capture_guards.py:"),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_not_followed_is_named(name: str) -> None:
    f, words = WRITES[name]
    assert words in reason(f)


def test_a_closure_that_changes_is_seen() -> None:
    calls = []

    def f(w: Tensor, lam: Tensor) -> Tensor:
        calls.append(1)
        return (w**2).sum() * len(calls)

    assert "another value" in reason(f)


def test_a_workspace_that_is_written_again_is_seen() -> None:
    space = torch.zeros(2, dtype=torch.float64)

    def f(w: Tensor, lam: Tensor) -> Tensor:
        space.fill_(1.0)
        one = (w + space).exp().sum()
        space.fill_(2.0)
        return one + (w + space).exp().sum()

    assert "another value" in reason(f)


FINE: dict[str, Function] = {
    "gradient inside": lambda w, lam: (torch.func.grad(lambda x: (x**3).sum())(w) ** 2).sum(),
    "vector @ matrix": lambda w, lam: ((w @ torch.ones(2, 3, dtype=torch.float64)) ** 2).sum(),
    "indices": lambda w, lam: (w[[1, 0, 1]] ** 2).sum() + (w[:, None][torch.tensor([0, 1]), [0, 0]] ** 3).sum(),
    "tensor of data": lambda w, lam: (w * torch.tensor([1.0, 2.0], dtype=torch.float64)).sum(),
    "a tensor as it is": lambda w, lam: (torch.as_tensor(w) ** 2).sum(),
    "batches": lambda w, lam: torch.func.vmap(lambda x: x**3)(w).sum(),
    "data of NumPy": lambda w, lam: (w * torch.as_tensor(np.arange(2.0))).sum(),
    "linear module": lambda w, lam: F.linear(w, torch.ones(1, 2, dtype=torch.float64)).tanh().sum(),
}


@pytest.mark.parametrize("name", FINE)
def test_what_can_be_recorded_is(name: str) -> None:
    assert reason(FINE[name]) == ""
