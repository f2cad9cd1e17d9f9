"""Upper bounds on ‖v‖, on the error of a hypergradient and on draws of Φ̂ and ∂₂Φ̂, for every possible draw."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import partial

import torch

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.example_bounds import ExampleBounds, of_batch
from boundcheck.numerics.estimate.iterate_ball import largest_distance
from boundcheck.numerics.estimate.noise_ball import IterateBall
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule


@dataclass(frozen=True)
class RunRanges:
    """Upper bounds on ‖v_i‖ and ‖g − ∇f‖ for every possible draw."""

    v: Constant
    error: Constant


@dataclass(frozen=True)
class DrawRanges:
    """Upper bounds on ‖Φ̂(w*) − w*‖, and on ‖∂₂Φ̂ − ∂₂Φ‖ on the ball, for every possible draw."""

    noise: Constant
    spread: Constant


def first_reason(*reasons: str) -> str:
    """Return the first reason that is not empty."""
    return next((reason for reason in reasons if reason), "")


def ranges_of_run(
    problem: Problem, finite_sum: FiniteSum, ball: IterateBall, constants: Constants, doubt: str, k: int,
    steps_v: StepSchedule,
) -> RunRanges:  # fmt: skip
    """Return upper bounds on ‖v‖ and on the error of a hypergradient, for every possible draw."""
    L_E, g_star = constants["L_E"], constants["g_star"]
    pushes = torch.full_like(ball.bounds.high, L_E.value)
    used, whole = [L_E], partial(ball.bounds.factor_of_batch, finite_sum=finite_sum)
    if finite_sum.variance_factor == 0 and "q" in constants:  # ∂₁Φ̂ = ∂₁Φ
        used, whole = [L_E, constants["q"]], partial(_shrinks_by, constants["q"].value)
    v = largest_distance(0.0, steps_v, k, ball.bounds.factors, pushes, finite_sum, 0.0, problem.dtype, whole)
    how = "‖v_{i+1}‖ ≤ ‖(1 − η)I + η∂₁Φ̂‖‖v_i‖ + ηL_E"
    largest_v = _worst("largest_v", v, how, doubt, used)
    by_lam = _largest_by_lam(finite_sum, ball.bounds, constants)
    needed = [*used, g_star, *(constants[name] for name in ("eta_2", "W") if name in constants)]
    if by_lam is not None:
        needed.append(by_lam)
    missing = "" if by_lam is not None and len(needed) == len(used) + 4 else "a constant is missing"
    W, eta_2 = (constants[name].value if name in constants else 0.0 for name in ("W", "eta_2"))
    size = 0.0 if by_lam is None else by_lam.value
    error = eta_2 * ball.radius + size * v + W * g_star.value
    how = "η₂R + sup‖∂₂Φ̂‖·sup‖v‖ + ‖w'‖‖∇₁E(w*)‖"
    largest_error = _worst("largest_error", error * (1 + 1e-12), how, first_reason(doubt, missing), needed)
    return RunRanges(largest_v, largest_error)


def _shrinks_by(q: float, eta: float) -> float:
    """‖(1 − η)I + η∂₁Φ‖."""
    return (1 - eta + eta * q) * (1 + 1e-15)


def ranges_of_draws(
    finite_sum: FiniteSum, ball: IterateBall, away: Constant, constants: Constants, doubt: str
) -> DrawRanges:
    """Return upper bounds on the distances of draws of Φ̂(w*) and ∂₂Φ̂ from their means."""
    bounds, m_2, by_lam = ball.bounds, constants["m_2"], _largest_by_lam(finite_sum, ball.bounds, constants)
    from_w = away.value * (1 + torch.maximum(bounds.low.abs(), bounds.high.abs()))
    noise = 0.0 if finite_sum.variance_factor == 0 else float((bounds.moves + from_w).max()) * (1 + 1e-12)
    largest_noise = _worst("largest_noise", noise, "the largest ‖Φ_i(w*) − w*‖", doubt, [away])
    if m_2.value == 0 and m_2.side is Side.EXACT:
        return DrawRanges(largest_noise, replace(m_2, name="largest_spread"))
    L_Phi = constants.get("L_Phi")
    if by_lam is None or L_Phi is None:
        return DrawRanges(largest_noise, _worst("largest_spread", math.inf, "", doubt, []))
    spread, how = (by_lam.value + L_Phi.value) * (1 + 1e-12), "sup‖∂₂Φ̂‖ + L_Φ"
    return DrawRanges(largest_noise, _worst("largest_spread", spread, how, doubt, [by_lam, L_Phi]))


def _largest_by_lam(finite_sum: FiniteSum, bounds: ExampleBounds, constants: Constants) -> Constant | None:
    """Return an upper bound on ‖∂₂Φ̂‖ for every minibatch; L_Φ if all minibatches have the same ∂₂Φ̂."""
    L_Phi = constants.get("L_Phi")
    if bounds.m_2 == 0 and L_Phi is not None and L_Phi.is_safe:
        return L_Phi
    value = of_batch(finite_sum, bounds.by_lam)
    if math.isfinite(value):
        return Constant("L_Phi", value, Side.LOWER if bounds.doubt else Side.UPPER, Provenance("the largest ‖∂₂Φ_i‖"))
    return None if L_Phi is None else replace(L_Phi, side=Side.LOWER)


def _worst(name: str, value: float, how: str, doubt: str, sources: list[Constant]) -> Constant:
    """Return a constant that is proved if its sources are proved and there is no doubt."""
    if not math.isfinite(value):
        value, doubt = sys.float_info.max, doubt or "nothing bounds it"
    delta = math.fsum(source.provenance.delta or 0.0 for source in sources if source.side is Side.HIGH_PROBABILITY)
    unsafe = doubt or next((f"{source.name} is an estimate" for source in sources if not source.is_safe), "")
    if unsafe:
        return Constant(name, value, Side.LOWER, Provenance(how, no_proof=unsafe))
    if delta:
        return Constant(name, value, Side.HIGH_PROBABILITY, Provenance(how, delta=delta))
    return Constant(name, value, Side.UPPER, Provenance(how))
