"""Evidence against claims that no measurement of ours has the name of: values that the truth reaches at w*."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from boundcheck.constants import NAMES, Constant, Constants, Provenance, Side
from boundcheck.errors import UnknownNameError
from boundcheck.numerics.bilevel.derivatives import DENSE, jacobian
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.reference import ReferenceSolution

PER_STEP = {"hat_rho_1": "nu_1", "hat_rho_2": "nu_2", "L_ell": "L_Phi_star"}  # times α, for a step that is held fixed
ROUNDED = 256  # units of the dtype


def tolerance(problem: Problem) -> float:
    """The relative difference between a claim and what was found that rounding explains."""
    return max(1e-9, ROUNDED * torch.finfo(problem.dtype).eps / 2)


def evidence(
    problem: Problem, prepared: Prepared, found: ReferenceSolution, made: Mapping[str, Constant], claimed: Constants
) -> Iterator[Constant]:
    """What is known of the claimed constants beyond `made`.

    D and r_0 reach the distances to the computed w*, less what that may be off. μ_λ is at most the least singular
    value of I − ∂₁Φ(w*), and κ at least the condition number there. ρ̂₁, ρ̂₂ and L_ℓ are ν₁, ν₂ and L_Φ* over α.
    """
    if unknown := sorted(set(claimed) - NAMES):
        raise UnknownNameError.among("constant", unknown[0], NAMES)
    w = found.w[0]
    for name, distance in (("D", w.norm()), ("r_0", (problem.w0 - w).norm())):
        if name in claimed and name in made:
            off = max(made[name].value - float(distance), tolerance(problem) * float(w.norm()))
            yield Constant(name, max(float(distance) - off, 0.0), Side.LOWER, Provenance("the computed w*"))
    if {"mu_inv", "kappa"} & set(claimed):
        values = _singular_values(problem, prepared, found)
        low, high = float(values.min()), float(values.max())
        where = "the singular values of I − ∂₁Φ(w*)"
        yield Constant("mu_inv", low, Side.UPPER, Provenance(where))
        if low > 0 and "kappa" not in made:
            yield Constant("kappa", max(high / low, 1.0), Side.LOWER, Provenance(where))
    alpha = made.get("alpha")
    for name, source in PER_STEP.items():
        if name in claimed and source in made and alpha is not None and problem.frozen_step:
            of = made[source]
            if of.side in (Side.EXACT, Side.LOWER):
                how = Provenance(f"{source}/α: {of.provenance.how}")
                yield Constant(name, of.value / alpha.value, Side.LOWER, how)


def _singular_values(problem: Problem, prepared: Prepared, found: ReferenceSolution) -> Tensor:
    """All of I − ∂₁Φ(w*), or above d = `DENSE` one number between the least and the largest."""
    w = found.w[0]
    if problem.d > DENSE:
        v = found.v[0]
        b = torch.func.grad(problem.outer_at)(w, prepared.leaves.at(0))
        between: Tensor = (b.norm() / v.norm())[None]  # ‖(I − ∂₁Φᵀ)v‖/‖v‖
        return between
    Y = jacobian(lambda x: problem.phi_at(x, prepared.leaves.at(0)), w)
    values: Tensor = torch.linalg.svdvals(torch.eye(problem.d, dtype=w.dtype, device=w.device) - Y)
    return values
