"""Lower and upper bounds on ‖∇f(λ)‖: proved by a certified reference, or estimated from a run."""

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

APART = 1e-2  # relative distance; a reference farther from the run than this is another fixed point
ANOTHER = "there are several fixed points, and 'exact' finds another one from params"
NORM_ROUNDING = 4 * float(np.finfo(np.float64).eps)
DELTA = 1e-3  # the probability that a certificate by random starts fails


@dataclass(frozen=True, eq=False)
class GradientCertificate:
    """Lower and upper bounds on ‖∇f(λ)‖ in some coordinates; `doubt` says why they are only estimates, else empty."""

    norm: Enclosure
    doubt: str = ""


def estimate(point: OuterValue, coordinates: Coordinates, doubt: str) -> GradientCertificate:
    """Estimate ‖∇f‖ as ‖g‖ plus and minus the estimated error of g."""
    size = float(coordinates.gradient(point.lam, point.g).norm())
    ends = np.float64(max(size - point.error, 0.0)), np.float64(size + point.error)
    return GradientCertificate(Enclosure(*ends, Side.LOWER), doubt)


def certificate(problem: Problem, point: OuterValue, coordinates: Coordinates) -> GradientCertificate:
    """Bound ‖∇f‖ by the norm of a certified reference plus and minus ε_g, with the side of ε_g; else estimate it.

    The reference starts from w_0. If it leads to another fixed point than that of the run, nothing is proved.
    """
    at_lam = replace(problem, lam=point.lam)
    try:
        certified = certified_reference(at_lam, None, Spend(DELTA, 0))
    except (AssumptionError, DivergenceError, UserCodeError) as why:
        return estimate(point, coordinates, str(why))
    if certified.eps_g is None:
        return estimate(point, coordinates, "the error of the reference is not bounded: see boundcheck constants")
    w_star = certified.solution.w[0]
    if float(length(w_star - point.w)) > APART * (1 + float(w_star.norm())):
        return estimate(point, coordinates, "there are several fixed points, and 'exact' finds another one from params")
    lam = point.lam.double()  # products of float32 numbers are exact in float64, up to its own rounding
    g = _array(coordinates.gradient(lam, certified.solution.value[0].double()))
    widest = float(coordinates.scale(lam).abs().max())
    eps = (certified.eps_g.value * widest + NORM_ROUNDING * float(np.linalg.norm(g))) * (1 + NORM_ROUNDING)
    norm = accuracy(g, g, replace(certified.eps_g, value=eps)).gradient_norm
    doubt = "" if norm.side is not Side.LOWER else f"ε_g rests on estimates ({certified.eps_g.provenance.how})"
    return GradientCertificate(norm, doubt)


def _array(x: Tensor) -> np.ndarray:
    array: np.ndarray = x.detach().to(device="cpu", dtype=torch.float64).numpy()
    return array
