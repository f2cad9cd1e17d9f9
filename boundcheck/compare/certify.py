"""How far the reference hypergradient itself may be from ∇f, and the floor below which an error is no evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from boundcheck.constants import Constants, Side
from boundcheck.errors import InputError
from boundcheck.estimate import floor
from boundcheck.estimate.all import ROUNDING
from boundcheck.methods import Method
from boundcheck.problem import Problem
from boundcheck.solvers.exact import Reference
from boundcheck.theory.sides import combine
from boundcheck.theory.symbols import QUANTITIES

USED = ("eta_1", "eta_2", "nu_1", "nu_2", "W", "mu_inv", "g_star")
PLACES = 3  # t at which the floor is measured, between T/8 and T


@dataclass(frozen=True)
class Certificate:
    """‖reference − ∇f‖ ≤ `value`, worth what `side` says; None where nothing bounds it."""

    value: float | None
    side: Side

    @property
    def proved(self) -> bool:
        """Proved, if only with some probability."""
        return self.value is not None and self.side is not Side.LOWER


def certify(found: Reference, constants: Constants, dtype: torch.dtype) -> Certificate:
    """The a posteriori bound at the reference, with the ‖w'‖ measured there.

    With δ = ε_w/μ_λ ≥ ‖w̃ − w*‖, and as in the local bound for AID with the parts of w̃ and w* exchanged,
    ‖g(w̃) − g(w*)‖ ≤ (η₂ + η₁W̃ + (ν₂ + ν₁W̃)‖v*‖)δ, where ‖v*‖ ≤ (‖ṽ‖ + (ε_v + η₁δ)/μ_λ)/(1 − ν₁δ/μ_λ), and what the
    linear solve leaves is at most W̃ε_v. Rounding in the residuals is added to them, and to the result that of the sum
    ∇₂E + ∂₂Φᵀv, of which the terms are at most ‖∇f‖ + 2‖∂₂Φᵀv‖.
    """
    if any(name not in constants for name in USED):
        return Certificate(None, Side.LOWER)
    eta_1, eta_2, nu_1, nu_2, W, gap, g_star = (constants[name].value for name in USED)
    eps = ROUNDING * torch.finfo(dtype).eps
    w, v = float(found.w[0].norm()), float(found.v[0].norm())
    delta = (float(found.residual_w[0]) + eps * w) / gap
    eps_v = float(found.residual_v[0]) + eps * (v + g_star)
    if nu_1 * delta >= gap:
        return Certificate(None, Side.LOWER)
    v_star = (v + (eps_v + eta_1 * delta) / gap) / (1 - nu_1 * delta / gap)
    value = (eta_2 + eta_1 * W + (nu_2 + nu_1 * W) * v_star) * delta + W * eps_v
    value += eps * (float(found.value[0].norm()) + 2 * W * (g_star + eps_v))  # ∂₂Φᵀv = w'ᵀ(I − ∂₁Φᵀ)v
    return Certificate(value, combine((constants[n], QUANTITIES[n].direction) for n in USED).side)


def rounding_floor(
    problem: Problem, methods: Sequence[Method], T: int, constants: Sequence[Constants], found: Sequence[Reference]
) -> tuple[Mapping[Method, np.ndarray], str]:
    """The floor of each method, samples × t, and how it was obtained; the problem is at the first λ.

    Measured at the first λ at some t, in between by interpolation; at the other λ in proportion to the model.
    """
    ts = np.unique(np.geomspace(max(1, T / 8), T, PLACES).astype(int))
    models = [model_of(c, f, problem.dtype) for c, f in zip(constants, found, strict=True)]
    measured = floor.measured(problem, [str(m) for m in methods], [int(t) for t in ts])
    every = np.arange(1, T + 1)
    floors, how = {}, "model"
    for method in methods:
        here = None if measured is None else measured[str(method)]
        if here is None or not np.isfinite(here).all():
            floors[method] = np.outer(models, np.ones(T))
        else:
            how = "two precisions compared"
            scale = [model / models[0] if models[0] > 0 else 1.0 for model in models]
            floors[method] = np.outer(scale, np.interp(every, ts, here))
    return floors, how


def model_of(constants: Constants, found: Reference, dtype: torch.dtype) -> float:
    """The floor by its model, or where there is none the rounding of ∇f itself."""
    try:
        return floor.model(constants, found, dtype)
    except (InputError, LookupError):  # no contraction, or a problem too large for ‖w'‖
        return floor.unit(dtype) * float(found.value[0].norm())
