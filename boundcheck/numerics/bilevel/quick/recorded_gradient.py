"""∇₁ℓ, Φ = w − α∇₁ℓ and products with ∂₁Φ from recorded operations of autograd."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.formulas import OnePoint
from boundcheck.numerics.bilevel.loss_gradient import gradient
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.bilevel.quick.slots import Slots
from boundcheck.numerics.program.batched_losses import losses_by_formula
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.recognise.point_program import PointProgram
from boundcheck.numerics.program.recognise.stage import Stage, Unknown, Value
from boundcheck.numerics.program.recognise.staged_program import StagedProgram
from boundcheck.numerics.program.recorded_program import Declined, Program

LOG = logging.getLogger("boundcheck")


def recorded(problem: Problem, function: Callable[[Tensor, Ready], Tensor]) -> Program:
    """Record the operations of a function of w and the prepared values, starting from w and λ."""

    def of_lam(w: Tensor, lam: Tensor) -> Tensor:
        with losses_by_formula():  # because the recorded program is batched later
            return function(w, problem.prepare(lam))

    return capture(of_lam, problem.w0, problem.lam, {})


def slope_function(
    problem: Problem, loss: Callable[[Tensor, Ready], Tensor], program: Program, stage: Stage, slots: Slots
) -> Callable[[Tensor, Any], Tensor]:
    """Return ∇₁ℓ from the recorded operations of autograd or, if they cannot be recorded, by autograd from ℓ."""
    try:
        return StagedProgram(_capture_gradient(problem, loss), stage).function(slots.slot)
    except Declined as why:
        LOG.debug("%s: gradients by autograd, as %s", problem.name, why)
        return gradient(StagedProgram(program, stage).function(slots.slot))


def _capture_gradient(problem: Problem, loss: Callable[[Tensor, Ready], Tensor]) -> Program:
    """Record the operations that autograd runs for ∇₁ℓ."""

    def slope(w: Tensor, lam: Tensor) -> Tensor:
        with losses_by_formula():
            value = loss(w.requires_grad_(), problem.prepare(lam))
            result: Tensor = torch.autograd.grad(value, w, create_graph=True)[0]
            return result

    return capture(slope, problem.w0, problem.lam, {})


def gradient_step(
    slope_at: Callable[[Tensor, Any], Tensor], alpha: Value, slots: Slots
) -> Callable[[Tensor, Any], Tensor]:
    if isinstance(alpha, Tensor):
        step = float(alpha)
        return lambda w, ready: torch.sub(w, slope_at(w, ready), alpha=step)
    of_ready = slots.read(alpha)
    return lambda w, ready: w - of_ready(ready) * slope_at(w, ready)


def recorded_products(
    problem: Problem, phi_at: Callable[[Tensor, Any], Tensor], prepare: Callable[[Tensor], Ready], count: int
) -> OnePoint | None:
    """Return ∂₁Φᵀv from recorded operations of autograd; None if that fails. `count` is the number of slots."""
    try:
        return OnePoint(PointProgram(phi_at, problem.w0, prepare(problem.lam)[:count]))
    except (Declined, Unknown) as why:
        LOG.debug("%s: products by autograd, as %s", problem.name, why)
        return None
