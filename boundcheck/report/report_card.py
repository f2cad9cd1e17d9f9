"""The card of a report: the verdict in a sentence, and a row for each method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from boundcheck.card import Card
from boundcheck.number_text import number, percent
from boundcheck.report.cards import DESCENT
from boundcheck.report.summary import BestBound, Course, MethodSummary

if TYPE_CHECKING:
    from boundcheck.report.method_curve import Curve
    from boundcheck.report.report import Report

HEADER = ("method", "error", "angle", "descent", "run", "best bound", "× error")


def title(report: Report) -> str:
    """The problem and its size."""
    p = report.problem
    return f"{p['name']}: d = {p['dim']}, n = {p['hdim']}, {p['dynamics']}, {p['dtype']} on {p['device']}"


def card(report: Report) -> Card:
    """The card: sentences on the verdict and the step size, a row for each method, and the refused methods."""
    summary = report.summary
    sentences = tuple(filter(None, (summary.verdict_sentence, summary.step_sentence)))
    rows = tuple(method_row(method) for method in summary.methods)
    refused = tuple(f"{method} was not run: {why}" for method, why in report.refused.items())
    notes = (*refused, note(report))
    return Card(title(report), sentences, HEADER, rows, frozenset({"error", "angle", "× error"}), notes)


def note(report: Report) -> str:
    """The note below the table: the t, the unit and the samples of the errors."""
    first = report.summary.methods[0]
    unit = "" if first.relative_error is None else " in per cent of ‖∇f‖"
    several = f", means over {report.samples} λ" if report.samples > 1 else ""
    return f"errors at t = {first.t}{unit}{several}; table() shows more"


def method_row(m: MethodSummary) -> tuple[str, ...]:
    """The cells of `HEADER`."""
    angle = "–" if m.angle is None else "< 0.001°" if m.angle < 1e-3 else f"{m.angle:.2g}°"
    known = "" if m.best is None else f"{m.best.name} ({m.best.known})"
    return (m.method, size(m), angle, DESCENT[m.descent], m.course.value, known or "none applies", _ratio(m.best))


def size(m: MethodSummary) -> str:
    """The error at the last t, in per cent of ‖∇f‖ if that is known."""
    if m.course is Course.ROUNDING:
        return "rounding"
    return number(m.error) if m.relative_error is None else percent(m.relative_error)


def _ratio(best: BestBound | None) -> str:
    if best is None or best.ratio is None:
        return "–"
    return f"{number(best.ratio)}{f', {best.grade.value}' if best.grade is not None else ''}"


def line(report: Report) -> str:
    """The problem, the verdict and the methods in one line."""
    return f"Report({report.problem['name']}, {report.verdict.value}, {', '.join(report.curves)})"


def columns(report: Report) -> dict[str, list[Any]]:
    """The columns of `Report.to_frame`, a row for each method, λ and t."""
    names = list(dict.fromkeys(name for curve in report.curves.values() for name in curve.applicable))
    result: dict[str, list[Any]] = {
        name: [] for name in ("method", "sample", "t", "k", "error", "floor", "relative_error", *names)
    }
    for curve in report.curves.values():
        for sample, errors in enumerate(curve.errors):
            cells = {
                "method": [curve.method] * len(curve.t),
                "sample": [sample] * len(curve.t),
                "t": curve.t.tolist(),
                "k": [None] * len(curve.t) if curve.k is None else curve.k.tolist(),
                "error": errors.tolist(),
                "floor": curve.floor[sample].tolist(),
                "relative_error": (errors / _norm(report, sample)).tolist(),
            }
            cells |= {name: _values(curve, name, sample) for name in names}
            for name, values in cells.items():
                result[name] += values
    return result


def _norm(report: Report, sample: int) -> float:
    """‖∇f‖ at a λ; NaN if it is 0 or unknown."""
    norm = report.gradient_norms[sample] if sample < len(report.gradient_norms) else math.nan
    return norm if 0 < norm < math.inf else math.nan


def _values(curve: Curve, name: str, sample: int) -> list[float]:
    bound = curve.bounds.get(name)
    values: list[float] = (np.full(len(curve.t), np.nan) if bound is None else bound.values[sample]).tolist()
    return values
