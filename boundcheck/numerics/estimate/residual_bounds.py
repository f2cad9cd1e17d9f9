"""How well a reference solves its equations: proved where every operation has a rule, else estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import rounding_noise, rounding_proof
from boundcheck.numerics.estimate.rounding_proof import Declined
from boundcheck.numerics.solvers.reference import ReferenceSolution

UNITS = 8  # ε of the numbers themselves, which an estimate adds to what random errors show


@dataclass(frozen=True)
class Residuals:
    """Bounds of the exact residuals and of the rounding of ∇f; estimates of them where `doubt` says why."""

    w: float  # ‖w − Φ(w)‖
    v: float  # ‖v − ∂₁Φᵀv − ∇₁E‖
    g: float  # ‖value − (∇₂E + ∂₂Φᵀv)‖
    doubt: str = ""


@lru_cache(maxsize=32)
def of(problem: Problem, found: ReferenceSolution) -> Residuals:
    """The residuals of a reference of one λ, which is that of the problem.

    Parameters
    ----------
    problem : Problem
    found : Reference
        With one row.

    Returns
    -------
    Residuals
        Proved by running error analysis. Where that declines, what was computed, with a few units of its numbers and
        with what arithmetic with random errors shows.
    """
    w, v, value = found.w[0], found.v[0], found.value[0]
    proof = rounding_proof.proved(problem, w, v, value)
    if not isinstance(proof, Declined):
        return Residuals(proof.residual_w, proof.residual_v, proof.error_g)
    noise = rounding_noise.measured(problem, w, v)
    if not math.isfinite(noise.w + noise.v + noise.g):  # a run broke down, and says nothing
        noise = rounding_noise.Rounding(0.0, 0.0, 0.0)
    unit = UNITS * torch.finfo(problem.dtype).eps
    sizes = [float(x.norm()) for x in (w, v, value)]
    return Residuals(
        float(found.residual_w[0]) + unit * sizes[0] + noise.w,
        float(found.residual_v[0]) + unit * 2 * sizes[1] + noise.v,
        unit * sizes[2] + noise.g,
        f"rounding is not proved: {proof.reason}",
    )
