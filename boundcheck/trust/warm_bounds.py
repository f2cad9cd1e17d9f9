"""Bounds on r_t = ‖w_t − w(λ)‖ after a warm start: two that can be proved at λ, and one that is an estimate."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from boundcheck.constants import Constant, Provenance
from boundcheck.errors import BoundcheckError
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT
from boundcheck.numerics.estimate import residual_bounds
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.report.run_step import DistanceBound
from boundcheck.side import Side
from boundcheck.theory.catalogue import bounds
from boundcheck.trust.certified_solution import CertifiedSolution


def from_distance(certified: CertifiedSolution, t: int) -> DistanceBound | None:
    """`warm-start` with the distance of the start: q^t r_0 with q on B(w(λ), r_0); None if no q < 1 is known."""
    q = _contraction(certified)
    if q is None:
        return None
    away = certified.distance_of(certified.problem.w0)
    delta = away.delta or None
    r_0 = Constant("r_0", float(away.upper), away.side, Provenance("from the certified w(λ)", delta=delta))
    return _bound("warm-start", q, t, r_0=r_0)


def from_residual(certified: CertifiedSolution, t: int) -> DistanceBound | None:
    """`warm-start` with the residual of the start: q^t ‖w_0 − Φ(w_0, λ)‖/(1 − q); None if no q < 1 is known."""
    q = _contraction(certified)
    if q is None:
        return None
    problem = certified.problem
    residual = residual_bounds.of(problem, _at(problem.w0, problem.n))
    side = Side.LOWER if residual.doubt or certified.eps_g.side is Side.LOWER else Side.UPPER
    return _bound("warm-start", q, t, eps_0=Constant("eps_0", residual.w, side, Provenance(residual.how)))


def from_drift(
    certified: CertifiedSolution, t: int, r_prev: float, W: Constant, lam_step: float
) -> DistanceBound | None:
    """`warm-drift` with ‖w'‖ at the previous λ. It does not bound ‖w'‖ between both λ, so this is an estimate."""
    q = _contraction(certified)
    if q is None:
        return None
    at_one_end = Constant("W_path", W.value, Side.LOWER, Provenance("‖w'‖ at the previous λ"))
    return _bound("warm-drift", q, t, r_prev=r_prev, W_path=at_one_end, lam_step=lam_step)


def _contraction(certified: CertifiedSolution) -> Constant | None:
    q = certified.constants.get("q")
    plain = certified.problem.dynamics.step is FIXED_POINT.step
    return q if plain and q is not None and q.value < 1 else None


def _bound(name: str, q: Constant, t: int, **given: Any) -> DistanceBound | None:
    try:
        value = bounds[name].evaluate({"q": q}, t, rigorous=True, **given)
    except BoundcheckError:  # a number is not finite
        return None
    return DistanceBound(name, float(value.values), value.side)


def _at(w: Tensor, n: int) -> ReferenceSolution:
    """A `ReferenceSolution` with this w, for computing only the residual ‖w − Φ(w)‖."""
    nothing = torch.zeros(1, dtype=w.dtype, device=w.device)
    return ReferenceSolution(w.new_zeros(1, n), w[None], torch.zeros_like(w)[None], nothing, nothing)
