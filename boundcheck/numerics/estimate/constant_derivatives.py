"""Which derivatives are the same for all w, read off the program; nothing is sampled."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.program_degree import degree


@dataclass(frozen=True)
class Structure:
    """True where a derivative is proved not to depend on w; False where nothing is proved."""

    d1phi: bool
    d2phi: bool
    hessian_of_E: bool
    d2E: bool


@torch.no_grad()
def find(problem: Problem) -> Structure:
    """Read the structure of Φ and E at the λ of the problem.

    For Φ = w − α∇₁ℓ the loss is read: ∂₁Φ is constant where ℓ has degree 2, and ∂₂Φ where ∂ℓ/∂λ has degree 1. With a
    step that is differentiated, ∂₂Φ also contains −∇₁ℓ∇αᵀ.
    """
    E = degree(problem, problem.outer_at)
    if problem.step_at is not None and problem.inner_at is not None:
        loss = degree(problem, problem.inner_at)
        steps = loss.value <= 1 or bool(problem.frozen_step)
        phi = (loss.value <= 2, loss.by_lam <= 1 and steps)
    else:
        of_phi = degree(problem, problem.phi_at)
        phi = (of_phi.value <= 1, of_phi.by_lam <= 0)
    return Structure(d1phi=phi[0], d2phi=phi[1], hessian_of_E=E.value <= 2, d2E=E.by_lam <= 0)
