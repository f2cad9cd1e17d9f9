"""A proof of what rounding does to Φ, to a linear system and to a hypergradient at one point.

The program is run once, and beside it every float tensor that depends on w, v or λ has a ball of its exact value
(running error analysis): the value that the same program has with these operations in exact real arithmetic, casts
between float dtypes included. Tensors are taken as they are stored (w, v, λ, data), Python numbers as they are given,
and what the program computes from data alone as it computes it. Derivatives are those of autograd: what is detached is
held fixed. The rules are in `rounding_rules`; an operation without one is declined by its name. Rules compute in
float64, so what is proved of a float32 program is as narrow as of one in float64.

Balls belong to memory, not to tensors. A view sees the balls of the memory that it looks at, and an operation in place
writes new ones there.

Assumed, and nothing else: what `rounding_rules.ball` and `rounding_rules.elementwise` say of float64 arithmetic; that
PyTorch reports its operations to a dispatch mode; and that the user's function does not compute outside of PyTorch. The
last is watched: reading numbers out is declined, and a second run close by must see the same constants.

A step size is enclosed like every number, as eigenvalues have a rule. It could be taken as stored where it is held
fixed under differentiation, as w* and ∇f do not depend on it; that would make balls narrower, not truer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.program.outside_torch import NoWayOut, differs
from boundcheck.numerics.program.rounding_rules.ball import Ball, Refusal, norm, point, sub
from boundcheck.numerics.program.rounding_watch import RoundingWatch


@dataclass(frozen=True)
class EnclosedNorms:
    """Proved upper bounds, at w and v as they are stored, of exact numbers."""

    residual_w: float  # ‖w − Φ(w)‖
    residual_v: float  # ‖v − ∂₁Φᵀv − ∇₁E‖
    error_g: float  # ‖value − (∇₂E + ∂₂Φᵀv)‖


@dataclass(frozen=True)
class NoProof:
    """Why nothing is proved: the operation by its PyTorch name, or in words."""

    reason: str


def proved(problem: Problem, w: Tensor, v: Tensor, value: Tensor) -> EnclosedNorms | NoProof:
    """Prove how large the residuals at w and v are in exact arithmetic, and how far `value` is from the exact g.

    Parameters
    ----------
    problem
        Φ and E at λ = `problem.lam`.
    w, v
        A point and a solution of the adjoint system, exact as stored.
    value
        A hypergradient that was computed from them.

    Returns
    -------
    EnclosedNorms | NoProof
        Upper bounds that hold, or the reason why there are none. Never an error of the user's program.
    """
    try:
        parts = balls(problem, w, v)
        enclosed = EnclosedNorms(norm(parts[0]), norm(parts[1]), norm(sub(point(value), parts[2])))
    except Refusal as refusal:
        return NoProof(str(refusal))
    if not all(math.isfinite(x) for x in (enclosed.residual_w, enclosed.residual_v, enclosed.error_g)):
        return NoProof("a result is not finite")
    return enclosed


def balls(problem: Problem, w: Tensor, v: Tensor) -> tuple[Ball, Ball, Ball]:
    """Balls of w − Φ, v − ∂₁Φᵀv − ∇₁E and ∇₂E + ∂₂Φᵀv; Refusal where nothing is proved."""
    if w.device.type != "cpu":
        raise Refusal(f"rounding is proved on the CPU only, and the problem is on {w.device}")
    first = RoundingWatch(enclose=True)
    tensors = _run(problem, w, v, problem.lam, first)
    second = RoundingWatch(enclose=False)
    _run(problem, _close_by(w), _close_by(v), _close_by(problem.lam), second)
    if reason := differs(first.recorded, second.recorded):
        raise Refusal(reason)
    return first.ball(tensors[0]), first.ball(tensors[1]), first.ball(tensors[2])


def _close_by(x: Tensor) -> Tensor:
    """Every entry a little larger, by other amounts."""
    more = 1 + torch.linspace(0, 1, x.numel(), dtype=x.dtype)
    return torch.where(x == 0, 1e-9 * more, x * (1 + 1e-5 * more))


def _run(problem: Problem, w: Tensor, v: Tensor, lam: Tensor, watch: RoundingWatch) -> tuple[Tensor, Tensor, Tensor]:
    """w − Φ, v − ∇₁(E + vᵀΦ) and ∇₂(E + vᵀΦ), watched."""
    w, v, lam = (x.detach().clone() for x in (w, v, lam))
    watch.start(w, v, lam)
    w.requires_grad_(True)
    lam.requires_grad_(True)
    try:
        with torch.enable_grad(), NoWayOut(watch.refuse), watch:
            ready = problem.prepare(lam)
            phi = problem.phi_at(w, ready)
            total = problem.outer_at(w, ready) + phi @ v
            of_w, of_lam = torch.autograd.grad(total, (w, lam), allow_unused=True, materialize_grads=True)
            tensors = (w - phi).detach(), v - of_w, of_lam.clone()
    except Exception as error:  # the user's code may raise anything; only a refusal says why
        text = " ".join(str(error).split())[:200]
        raise watch.refusal or Refusal(f"the program cannot be followed: {text}") from error
    if watch.refusal is not None:  # and the user's code caught it
        raise watch.refusal
    return tensors
