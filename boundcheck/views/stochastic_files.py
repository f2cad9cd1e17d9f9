"""Write the files of a stochastic report: JSON, a table of the means and bounds, and a figure."""

from __future__ import annotations

import csv
import io
import json
import os
from functools import partial
from pathlib import Path

from boundcheck.atomic_write import Results
from boundcheck.report.stochastic_card import columns
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.views.report_files import cells, write_together


def save(report: StochasticReport, directory: str | os.PathLike[str] | Results, *, figures: bool = True) -> list[Path]:
    """Write report.json, curves.csv and the figure to `directory`, all of them or none."""
    content = json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False)
    texts = {"report.json": content, "curves.csv": curves_csv(report)}
    return write_together(directory, texts, partial(_figures, report) if figures else None)


def curves_csv(report: StochasticReport) -> str:
    """Return a table with a row for each method and point, and the columns of `StochasticReport.to_frame`."""
    table = columns(report)
    whole = ("method", "t", "k")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([*row[: len(whole)], *cells(row[len(whole) :])])
    return out.getvalue()


def _figures(report: StochasticReport, place: Path) -> list[Path]:
    from boundcheck.views.figures import stochastic_figures

    figure = stochastic_figures.errors(report)
    return [stochastic_figures.save(figure, place / f"errors.{suffix}") for suffix in ("png", "svg")]
