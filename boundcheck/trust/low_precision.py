"""Detect errors of a lower precision: numbers that fit into it, and an error that its rounding explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import BoundcheckError
from boundcheck.trust.diagnosis import double
from boundcheck.trust.pieces import Pieces, exact_at

LOWER = (torch.bfloat16, torch.float16, torch.float32)
FEW_BITS = 64  # numbers with a mantissa of at most 6 bits are exact in any precision, so they show nothing
AT_MOST = 30  # the error may be this many times the rounding of one solve, because many steps add up
SIMILAR = 3  # the allowed multiple if the size of the error is the only evidence
DRAWS = 3  # random perturbations


@dataclass(frozen=True)
class LowPrecision:
    """A lower precision, and the vector (or "the problem") that has it."""

    dtype: torch.dtype
    what: str

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


def stored_in(x: Tensor) -> torch.dtype | None:
    """The lower precision that holds every entry of x exactly; None if there is none, or if all numbers are round."""
    if bool((_rounded(x) == x).all()):
        return None
    for dtype in LOWER:
        lower = torch.finfo(dtype).eps > torch.finfo(x.dtype).eps
        if lower and torch.equal(x.to(dtype).to(x.dtype), x):
            return dtype
    return None


def _rounded(x: Tensor) -> Tensor:
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * FEW_BITS).round() / FEW_BITS, exponent)


def typical_error(exact: Pieces, unit: float) -> float:
    """The typical change of ∇f if both systems are solved only to residuals of relative size `unit`."""
    generator = torch.Generator(device="cpu").manual_seed(0)

    def noise(like: Tensor, size: float) -> Tensor:
        r = torch.randn(like.numel(), generator=generator, dtype=torch.float64).to(like)
        return r * (size / float(r.norm()))

    w, b, v = exact.w, exact.b, exact.v
    worst = 0.0
    for _ in range(DRAWS):
        beside = w + exact.solve(noise(w, unit * float(w.norm())))
        of_w = (double(exact_at(exact.problem, beside[None])[0]) - double(exact.value)).norm()
        of_v = double(exact.pulled(exact.solve_T(noise(b, unit * float(b.norm() + v.norm()))))).norm()
        worst = max(worst, float(of_w + of_v))
    return worst + unit * float(exact.direct.norm() + exact.implicit.norm())


def low_precision(exact: Pieces, error: float, candidates: Mapping[str, Tensor]) -> LowPrecision | None:
    """The lower precision of one of the named vectors, if its rounding explains the error of g."""
    stored = [(dtype, name) for name, x in candidates.items() if (dtype := stored_in(x)) is not None]
    tests = [(dtype, name, AT_MOST) for dtype, name in stored]
    if exact.w.dtype is torch.float32:
        tests.append((torch.float32, "the problem", SIMILAR))
    for dtype, name, factor in tests:
        try:
            size = typical_error(exact, torch.finfo(dtype).eps / 2)
        except BoundcheckError:
            return None
        if error <= factor * size:
            return LowPrecision(dtype, name)
    return None
