"""What a black box is made of: is ∂₁Φ, ∂₂Φ, ∇²₁E or ∇₂E the same for all w?

Compared at random points, along random vectors. A derivative that is analytic and not constant differs there with
probability one, so agreement to rounding verifies constancy. In floating point tanh is flat far out and w³ is flat
near 0, so the points lie near and far, around w*, w_0 and 0, and on the line from w_0 to w*. Of a function made of
pieces, as by ReLU, points that all lie in one of them say nothing: one that computes with such an operation is never
taken to have constant derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from boundcheck.known import Region
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem, Ready
from boundcheck.products import Function, Linearisation, gradient, rows, rows_d2_T, rows_outer

POINTS = 2  # around each of three centres, near and far; 1 where vectors are as long as this
LONG = 100_000
LINE = 9  # points between w_0 and the centre
ROUNDING = 1e4  # in units of ε and of the numbers that were added up
# operations that are not analytic, as PyTorch calls them
IN_PIECES = {
    "abs", "sgn", "sign", "heaviside", "ceil", "floor", "round", "trunc", "frac", "fmod", "remainder", "eq", "ne",
    "lt", "le", "gt", "ge", "where", "masked_fill", "isclose", "max", "min", "amax", "amin", "aminmax", "maximum",
    "minimum", "fmax", "fmin", "argmax", "argmin", "cummax", "cummin", "clamp", "clamp_min", "clamp_max", "sort",
    "argsort", "topk", "kthvalue", "median", "nanmedian", "mode", "searchsorted", "bucketize", "_cdist_forward",
    "relu", "threshold", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "leaky_relu", "elu",
    "celu", "prelu", "_prelu_kernel", "rrelu_with_noise", "huber_loss", "smooth_l1_loss", "multi_margin_loss",
    "multilabel_margin_loss_forward", "adaptive_max_pool2d", "adaptive_max_pool3d", "max_pool2d_with_indices",
    "max_pool3d_with_indices",
}  # fmt: skip


@dataclass(frozen=True)
class Structure:
    """Which derivatives are the same for all w."""

    d1phi: bool
    d2phi: bool
    hessian_of_E: bool
    d2E: bool
    products: int


def normal(generator: torch.Generator, like: Tensor, *shape: int) -> Tensor:
    """Normal numbers that are the same for every dtype and device."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu").to(like)


@torch.no_grad()
def find(problem: Problem, prepared: Prepared, region: Region, seed: int) -> Structure:
    """Looks within about 1 and about the radius of the centre, of w_0 and of 0, and between; `prepared` has one λ."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    d = problem.d
    centres = [region.point, problem.w0, torch.zeros_like(problem.w0)][: 3 if bool(problem.w0.any()) else 2]
    count = POINTS if d < LONG else 1
    w = torch.cat(
        [
            centre + spread / d**0.5 * normal(generator, problem.w0, count, d)
            for centre in centres
            for spread in (1.0, max(region.radius, 1.0))
        ]
        + [torch.lerp(problem.w0, region.point, at)[None] for at in np.linspace(0, 1, LINE).tolist()]
    )
    v = normal(generator, problem.w0, d).expand(1, len(w), d)
    w = w[None]
    leaves, ready = prepared.leaves, prepared.leaves.at(0)

    def d1phi() -> tuple[Tensor, ...]:
        return (Linearisation(rows(problem.phi_at), w, prepared.ready).d1_T(v),)

    def hessian() -> tuple[Tensor, ...]:
        return (Linearisation(rows(gradient(problem.outer_at)), w, prepared.ready).d1_T(v),)

    def d2phi() -> tuple[Tensor, ...]:
        return tuple(c[:, :, 0] for c in rows_d2_T(problem.phi_at, w, leaves, v[:, :, None]))

    def d2E() -> tuple[Tensor, ...]:
        return rows_outer(problem, w, leaves).lam

    phi, E = (not _in_pieces(f, problem.w0, ready) for f in (problem.phi_at, problem.outer_at))
    return Structure(
        d1phi=phi and _same(d1phi, float(v[0, 0].norm()) / d**0.5),  # of I, from which it may have been subtracted
        d2phi=phi and _same(d2phi),
        hessian_of_E=E and _same(hessian),
        d2E=E and _same(d2E),
        products=4 * w.shape[1],
    )


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the names of all operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__.removesuffix("_"))
        return func(*args, **(kwargs or {}))


def _in_pieces(function: Function, w: Tensor, ready: Ready) -> bool:
    """Is any operation of it one that is not analytic?"""
    with _Operations() as seen:
        function(w, ready)
    return not IN_PIECES.isdisjoint(seen.names)


def _same(values: Callable[[], tuple[Tensor, ...]], scale: float = 0.0) -> bool:
    """Are all rows alike up to rounding, of numbers of at least this scale?"""
    for found in values():
        flat = found[0].reshape(found.shape[1], -1)
        if not flat.numel():
            continue
        size = flat.abs().amax() + scale
        if not bool((flat - flat[:1]).abs().amax() <= ROUNDING * torch.finfo(flat.dtype).eps * size):
            return False
    return True
