"""A proof that there is a fixed point near a computed w̃, with a bound on its distance.

Let A = I − ∂₁Φ(w̃), R an approximate inverse, N(w) = w − R(w − Φ(w)). On B(w̃, ρ) the derivative of N has norm at most
k = ‖I − RA‖ + ‖R‖ν₁ρ, with ν₁ the Lipschitz constant of ∂₁Φ there. If k < 1 and s/(1 − k) ≤ ρ, where
s ≥ ‖R(w̃ − Φ(w̃))‖, then N maps the ball into itself and contracts. So the ball contains exactly one fixed point, which
is within s/(1 − k) of w̃, and ‖(I − ∂₁Φ(w))⁻¹‖ ≤ ‖R‖/(1 − k) for every w of the ball (Krawczyk 1969; docs/proofs.md).
Φ need not contract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.derivatives import DENSE
from boundcheck.numerics.estimate import residual_bounds
from boundcheck.numerics.estimate.program_at_point import AtPoint, at_point
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.step_constant import step_rounding
from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, spectral_norm
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.side import Side

RADIUS = 1e-6  # radius of the ball on which ν₁ is computed, relative to 1 + ‖w̃‖; larger if needed
WIDE = 1e-2  # the relative radius for a strongly convex loss
ROOM = 4  # the radius divided by the length of a Newton step
MOST_KNOWN = 4  # number of references of one problem whose proofs are stored


@dataclass(frozen=True)
class FixedPoint:
    """A proved fixed point within `distance` of the computed w; there is no other one within `radius`.

    `inverse` is an upper bound on ‖(I − ∂₁Φ)⁻¹‖ over the ball of this radius, and `how` describes the proof.
    """

    distance: float
    radius: float
    inverse: float
    how: str


def certify(proof: ProgramProof, solution: ReferenceSolution, alpha: Constant | None) -> FixedPoint | str:
    """Prove that there is a fixed point near a reference, or return the reason for having no proof.

    Parameters
    ----------
    proof : ProgramProof
        The programs of the problem.
    solution : ReferenceSolution
        A reference with one row.
    alpha : Constant or None
        The step α if Φ is a gradient step.

    Returns
    -------
    FixedPoint or str
        The proof, or the reason for having none.
    """
    problem, w = proof.problem, solution.w[0]
    if problem.d > DENSE:
        return _by_strong_convexity(proof, w, alpha)
    known, key = proof.shared.known, (solution, alpha)
    if key not in known:
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[key] = _certified(proof, solution, alpha)
    answer: FixedPoint | str = known[key]
    return answer


def _certified(proof: ProgramProof, solution: ReferenceSolution, alpha: Constant | None) -> FixedPoint | str:
    problem, w = proof.problem, solution.w[0]
    residual = residual_bounds.of(problem, solution)
    if residual.doubt:
        return residual.doubt
    if proof.has_loss and (alpha is None or alpha.side is not Side.EXACT):
        return "the step is not known exactly"
    reach = RADIUS * (1 + float(w.norm()))
    try:
        A, slip, nu_1 = _linearised(proof, w, reach, 1.0 if alpha is None else alpha.value)
    except Declined as why:
        return str(why)
    if not bool(A.isfinite().all()) or not math.isfinite(slip + nu_1):
        return "the derivatives next to w* are not bounded"
    R = torch.linalg.inv_ex(A).inverse
    if not bool(R.isfinite().all()):
        return "I − ∂₁Φ is singular"
    d = len(A)
    eye = torch.eye(d, dtype=torch.float64)
    of_R = spectral_norm(R)
    step = min(of_R * residual.w * UP, _newton_step(proof, w, alpha, R, of_R))
    if (wider := ROOM * step) > reach:  # w is not as accurate as rounding allows, and needs a larger ball
        if not math.isfinite(wider):
            return "I − ∂₁Φ is close to singular"
        reach = wider
        try:
            nu_1 = _linearised(proof, w, reach, 1.0 if alpha is None else alpha.value)[2]
        except Declined as why:
            return str(why)
    off = (
        frobenius(eye - R @ A) + gamma(d + 2) * frobenius(R.abs() @ A.abs()) * UP + gamma(2) * d**0.5 + of_R * slip * UP
    )
    radius = min(reach, max(ROOM * step, 1e-14 * (1 + float(w.norm()))))
    k = (off + of_R * nu_1 * radius) * UP
    if not k < 1:
        return "I − ∂₁Φ changes too much next to w*, or is close to singular"
    inverse = of_R / (1 - k) * UP
    distance = step / (1 - k) * UP
    if not distance <= radius:
        return "the residual of the computed w* is too large"
    return FixedPoint(distance, radius, inverse, f"a Newton-Kantorovich proof with ‖w − Φ(w)‖ by {residual.how}")


def _newton_step(proof: ProgramProof, w: Tensor, alpha: Constant | None, R: Tensor, of_R: float) -> float:
    """Return a close upper bound on ‖R(w̃ − Φ(w̃))‖.

    It is far less than ‖R‖‖w̃ − Φ(w̃)‖ if I − ∂₁Φ is nearly singular in few directions only.
    """
    point = at_point(proof, w, alpha)
    if not isinstance(point, AtPoint):
        return math.inf
    F, off = point.residual.value, point.residual.off
    rounding = gamma(len(F) + 2) * norm(R.abs() @ F.abs())
    return (norm(R @ F) + of_R * off + rounding) * UP


def _by_strong_convexity(proof: ProgramProof, w: Tensor, alpha: Constant | None) -> FixedPoint | str:
    """Prove a fixed point by strong convexity.

    If ∇²₁ℓ ⪰ μ > 0 on the ball of radius ρ ≥ ‖∇₁ℓ(w̃)‖/μ, then ℓ has one minimum in it, within ‖∇₁ℓ(w̃)‖/μ of w̃.
    """
    too_large = f"d = {proof.problem.d} is too large to invert I − ∂₁Φ"
    if alpha is None or alpha.side is not Side.EXACT:
        return too_large
    reach = WIDE * (1 + float(w.norm()))
    try:
        bounds = proof.separable("lower", w, reach)
    except Declined as why:
        return str(why)
    if bounds is None:
        return too_large
    mu, slope = bounds.smallest, bounds.gradient_at_centre
    if bounds.delta or not (mu > 0 and math.isfinite(slope)):
        return f"{too_large}, and the loss is not proved to be strongly convex"
    distance = slope / mu * UP
    if not distance <= reach:
        return "the gradient at the computed w* is too large"
    least = (alpha.value - step_rounding(proof.problem)) * mu
    return FixedPoint(distance, reach, 1 / least * UP, "strong convexity") if least > 0 else too_large


def _linearised(proof: ProgramProof, w: Tensor, reach: float, alpha: float) -> tuple[Tensor, float, float]:
    """Return I − ∂₁Φ at w, a bound on its error, and ν₁ on the ball of radius `reach`."""
    bounds = proof.lower_bounds(w, reach)
    if isinstance(bounds, MapBounds):
        at_w = proof.lower_bounds(w, 0.0)
        assert isinstance(at_w, MapBounds)
        slope = at_w.output.slopes.get("w")
        d = w.numel()
        Y = torch.zeros(d, d, dtype=torch.float64) if slope is None else slope.matrix
        slip = 0.0 if slope is None else float(slope.slip.norm()) * UP
        return torch.eye(d, dtype=torch.float64) - Y, (slip + gamma(2) * (1 + frobenius(Y))) * UP, bounds.bend
    if bounds.at.hessian is None:
        raise Declined("the loss is linear in w")
    H, slip = bounds.at.hessian.H, bounds.at.hessian.off
    off = step_rounding(proof.problem)
    slip = alpha * (slip + gamma(2) * frobenius(H)) + off * (frobenius(H) + slip)
    return alpha * H, slip * UP, (alpha + off) * bounds.third * UP
