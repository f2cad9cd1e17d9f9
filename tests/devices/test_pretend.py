"""The checks of `pretend.py` themselves: what is wrong on purpose is found, what is right passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pretend import DEVICE, DeviceError, DtypeError, OnlyDtype, host, pretending
from torch import Tensor

from boundcheck import error_curves, hypergradient
from boundcheck.numerics.bilevel.problem import Problem


def toy(phi: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float64, device: Any = DEVICE) -> Problem:
    w0 = torch.ones(3, dtype=dtype, device=device)
    return Problem("toy", w0, w0 / 2, phi, lambda w, lam: (w * w).sum(), symmetric=True)


def right(w: Tensor, lam: Tensor) -> Tensor:
    return lam * w / 2 + 1


def on_cpu(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.float64, device="cpu")


WRONG: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "arithmetic": lambda w, lam: lam * w / 2 + on_cpu(3),
    "product": lambda w, lam: (on_cpu(3, 3) / 9) @ w,
    "joined": lambda w, lam: torch.cat((w[:2] * lam[:2] / 2, on_cpu(1))),
    "joined with a number": lambda w, lam: torch.stack((w[0], w[1], on_cpu())),
    "chosen": lambda w, lam: torch.where(w > 5, w, on_cpu(3)),
    "index": lambda w, lam: (lam * w / 2)[torch.tensor([0, 2, 1], device="cpu")],
    "written into": lambda w, lam: torch.empty_like(w).copy_(on_cpu(3)),
    "written from": lambda w, lam: on_cpu(3).copy_(w),
    "written from a number": lambda w, lam: w / 2 + on_cpu().copy_(w[0]),
    "added to": lambda w, lam: w / 2 + on_cpu().add_(w[0]),
    "generator": lambda w, lam: w / 2 + torch.randn(3, device=w.device, generator=torch.Generator().manual_seed(0)),
    "no device": lambda w, lam: w / 2 + torch.zeros(3, dtype=w.dtype),
    "no device for a number": lambda w, lam: w * torch.tensor(0.5, dtype=w.dtype),
    "no device, not used": lambda w, lam: [w / 2, torch.empty(0)][0],
}


@pytest.mark.parametrize("method", ["itd", "aid-fp", "exact"])
@pytest.mark.parametrize("wrong", WRONG)
def test_mixing_devices_is_refused(wrong: str, method: str) -> None:
    expected = RuntimeError if method == "exact" else DeviceError  # vmap may be the first to refuse it
    with pretending(), pytest.raises(expected):
        hypergradient(toy(WRONG[wrong]), method, 3)


def test_what_is_right_passes() -> None:
    with pretending():
        result = hypergradient(toy(right), "itd", 3)
    expected = hypergradient(toy(right, device="cpu"), "itd", 3)
    assert torch.equal(host(result.value), expected.value)
    with pytest.raises(DeviceError, match="on cpu"):
        host(expected.value)


def test_a_cotangent_on_the_cpu_is_refused() -> None:
    with pretending():
        x = torch.ones(3, dtype=torch.float64, device=DEVICE, requires_grad=True)
        with pytest.raises(DeviceError, match="on cpu"):
            torch.autograd.grad(x * x, x, on_cpu(3))


def test_numbers_of_the_host_are_taken_as_on_a_gpu() -> None:
    """Python numbers everywhere, tensors with one number in operations entry by entry."""
    with pretending() as waits:
        x = torch.ones(3, dtype=torch.float64, device=DEVICE)
        x[0] = 3
        y = torch.where(x > 2, 2 * x, 0) + on_cpu() + x.new_tensor([0, 0, 4])
        x[1:] = on_cpu()
    assert host(y).tolist() == [7, 1, 5]
    assert host(x).tolist() == [3, 1, 1]
    assert waits == {"copy to lazy:0": 1}  # the list of numbers


def asks(question: Callable[[Tensor], Any]) -> Callable[[Tensor, Tensor], Tensor]:
    """Φ that puts a question to the device in every step."""

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        question(w.detach())
        return right(w, lam)

    return phi


QUESTIONS: dict[str, Callable[[Tensor], Any]] = {
    "float": lambda w: float(w[0]),
    "bool": lambda w: bool(w[0] > 0),
    "item": lambda w: w.sum().item(),
    "to the CPU": lambda w: w.cpu(),
    "from the CPU": lambda w: on_cpu(3).to(w),
    "mask": lambda w: w[w > 0],
    "nonzero": lambda w: w.nonzero(),
    "eigenvalues": lambda w: torch.linalg.eigvalsh(torch.outer(w, w)),
    "solve": lambda w: torch.linalg.solve(torch.eye(3, dtype=w.dtype, device=w.device), w),
}


@pytest.mark.parametrize("method", ["itd", "aid-fp"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_waits_are_counted(question: str, method: str) -> None:
    def waits(phi: Callable[[Tensor, Tensor], Tensor], t: int) -> Counter[str]:
        with pretending() as waits:
            hypergradient(toy(phi), method, t)
        return waits

    assert waits(right, 3) == waits(right, 6)
    phi = asks(QUESTIONS[question])
    assert waits(phi, 6).total() - waits(phi, 3).total() >= 3


def test_no_way_to_numpy_but_by_the_cpu() -> None:
    with pretending() as waits:
        x = torch.ones(3, dtype=torch.float64, device=DEVICE)
        for convert in (Tensor.numpy, Tensor.tolist, np.asarray):
            with pytest.raises((TypeError, RuntimeError)):
                convert(x)
        assert x.cpu().numpy().tolist() == [1, 1, 1]
    assert waits.total() == 1


def test_views_share_their_numbers() -> None:
    with pretending():
        x = torch.zeros(2, 3, dtype=torch.float64, device=DEVICE)
        x[:, 1].add_(1)
        x.T[2].copy_(x[0, 1])
    assert host(x).tolist() == [[0, 1, 1], [0, 1, 1]]


def test_only_inside() -> None:
    with pretending():
        x = torch.ones(3, dtype=torch.float64, device=DEVICE)
    with pytest.raises(DeviceError, match="outside"):
        x + x


OTHER_PRECISION: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a constant": lambda w, lam: (lam * w / 2 + torch.ones(3, dtype=torch.float64, device=w.device)).to(w),
    "up and down again": lambda w, lam: (lam * w.double() / 2 + 1).to(w),
    "a number": lambda w, lam: lam * w * torch.tensor(0.5, dtype=torch.float64, device=w.device),
}


@pytest.mark.parametrize("method", ["itd", "aid-fp", "exact"])
@pytest.mark.parametrize("wrong", OTHER_PRECISION)
def test_another_precision_is_refused(wrong: str, method: str) -> None:
    with pytest.raises(DtypeError, match="float64"), OnlyDtype(torch.float32):
        hypergradient(toy(OTHER_PRECISION[wrong], torch.float32, "cpu"), method, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_precision_passes(dtype: torch.dtype) -> None:
    with OnlyDtype(dtype):
        problem = toy(right, dtype, "cpu")
        for method in ("itd", "aid-fp", "aid-cg", "aid-cgn", "exact"):
            hypergradient(problem, method, 3)
        hypergradient(problem, "itd", 3, mode="forward")
        error_curves(problem, ["itd", "aid-fp", "aid-cg"], 3)
