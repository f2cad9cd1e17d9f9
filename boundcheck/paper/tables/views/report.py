"""Compare the results of the runs with tables 1 and 2 of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boundcheck.engine.experiment import Claim, Outcome, Settings
from boundcheck.number_text import percent, percent_at_most
from boundcheck.paper.tables.data import TABLES
from boundcheck.paper.tables.runs import COUNT, key
from boundcheck.paper.tables.views.claims import NAMES, NOT_RUN, VARIANT, in_words
from boundcheck.paper.tables.views.published import WHERE, Cell, cells
from boundcheck.progress import duration

WHY = {
    "parkinson": "another random split; targets 0/1, features not scaled",
    "newsgroups": "another random split; tf-idf, which classify better than counts",
    "fashion-mnist": "nothing is random but the order of sums",
}


def outcome(table: str, settings: Settings, results: Mapping[str, Any]) -> Outcome:
    our_cells = {place: _cell(table, settings, results, *place) for place in _places(settings)}
    published = cells(table)
    claims = [
        _claim(table, settings, (data, t, row), text, our_cells.get((data, t, _row(data, t, row))))
        for (data, t, row), text in published.items()
    ]
    for (data, t, row), cell in our_cells.items():
        if row.endswith(VARIANT):
            text = published[data, t, row.removesuffix(VARIANT)]
            claims.append(_claim(table, settings, (data, t, row), text, cell))
    if table == "table1":
        claims += in_words(settings, our_cells)
    named_cells = {f"{data} t={t} {row}": cell for (data, t, row), cell in our_cells.items()}
    tables = {"halving": _dropped(our_cells)} if any("stopped" in cell for cell in our_cells.values()) else {}
    return Outcome(claims, {"cells": named_cells}, notes=list(_notes(settings, our_cells)), tables=tables)


def _dropped(cells: Mapping[tuple[str, int, str], Any]) -> str:
    """Return a table of the step at which each step size was dropped, for every cell."""
    lines = [
        "# Step sizes by successive halving",
        "",
        "Each with f_t where it stopped; in bold the one that is reported.",
    ]
    lines += ["", "| data, t, method | steps | step sizes that stopped there |", "|---|---|---|"]
    for place, cell in cells.items():
        best = cell["best"]
        for steps in sorted(set(cell.get("stopped", ()))):
            dropped = [
                (zeta, f)
                for zeta, f, last in zip(cell["zeta"], cell["f_t"], cell["stopped"], strict=True)
                if last == steps
            ]
            texts = [f"{zeta:.3g} ({'diverged' if f is None else f'{f:.4g}'})" for zeta, f in dropped]
            bold = [f"**{text}**" if zeta == best else text for text, (zeta, _) in zip(texts, dropped, strict=True)]
            lines.append(f"| {_title(place)} | {steps} | {', '.join(bold)} |")
    return "\n".join([*lines, ""])


def _places(settings: Settings) -> Iterator[tuple[str, int, str]]:
    """Yield (data set, t, row) of all cells that were run."""
    for data, of_data in settings["data"].items():
        for t in of_data["t"]:
            for row in TABLES[data].methods(t):
                yield data, t, row


def _row(data: str, t: int, row: str) -> str:
    """Return the row of our results; if k_r ≥ t, it is the row for k = t."""
    return row.replace("k=k_r", "k=t") if TABLES[data].k_r >= t else row


def _cell(table: str, settings: Settings, results: Mapping[str, Any], data: str, t: int, row: str) -> dict[str, Any]:
    """Return the step size with the least f_t(λ_s) of all batches, and its results."""
    start = key(data, t, TABLES[data].methods(t)[row])
    batches = [result for name, result in sorted(results.items()) if name.rpartition(".")[0] == start]
    ended = [batch for batch in batches if batch["best"] is not None]
    cell: dict[str, Any] = {
        "zeta": [zeta for batch in batches for zeta in batch["zeta"]],
        "f_t": [value for batch in batches for value in batch["f_t"]],
        "definite": all(batch["definite"] for batch in batches),
    }
    if any("stopped" in batch for batch in batches):
        cell["stopped"] = [steps for batch in batches for steps in batch["stopped"]]
    if not ended:
        return cell | {"best": None}
    best = min(ended, key=lambda batch: batch["f_t"][batch["best"]])
    cell |= {"best": best["zeta"][best["best"]], "least": best["f_t"][best["best"]], "accuracy_t": best["accuracy_t"]}
    if "error" in best:
        cell["error"] = best["error"]
    if table == "table1":
        return cell | {"cell": (cell["least"], 100 * best["accuracy_t"])}
    return cell | {"f": best["f"], "accuracy": best["accuracy"], "cell": (best["f"], 100 * best["accuracy"])}


def _title(place: tuple[str, int, str]) -> str:
    data, t, row = place
    return f"{NAMES[data]}, t={t}, {row.replace('k_r', str(TABLES[data].k_r))}"


def _claim(table: str, settings: Settings, place: tuple[str, int, str], text: str, cell: Any) -> Claim:
    data, title, where = place[0], _title(place), WHERE[table]
    if cell is None:
        return Claim(title, where, text, NOT_RUN)
    if cell["best"] is None:
        lost = "the step size that was left diverged" if "stopped" in cell else "every step size diverged"
        return Claim(title, where, text, lost, why=_cut(settings, data))
    ours, theirs = Cell(*cell["cell"]), Cell.read(text)
    difference = f"{ours.objective - theirs.objective:+.3g} ({ours.accuracy - theirs.accuracy:+.1f})"
    why = "; ".join(filter(None, (f"ζ = {cell['best']:.3g}", _error(cell), _cut(settings, data), WHY[data])))
    return Claim(title, where, text, f"{ours.objective:.4g} ({ours.accuracy:.1f})", difference, why)


def _error(cell: Mapping[str, Any]) -> str:
    """Return the error of the hypergradient at λ_s as text, and how it is known."""
    error = cell.get("error")
    if error is None:
        return ""
    if error["relative"] is None:
        return f"the error of g at λ_s is not known ({error['why']})"
    if error["known"] == "estimated":
        return f"g at λ_s is about {percent(error['relative'])} off (estimated; {error['why']})"
    return f"g at λ_s is at most {percent_at_most(error['relative'])} off ({error['known']})"


def _cut(settings: Settings, data: str) -> str:
    """Return how the settings of the run differ from the published ones, as text."""
    of_data, table = settings["data"][data], TABLES[data]
    parts = []
    if of_data["s"] != table.s:
        parts.append(f"s = {of_data['s']} in place of {table.s}")
    if len(of_data["zeta"]) != COUNT:
        parts.append(f"{len(of_data['zeta'])} step sizes in place of {COUNT}")
    if of_data["exact"] not in (None, table.exact):
        parts.append(f"w(λ) by {of_data['exact']} steps in place of {table.exact}")
    if "rounds" in of_data:
        parts.append("step sizes by successive halving")
    changed = {name: value for name, value in of_data["options"].items() if table.options.get(name) != value}
    parts += [f"{name} = {value}" for name, value in changed.items()]
    return ", ".join(parts)


def _notes(settings: Settings, cells: Mapping[tuple[str, int, str], Any]) -> Iterator[str]:
    for data, of_data in settings["data"].items():
        if cut := _cut(settings, data):
            yield f"{NAMES[data]} was cut: {cut}."
        cells_of_data = [cell for (d, _, _), cell in cells.items() if d == data]
        diverged = sum(value is None for cell in cells_of_data for value in cell["f_t"])
        total = sum(len(cell["f_t"]) for cell in cells_of_data)
        precision = str(TABLES[data].dtype).removeprefix("torch.")
        starts = "w_0(λ_i) = w_t(λ_{i−1})" if TABLES[data].warm else "w_0 = 0"
        yield f"{NAMES[data]}: {precision}, {starts}; {diverged} of {total} runs, one a step size, diverged."
        if not all(cell["definite"] for cell in cells_of_data):
            yield f"{NAMES[data]}: in some runs of CG pᵀ(I − ∂₁Φᵀ)p was not positive, by rounding; they went on."
        if of_data["zeta"] and any(cell["best"] in (of_data["zeta"][0], of_data["zeta"][-1]) for cell in cells_of_data):
            yield f"{NAMES[data]}: some best step size is at an end of the grid."
        if "rounds" in of_data:
            rounds = ", ".join(f"{count} to step {steps}" for count, steps in of_data["rounds"])
            yield f"{NAMES[data]}: successive halving in place of the grid: {rounds}; halving.md has what was dropped."
    if settings.get("budget"):
        planned, budget = duration(settings["planned"]), duration(settings["budget"])
        yield f"Chosen for a budget of {budget} of computing: about {planned}, by the cost of a step measured here."
    missing = [NAMES[data] for data in TABLES if data not in settings["data"]]
    if missing:
        yield f"Not run: {', '.join(missing)}."
    if "parkinson" in settings["data"]:
        yield "Parkinson: FP is that on the map of heavy ball, as in the authors' code, and beside it that on Φ."
