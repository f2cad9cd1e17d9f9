"""Functions that the lessons share: figures, tables, exercises and the numbers of a page.

This file is not a lesson. The notebooks import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any

import marimo as mo
import matplotlib
from matplotlib.figure import Figure

from boundcheck import Report
from boundcheck.views.figures.canvas import number
from boundcheck.views.figures.method_style import style_of

matplotlib.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
matplotlib.rcParams |= {"legend.frameon": False, "font.size": 8, "axes.titlesize": 9}


def panels(count: int = 1, height: float = 2.7, **options: Any) -> tuple[Figure, Any]:
    """A figure and its axes, side by side."""
    figure = Figure(figsize=(5.4 if count == 1 else 7.2, height), layout="constrained")
    return figure, figure.subplots(1, count, **options)


def colour_of(method: str) -> str:
    """The colour that the method has in every figure."""
    return style_of(method).colour


def shown(figure: Figure, text: str = "") -> mo.Html:
    """A figure with its text."""
    return mo.md(f"{mo.as_html(figure)}\n\n{cleandoc(text)}")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, indented like the surrounding text."""
    lines = [head, [":--"] * len(head), *rows]
    return "\n    ".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def verdicts(report: Report, pairs: Sequence[tuple[str, str]]) -> str:
    """A table of verdicts with their reasons."""
    rows = []
    for method, name in pairs:
        bound = report.curve(method).bounds[name]
        best = "–" if bound.best is None else f"×{number(bound.best)}"
        rows.append((method, f"`{name}`", f"**{bound.verdict.value}**", best, bound.reason or "–"))
    return table(("method", "bound", "verdict", "bound/error at best", "reason"), rows)


def exercises(questions: str, *answers: str) -> mo.Html:
    """Questions with folded answers."""
    folded = {f"Answer {i}": mo.md(answer) for i, answer in enumerate(answers, start=1)}
    return mo.vstack([mo.md("## Exercises"), mo.md(questions), mo.accordion(folded)])


def numbers(found: Mapping[str, object], then: str) -> mo.Html:
    """The numbers of the page, folded, and what to read next."""
    return mo.vstack([mo.md(f"---\n\n{then}"), mo.accordion({"The numbers of this page": mo.tree(found)})])
