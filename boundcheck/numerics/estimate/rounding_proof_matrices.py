"""Proved enclosures of ∂₁Φ, ∂₂Φ, ∇₁E and ∇²₁E at a point, as balls around the computed matrices.

There are none at a kink, where autograd returns a matrix that is no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.rounding_rules.ball import Ball, Refusal
from boundcheck.numerics.program.rounding_rules.decisions import edges_refused
from boundcheck.numerics.program.rounding_watch import RoundingWatch

LARGEST_D, LARGEST = 600, 5_000_000  # the most rows, and the most entries of both matrices; more would take seconds
Parts = Callable[[Tensor, Tensor, Ready, Tensor], Sequence[Tensor]]  # of (w, λ, prepared values, I)


@dataclass(frozen=True, eq=False)
class OfPhi:
    """Enclosures of the derivatives of Φ at the stored w, in exact arithmetic."""

    d1: Ball  # ∂₁Φ, d × d
    d2: Ball  # ∂₂Φ, d × n


@dataclass(frozen=True, eq=False)
class OfOuter:
    """Enclosures of the derivatives of E at the stored w, in exact arithmetic."""

    d1: Ball  # ∇₁E
    d11: Ball | None  # ∇²₁E; None if it was not requested


def are_small(problem: Problem) -> bool:
    """Return whether the matrices are small enough to be enclosed."""
    return problem.d <= LARGEST_D and problem.d * (problem.d + problem.n) <= LARGEST


def of_phi(problem: Problem, w: Tensor) -> OfPhi | NoProof:
    """Enclose ∂₁Φ and ∂₂Φ at w and λ = `problem.lam`, or return the reason for having no proof."""

    def parts(w: Tensor, lam: Tensor, ready: Ready, eye: Tensor) -> Sequence[Tensor]:
        return _grad(problem.phi_at(w, ready), (w, lam), eye)

    enclosures = _followed(problem, w, parts, rows=w.numel())
    return enclosures if isinstance(enclosures, NoProof) else OfPhi(*enclosures)


def of_outer(problem: Problem, w: Tensor, hessian: bool) -> OfOuter | NoProof:
    """Enclose ∇₁E at w, and with `hessian` also ∇²₁E."""

    def parts(w: Tensor, lam: Tensor, ready: Ready, eye: Tensor) -> Sequence[Tensor]:
        E = problem.outer_at(w, ready)
        (slope,) = torch.autograd.grad(E, w, create_graph=hessian, allow_unused=True, materialize_grads=True)
        return (slope, *(_grad(slope, (w,), eye) if hessian else ()))

    enclosures = _followed(problem, w, parts, rows=w.numel() if hessian else 0)
    return enclosures if isinstance(enclosures, NoProof) else OfOuter(enclosures[0], enclosures[1] if hessian else None)


def of_step(problem: Problem) -> Ball | NoProof:
    """Enclose the step α of Φ = w − α∇₁ℓ at λ = `problem.lam`."""

    def parts(w: Tensor, lam: Tensor, ready: Ready, eye: Tensor) -> Sequence[Tensor]:
        return () if problem.step_at is None else [torch.as_tensor(problem.step_at(ready)).reshape(())]

    enclosures = _followed(problem, problem.w0, parts, rows=0, derivatives=False)
    return enclosures if isinstance(enclosures, NoProof) else enclosures[0]


def _grad(y: Tensor, inputs: tuple[Tensor, ...], eye: Tensor) -> Sequence[Tensor]:
    if not y.requires_grad:
        return [torch.zeros(y.numel(), x.numel(), dtype=y.dtype) for x in inputs]
    grads = torch.autograd.grad(y, inputs, eye, is_grads_batched=True, allow_unused=True)
    return [
        torch.zeros(len(eye), x.numel(), dtype=y.dtype) if g is None else g for g, x in zip(grads, inputs, strict=True)
    ]


def _followed(
    problem: Problem, w: Tensor, parts: Parts, rows: int, *, derivatives: bool = True
) -> list[Ball] | NoProof:  # fmt: skip
    """Return balls of the tensors that `parts` computes, by running error analysis.

    `rows` is the number of rows of the identity matrix that `parts` receives. `derivatives` says whether the tensors
    are derivatives, of which nothing is proved at a kink.
    """
    if w.device.type != "cpu":
        return NoProof(f"rounding is proved on the CPU only, and the problem is on {w.device}")
    vouched_for = isinstance(problem.known, ClosedForms)  # such a problem says itself what its derivatives are
    edges = edges_refused() if derivatives and not vouched_for else nullcontext()
    watch = RoundingWatch(enclose=True)
    w, lam = w.detach().clone(), problem.lam.detach().clone()
    eye = torch.eye(rows, w.numel() if rows else 0, dtype=w.dtype)
    watch.start(w, lam, eye)
    w.requires_grad_(True)
    lam.requires_grad_(True)
    try:
        with torch.enable_grad(), edges, NoWayOut(watch.refuse), watch:
            tensors = [part.clone() for part in parts(w, lam, problem.prepare(lam), eye)]
    except Exception as error:  # the user's code may raise any error; a refusal gives the reason
        text = " ".join(str(error).split())[:200]
        return NoProof(str(watch.refusal or Refusal(f"the program cannot be followed: {text}")))
    return NoProof(str(watch.refusal)) if watch.refusal is not None else [watch.ball(part) for part in tensors]
