"""Constants on a small ball around a computed w that is proved to contain a fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import at_solution, data_arithmetic, fixed_point_certificate, number_range, validate
from boundcheck.numerics.estimate.fixed_point_certificate import FixedPoint
from boundcheck.numerics.estimate.program_at_point import AtPoint, at_point
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.step_constant import step_constant
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.side import Side

NEEDED = ("nu_1", "nu_2", "eta_1", "eta_2")


@dataclass(frozen=True, eq=False)
class NearSolution:
    """A proof that there is a fixed point near a computed w. Φ need not contract.

    `constants` contains ν₁, ν₂, η₁, η₂ and μ_λ on a ball that contains both points, and ‖w'‖ at the computed w.
    """

    fixed_point: FixedPoint
    constants: Constants


@lru_cache(maxsize=8)
@torch.no_grad()
def near_solution(problem: Problem, solution: ReferenceSolution) -> NearSolution | str:
    """Prove a fixed point near a reference at the λ of the problem, or return the reason for having no proof."""
    w = solution.w[0]
    number_range.refuse_solution(problem, w, solution.v[0])
    if doubts := _doubts(problem, solution):
        return f"autograd's derivatives were not confirmed ({doubts[0]})"
    if rounded := data_arithmetic.doubt(problem):
        return rounded
    proof, alpha = ProgramProof.of(problem), step_constant(problem)
    fixed_point = fixed_point_certificate.certify(proof, solution, alpha)
    if isinstance(fixed_point, str):
        return fixed_point
    point = at_point(proof, w, alpha)
    if not isinstance(point, AtPoint):
        return point
    constants = {c.name: c for c in at_solution.from_program(problem, point) if c.name == "W"}
    constants |= {c.name: c for c in proof.on(Region("w_star", w, fixed_point.radius), alpha, names=NEEDED)}
    if missing := [name for name in (*NEEDED, "W") if name not in constants]:
        return f"{missing[0]} is not bounded next to w*" + "".join(f"; {why}" for why in proof.declined.values())
    how = Provenance("‖(I − ∂₁Φ)⁻¹‖ next to w*, by a Newton-Kantorovich proof")
    constants["mu_inv"] = Constant("mu_inv", (1 - 1e-15) / fixed_point.inverse, Side.LOWER, how)
    return NearSolution(fixed_point, Constants(constants))


def _doubts(problem: Problem, solution: ReferenceSolution) -> tuple[str, ...]:
    """Return the derivatives of autograd that finite differences do not confirm.

    For a map, ∂₂Φ can be compared only at w(λ), so w must be close to w(λ). For a loss, Φ = w − α∇₁ℓ is computed by
    this package, and the derivative of ∇₁ℓ by λ can be compared at any w.
    """
    doubts = validate.derivatives(problem).unconfirmed
    if problem.inner_at is None or derivative_check.is_close(problem, problem.lam, solution.w[0]):
        doubts += validate.at_reference(problem, solution).unconfirmed
    return doubts
