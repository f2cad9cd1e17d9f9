"""Of the runs of `eqm` and `conv-eqm`: curves, how each step size ended, and whether Φ was a contraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from boundcheck.engine.experiment import Settings
from boundcheck.paper.equilibrium.training import METHODS, PROJECTED, SETTLED, TrainingRow, key_of

Data = Mapping[str, Any]
UNSTABLE_RANGE = 0.05  # range of test accuracy over seeds from which a step size counts as unstable


def seeds_of(settings: Settings) -> range:
    return range(settings["seeds"])


def line(method: str, projected: bool) -> str:
    return f"{method}-{PROJECTED[projected]}"


def label(name: str) -> str:
    """FP, or FP† without projection, as in the paper."""
    method, _, kind = name.rpartition("-")
    return METHODS[method] + ("" if kind == "projected" else "†")


def summary(settings: Settings, results: Mapping[str, Any]) -> dict[str, Any]:
    """Curves at the step sizes shown, seeds × steps; and of all step sizes, sizes × seeds, how the runs ended."""
    sizes, last = settings["step_sizes"], settings["steps"] + 1
    data: dict[str, Any] = {"steps": np.arange(last), "curves": {}, "sensitivity": {}, "step_sizes": np.array(sizes)}
    for projected, kind in PROJECTED.items():
        for method in METHODS:
            runs = [[results[key_of(method, projected, z, i)] for i in seeds_of(settings)] for z in sizes]
            shown = runs[sizes.index(settings["shown"][kind])]
            name = line(method, projected)
            data["curves"][name] = {
                quantity: np.stack([_padded(r[quantity], last) for r in shown]) for quantity in TrainingRow._fields
            }
            data["sensitivity"][name] = {
                quantity: np.array([[ask(r) for r in row] for row in runs]) for quantity, ask in ENDS
            }
    data["shown"] = settings["shown"]
    return data


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    """With NaN where a run had ended before."""
    return np.concatenate([values, np.full(length - len(values), np.nan)])


def _lost(run: Mapping[str, Any]) -> float:
    """The first step with ‖A‖ ≥ 1; NaN if there is none."""
    above = np.flatnonzero(run["norm"] >= 1)
    return float(above[0]) if len(above) else float("nan")


def _last(quantity: str) -> Any:
    """At the end; NaN for a run that did not get there."""
    return lambda run: float("nan") if run["why"] else float(run[quantity][-1])


ENDS = [
    *((quantity, _last(quantity)) for quantity in ("accuracy", "objective", "residual_w", "residual_v")),
    ("started", lambda run: float(run["objective"][0])),
    ("lost", _lost),
    ("largest_norm", lambda run: float(np.max(run["norm"], initial=0))),
    ("diverged", lambda run: bool(run["why"])),
    ("settled", lambda run: run["settled"]["share"]),
    ("still_moves", lambda run: run["settled"]["residual"]),
]


def spread(ends: Data) -> np.ndarray:
    """The range of the last test accuracy over seeds, for each step size; infinite if a run did not reach the end."""
    values = np.where(np.isfinite(ends["accuracy"]), ends["accuracy"], np.nan)
    broken = np.isnan(values).any(axis=1)
    filled = np.where(np.isnan(values), 0, values)
    return np.where(broken, np.inf, filled.max(axis=1) - filled.min(axis=1))


def steady(ends: Data) -> np.ndarray:
    """For each step size: did every seed end below the objective it began with, all of them within UNSTABLE_RANGE?"""
    worked: np.ndarray = (ends["objective"] < ends["started"]).all(axis=1) & (spread(ends) <= UNSTABLE_RANGE)
    return worked


def steady_counts(data: Data, projected: bool) -> dict[str, int]:
    return {m: int(steady(data["sensitivity"][line(m, projected)]).sum()) for m in METHODS}


def ranges(data: Data, projected: bool) -> str:
    lines = []
    for method, count in steady_counts(data, projected).items():
        ends = data["sensitivity"][line(method, projected)]
        wide = ", ".join("–" if np.isinf(x) else f"{100 * x:.1f}" for x in spread(ends))
        lines.append(
            f"{label(line(method, projected))} steady at {count} of {len(spread(ends))} (ranges {wide} points)"
        )
    return "; ".join(lines)


def means(data: Data, projected: bool, quantity: str) -> dict[str, np.ndarray]:
    """The mean over seeds at each step; NaN where a seed had ended."""
    return {m: data["curves"][line(m, projected)][quantity].mean(axis=0) for m in METHODS}


def last_accuracies(data: Data, projected: bool) -> dict[str, float]:
    return {m: float(values[-1]) for m, values in means(data, projected, "accuracy").items()}


def percent(accuracies: Mapping[str, float]) -> str:
    return ", ".join(f"{METHODS[m]} {100 * value:.1f} %" for m, value in accuracies.items())


def gap(data: Data, projected: bool) -> float:
    """The largest difference of mean test accuracies of two methods, over all steps at which it was measured."""
    every = np.stack(list(means(data, projected, "accuracy").values()))
    complete = every[:, np.isfinite(every).all(axis=0)]
    return float((complete.max(axis=0) - complete.min(axis=0)).max(initial=0)) if complete.size else float("nan")


def notes(settings: Settings, data: Data) -> list[str]:
    part = " (the paper: 5 seeds, 5000 images)" if settings["quick"] else ""
    sizes = ", ".join(f"{z:g}" for z in settings["step_sizes"])
    lost = any(np.isfinite(ends["lost"]).any() for ends in data["sensitivity"].values())
    gone = (
        "where the contraction is lost, no theorem of the paper applies: Φ still has a fixed point (Brouwer), but that "
        "it is unique, that w_t and v_k come near what they should, and every error bound are gone; what is left is "
        "what was measured"
    )
    return [
        f"{settings['size']} training and {settings['test_size']} test images, {settings['steps']} steps, "
        f"seeds: {settings['seeds']}, step sizes: {sizes}{part}",
        *(contraction(settings, name, ends) for name, ends in data["sensitivity"].items()),
        *([gone] if lost else []),
        "the paper gives its curves in pictures only, and no step size, momentum nor start of λ",
    ]


def contraction(settings: Settings, name: str, ends: Data) -> str:
    """Which assumption is gone, from which step on and by how much, and whether the iteration still came to rest."""
    letter = "‖A‖" if settings["problem"] == "eqm" else "‖c(K)‖"
    lost, total = np.isfinite(ends["lost"]), ends["lost"].size
    if not lost.any():
        return f"{label(name)}: {letter} ≤ {ends['largest_norm'].max():.4f} in all {total} runs, so Assumption 2 holds"
    settled = ends["settled"][lost]
    return (
        f"{label(name)}: Assumption 2 (contraction) fails in {int(lost.sum())} of {total} runs, from step "
        f"{int(np.nanmin(ends['lost']))} at the earliest, with {letter} up to {ends['largest_norm'].max():.3g}; at the "
        f"last λ of these runs {settings['long']} iterations end with ‖w − Φ(w)‖ ≤ {SETTLED:g} ‖w‖ for all examples in "
        f"{int((settled == 1).sum())} of them, for {100 * settled.mean():.0f} % of the examples on average; "
        f"{int(ends['diverged'].sum())} runs left the finite numbers"
    )
