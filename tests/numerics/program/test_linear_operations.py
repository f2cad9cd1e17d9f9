"""Tangents through linear operations, against forward mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.program import linear_operations

D = torch.float64
aten = torch.ops.aten
v, w = torch.tensor([0.3, -1.2, 0.8], dtype=D), torch.tensor([1.1, 0.4, -0.7], dtype=D)
A, B = torch.outer(v, w) + 1, torch.outer(w, w) - 2
CASES: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "aten.mul.Tensor": [((v, w), {}), ((A, w), {}), ((v, v.new_tensor(2.0)), {}), ((v, 3.0), {})],
    "aten.div.Tensor": [((v, w), {}), ((A, w), {}), ((v, 3.0), {})],
    "aten.dot.default": [((v, w), {})],
    "aten.mv.default": [((A, w), {})],
    "aten.mm.default": [((A, B), {})],
    "aten.bmm.default": [((A[None], B[None]), {})],
    "aten.mul.Scalar": [((v, 3), {})],
    "aten.div.Scalar": [((v, 3.0), {})],
    "aten.neg.default": [((v,), {})],
    "aten.clone.default": [((A.t(),), {}), ((v,), {"memory_format": torch.contiguous_format})],
    "aten.sum.default": [((A,), {}), ((A.float(),), {"dtype": D})],
    "aten.sum.dim_IntList": [((A, [0]), {}), ((A, [1], True), {}), ((A, None), {})],
    "aten.mean.default": [((A,), {})],
    "aten.mean.dim": [((A, [1], True), {})],
    "aten.select_backward.default": [((v, [3, 2], 1, 0), {})],
    "aten.slice_backward.default": [((v[:2], [3], 0, 1, 3, 1), {})],
    "aten.add.Tensor": [((v, w), {}), ((A, w), {"alpha": 2}), ((v, 3.0), {}), ((v, 3), {})],
    "aten.sub.Tensor": [((v, w), {}), ((w, A), {"alpha": 0.5}), ((v, 3.0), {})],
    "aten.ones_like.default": [((v,), {})],
    "aten.zeros_like.default": [((v,), {})],
}


def operation(full: str) -> Any:
    _, name, overload = full.split(".")
    return getattr(getattr(aten, name), overload)


def test_every_operation_has_a_case() -> None:
    assert set(CASES) == {*linear_operations.IN_EACH, *linear_operations.IN_BOTH, *linear_operations.WITHOUT}


def by_forward_mode(func: Any, args: Any, kwargs: Any, tangents: dict[int, Tensor]) -> Tensor:
    def function(*inputs: Tensor) -> Tensor:
        every = list(args)
        for i, x in zip(tangents, inputs, strict=True):
            every[i] = x
        result: Tensor = func(*every, **kwargs)
        return result

    truth: Tensor = torch.func.jvp(function, tuple(args[i] for i in tangents), tuple(tangents.values()))[1]
    return truth


def along(x: Tensor) -> Tensor:
    return torch.linspace(-1, 2, x.numel(), dtype=x.dtype).reshape(x.shape)


@pytest.mark.parametrize("full", CASES)
def test_the_tangent_is_that_of_forward_mode(full: str) -> None:
    func = operation(full)
    for args, kwargs in CASES[full]:
        tensors = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        for moving in ([0], [1], tensors) if len(tensors) == 2 else (tensors,):
            if full == "aten.div.Tensor" and 1 in moving:  # it is not linear there
                continue
            tangents = {i: along(args[i]) for i in moving}
            of = {id(args[i]): tangents[i] for i in moving}
            result = linear_operations.tangent(func, full, args, kwargs, lambda x, of=of: of.get(id(x)))  # type: ignore[misc]
            truth = by_forward_mode(func, args, kwargs, tangents)
            assert torch.allclose(torch.zeros_like(truth) if result is None else result, truth, rtol=1e-15, atol=1e-15)


def test_a_quotient_is_not_linear_below() -> None:
    with pytest.raises(NotImplementedError):
        linear_operations.tangent(
            aten.div.Tensor, "aten.div.Tensor", (v, w), {}, lambda x: along(x) if x is w else None
        )
