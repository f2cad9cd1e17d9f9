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
from boundcheck.report.accuracy import accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side
from boundcheck.trust.coordinates import Coordinates
from boundcheck.trust.outer_value import OuterValue

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

    The reference starts from the w of the run, so that it is the same fixed point if there are several.
    """
    there = replace(problem, lam=at.lam, w0=at.w)
    try:
        certified = certified_reference(there, None, Spend(DELTA, 0))
    except (AssumptionError, DivergenceError, UserCodeError) as why:
        return estimate(at, coordinates, str(why))
    if certified.eps_g is None:
        return estimate(at, coordinates, "the error of the reference is not bounded: see boundcheck constants")
    scale = coordinates.scale(at.lam)
    g = _array(coordinates.gradient(at.lam, certified.solution.value[0]))
    eps = replace(certified.eps_g, value=certified.eps_g.value * float(scale.abs().max()))
    norm = accuracy(g, g, eps).gradient_norm
    doubt = "" if norm.side is not Side.LOWER else f"ε_g rests on estimates ({certified.eps_g.provenance.how})"
    return GradientCertificate(norm, doubt)


def _array(x: Tensor) -> np.ndarray:
    array: np.ndarray = x.detach().to(device="cpu", dtype=torch.float64).numpy()
    return array
