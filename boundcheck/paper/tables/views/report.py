"""What tables 1 and 2 say beside what came out of the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boundcheck.paper.engine.experiment import Claim, Outcome, Settings
from boundcheck.paper.tables.data import TABLES
from boundcheck.paper.tables.runs import COUNT, key
from boundcheck.paper.tables.views.claims import NAMES, NOT_RUN, VARIANT, in_words
from boundcheck.paper.tables.views.published import WHERE, Cell, cells

WHY = {
    "parkinson": "another random split; targets 0/1, features not scaled",
    "newsgroups": "another random split; tf-idf, which classify better than counts",
    "fashion-mnist": "nothing is random but the order of sums",
}


def outcome(table: str, settings: Settings, results: Mapping[str, Any]) -> Outcome:
    found = {place: _cell(table, settings, results, *place) for place in _places(settings)}
    published = cells(table)
    claims = [
        _claim(table, settings, (data, t, row), text, found.get((data, t, _row(data, t, row))))
        for (data, t, row), text in published.items()
    ]
    for (data, t, row), cell in found.items():
        if row.endswith(VARIANT):
            text = published[data, t, row.removesuffix(VARIANT)]
            claims.append(_claim(table, settings, (data, t, row), text, cell))
    if table == "table1":
        claims += in_words(settings, found)
    told = {f"{data} t={t} {row}": cell for (data, t, row), cell in found.items()}
    return Outcome(claims, {"cells": told}, notes=list(_notes(settings, found)))


def _places(settings: Settings) -> Iterator[tuple[str, int, str]]:
    """What was run."""
    for data, made in settings["data"].items():
        for t in made["t"]:
            for row in TABLES[data].methods(t):
                yield data, t, row


def _row(data: str, t: int, row: str) -> str:
    """At t = k_r the rows for k_r are those for k = t."""
    return row.replace("k=k_r", "k=t") if TABLES[data].k_r >= t else row


def _cell(table: str, settings: Settings, results: Mapping[str, Any], data: str, t: int, row: str) -> dict[str, Any]:
    """The step size with the least f_t(λ_s) of all batches, and what came of it."""
    start = key(data, t, TABLES[data].methods(t)[row])
    batches = [result for name, result in sorted(results.items()) if name.rpartition(".")[0] == start]
    ended = [one for one in batches if one["best"] is not None]
    made: dict[str, Any] = {
        "zeta": [zeta for one in batches for zeta in one["zeta"]],
        "f_t": [value for one in batches for value in one["f_t"]],
        "definite": all(one["definite"] for one in batches),
    }
    if not ended:
        return made | {"best": None}
    best = min(ended, key=lambda one: one["f_t"][one["best"]])
    made |= {"best": best["zeta"][best["best"]], "least": best["f_t"][best["best"]], "accuracy_t": best["accuracy_t"]}
    if table == "table1":
        return made | {"cell": (made["least"], 100 * best["accuracy_t"])}
    return made | {"f": best["f"], "accuracy": best["accuracy"], "cell": (best["f"], 100 * best["accuracy"])}


def _claim(table: str, settings: Settings, place: tuple[str, int, str], text: str, cell: Any) -> Claim:
    data, t, row = place
    k_r = f"{TABLES[data].k_r}"
    what, where = f"{NAMES[data]}, t={t}, {row.replace('k_r', k_r)}", WHERE[table]
    if cell is None:
        return Claim(what, where, text, NOT_RUN)
    if cell["best"] is None:
        return Claim(what, where, text, "every step size diverged", why=_cut(settings, data))
    ours, theirs = Cell(*cell["cell"]), Cell.read(text)
    difference = f"{ours.objective - theirs.objective:+.3g} ({ours.accuracy - theirs.accuracy:+.1f})"
    why = "; ".join(filter(None, (f"ζ = {cell['best']:.3g}", _cut(settings, data), WHY[data])))
    return Claim(what, where, text, f"{ours.objective:.4g} ({ours.accuracy:.1f})", difference, why)


def _cut(settings: Settings, data: str) -> str:
    """How far from the published setting the run was."""
    made, table = settings["data"][data], TABLES[data]
    parts = []
    if made["s"] != table.s:
        parts.append(f"s = {made['s']} in place of {table.s}")
    if len(made["zeta"]) != COUNT:
        parts.append(f"{len(made['zeta'])} step sizes in place of {COUNT}")
    if made["exact"] not in (None, table.exact):
        parts.append(f"w(λ) by {made['exact']} steps in place of {table.exact}")
    changed = {name: value for name, value in made["options"].items() if table.options.get(name) != value}
    parts += [f"{name} = {value}" for name, value in changed.items()]
    return ", ".join(parts)


def _notes(settings: Settings, found: Mapping[tuple[str, int, str], Any]) -> Iterator[str]:
    for data, made in settings["data"].items():
        if cut := _cut(settings, data):
            yield f"{NAMES[data]} was cut: {cut}."
        here = [cell for (d, _, _), cell in found.items() if d == data]
        diverged = sum(value is None for cell in here for value in cell["f_t"])
        total = sum(len(cell["f_t"]) for cell in here)
        precision = str(TABLES[data].dtype).removeprefix("torch.")
        starts = "w_0(λ_i) = w_t(λ_{i−1})" if TABLES[data].warm else "w_0 = 0"
        yield f"{NAMES[data]}: {precision}, {starts}; {diverged} of {total} runs, one a step size, diverged."
        if not all(cell["definite"] for cell in here):
            yield f"{NAMES[data]}: in some runs of CG pᵀ(I − ∂₁Φᵀ)p was not positive, by rounding; they went on."
        if made["zeta"] and any(cell["best"] in (made["zeta"][0], made["zeta"][-1]) for cell in here):
            yield f"{NAMES[data]}: some best step size is at an end of the grid."
    missing = [NAMES[data] for data in TABLES if data not in settings["data"]]
    if missing:
        yield f"Not run: {', '.join(missing)}."
    if "parkinson" in settings["data"]:
        yield "Parkinson: FP is that on the map of heavy ball, as in the authors' code, and beside it that on Φ."
