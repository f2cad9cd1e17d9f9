"""μ, L, κ and α of an inner loss, and the curvature of E, at the fixed point; for all w where Hessians are constant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.constants import Constant, Provenance, Side
from boundcheck.estimate import point, running_matrices, spectral
from boundcheck.estimate.point import Spend
from boundcheck.estimate.running_error import Declined
from boundcheck.estimate.running_matrices import OfOuter, OfPhi
from boundcheck.estimate.spectral import Symmetric
from boundcheck.estimate.structure import Structure
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.products import DENSE, Function, Linearisation, gradient, jacobian


def _ends(function: Function, problem: Problem, prepared: Prepared, w: Tensor, spend: Spend) -> Symmetric:
    """Both ends of the spectrum of ∇²₁f at w."""
    ready, slope = prepared.leaves.at(0), gradient(function)
    if problem.d <= DENSE:
        H = jacobian(lambda x: slope(x, ready), w)
        return spectral.dense_symmetric((H + H.T) / 2)
    at = Linearisation(slope, w, ready)
    generator = torch.Generator(device="cpu").manual_seed(spend.seed)
    most = point.STEPS if spend.budget is None else max(1, min(point.STEPS, spend.budget))
    return spectral.lanczos(
        at.d1_T, problem.d, delta=spend.half, most=most, generator=generator, dtype=w.dtype, device=w.device
    )


def of_inner_loss(
    problem: Problem, prepared: Prepared, w_star: Tensor, shape: Structure, spend: Spend,
    of_phi: OfPhi | Declined | None,
) -> Iterator[Constant]:  # fmt: skip
    """μ, L, κ and the step α with Φ = w − α∇₁ℓ; at w* only, unless the Hessian is constant.

    ‖∇α‖ = 0 where the step is known to be held fixed; of a step that is differentiated nothing is said.
    """
    if problem.inner_at is None:
        return
    alpha = None if problem.step_at is None else float(problem.step_at(prepared.leaves.at(0)))
    where = "the Hessian of ℓ, constant" if shape.d1phi else "the Hessian of ℓ at w* alone"
    if isinstance(of_phi, OfPhi) and alpha is not None:
        ends, rounding = _from_step(of_phi, alpha)
    else:
        ends, rounding = _ends(problem.inner_at, problem, prepared, w_star, spend), 0.0
        where += "; rounding not proved"
    mu = point.constant("mu", ends.smallest, f"smallest eigenvalue of {where}", problem, spend.seed)
    L = point.constant("L", ends.largest, f"largest eigenvalue of {where}", problem, spend.seed)
    mu, L = replace(mu, value=mu.value - rounding), replace(L, value=L.value + rounding)
    if mu.side is L.side is Side.EXACT and not rounding <= point.NOTHING * abs(mu.value):
        mu, L = replace(mu, side=Side.LOWER), replace(L, side=Side.UPPER)  # the safe sides
    uncertified = ends.smallest.side is Side.LOWER  # a value inside the spectrum
    if not shape.d1phi or uncertified or isinstance(of_phi, Declined):  # elsewhere it may be less convex, less smooth
        mu, L = replace(mu, side=Side.UPPER), replace(L, side=Side.LOWER)
    yield mu
    yield L
    if mu.value > 0:
        delta = sum(c.provenance.delta or 0.0 for c in (mu, L)) or None
        exact, unsafe = mu.side is L.side is Side.EXACT, mu.side is Side.UPPER or L.side is Side.LOWER
        certain = Side.EXACT if exact else Side.UPPER
        side = Side.LOWER if unsafe else certain if delta is None else Side.HIGH_PROBABILITY
        yield Constant("kappa", L.value / mu.value, side, Provenance("L/μ", delta=delta))
    if alpha is not None:
        yield Constant("alpha", alpha, Side.EXACT, Provenance("the step of Φ = w − α∇₁ℓ"))
        if problem.frozen_step:
            yield Constant("grad_alpha", 0.0, Side.EXACT, Provenance("the step is held fixed"))


def _from_step(of_phi: OfPhi, alpha: float) -> tuple[Symmetric, float]:
    """Both ends of the spectrum of ∇²₁ℓ = (I − ∂₁Φ)/α, and how far they may be off, from the ball of ∂₁Φ."""
    Y = of_phi.d1.mid
    H = (torch.eye(len(Y), dtype=Y.dtype) - (Y + Y.T) / 2) / alpha
    unit = 4 * torch.finfo(Y.dtype).eps * float(Y.norm() + len(Y) ** 0.5)
    return spectral.dense_symmetric(H), (float(of_phi.d1.rad.norm()) + unit) / alpha


def of_outer_loss(problem: Problem, prepared: Prepared, w_star: Tensor, spend: Spend) -> Constant:
    """η₁ = ‖∇²₁E‖ where it is the same for all w."""
    how = "‖∇²₁E‖, as E is quadratic in w"
    small = problem.d <= DENSE and running_matrices.are_small(problem)
    ball = running_matrices.of_outer(problem, w_star, hessian=True) if small else None
    if isinstance(ball, OfOuter) and ball.d11 is not None:
        top = spectral.dense_norm(ball.d11.mid.contiguous())
        if top.side is Side.EXACT:
            return point.proved_constant("eta_1", top.value, float(ball.d11.rad.norm()), how, problem, problem.d)
    ends = _ends(problem.outer_at, problem, prepared, w_star, spend)
    found = point.constant("eta_1", ends.norm, f"{how}; rounding not proved", problem, spend.seed)
    return replace(found, side=Side.LOWER) if isinstance(ball, Declined) else found
