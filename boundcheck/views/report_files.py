"""Write the files of a report: JSON, a table of the curves, and figures."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from boundcheck.atomic_write import Results, sole_use
from boundcheck.report.report import Report


def save(report: Report, directory: str | os.PathLike[str] | Results, *, figures: bool = True) -> list[Path]:
    """Write report.json, curves.csv and the figures to `directory`, all of them or none."""
    content = json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False)
    texts = {"report.json": content, "curves.csv": curves_csv(report)}
    return write_together(directory, texts, partial(_figures, report) if figures else None)


def write_together(
    directory: str | os.PathLike[str] | Results, texts: Mapping[str, str], figures: Callable[[Path], list[Path]] | None
) -> list[Path]:
    """Write texts by file name, and the files that `figures` writes into a folder, all of them or none."""
    with sole_use(directory) as results:
        with results.together() as parts:  # after an interrupt, the previous files are still there
            for name, text in texts.items():
                (parts / name).write_text(text, encoding="utf-8", newline="")
            names = [*texts, *(path.name for path in (figures(parts) if figures is not None else []))]
        return [results.place / name for name in names]


def curves_csv(report: Report) -> str:
    """Return a table with a row for each method, λ and t."""
    names = list(dict.fromkeys(name for curve in report.curves.values() for name in curve.applicable))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "sample", "t", "k", "error", "floor", *names])
    for curve in report.curves.values():
        for sample in range(len(curve.errors)):
            for i, t in enumerate(curve.t.tolist()):
                values = [curve.bounds[n].values[sample, i] if n in curve.bounds else math.nan for n in names]
                k = "" if curve.k is None else int(curve.k[i])
                numbers = cells([curve.errors[sample, i], curve.floor[sample, i], *values])
                writer.writerow([curve.method, sample, t, k, *numbers])
    return out.getvalue()


def cells(values: Iterable[float]) -> list[str]:
    """Return numbers as text with all digits, empty if not finite."""
    return [repr(float(x)) if math.isfinite(x) else "" for x in values]


def _figures(report: Report, place: Path) -> list[Path]:
    from boundcheck.views.figures import report_figures
    from boundcheck.views.figures.proof_figure import trace_title

    draw = {"errors": partial(report_figures.errors, report), "tightness": partial(report_figures.tightness, report)}
    draw["constants"] = partial(report_figures.constants, report)
    for curve in report.curves.values():
        bound = curve.bounds.get(curve.method.partition(":")[0])
        if bound is not None and bound.trace is not None:
            title = trace_title(report, curve, bound)
            draw[f"trace-{curve.method.replace(':', '-')}"] = partial(report_figures.trace, bound.trace, title)
    paths = []
    for name, draw_figure in draw.items():
        figure = draw_figure()
        for suffix in ("png", "svg"):  # no pdf, because its fonts would double the time
            paths.append(report_figures.save(figure, place / f"{name}.{suffix}"))
    return paths
