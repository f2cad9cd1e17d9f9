"""`as_strided` in a user's function: the entries that a plain call reads, in batches and in derivatives too."""

from __future__ import annotations

import pytest
import torch
from pieces import zeros
from torch import Tensor

import boundcheck as bc

W0, LAM = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64), torch.tensor([0.4], dtype=torch.float64)

DATA = torch.arange(4, dtype=torch.float64) / 10


def windows(w: Tensor) -> Tensor:
    return torch.stack([w[:2], w[1:]])


def square(w: Tensor, lam: Tensor) -> Tensor:
    return (w**2).sum()


def make(windows_of: object) -> bc.Problem:
    def phi(w: Tensor, lam: Tensor) -> Tensor:
        A = windows_of(w)
        return 0.3 * torch.sin(w) + 0.02 * (A @ A.T).sum() * w.mean() + lam

    return bc.Problem.from_map(phi, square, W0, LAM)


def test_constants_and_curves_are_those_of_indices() -> None:
    """ν₁ was estimated as 216, and is 0.38."""
    strided, plain = make(lambda w: torch.as_strided(w, (2, 2), (1, 1))), make(windows)
    ours, theirs = (bc.estimate_constants(p, ball="local")["nu_1"].value for p in (strided, plain))
    assert ours == pytest.approx(theirs, rel=1e-6)
    curves = [bc.error_curves(p, ["itd"], t=3, algorithm="forward").errors["itd"] for p in (strided, plain)]
    assert curves[0] == pytest.approx(curves[1], rel=1e-12)


@pytest.mark.parametrize(
    ("strided", "message"),
    [
        (lambda w: torch.as_strided(w, (2, 2), (1, 0), 1), "storage_offset = 1"),
        (lambda w: w[:2].as_strided((2, 2), (1, 1)), "reads entry 2 of a tensor of 2"),
        (lambda w: torch.as_strided(torch.stack([w, w]).T, (2, 2), (1, 1)), "not contiguous"),
    ],
)
def test_memory_of_something_else_is_refused(strided: object, message: str) -> None:
    with pytest.raises(bc.InputError, match=message):
        make(strided)


def test_strides_of_data_are_free() -> None:
    X = zeros(6) + torch.arange(6)
    make(lambda w: torch.as_strided(X, (2, 2), (1, 1), 2) * w[0])


def _into_the_view(w: Tensor) -> Tensor:
    b = DATA / 3
    b.as_strided((2,), (2,)).add_(torch.sin(w[:2]))
    return b.reshape(2, 2)


def _into_the_tensor(w: Tensor) -> Tensor:
    b = DATA * w[:1]
    view = torch.as_strided(input=b, size=(2, 2), stride=(1, 1))
    b.mul_(2)
    return view


@pytest.mark.parametrize("written", [_into_the_view, _into_the_tensor])
def test_writes_that_a_copy_does_not_show_are_refused(written: object) -> None:
    """The write was lost, and the hypergradient was that of another function: 1 % off, and said to be within 2e-8."""
    with pytest.raises(bc.InputError, match="a write in place into a result of as_strided"):
        make(written)


def test_writes_before_a_view_are_taken() -> None:
    def written(w: Tensor) -> Tensor:
        b = DATA * w[:1]
        b.mul_(2)
        return torch.as_strided(b, (2, 2), (1, 1))

    make(written)
