"""The results of `tightness` as claims, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from boundcheck.engine.experiment import Claim, Outcome, Settings
from boundcheck.paper.tightness.certified import KINDS, METHODS
from boundcheck.paper.tightness.views import figures as drawings
from boundcheck.views.figures.tightness_map import tightness_map
from boundcheck.views.terminal.console import number
from boundcheck.worst_case.maps import LEAST, Map, MapCell
from boundcheck.worst_case.target import CLAIMS

ATTAINED = 1e-3  # the tolerance with which a search reaches a limit
WITHIN = 10.0  # the largest bound/error of a bound that counts as close
Results = Mapping[str, Any]


def outcome(settings: Settings, results: Results) -> Outcome:
    maps = {(kind, name): _map(settings, results, kind, name) for kind in ("map", "full") for name in settings["maps"]}
    problems = {key.removeprefix("certified-"): x for key, x in results.items() if key.startswith("certified-")}
    figures: dict[str, Figure] = {
        f"{kind}-{name}": tightness_map(ratio_map) for (kind, name), ratio_map in maps.items()
    }
    figures["certified"] = drawings.ratios({n: x for n, x in problems.items() if "gradient" in n})
    return Outcome(
        claims=[*_attained(settings, results), *_known(maps), *_certified(problems)],
        data={"results": results},
        figures=figures,
        notes=_notes(settings),
        tables={
            "worst": _worst_table(settings, results),
            "maps": _map_tables(maps),
            "terms": _terms_table(settings, results),
            "certified": _certified_table(problems),
            "newton": _newton_table(results),
        },
    )


def _map(settings: Settings, results: Results, kind: str, name: str) -> Map:
    """Join the maps of all q; NaN if the instance that a search for all terms found lacks a term."""
    parts = [results[f"{kind}-{name}-{q}"] for q in settings["q"]]
    cells = [
        MapCell(c["q"], c["t"], c["k"], np.nan if kind == "full" and _lacks(c["terms"]) else c["ratio"], ())
        for part in parts
        for c in part["cells"]
    ]
    return Map(name, tuple(settings["q"]), tuple(parts[0]["ts"]), tuple(parts[0]["ks"]), tuple(cells))


def _lacks(terms: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether one of the terms is less than 0.9 of the least share that the search requires."""
    return any(term["share"] < 0.9 * LEAST for term in terms)


def _attained(settings: Settings, results: Results) -> Iterator[Claim]:
    searches = {name: results[f"worst-{name}"] for name in settings["worst"]}
    true = {name: search["ratio"] for name, search in searches.items() if name not in CLAIMS}
    local = {key: search["ratio"] for key, search in results.items() if key.startswith("local-")}
    yield Claim(
        "the tightness of the bounds needs to be clarified",
        "section 5",
        "open",
        f"{sum(x >= 1 - ATTAINED for x in true.values())} of {len(true)} bounds are attained, "
        f"{sum(searches[name]['refuted'] for name in true) or 'none'} refuted",
        why=f"largest error/bound {min(true.values()):.6f} to {max(true.values()):.6f} in 50 digits",
        holds=not any(searches[name]["refuted"] for name in true),
    )
    yield Claim(
        "itd-local and aid-fp-local are attained at every t and k",
        "docs/proofs.md",
        1.0,
        min(local.values()),
        difference=1 - min(local.values()),
        why=f"{len(local)} searches",
        holds=min(local.values()) >= 1 - ATTAINED,
    )
    for name, statement in CLAIMS.items():
        claimed = searches[name]
        why = f"error/bound = {claimed['ratio']:.4f} at t = {claimed['t']}, k = {claimed['k']}, in 50 digits"
        yield Claim(
            statement, "errata", "true", "refuted" if claimed["refuted"] else "not refuted", why=why, holds=False
        )


def _known(maps: Mapping[tuple[str, str], Map]) -> Iterator[Claim]:
    """Compare the search with the closed form, which is known for Φ = λw + b and E = w."""
    itd = maps["map", "itd"]
    for t in itd.ts:
        yield _compared("itd", 0.9, t, None, itd, (t / 0.9 + 1 / 0.1) / (t / 0.9 + 2 / 0.1))
    fp = maps["map", "aid-fp"]
    t = k = max(set(fp.ts) & {k for k in fp.ks if k is not None and k <= 20})
    yield _compared("aid-fp", 0.9, t, k, fp, (2 - 0.9**t) / (3 - 0.9**t))


def _compared(name: str, q: float, t: int, k: int | None, ratio_map: Map, known: float) -> Claim:
    ours = ratio_map.ratio(q, t, k)
    indices = f"t = {t}" + (f", k = {k}" if k is not None else "")
    return Claim(
        f"{name} on bilinear instances, q = {q:g}, {indices}",
        "docs/worst.md",
        known,
        ours,
        difference=ours - known,
        why="Φ = λw + b, E = w, in closed form",
        holds=abs(ours - known) <= ATTAINED,
    )


def _certified(problems: Results) -> Iterator[Claim]:
    for name, result in problems.items():
        for method in METHODS:
            if method not in result["methods"]:
                continue
            method_result = result["methods"][method]
            largest = {kind: _largest(method_result[kind]["ratio"]) for kind in KINDS}
            enclosed = _largest(method_result["enclosure"])
            best = next((kind for kind in KINDS if largest[kind] <= WITHIN), "enclosure")
            yield Claim(
                f"{name.replace('-', ', ', 1)}, {method}: certified within {WITHIN:g} times the error at every t",
                "target",
                "",
                best,
                why=", ".join(f"{kind} ≤ {number(x)}" for kind, x in largest.items()) + f", enclosure ≤ {enclosed:.7f}",
                holds=min(*largest.values(), enclosed) <= WITHIN,
            )


def _largest(ratios: np.ndarray) -> float:
    """Return the largest ratio over the t above the floor; infinite if there are no ratios."""
    return float(np.nanmax(ratios)) if np.isfinite(ratios).any() else np.inf


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _worst_table(settings: Settings, results: Results) -> str:
    rows = []
    for name in settings["worst"]:
        search = results[f"worst-{name}"]
        k = "" if search["k"] is None else f" --k {search['k']}"
        command = f"`boundcheck worst {name} --t {search['t']}{k} --dim {search['dim']} --quick`"
        rows.append([command, f"{search['ratio']:.6f}", "refuted" if search["refuted"] else ""])
    return _rows(["command", "largest error/bound", ""], rows)


def _map_tables(maps: Mapping[tuple[str, str], Map]) -> str:
    subtitles = {"map": "bilinear, with ν₂ and L_E alone", "full": "all six terms, each about a tenth of the bound"}
    return "\n".join(
        f"### {name}: {subtitles[kind]}\n\n{ratio_map.markdown()}" for (kind, name), ratio_map in maps.items()
    )


def _terms_table(settings: Settings, results: Results) -> str:
    columns = [results[f"terms-{name}"]["rows"] for name in settings["terms"]]
    rows = [
        [", ".join(f"`{part}`" for part in parts[0]["parts"]), *(f"{part['ratio']:.3f}" for part in parts)]
        for parts in zip(*columns, strict=True)
    ]
    return _rows(["parts", *settings["terms"]], rows)


def _certified_table(problems: Results) -> str:
    rows = []
    for name, result in problems.items():
        for method, method_result in result["methods"].items():
            cells = [name.replace("-", ", ", 1), method, number(_largest(method_result["paper"]))]
            for kind in KINDS:
                worst = method_result[kind]["worst"]
                cells.append(number(_largest(method_result[kind]["ratio"])))
                cells.append("" if worst is None else _links(worst))
            rows.append([*cells, f"{_largest(method_result['enclosure']):.7f}"])
    header = ["problem", "method", "the paper's", *(title for kind in KINDS for title in (kind, "stopped by"))]
    header.append("enclosure")
    return _rows(header, rows)


def _links(worst: Mapping[str, Any]) -> str:
    lost = ", ".join(f"{name} ×{number(slack)}" for name, slack in worst["links"])
    return f"`{worst['bound']}` at t = {worst['t']}: {lost}" if lost else f"`{worst['bound']}` at t = {worst['t']}"


def _newton_table(results: Results) -> str:
    steps = {key.removeprefix("newton-"): x for key, x in results.items() if key.startswith("newton-")}
    ts = list(next(iter(steps.values())))
    rows = [[name, *("–" if x[t] is None else str(x[t]) for t in ts)] for name, x in steps.items()]
    return _rows(["problem", *(f"t = {t}" for t in ts)], rows)


def _notes(settings: Settings) -> list[str]:
    notes = ["ratios of searches are lower bounds on the supremum over all problems"]
    if settings["quick"]:
        notes.append("quick: some bounds, one q, few t and k, and 40 steps on the problems; the full setting has all")
    return notes
