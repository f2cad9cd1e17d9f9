"""What an audit says: how far off, whether still a descent direction, the fault, and what to change."""

from __future__ import annotations

import math

from boundcheck.constants import Constant
from boundcheck.number_text import percent, percent_at_most, upward
from boundcheck.report.accuracy import Accuracy
from boundcheck.side import Side
from boundcheck.trust.diagnosis import Diagnosis
from boundcheck.trust.low_precision import LowPrecision

SURE = 0.9  # ends of the error that are this near to each other are one number
RIGHT = 1e-6  # a relative error of which nothing need be said


def message(found: Accuracy, *parts: str) -> str:
    """The message of an audit: how far off, and what else there is to say."""
    return " ".join(part for part in (_how_far(found), *parts) if part)


def _how_far(found: Accuracy) -> str:
    descent = {
        True: "−g is a descent direction",
        False: "−g is not a descent direction",
        None: "whether −g is a descent direction is not known",
    }[found.descent]
    if not math.isfinite(found.relative_error):
        upper = float(found.error.upper)
        size = f"the error of g is {upper:.3g}" if math.isfinite(upper) else "nothing is known of the error of g"
        return f"∇f may be 0, so there is no relative error: {size}, and {descent}."
    if found.error.lower >= SURE * found.error.upper:
        return f"g is {percent(found.relative_error)} off (angle {found.angle:.3g}°), {descent}."
    off, angle = percent_at_most(found.relative_error), upward(found.angle)
    return f"g is at most {off} off (angle at most {angle}°), {descent}."


def fault(diagnosis: Diagnosis) -> str:
    """The fault and what to change."""
    best, other = diagnosis.best, diagnosis.other
    also = f" It may also be that {other.cause}." if other is not None else ""
    cause = best.cause if best.cause[1] == " " else best.cause[0].upper() + best.cause[1:]  # g, w and v stay small
    return f"{cause}. {best.remedy}{also}"


UNEXPLAINED = "No single fault explains it. Give w= and v=, from which it was computed, to learn more."
ZERO = "g is 0: is the graph cut somewhere, by detach() or no_grad()?"


def single(factor: float) -> str:
    """Of one hyperparameter, every g is a multiple of ∇f."""
    return f"It is {factor:.6g} times ∇f, which for one hyperparameter alone does not tell the fault."


def not_from(apart: float) -> str:
    """Where the w and v that were given do not lead to g."""
    return f"No single fault explains it: ∇₂E + ∂₂Φᵀv at the w and v that were given is {percent(apart)} off g."


def doubt(eps_g: Constant | None) -> str:
    """What the numbers rest on, where they are not proved."""
    if eps_g is None:
        return "These numbers are estimates: nothing certifies the reference, as Φ is not known to contract near w*."
    if eps_g.side is Side.LOWER:
        return "These numbers are estimates: the error of the reference is not proved."
    if eps_g.side is Side.HIGH_PROBABILITY:
        return f"These numbers hold with probability {1 - (eps_g.provenance.delta or 0):g}."
    return ""


def left_over(relative: float) -> str:
    """What stays wrong if the fault is corrected."""
    return f"Then {percent(relative)} are left, from w and v." if relative > RIGHT else ""


def precision(low: LowPrecision) -> tuple[str, str]:
    """Cause and remedy of an error by rounding."""
    if low.what == "the problem":
        return (
            f"the rounding of {low.name} alone makes errors of this size",
            "Compute in float64, or take it as it is.",
        )
    return (
        f"{low.what} has the digits of {low.name} only",
        "Compute in float64, data and start included.",
    )
