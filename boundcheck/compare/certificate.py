"""Bounds on the error of the reference hypergradient itself, and the floor below which an error is rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import AssumptionError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.symmetry import by_construction
from boundcheck.numerics.estimate import residual_bounds
from boundcheck.numerics.estimate import rounding_floor as floor
from boundcheck.numerics.estimate.near_solution import NearSolution, near_solution
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.side import Side
from boundcheck.theory.catalogue import bounds

THEOREM = bounds["aid-certificate"]
AT_REFERENCE = ("W",)  # constants that the estimator measured at the reference
PLACES = 3  # the number of t at which the floor is measured, between T/8 and T


def certify(problem: Problem, solution: ReferenceSolution, constants: Constants) -> Constant | None:
    """Return ε_g ≥ ‖reference − ∇f‖ with its side; None if there is no bound.

    ε_g is the bound `aid-certificate` at the reference, with ‖w'‖ at the reference and bounds on the exact residuals.
    If an operation of the program has no rounding rule, the residuals are estimates, and so is ε_g.
    """
    near = _near(problem, solution)
    if near is not None:
        constants = near.constants
    elif any(name not in constants for name in AT_REFERENCE) or not residual_is_enough(problem, constants):
        return None
    residual = residual_bounds.of(problem, solution)
    of_W, eps_w = replace(constants["W"], name="W_t"), residual.w
    if near is not None:  # the theorem needs ε_w only for ‖w − w*‖ ≤ ε_w/μ_λ, and `near` may bound ‖w − w*‖ better
        eps_w = min(eps_w, near.fixed_point.distance * constants["mu_inv"].value * (1 + 1e-15))
    try:
        error = THEOREM.evaluate(
            constants, eps_w=eps_w, v_k=float(solution.v[0].norm()), W_t=of_W, eps_v=residual.v, rigorous=True
        )
    except (AssumptionError, MissingConstantError):
        return None
    how = Provenance(f"{THEOREM.name} at the reference", delta=error.delta or None)
    side = Side.UPPER if error.side is Side.EXACT else error.side
    if residual.doubt:
        how, side = replace(how, how=f"{how.how}; {residual.doubt}", delta=None), Side.LOWER
    value = (float(error.values) + residual.g) * (1 + 1e-12)
    return Constant("eps_g", value, side, how) if np.isfinite(value) else None


@dataclass(frozen=True)
class Distance:
    """A bound on the distance from the reference to w*; unproved if `doubt` is not empty."""

    value: float
    doubt: str = ""


def distance(problem: Problem, solution: ReferenceSolution, constants: Constants) -> Distance:
    """ε_w/μ_λ, a bound on ‖reference − w*‖: a distance to the reference differs by at most this from one to w*."""
    near = _near(problem, solution)
    if near is not None:
        return Distance(near.fixed_point.distance)
    if not residual_is_enough(problem, constants):
        return Distance(0.0, "‖w_t − w*‖ is measured from a reference that nothing certifies")
    residual = residual_bounds.of(problem, solution)
    return Distance(residual.w / constants["mu_inv"].value, residual.doubt)


def _near(problem: Problem, solution: ReferenceSolution) -> NearSolution | None:
    """A proof that w* is near the reference, if the program of the problem gives one."""
    if isinstance(problem.known, ClosedForms):
        return None  # the closed forms hold at every w
    near = near_solution(problem, solution)
    return near if isinstance(near, NearSolution) else None


def residual_is_enough(problem: Problem, constants: Constants) -> bool:
    """Whether ‖w − w*‖ ≤ ε_w/μ_λ is proved. A bound on ‖(I − ∂₁Φ)⁻¹‖ at every point is not enough for this.

    It is proved for a contraction with μ_λ ≤ 1 − q; for symmetric definite I − ∂₁Φ, because means along a line are as
    definite; and for constant ∂₁Φ.
    """
    q, gap, nu_1 = (constants.get(name) for name in ("q", "mu_inv", "nu_1"))
    if gap is None:
        return False
    if nu_1 is not None and nu_1.value == 0 and nu_1.side is Side.EXACT:
        return True
    contracts = q is not None and q.value < 1
    definite = {"mu", "L"} <= set(constants) or (contracts and by_construction(problem))
    return definite or (contracts and q is not None and gap.value <= (1 - q.value) * (1 + 1e-9))


def proved(eps_g: Constant | None) -> bool:
    """Whether the reference is certified, for certain or with high probability."""
    return eps_g is not None and eps_g.side is not Side.LOWER


@dataclass(frozen=True, eq=False)
class Floor:
    """The rounding floor of each method, samples × t, and how it was obtained. An error below it is rounding."""

    values: Mapping[Method, np.ndarray]
    how: str


def rounding_floor(
    problem: Problem, methods: Sequence[Method], T: int, constants: Sequence[Constants],
    solutions: Sequence[ReferenceSolution], errors: Mapping[Method, np.ndarray],
) -> Floor:  # fmt: skip
    """The floor of each method at every λ and t; the problem is at the first λ.

    The floor is measured at the first λ at some t, interpolated in between, and scaled with the model at the other λ.
    It is at least the rounding of the subtraction g − ∇f itself, whose numbers are at most ‖error‖ + 2‖∇f‖.
    """
    ts = np.unique(np.geomspace(max(1, T / 8), T, PLACES).astype(int))
    steps = np.arange(1, T + 1)
    models = np.stack([model_of(c, f, problem.dtype, steps) for c, f in zip(constants, solutions, strict=True)])
    measured = floor.measured(problem, [str(m) for m in methods], [int(t) for t in ts], solutions[0])
    sizes = np.array([[float(f.value[0].norm())] for f in solutions])
    lost = np.array([[floor.underflow(c, f, problem.dtype)] for c, f in zip(constants, solutions, strict=True)])
    floors, how = {}, "model"
    for method in methods:
        measured_floor = None if measured is None else measured[str(method)]
        rounding = models
        if measured_floor is not None and np.isfinite(measured_floor).all():
            how = "two precisions compared"
            scale = np.where(models[:1] > 0, models / np.where(models[:1] > 0, models[:1], 1), 1.0)
            rounding = scale * np.interp(steps, ts, measured_floor)
        subtraction = floor.unit(problem.dtype) * (np.where(np.isfinite(errors[method]), errors[method], 0) + 2 * sizes)
        floors[method] = floor.FACTOR * np.maximum(np.maximum(rounding, subtraction), lost)
    return Floor(floors, how)


def model_of(constants: Constants, solution: ReferenceSolution, dtype: torch.dtype, t: np.ndarray) -> np.ndarray:
    """The rounding at every t by the model; if there is no model, the rounding of ∇f itself."""
    try:
        return floor.model(constants, solution, dtype, t)
    except (InputError, LookupError):  # no contraction, or a problem too large for ‖w'‖
        return np.full(t.shape, floor.unit(dtype) * float(solution.value[0].norm()))
