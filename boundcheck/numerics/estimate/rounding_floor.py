"""What rounding does to a hypergradient, measured or from a model (docs/constants.md).

Measured: the same run in float32 and in float64 differ by the rounding of the former; scaled by the ratio of the two
units it is that of float64. From the model: u·κ·(S_w‖w‖ + ‖∂₂Φ‖‖v‖), where S_w bounds by how much the hypergradient
moves with w, and κ is the condition number of I − ∂₁Φ, by which rounding in Φ moves w and v.

Both are estimates, so the floor of a report is `FACTOR` times as much. An error below the floor proves nothing.
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

FACTOR = 10  # the floor over what was measured or modelled
OTHER = {torch.float64: torch.float32, torch.float32: torch.float64}


def unit(dtype: torch.dtype) -> float:
    """The unit round-off u."""
    return torch.finfo(dtype).eps / 2


def model(constants: Constants, solution: ReferenceSolution, dtype: torch.dtype, t: np.ndarray) -> np.ndarray:
    """u·κ·(S_w M_t + L_Φ*‖v‖) at every t, with S_w = η₂ + η₁W + ν₂‖v‖ + ν₁W‖v‖.

    A step s rounds numbers of size ‖w_s‖ ≤ ‖w*‖ + q^s r_0, and what it leaves shrinks by q a step: together
    Σ_s q^(t−s)‖w_s‖ = M_t/(1−q) with M_t ≤ ‖w*‖ + (1−q)(t+1)q^t r_0.
    """
    gains = _Gains.of(constants, float(solution.v[0].norm()))
    w, v = float(solution.w[0].norm()), float(solution.v[0].norm())
    q = min(constants["q"].value, 1.0)
    start = constants["r_0"].value * (1 - q) * (t + 1.0) * q**t
    size: np.ndarray = unit(dtype) * (gains.of_w * (w + start) + gains.of_v * v)
    return size


def underflow(constants: Constants, solution: ReferenceSolution, dtype: torch.dtype) -> float:
    """What numbers that are lost do to a hypergradient or to a bound: a norm takes those below √tiny for 0.

    They act as rounding of w and v of this size would; without the constants, as rounding of the hypergradient.
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
    """By how much a hypergradient moves with rounding in w and in v, which the linear systems amplify."""

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
    """The rounding of every method at each t of `ts`; None where the problem exists in one precision only.

    It is (u/u')(‖g' − g‖ + ‖ref' − ref‖): g the hypergradient, ref the reference, u' the unit of the lower of the two
    precisions, whose rounding is what is seen: for a problem in float32 it is the difference itself. `solution` is the
    reference of the problem itself, if it is there already.
    """
    dtype = OTHER.get(problem.dtype)
    try:
        other = None if dtype is None else problem.in_dtype(dtype)
    except InputError:  # λ leaves its domain when it is rounded
        return None
    if dtype is None or other is None:
        return None
    ratio = min(1.0, unit(problem.dtype) / unit(dtype))
    try:
        solution = solution or reference(problem, problem.lam[None])
        refs = [solution.value[0].double(), reference(other, other.lam[None]).value[0].double()]
    except DivergenceError:  # the lower precision does not resolve the fixed point
        return None
    apart = float((refs[1] - refs[0]).norm())

    def rounding(method: str, t: int) -> float:
        try:
            pair = [hypergradient(p, method, t).value.double() for p in (problem, other)]
        except DivergenceError:
            return float("inf")
        return ratio * (float((pair[1] - pair[0]).norm()) + apart)

    return {method: np.array([rounding(method, t) for t in ts]) for method in methods}
