"""‖∇f(λ)‖ from both sides: proved by a certified reference, or estimated from a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from boundcheck.compare.certified_reference import certified_reference
from boundcheck.errors import AssumptionError, DivergenceError, UserCodeError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.lower_level import length
from boundcheck.report.accuracy import accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side
from boundcheck.trust.coordinates import Coordinates
from boundcheck.trust.outer_value import OuterValue

APART = 1e-2  # relative: a reference that is farther from the run is another fixed point
ANOTHER = "there are several fixed points, and 'exact' finds another one from params"
NORM_ROUNDING = 4 * float(np.finfo(np.float64).eps)
DELTA = 1e-3  # the probability with which a certificate by random starts may fail


@dataclass(frozen=True, eq=False)
class GradientCertificate:
    """‖∇f(λ)‖ in some coordinates from both sides; `doubt` says why it is only an estimate, and is empty otherwise."""

    norm: Enclosure
    doubt: str = ""


def estimate(at: OuterValue, coordinates: Coordinates, doubt: str) -> GradientCertificate:
    """‖g‖ with the estimated error of g on both sides."""
    size = float(coordinates.gradient(at.lam, at.g).norm())
    ends = np.float64(max(size - at.error, 0.0)), np.float64(size + at.error)
    return GradientCertificate(Enclosure(*ends, Side.LOWER), doubt)


def certificate(problem: Problem, at: OuterValue, coordinates: Coordinates) -> GradientCertificate:
    """The norm of a certified reference, with ε_g on both sides, worth what ε_g is; an estimate where there is none.

    The reference starts from w_0. Where it leads to another fixed point than the run is at, nothing is proved.
    """
    there = replace(problem, lam=at.lam)
    try:
        certified = certified_reference(there, None, Spend(DELTA, 0))
    except (AssumptionError, DivergenceError, UserCodeError) as why:
        return estimate(at, coordinates, str(why))
    if certified.eps_g is None:
        return estimate(at, coordinates, "the error of the reference is not bounded: see boundcheck constants")
    w_star = certified.solution.w[0]
    if float(length(w_star - at.w)) > APART * (1 + float(w_star.norm())):
        return estimate(at, coordinates, "there are several fixed points, and 'exact' finds another one from params")
    lam = at.lam.double()  # products of float32 numbers are exact in float64, up to its own rounding
    g = _array(coordinates.gradient(lam, certified.solution.value[0].double()))
    widest = float(coordinates.scale(lam).abs().max())
    eps = (certified.eps_g.value * widest + NORM_ROUNDING * float(np.linalg.norm(g))) * (1 + NORM_ROUNDING)
    norm = accuracy(g, g, replace(certified.eps_g, value=eps)).gradient_norm
    doubt = "" if norm.side is not Side.LOWER else f"ε_g rests on estimates ({certified.eps_g.provenance.how})"
    return GradientCertificate(norm, doubt)


def _array(x: Tensor) -> np.ndarray:
    array: np.ndarray = x.detach().to(device="cpu", dtype=torch.float64).numpy()
    return array
