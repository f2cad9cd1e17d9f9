"""The cards of the results of `enclose`, `audit`, `minimise` and `follow`: a title, sentences and a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from boundcheck.card import Card
from boundcheck.number_text import downward, percent_at_most, upward
from boundcheck.side import Side, standing

if TYPE_CHECKING:
    from boundcheck.report.accuracy import Accuracy
    from boundcheck.report.audit import Audit
    from boundcheck.report.enclosure import Enclosure
    from boundcheck.report.minimum import Minimum
    from boundcheck.report.run_step import RunStep
    from boundcheck.report.run_trace import RunTrace

DESCENT = {True: "yes", False: "no", None: "not known"}
DESCENT_SENTENCES = {
    True: "−g is a descent direction.",
    False: "−g is not a descent direction.",
    None: "It is not known whether −g is a descent direction.",
}
ENDS = 6  # digits of the ends of an enclosure
LAST = 5  # show this many rows of a run


def known(enclosure: Enclosure) -> str:
    """How the ends are known: "proved", "probable (probability 0.999)" or "estimated"."""
    word = standing(enclosure.side)
    return f"{word} (probability {1 - enclosure.delta:g})" if enclosure.side is Side.HIGH_PROBABILITY else word


def between(lower: float, upper: float) -> str:
    """Both ends of an enclosure in words, rounded outwards."""
    if not lower > 0:
        return "not known" if upper == math.inf else f"at most {upward(upper, ENDS)}"
    at_least = downward(lower, ENDS)
    return f"at least {at_least}" if upper == math.inf else f"between {at_least} and {upward(upper, ENDS)}"


def enclosure_text(enclosure: Enclosure) -> str:
    """The ends of an enclosure in one line; of an array, the ends at the last t over all λ."""
    lower, upper = np.asarray(enclosure.lower), np.asarray(enclosure.upper)
    if upper.size == 1:
        return f"{between(float(lower.flat[0]), float(upper.flat[0]))}, {known(enclosure)}"
    shape = " × ".join(map(str, upper.shape))
    ends = between(float(lower[..., -1].min()), float(upper[..., -1].max()))
    return f"{shape} errors, at the last t {ends}, {known(enclosure)}"


def accuracy_rows(accuracy: Accuracy | Audit) -> tuple[tuple[str, str], ...]:
    """Rows of a name and a value: relative error, angle, descent direction and both norms."""
    return (
        ("relative error", f"at most {percent_at_most(accuracy.relative_error)}"),
        ("angle to ∇f", f"at most {upward(accuracy.angle)}°"),
        ("descent direction", DESCENT[accuracy.descent]),
        ("‖g − ∇f‖", between(float(accuracy.error.lower), float(accuracy.error.upper))),
        ("‖∇f‖", between(float(accuracy.gradient_norm.lower), float(accuracy.gradient_norm.upper))),
        ("these numbers are", known(accuracy.error)),
    )


def audit_card(audit: Audit) -> Card:
    """The card of an audit: the message, and the numbers below."""
    rows = (*accuracy_rows(audit), ("fault", audit.fault or "none found"))
    return Card("audit", (audit.message,), ("quantity", "value"), rows)


def minimum_card(minimum: Minimum) -> Card:
    """The card of `minimise`: where and how the run ended, and the last trials."""
    norm, upper = minimum.gradient_norm, float(minimum.gradient_norm.upper)
    log = " by log λ" if minimum.coordinates == "log" else ""
    reached = "within" if minimum.converged else "not within"
    sentences = (
        f"‖∇f(λ)‖{log} is {between(float(norm.lower), upper)} ({known(norm)}), {reached} tol = {minimum.tol:g}.",
        f"{minimum.steps} steps, {minimum.products} products with derivatives of Φ: {minimum.message}",
    )
    rows = tuple(
        (str(i), f"{x.f:.6g}", f"{x.gradient_norm:.3g}", f"{x.step_size:.3g}", "yes" if x.accepted else "no")
        for i, x in list(enumerate(minimum.history))[-LAST:]
    )
    header = ("trial", "f", "‖g‖", "step", "taken")
    return Card(
        f"minimum: f = {minimum.f:.6g} ± {minimum.f_error:.1g} (estimated)",
        sentences,
        header,
        rows,
        frozenset(header[:4]),
    )


def run_card(run: RunTrace) -> Card:
    """The card of an upper-level run: the summary, and the last rows."""
    title, *sentences = run.summary().splitlines()
    header = ("step", "f", "relative error", "angle", "descent", "known")
    rows = tuple(_run_row(row) for row in run.rows[-LAST:])
    return Card(title, tuple(sentences), header, rows, frozenset(header[:4]))


def _run_row(row: RunStep) -> tuple[str, ...]:
    f = f"{row.f:.6g}" if math.isfinite(row.f) else "–"
    if row.accuracy is None:
        return (str(row.step), f, "–", "–", "–", "–")
    accuracy = row.accuracy
    return (
        str(row.step), f, f"≤ {percent_at_most(accuracy.relative_error)}", f"≤ {upward(accuracy.angle)}°",
        DESCENT[accuracy.descent], known(accuracy.error),
    )  # fmt: skip
