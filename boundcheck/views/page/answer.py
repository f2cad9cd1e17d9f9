"""The first screen of a page: the verdict, a line for each method, what to do next, and why there are no sliders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from boundcheck.json_numbers import finite
from boundcheck.methods import parse
from boundcheck.report.report import Report
from boundcheck.report.summary import Course, MethodSummary
from boundcheck.report.verdict import Verdict
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.page.rows import Row

MOST_REASONS = 4


def answer(report: Report) -> dict[str, Any]:
    """Return the summary of a report as data for the page."""
    summary = report.summary
    return {
        "sentence": summary.verdict_sentence,
        "step": summary.step_sentence,
        "methods": [_method(method) for method in summary.methods],
        "next": list(summary.next_steps),
        "diverging": [m.method for m in summary.methods if m.course is Course.DIVERGES],
        "refuted": report.refuted,
    }


def _method(method: MethodSummary) -> dict[str, Any]:
    best = method.best
    return {
        "method": method.method,
        "steps": f"t = {method.t}" + ("" if method.k is None else f", k = {method.k}"),
        "error": finite(method.error),
        "relative": finite(method.relative_error),
        "known": method.known,
        "angle": finite(method.angle),
        "descent": method.descent,
        "course": method.course.value,
        "best": None if best is None else {
            "name": best.name,
            "kind": best.kind,
            "known": best.known,
            "ratio": finite(best.ratio),
            "grade": None if best.grade is None else best.grade.value,
        },
        "blocked": method.blocked,
        "needed": method.steps.needed,
        "measured": method.steps.measured,
        "guaranteed": method.steps.guaranteed,
    }  # fmt: skip


def why_no_sliders(report: Report, rows: Iterable[Row]) -> list[str]:
    """Return why no bound depends on sliders: the reasons against the a priori bounds; empty if a bound does."""
    if any(row.controls for row in rows):
        return []
    reasons: dict[str, list[str]] = {}
    for curve in report.curves.values():
        name = parse(curve.method).name
        for candidate in (name, f"{name}-local", "aid-local"):
            bound = curve.bounds.get(candidate)
            if bound is None or bound.kind is not BoundKind.A_PRIORI or bound.verdict is not Verdict.NOT_APPLICABLE:
                continue
            names = reasons.setdefault(bound.reason.partition("; ")[0], [])  # without the remedy, which is listed once
            names.append(candidate)
    return [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in reasons.items()][:MOST_REASONS]
