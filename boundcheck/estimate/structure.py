"""What a black box is made of: is ∂₁Φ, ∂₂Φ, ∇²₁E or ∇₂E the same for all w?

Compared at random points, along random vectors. A derivative that is analytic and not constant differs there with
probability one, so agreement to rounding verifies constancy; the points are spread wider than the region, since in a
tiny one everything looks constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.known import Region
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.products import Linearisation, gradient, rows, rows_d2_T, rows_outer

POINTS = 4
ROUNDING = 1e4  # in units of ε and of the numbers that were added up


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
    """Looks at `POINTS` random points; `prepared` is for one λ as a row."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    d = problem.d
    spread = max(region.radius, 1.0) / d**0.5
    w = region.point + spread * normal(generator, problem.w0, POINTS, d)
    v = normal(generator, problem.w0, d).expand(1, POINTS, d)
    w = w[None]
    leaves = prepared.leaves

    def d1phi() -> tuple[Tensor, ...]:
        return (Linearisation(rows(problem.phi_at), w, prepared.ready).d1_T(v),)

    def hessian() -> tuple[Tensor, ...]:
        return (Linearisation(rows(gradient(problem.outer_at)), w, prepared.ready).d1_T(v),)

    def d2phi() -> tuple[Tensor, ...]:
        return tuple(c[:, :, 0] for c in rows_d2_T(problem.phi_at, w, leaves, v[:, :, None]))

    def d2E() -> tuple[Tensor, ...]:
        return rows_outer(problem, w, leaves).lam

    scale = float(v[0, 0].norm())
    return Structure(
        d1phi=_same(d1phi, scale),
        d2phi=_same(d2phi, scale),
        hessian_of_E=_same(hessian, scale),
        d2E=_same(d2E, scale),
        products=4 * POINTS,
    )


def _same(values: Callable[[], tuple[Tensor, ...]], scale: float) -> bool:
    """Are all rows alike up to rounding?"""
    for found in values():
        flat = found[0].flatten(1)
        if not flat.numel():
            continue
        size = flat.abs().amax() + scale / flat.shape[-1] ** 0.5
        if not bool((flat - flat[:1]).abs().amax() <= ROUNDING * torch.finfo(flat.dtype).eps * size):
            return False
    return True
