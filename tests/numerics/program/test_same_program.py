"""Two recordings are the same only if every operation and every number is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.recorded_program import Declined, Program
from boundcheck.numerics.program.same_program import Snapshot

W, LAM = torch.ones(3, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
X = torch.arange(6, dtype=torch.float64).view(2, 3)


def record(f: Callable[[Tensor, Tensor], Tensor]) -> Program:
    return capture(f, W, LAM, {})


def f(w: Tensor, lam: Tensor) -> Tensor:
    return ((X @ w) ** 2 * lam).sum()


def test_a_function_is_itself() -> None:
    assert Snapshot.of(record(f)).is_of(record(f))


@pytest.mark.parametrize(
    "other",
    [
        lambda w, lam: ((X @ w) ** 3 * lam).sum(),
        lambda w, lam: ((X @ w) ** 2 + lam).sum(),
        lambda w, lam: ((X @ w) ** 2 * lam).mean(),
        lambda w, lam: ((X * (1 + 2**-52) @ w) ** 2 * lam).sum(),
        lambda w, lam: ((X @ w) ** 2 * lam).sum() + 1,
        lambda w, lam: ((X @ w) ** 2.0 * lam).sum() * 1,
    ],
)
def test_another_one_is_not(other: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert not Snapshot.of(record(f)).is_of(record(other))


def test_a_write_into_the_data_is_seen() -> None:
    data = X.clone()

    def of_data(w: Tensor, lam: Tensor) -> Tensor:
        return (data @ w * lam).sum()

    snapshot = Snapshot.of(record(of_data))
    assert snapshot.is_of(record(of_data))
    data[0, 0] = torch.nextafter(data[0, 0], data[0, 0] + 1)
    assert not snapshot.is_of(record(of_data))


def test_not_a_number_equals_itself() -> None:
    nan = torch.full((3,), torch.nan, dtype=torch.float64)
    program = record(lambda w, lam: (nan * w).sum() + lam.sum())
    assert Snapshot.of(program).is_of(record(lambda w, lam: (nan * w).sum() + lam.sum()))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_data_are_declined() -> None:
    sparse = X.to_sparse_csr()
    with pytest.raises(Declined):
        Snapshot.of(record(lambda w, lam: (sparse @ w * lam).sum()))
