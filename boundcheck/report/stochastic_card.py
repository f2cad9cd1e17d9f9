"""The card of a stochastic report: the verdict in a sentence, and a row for each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boundcheck.card import Card
from boundcheck.number_text import number
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_summary import PARTS, error_parts
from boundcheck.report.stochastic_verdict_words import verdict_sentence
from boundcheck.report.stochastic_words import between, confidence_of_intervals, size, title
from boundcheck.side import standing

if TYPE_CHECKING:
    from boundcheck.report.stochastic_curve import StochasticCurve
    from boundcheck.report.stochastic_report import StochasticReport

HEADER = ("method", "error", "interval", "bias", "bias²", "V given w", "V of mean", "best bound", "× estimate")
RIGHT = frozenset({"error", "bias", "bias²", "V given w", "V of mean", "× estimate"})


def card(report: StochasticReport) -> Card:
    """The sentence of the verdict, and a row for each method."""
    rows = tuple(_row(report, curve) for curve in report.curves.values())
    return Card(title(report), (f"{verdict_sentence(report)}.",), HEADER, rows, RIGHT, _notes(report))


def _row(report: StochasticReport, curve: StochasticCurve) -> tuple[str, ...]:
    of, best = error_parts(report, curve.method), curve.best(Measured.MSE)
    bias = "–" if of.bias is None else _bias(of.bias.value, of.bias.upper, of.relative, of.bias.nonzero)
    shares = (f"{100 * of.shares[part]:.0f}%" if part in of.shares else "–" for part in PARTS)
    known = "none applies" if best is None else f"{best.name} ({standing(best.side)})"
    ratio = "–" if best is None else number(float(curve.ratio(best.name)[-1]))
    error = "diverges" if of.diverges else "rounding" if of.rounding else size(of.error.value, of.relative)
    return (curve.method, error, between(of.error, of.relative), bias, *shares, known, ratio)


def _bias(value: float, upper: float, relative: bool, nonzero: bool) -> str:
    """The bias, or an upper bound on it if the runs do not show that it is nonzero."""
    return size(value, relative) if nonzero else f"≤ {size(upper, relative)}"


def _notes(report: StochasticReport) -> tuple[str, ...]:
    methods = [error_parts(report, method) for method in report.curves]
    if not methods:
        return ()
    unit = " in per cent of ‖∇f‖" if methods[0].relative else ""
    error = f"error: the root of E‖g − ∇f‖² at t = {methods[0].t}{unit}, from {report.runs} runs"
    parts = "bias², V given w and V of mean are its parts"
    return (f"{error}; {parts}; {confidence_of_intervals(report)}; table() shows more",)


def columns(report: StochasticReport) -> dict[str, list[Any]]:
    """The columns of `StochasticReport.to_frame`, a row for each method and point."""
    bounds = list(dict.fromkeys(name for curve in report.curves.values() for name in applicable(curve)))
    quantities = [name for name in Measured if any(name.value in curve.means for curve in report.curves.values())]
    ends = [f"{quantity.value}{end}" for quantity in quantities for end in ("", "_lower", "_upper")]
    result: dict[str, list[Any]] = {name: [] for name in ("method", "t", "k", "floor", *ends, *bounds)}
    for curve in report.curves.values():
        nothing = np.full(len(curve.t), np.nan)
        cells: dict[str, list[Any]] = {"method": [curve.method] * len(curve.t)}
        cells |= {"t": curve.t.tolist(), "k": curve.k.tolist(), "floor": curve.floor.tolist()}
        for quantity in quantities:
            mean = curve.means.get(quantity.value)
            values = (nothing,) * 3 if mean is None else (mean.value, mean.lower, mean.upper)
            for end, numbers in zip(("", "_lower", "_upper"), values, strict=True):
                cells[f"{quantity.value}{end}"] = numbers.tolist()
        for name in bounds:
            cells[name] = (curve.bounds[name].values if name in curve.bounds else nothing).tolist()
        for name, values_of in cells.items():
            result[name] += values_of
    return result


def applicable(curve: StochasticCurve) -> list[str]:
    """The names of the bounds that apply to a method."""
    return [name for name, bound in curve.bounds.items() if bound.applies]
