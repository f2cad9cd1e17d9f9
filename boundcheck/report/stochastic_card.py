"""What a stochastic report shows of itself: the verdict in a sentence, and a row for each quantity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boundcheck.card import Card

if TYPE_CHECKING:
    from boundcheck.report.stochastic_report import StochasticReport


def card(report: StochasticReport) -> Card:
    """The verdict."""
    return Card(str(report.problem["name"]), (report.verdict.value,))


def columns(report: StochasticReport) -> dict[str, list[Any]]:
    """The columns of `StochasticReport.to_frame`."""
    return {"method": list(report.curves)}
