"""μ, L, κ and α of an inner loss and the curvature of E at the fixed point, or for all w if the Hessian is constant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.bilevel.derivatives import DENSE, Function, Linearisation, gradient, jacobian
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import at_solution, lanczos, rounding_proof_matrices
from boundcheck.numerics.estimate.constant_derivatives import Structure
from boundcheck.numerics.estimate.effort import Spend, constant_of
from boundcheck.numerics.estimate.lanczos import Symmetric
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.estimate.rounding_proof_matrices import OfOuter
from boundcheck.numerics.estimate.step_constant import NOTHING, step_constant
from boundcheck.numerics.program.rounding_rules.ball import Ball
from boundcheck.side import Side
from boundcheck.side_arithmetic import sided


def _ends(function: Function, problem: Problem, prepared: Prepared, w: Tensor, spend: Spend) -> Symmetric:
    """Return both ends of the spectrum of ∇²₁f at w."""
    ready, slope = prepared.leaves.at(0), gradient(function)
    if problem.d <= DENSE:
        H = jacobian(lambda x: slope(x, ready), w)
        return lanczos.dense_symmetric((H + H.T) / 2)
    linearised = Linearisation(slope, w, ready)
    generator = torch.Generator(device="cpu").manual_seed(spend.seed)
    most = spend.steps(at_solution.STEPS)
    return lanczos.lanczos(
        linearised.d1_T, problem.d, delta=spend.half, most=most, generator=generator, dtype=w.dtype, device=w.device
    )


def of_inner_loss(
    problem: Problem, prepared: Prepared, w_star: Tensor, shape: Structure, spend: Spend, encloses: bool
) -> Iterator[Constant]:  # fmt: skip
    """Yield μ, L, κ and the step α of Φ = w − α∇₁ℓ. They hold at w* only, unless the Hessian is constant.

    `encloses` says whether the matrices are small enough to be enclosed in balls. If the step is held fixed, ‖∇α‖ = 0
    is yielded too.
    """
    if problem.inner_at is None:
        return
    alpha = step_constant(problem)
    where = "the Hessian of ℓ, constant" if shape.d1phi else "the Hessian of ℓ at w* alone"
    ball = _hessian_of_loss(problem, w_star) if encloses else None
    if isinstance(ball, Ball):
        ends, rounding = lanczos.dense_symmetric((ball.mid + ball.mid.T) / 2), float(ball.rad.norm())
    else:
        ends, rounding = _ends(problem.inner_at, problem, prepared, w_star, spend), 0.0
        where += "; rounding not proved"
    mu = constant_of("mu", ends.smallest, f"smallest eigenvalue of {where}", problem, spend.seed)
    L = constant_of("L", ends.largest, f"largest eigenvalue of {where}", problem, spend.seed)
    mu, L = replace(mu, value=mu.value - rounding), replace(L, value=L.value + rounding)
    if mu.side is L.side is Side.EXACT and not rounding <= NOTHING * abs(mu.value):
        mu, L = replace(mu, side=Side.LOWER), replace(L, side=Side.UPPER)  # the safe sides
    uncertified = ends.smallest.side is Side.LOWER  # the value is inside the spectrum
    rounded = not isinstance(ball, Ball) and ends.smallest.side is not Side.HIGH_PROBABILITY
    if not shape.d1phi or uncertified or rounded or isinstance(ball, NoProof):
        mu, L = replace(mu, side=Side.UPPER), replace(L, side=Side.LOWER)  # the unsafe sides: estimates
    yield mu
    yield L
    if mu.value > 0:
        yield (sided(L) / sided(mu)).named("kappa", Provenance("L/μ"))
    if alpha is not None:
        yield alpha
        if problem.frozen_step:
            yield Constant("grad_alpha", 0.0, Side.EXACT, Provenance("the step is held fixed"))


def _hessian_of_loss(problem: Problem, w: Tensor) -> Ball | NoProof | None:
    """Return the ball of ∇²₁ℓ at w, or the reason for having none."""
    if problem.inner_at is None:
        return None
    proof = rounding_proof_matrices.of_outer(replace(problem, outer_at=problem.inner_at), w, hessian=True)
    return proof if isinstance(proof, NoProof) else proof.d11


def of_outer_loss(problem: Problem, prepared: Prepared, w_star: Tensor, spend: Spend) -> Constant:
    """Return η₁ = ‖∇²₁E‖ for an E whose Hessian is the same for all w."""
    how = "‖∇²₁E‖, as E is quadratic in w"
    small = problem.d <= DENSE and rounding_proof_matrices.are_small(problem)
    ball = rounding_proof_matrices.of_outer(problem, w_star, hessian=True) if small else None
    if isinstance(ball, OfOuter) and ball.d11 is not None:
        top = lanczos.dense_norm(ball.d11.mid.contiguous())
        if top.side is Side.EXACT:
            return at_solution.proved_constant("eta_1", top.value, float(ball.d11.rad.norm()), how, problem, problem.d)
    ends = _ends(problem.outer_at, problem, prepared, w_star, spend)
    eta_1 = constant_of("eta_1", ends.norm, f"{how}; rounding not proved", problem, spend.seed)
    certified = eta_1.side is Side.HIGH_PROBABILITY and not isinstance(ball, NoProof)
    return eta_1 if certified else replace(eta_1, side=Side.LOWER)
