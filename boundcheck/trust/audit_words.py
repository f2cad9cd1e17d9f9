"""The sentences of an audit: the error, the descent direction, the fault, and what to change."""

from __future__ import annotations

import math

from boundcheck.constants import Constant
from boundcheck.number_text import percent, percent_at_most, upward
from boundcheck.report.accuracy import Accuracy
from boundcheck.side import Side
from boundcheck.trust.diagnosis import Diagnosis
from boundcheck.trust.low_precision import LowPrecision

SURE = 0.9  # print one number if the lower bound on the error is at least this fraction of the upper bound
RIGHT = 1e-6  # a smaller relative error is not mentioned


def message(accuracy: Accuracy, *parts: str) -> str:
    """The message of an audit: the error, and further sentences."""
    return " ".join(part for part in (_how_far(accuracy), *parts) if part)


def _how_far(accuracy: Accuracy) -> str:
    descent = {
        True: "−g is a descent direction",
        False: "−g is not a descent direction",
        None: "whether −g is a descent direction is not known",
    }[accuracy.descent]
    if not math.isfinite(accuracy.relative_error):
        upper = float(accuracy.error.upper)
        size = f"the error of g is {upper:.3g}" if math.isfinite(upper) else "nothing is known of the error of g"
        return f"∇f may be 0, so there is no relative error: {size}, and {descent}."
    if accuracy.error.lower >= SURE * accuracy.error.upper:
        return f"g is {percent(accuracy.relative_error)} off (angle {accuracy.angle:.3g}°), {descent}."
    off, angle = percent_at_most(accuracy.relative_error), upward(accuracy.angle)
    return f"g is at most {off} off (angle at most {angle}°), {descent}."


def fault(diagnosis: Diagnosis) -> str:
    """The sentences about the fault and what to change."""
    best, other = diagnosis.best, diagnosis.other
    also = f" It may also be that {other.cause}." if other is not None else ""
    cause = best.cause if best.cause[1] == " " else best.cause[0].upper() + best.cause[1:]  # keep g, w, v lower-case
    return f"{cause}. {best.remedy}{also}"


UNEXPLAINED = "No single fault explains it. Give w= and v=, from which it was computed, to learn more."
ZERO = "g is 0: is the graph cut somewhere, by detach() or no_grad()?"


def single(factor: float) -> str:
    """The sentence for one hyperparameter, where every g is a multiple of ∇f."""
    return f"It is {factor:.6g} times ∇f, which for one hyperparameter alone does not tell the fault."


def not_from(apart: float) -> str:
    """The sentence if the given w and v do not lead to g."""
    return f"No single fault explains it: ∇₂E + ∂₂Φᵀv at the given w and v is {percent(apart)} off g."


def doubt(eps_g: Constant | None) -> str:
    """A sentence about the evidence for the numbers; empty if they are proved."""
    if eps_g is None:
        return "These numbers are estimates: nothing certifies the reference, as Φ is not known to contract near w*."
    if eps_g.side is Side.LOWER:
        return "These numbers are estimates: the error of the reference is not proved."
    if eps_g.side is Side.HIGH_PROBABILITY:
        return f"These numbers hold with probability {1 - (eps_g.provenance.delta or 0):g}."
    return ""


def left_over(relative: float) -> str:
    """The error that remains after the fault is corrected, as a sentence; empty if it is small."""
    return f"Then {percent(relative)} are left, from w and v." if relative > RIGHT else ""


def precision(low: LowPrecision) -> tuple[str, str]:
    """The cause and the remedy of an error that is due to rounding."""
    if low.what == "the problem":
        return (
            f"the rounding of {low.name} alone makes errors of this size",
            "Compute in float64, or take it as it is.",
        )
    return (
        f"{low.what} has the digits of {low.name} only",
        "Compute in float64, data and start included.",
    )
