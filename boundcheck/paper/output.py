"""Show and save the outcome of an experiment: a table of the paper's numbers and ours, result.json, and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from boundcheck import __version__
from boundcheck.atomic_write import Results, sole_use
from boundcheck.engine.experiment import Claim, Experiment, Outcome, Settings
from boundcheck.json_numbers import finite

SCHEMA = 1
COLUMNS = ("what", "published", "ours", "difference", "why")
FORMATS = ("png", "svg")


def number(value: str | float) -> str:
    """Return text unchanged, and numbers with four digits."""
    return value if isinstance(value, str) else f"{value:.4g}"


def cells(claim: Claim) -> tuple[str, ...]:
    verdict = {True: "yes: ", False: "no: ", None: ""}[claim.holds]
    ours = f"{verdict}{number(claim.ours)}"
    title = f"{claim.what} ({claim.where})"
    return title, number(claim.published), ours, number(claim.difference), claim.why


def show(experiment: Experiment, outcome: Outcome) -> None:
    """Print the table."""
    from boundcheck.views.terminal.console import Screen

    console = Screen(highlight=False)
    table = Table(title=f"{experiment.name}: {experiment.title}", title_justify="left", title_style="bold")
    table.show_lines = True
    for column in COLUMNS:
        table.add_column(column, ratio=1 if column == "difference" else 2)
    for claim in outcome.claims:
        table.add_row(*cells(claim))
    console.print(table)
    for note in outcome.notes:
        console.print(note, style="dim")


def markdown(experiment: Experiment, outcome: Outcome, settings: Settings) -> str:
    lines = [f"# {experiment.name}: {experiment.title}", ""]
    lines += [" | ".join(("", *COLUMNS, "")).strip(), "|" + "---|" * len(COLUMNS)]
    for claim in outcome.claims:
        lines.append(" | ".join(("", *(cell.replace("|", "\\|") for cell in cells(claim)), "")).strip())
    lines += ["", *(f"- {note}" for note in outcome.notes)]
    settings_text = json.dumps(settings, ensure_ascii=False, allow_nan=False)
    return "\n".join([*lines, "", f"Settings: `{settings_text}`", f"Version: {__version__}", ""])


def as_json(experiment: Experiment, outcome: Outcome, settings: Settings) -> dict[str, Any]:
    """Return the result as JSON, which is the same for interrupted and uninterrupted runs."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "experiment": experiment.name,
        "title": experiment.title,
        "settings": settings,
        "claims": [plain(vars(claim)) for claim in outcome.claims],
        "notes": list(outcome.notes),
        "data": plain(outcome.data),
    }


def plain(tree: Any) -> Any:
    """Return a tree as dicts, lists and numbers, with None for NaN and infinity."""
    if isinstance(tree, Mapping):
        return {str(key): plain(value) for key, value in tree.items()}
    if isinstance(tree, np.ndarray | np.generic):
        return plain(tree.tolist())
    if isinstance(tree, list | tuple):
        return [plain(value) for value in tree]
    return finite(tree)


def save(experiment: Experiment, outcome: Outcome, settings: Settings, out: Path | Results) -> list[Path]:
    """Write table.md, result.json and the figures to `out`, all of them or none."""
    from boundcheck.views.figures import canvas

    content = json.dumps(as_json(experiment, outcome, settings), ensure_ascii=False, allow_nan=False)
    texts = {"result.json": content, "table.md": markdown(experiment, outcome, settings)}
    texts |= {f"{name}.md": text for name, text in outcome.tables.items()}
    with sole_use(out) as results:
        with results.together() as parts:
            for name, text in texts.items():
                (parts / name).write_text(text, encoding="utf-8", newline="")
            pictures = {f"{name}.{suffix}": figure for name, figure in outcome.figures.items() for suffix in FORMATS}
            for name, figure in pictures.items():
                canvas.save(figure, parts / name)
        return [results.place / name for name in (*texts, *pictures)]
