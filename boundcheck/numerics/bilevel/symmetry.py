"""Is ∂₁Φ symmetric? Two random products tell, almost surely."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Linearisation
from boundcheck.numerics.bilevel.problem import Problem


@dataclass(frozen=True, eq=False)
class SymmetryTrial:
    """Two random vectors with their products ∂₁Φᵀu and ∂₁Φᵀv, at one point or at rows of points."""

    u: Tensor
    v: Tensor
    Yu: Tensor
    Yv: Tensor

    @property
    def gap(self) -> Tensor:
        """|uᵀ∂₁Φv − vᵀ∂₁Φu|: zero if it is symmetric, and otherwise not, with probability one."""
        return ((self.v * self.Yu).sum() - (self.u * self.Yv).sum()).abs()

    @property
    def is_symmetric(self) -> bool:
        """Up to rounding: each inner product is summed in rounding of relative size about ε√d of its terms."""
        u, v, Yu, Yv = self.u, self.v, self.Yu, self.Yv
        scale = u.norm() * (v.norm() + Yv.norm()) + v.norm() * (u.norm() + Yu.norm())  # ∂₁Φu = u − αHu: rounded like u
        return not bool(self.gap > 100 * torch.finfo(u.dtype).eps * u.numel() ** 0.5 * scale)


def by_construction(problem: Problem) -> bool:
    """Is ∂₁Φ symmetric whatever the functions are? In one dimension, and for a gradient step, whose is I − α∇²₁ℓ."""
    return problem.d == 1 or problem.step_at is not None or problem.curvature is not None


def trial(at: Linearisation, seed: int = 0) -> SymmetryTrial:
    """Two products of the linearisation, the same vectors on every device."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    u, v = (torch.randn(at.x.shape, generator=generator, dtype=torch.float64, device="cpu").to(at.x) for _ in range(2))
    return SymmetryTrial(u, v, at.d1_T(u), at.d1_T(v))
