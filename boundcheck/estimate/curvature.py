"""μ, L, κ and α of an inner loss, and the curvature of E, at the fixed point; for all w where Hessians are constant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.constants import Constant, Provenance, Side
from boundcheck.estimate import point, spectral
from boundcheck.estimate.point import Spend
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
    problem: Problem, prepared: Prepared, w_star: Tensor, shape: Structure, spend: Spend
) -> Iterator[Constant]:
    """μ, L, κ and the step α with Φ = w − α∇₁ℓ; at w* only, unless the Hessian is constant.

    ‖∇α‖ = 0 where the step is known to be held fixed; of a step that is differentiated nothing is said.
    """
    if problem.inner_at is None:
        return
    ends = _ends(problem.inner_at, problem, prepared, w_star, spend)
    where = "the Hessian of ℓ, constant" if shape.d1phi else "the Hessian of ℓ at w* alone"
    mu = point.constant("mu", ends.smallest, f"smallest eigenvalue of {where}", problem, spend.seed)
    L = point.constant("L", ends.largest, f"largest eigenvalue of {where}", problem, spend.seed)
    if not shape.d1phi:  # elsewhere it may be less convex and less smooth
        mu, L = replace(mu, side=Side.UPPER), replace(L, side=Side.LOWER)
    elif mu.side is Side.LOWER:  # not certified: inside the spectrum, which for its lower end is the unsafe side
        mu = replace(mu, side=Side.UPPER)
    yield mu
    yield L
    if mu.value > 0:
        exact, unsafe = mu.side is L.side is Side.EXACT, mu.side is Side.UPPER or L.side is Side.LOWER
        side = Side.EXACT if exact else Side.LOWER if unsafe else Side.HIGH_PROBABILITY
        delta = sum(c.provenance.delta or 0.0 for c in (mu, L)) or None
        yield Constant("kappa", L.value / mu.value, side, Provenance("L/μ", delta=delta))
    if problem.step_at is not None:
        alpha = float(problem.step_at(prepared.leaves.at(0)))
        yield Constant("alpha", alpha, Side.EXACT, Provenance("the step of Φ = w − α∇₁ℓ"))
        if problem.frozen_step:
            yield Constant("grad_alpha", 0.0, Side.EXACT, Provenance("the step is held fixed"))


def of_outer_loss(problem: Problem, prepared: Prepared, w_star: Tensor, spend: Spend) -> Constant:
    """η₁ = ‖∇²₁E‖ where it is the same for all w."""
    ends = _ends(problem.outer_at, problem, prepared, w_star, spend)
    return point.constant("eta_1", ends.norm, "‖∇²₁E‖, as E is quadratic in w", problem, spend.seed)


def gradient_norm(problem: Problem, prepared: Prepared, w: Tensor) -> float:
    """‖∇₁E(w)‖."""
    return float(gradient(problem.outer_at)(w, prepared.leaves.at(0)).norm())
