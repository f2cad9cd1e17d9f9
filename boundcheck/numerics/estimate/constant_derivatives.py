"""Derivatives that are the same for all w, proved from the operations of the program."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.program_degree import degree


@dataclass(frozen=True)
class Structure:
    """One flag for each derivative: True if it is proved not to depend on w, False if nothing is proved."""

    d1phi: bool
    d2phi: bool
    hessian_of_E: bool
    d2E: bool


@torch.no_grad()
def find(problem: Problem) -> Structure:
    """Find the derivatives of Φ and E that do not depend on w, at the λ of the problem.

    For Φ = w − α∇₁ℓ this follows from the loss: ∂₁Φ is constant if ℓ has degree at most 2 in w, and ∂₂Φ is constant if
    ∂ℓ/∂λ has degree at most 1. If the step is differentiated, ∂₂Φ also contains −∇₁ℓ∇αᵀ.
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
