"""The effect of rounding on a hypergradient, measured or from a model (docs/constants.md).

Measured: two runs in float32 and float64 differ by the rounding in float32. The ratio of the two units scales it to
float64. Model: u·κ·(S_w‖w‖ + ‖∂₂Φ‖‖v‖), where S_w bounds how much the hypergradient changes with w, and κ, the
condition number of I − ∂₁Φ, bounds how much w and v change with rounding in Φ.

Both are estimates, so the floor of a report is `FACTOR` times as large. An error below the floor proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from boundcheck.constants import Constants
from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference

FACTOR = 10  # the floor divided by the measured or modelled rounding
OTHER = {torch.float64: torch.float32, torch.float32: torch.float64}


def unit(dtype: torch.dtype) -> float:
    """Return the unit round-off u."""
    return torch.finfo(dtype).eps / 2


def model(constants: Constants, solution: ReferenceSolution, dtype: torch.dtype, t: np.ndarray) -> np.ndarray:
    """Return u·κ·(S_w M_t + L_Φ*‖v‖) at every t, with S_w = η₂ + η₁W + ν₂‖v‖ + ν₁W‖v‖.

    Step s rounds numbers of size ‖w_s‖ ≤ ‖w*‖ + q^s r_0, and each later step shrinks this error by the factor q. The
    sum is Σ_s q^(t−s)‖w_s‖ = M_t/(1−q) with M_t ≤ ‖w*‖ + (1−q)(t+1)q^t r_0.
    """
    gains = _Gains.of(constants, float(solution.v[0].norm()))
    w, v = float(solution.w[0].norm()), float(solution.v[0].norm())
    q = min(constants["q"].value, 1.0)
    start = constants["r_0"].value * (1 - q) * (t + 1.0) * q**t
    size: np.ndarray = unit(dtype) * (gains.of_w * (w + start) + gains.of_v * v)
    return size


def underflow(constants: Constants, solution: ReferenceSolution, dtype: torch.dtype) -> float:
    """Return the effect of underflow on a hypergradient or a bound: a norm treats entries below √tiny as 0.

    The effect is that of rounding of this size in w and v; if the constants are missing, in the hypergradient.
    """
    lost = math.sqrt(torch.finfo(dtype).tiny) * math.sqrt(solution.w.shape[-1] + solution.value.shape[-1])
    try:
        gains = _Gains.of(constants, float(solution.v[0].norm()))
    except (InputError, LookupError):
        return lost
    gain = gains.of_w + gains.of_v
    return lost * (1 + gain) if math.isfinite(gain) else lost


@dataclass(frozen=True)
class _Gains:
    """How much a hypergradient changes per unit of rounding in w and in v, which the linear systems amplify."""

    of_w: float
    of_v: float

    @classmethod
    def of(cls, constants: Constants, v: float) -> _Gains:
        value = {name: constants[name].value for name in ("eta_1", "eta_2", "nu_1", "nu_2", "W", "L_Phi_star")}
        gap = constants["mu_inv"].value if "mu_inv" in constants else 1 - constants["q"].value
        if gap <= 0:
            raise InputError(
                f"1 − q = {gap:.3g}: without a contraction there is no model of rounding; measure it instead"
            )
        kappa = constants["kappa"].value if "kappa" in constants else (1 + constants["q"].value) / gap
        S_w = value["eta_2"] + value["eta_1"] * value["W"] + (value["nu_2"] + value["nu_1"] * value["W"]) * v
        return cls(kappa * S_w, kappa * value["L_Phi_star"])


def measured(
    problem: Problem, methods: Sequence[str], ts: Sequence[int], solution: ReferenceSolution | None = None
) -> Mapping[str, np.ndarray] | None:
    """Measure the rounding of every method at each t of `ts`; None if the problem exists in one precision only.

    The measure is (u/u')(‖g' − g‖ + ‖ref' − ref‖) with the hypergradient g and the reference ref in both precisions.
    The difference shows the rounding of the lower precision, whose unit is u'. For a problem in float32, the factor is
    1. `solution` is the reference of the problem, if it is known already.
    """
    dtype = OTHER.get(problem.dtype)
    try:
        in_other_dtype = None if dtype is None else problem.in_dtype(dtype)
    except InputError:  # λ leaves its domain when it is rounded
        return None
    if dtype is None or in_other_dtype is None:
        return None
    ratio = min(1.0, unit(problem.dtype) / unit(dtype))
    try:
        solution = solution or reference(problem, problem.lam[None])
        refs = [solution.value[0].double(), reference(in_other_dtype, in_other_dtype.lam[None]).value[0].double()]
    except DivergenceError:  # the lower precision does not resolve the fixed point
        return None
    difference_of_references = float((refs[1] - refs[0]).norm())

    def rounding(method: str, t: int) -> float:
        try:
            pair = [hypergradient(p, method, t).value.double() for p in (problem, in_other_dtype)]
        except DivergenceError:
            return float("inf")
        return ratio * (float((pair[1] - pair[0]).norm()) + difference_of_references)

    return {method: np.array([rounding(method, t) for t in ts]) for method in methods}
