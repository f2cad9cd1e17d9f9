"""The error of a point, from a better point after it, and the result for the user."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.errors import ToleranceError
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side
from boundcheck.trust.aid_point import AidPoint, Solvers, Work
from boundcheck.trust.first_order import estimate
from boundcheck.trust.proof import as_array
from boundcheck.trust.result import AccurateHypergradient

ROUGH = 0.5  # the tolerance of the solve that splits the error


@dataclass(frozen=True, eq=False)
class CorrectedPoint:
    """A point, a better hypergradient, and the accuracy of the point that follows from it."""

    point: AidPoint
    corrected: Tensor
    accuracy: Accuracy
    eps_g: Constant | None  # a bound on the error of `corrected`; None if unknown


def shown_error(
    gaps: list[float], sensitivity: float, point: AidPoint, following: AidPoint, unit: float
) -> CorrectedPoint | None:
    """Estimate the error of a point from the next point; None if there is no estimate."""
    eps_g = estimate(gaps, sensitivity, point, following, unit)
    if eps_g is None:
        return None
    estimated = accuracy(as_array(point.value), as_array(following.value), eps_g)
    return CorrectedPoint(point, following.value, estimated, eps_g)


def not_known(solvers: Solvers, point: AidPoint, following: AidPoint) -> ToleranceError:
    """The error to raise if the residuals are small, but the error of g is unknown."""
    nothing = Enclosure(np.float64(0), np.float64(math.inf), Side.LOWER)
    best = CorrectedPoint(point, following.value, Accuracy(nothing, nothing, math.inf, 180.0, None), None)
    return ToleranceError(
        f"{solvers.problem.name}: the error is not known after {following.work.products} products: I − ∂₁Φ has "
        "eigenvalues so small that a small residual says nothing; add a penalty to the lower level, or give a larger t",
        result_of(solvers, best, following.work, 0, "the error is not known"),
    )


def result_of(
    solvers: Solvers, answer: CorrectedPoint, work: Work, proof_products: int, why_not: str
) -> AccurateHypergradient:
    """The point as a result, with its error split into the parts of w and v."""
    point = answer.point
    linear, with_split = solvers.linear_part(point, ROUGH)
    return AccurateHypergradient(
        value=point.value,
        method=solvers.method,
        t=point.work.t,
        k=point.work.k,
        accuracy=answer.accuracy,
        corrected=answer.corrected,
        corrected_error=math.inf if answer.eps_g is None else answer.eps_g.value,
        lower_level_part=float((point.value - answer.corrected - linear).norm()),
        linear_part=float(linear.norm()),
        products=work.products + with_split.products - point.work.products,
        proof_products=proof_products,
        why_not_proved=why_not,
        w=point.w,
        v=point.v,
        layout=solvers.problem.lam_layout,
    )
