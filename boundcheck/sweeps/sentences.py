"""The results of a sweep as sentences and a table: verdict counts, and where the best bound is loosest and tightest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from boundcheck.card import Card
from boundcheck.number_text import number
from boundcheck.report.verdict import Verdict
from boundcheck.sweeps.groups import ORDER, Group, groups, names, short
from boundcheck.sweeps.row import FAILED, NO_GUARANTEE, SweepRow

if TYPE_CHECKING:
    from boundcheck.sweeps.result import Sweep

MOST_LINES = 24  # the most lines of the table on the first screen
MOST_REASONS = 3
VERBS = {
    "proved": "proved", "probable": "probable", "estimated": "estimated", NO_GUARANTEE: "without a guarantee",
    Verdict.HOLDS.value: "hold", Verdict.HOLDS_PROBABLY.value: "hold with high probability",
    Verdict.CONSISTENT.value: "consistent", Verdict.NOT_APPLICABLE.value: "without a bound that applies",
    Verdict.INCONCLUSIVE.value: "inconclusive", Verdict.VIOLATED_PROBABLY.value: "violated with high probability",
    Verdict.VIOLATED.value: "violated", FAILED: "failed",
}  # fmt: skip


def sentences(sweep: Sweep) -> list[str]:
    """Return sentences on the number of checks, their verdicts, and where the best bound is tightest and loosest."""
    noun = sweep.action if len(sweep.rows) == 1 else f"{sweep.action}s"
    over = f" over {' × '.join(sweep.grid.wide)}" if sweep.grid.wide else ""
    counts = Counter(row.verdict for row in sweep.rows)
    counted = ", ".join(f"{counts[verdict]} {VERBS[verdict]}" for verdict in ORDER if counts[verdict])
    lines = [f"{len(sweep.rows)} {noun} of {sweep.problem}{over}: {counted}."]
    plan = sweep.action == "plan"
    best = "The guaranteed steps cost" if plan else "The best bound is"
    unit = "times those that a run needed" if plan else "times the error"
    lines += _extremes(sweep, sweep.rows, "ratio", best, unit)
    if any(row.a_priori is not None and row.a_priori != row.ratio for row in sweep.rows):
        lines += _extremes(sweep, sweep.rows, "a_priori", "The best a priori bound is", unit)
    return lines


def _extremes(sweep: Sweep, rows: Sequence[SweepRow], name: str, start: str, unit: str) -> list[str]:
    rows_with_value = [row for row in rows if getattr(row, name) is not None]
    if not rows_with_value:
        return []
    least, largest = (pick(rows_with_value, key=lambda row: getattr(row, name)) for pick in (min, max))
    first = f"{number(getattr(least, name))} {unit} at its tightest ({_where(sweep, least)})"
    if least is largest:
        return [f"{start} {number(getattr(least, name))} {unit} ({_where(sweep, least)})."]
    return [f"{start} {first}, {number(getattr(largest, name))} at its loosest ({_where(sweep, largest)})."]


def _where(sweep: Sweep, row: SweepRow) -> str:
    """Return the method, and the values of the axes that have several values."""
    parts = [row.method] + [f"{axis} = {short(row.options.get(axis, row.sample))}" for axis in sweep.grid.wide]
    return ", ".join(parts)


def table_axes(sweep: Sweep) -> list[str]:
    """Return the axes with a column in the table: those that change the problem, if there are any."""
    return [axis for axis in sweep.grid.wide if axis not in ("seed", "sample")] or sweep.grid.wide[:1]


def table(sweep: Sweep, axes: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and lines, one for each place and method; numbers are medians over the other axes."""
    plan = sweep.action == "plan"
    header = (*axes, "method", "known" if plan else "verdict", "cost" if plan else "bound/error")
    header += ("needs t", "guaranteed t") if plan else ("a priori", "needs t", "proved t")
    texts = {
        axis: dict(zip(sweep.grid.values(axis), names(sweep.grid.values(axis)), strict=True)) for axis in axes
    }  # fmt: skip
    lines = []
    for group in groups(sweep.rows, axes).values():
        place = tuple(texts[axis][value] for axis, value in zip(axes, group.place, strict=True))
        middle = () if plan else (number(group.median("a_priori")),)
        numbers = (number(group.median("ratio")), *middle, _steps(group, "needed"), _steps(group, "guaranteed"))
        lines.append((*place, group.method or "–", group.verdict, *numbers))
    return header, lines


def _steps(group: Group, name: str) -> str:
    value = group.median(name)
    return "–" if value is None else f"{value:.0f}"


def card(sweep: Sweep) -> Card:
    """Return the first screen, at most 40 lines."""
    axes = table_axes(sweep)
    header, lines = table(sweep, axes)
    while len(lines) > MOST_LINES and len(axes) > 1:
        axes = axes[:-1]
        header, lines = table(sweep, axes)
    notes = []
    if len(lines) > MOST_LINES:
        per = max(1, len(sweep.methods))
        places = len(lines) // per
        few = max(2, MOST_LINES // per)
        kept = sorted({round(i * (places - 1) / (few - 1)) for i in range(few)}) if places > 1 else [0]
        lines = [line for i in kept for line in lines[i * per : (i + 1) * per]][:MOST_LINES]
        notes.append(f"{len(lines)} of {per * places} lines; table.md has all")
    rest = [axis for axis in sweep.grid.wide if axis not in axes]
    if rest:
        notes.append(f"numbers are medians over {', '.join(rest)}, where there are any; the verdict is the worst one")
    notes += _reasons(sweep)
    numbers = frozenset({"bound/error", "cost", "a priori", "needs t", "proved t", "guaranteed t", *axes})
    return Card("", tuple(sentences(sweep)), header, tuple(lines), numbers, tuple(notes))


def _reasons(sweep: Sweep) -> list[str]:
    """Return the most frequent reasons of rows without a verdict."""
    reasons = Counter(row.reason for row in sweep.rows if row.reason)
    lines = [f"{count} × {reason}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = len(reasons) - MOST_REASONS
    return [*lines, f"… and {more} more reasons, in the rows"] if more > 0 else lines


def markdown(sweep: Sweep) -> str:
    """Return the table of all places in markdown."""
    header, lines = table(sweep, table_axes(sweep))
    text = [f"# sweep of {sweep.problem}", "", *sentences(sweep), ""]
    text += [" | ".join(("", *row, "")).strip() for row in (header, ("---",) * len(header), *lines)]
    return "\n".join([*text, "", *(f"- {reason}" for reason in _reasons(sweep)), ""])
