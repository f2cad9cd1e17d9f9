"""A test that ∂₁Φ is symmetric, by two random products. It is right with probability one, up to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Linearisation
from boundcheck.numerics.bilevel.problem import Problem


@dataclass(frozen=True, eq=False)
class SymmetryTrial:
    """Two random vectors u and v with the products ∂₁Φᵀu and ∂₁Φᵀv, at one point or at rows of points."""

    u: Tensor
    v: Tensor
    Yu: Tensor
    Yv: Tensor

    @property
    def gap(self) -> Tensor:
        """|uᵀ∂₁Φv − vᵀ∂₁Φu|: zero if ∂₁Φ is symmetric, and otherwise positive with probability one."""
        return ((self.v * self.Yu).sum() - (self.u * self.Yv).sum()).abs()

    @property
    def is_symmetric(self) -> bool:
        """Whether ∂₁Φ is symmetric up to rounding, which is about ε√d times the terms of an inner product."""
        u, v, Yu, Yv = self.u, self.v, self.Yu, self.Yv
        scale = u.norm() * (v.norm() + Yv.norm()) + v.norm() * (u.norm() + Yu.norm())  # ∂₁Φu = u − αHu rounds like u
        return not bool(self.gap > 100 * torch.finfo(u.dtype).eps * u.numel() ** 0.5 * scale)


def by_construction(problem: Problem) -> bool:
    """Return whether ∂₁Φ is symmetric for any functions: if d = 1, or if Φ is a gradient step with ∂₁Φ = I − α∇²₁ℓ."""
    return problem.d == 1 or problem.step_at is not None or problem.curvature is not None


def trial(linearised: Linearisation, seed: int = 0) -> SymmetryTrial:
    """Compute the products of a linearisation with two random vectors, which are the same on every device."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    u, v = (
        torch.randn(linearised.x.shape, generator=generator, dtype=torch.float64, device="cpu").to(linearised.x)
        for _ in range(2)
    )
    return SymmetryTrial(u, v, linearised.d1_T(u), linearised.d1_T(v))
