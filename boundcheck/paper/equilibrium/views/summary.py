"""Summarise the runs of `eqm` and `conv-eqm`: curves, the end for each step size, and whether Φ was a contraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from boundcheck.engine.experiment import Settings
from boundcheck.paper.equilibrium.training import METHODS, PROJECTED, SETTLED, TrainingRow, key_of

Data = Mapping[str, Any]
UNSTABLE_RANGE = 0.05  # a step size with a larger range of test accuracies over seeds counts as unstable


def seeds_of(settings: Settings) -> range:
    return range(settings["seeds"])


def line(method: str, projected: bool) -> str:
    return f"{method}-{PROJECTED[projected]}"


def label(name: str) -> str:
    """Return the label as in the paper: FP, or FP† without projection."""
    method, _, kind = name.rpartition("-")
    return METHODS[method] + ("" if kind == "projected" else "†")


def summary(settings: Settings, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return curves (seeds × steps) at the step sizes of the figure, and the end of all runs (step sizes × seeds)."""
    sizes, last = settings["step_sizes"], settings["steps"] + 1
    data: dict[str, Any] = {"steps": np.arange(last), "curves": {}, "sensitivity": {}, "step_sizes": np.array(sizes)}
    for projected, kind in PROJECTED.items():
        for method in METHODS:
            runs = [[results[key_of(method, projected, z, i)] for i in seeds_of(settings)] for z in sizes]
            runs_of_figure = runs[sizes.index(settings["shown"][kind])]
            name = line(method, projected)
            data["curves"][name] = {
                quantity: np.stack([_padded(run[quantity], last) for run in runs_of_figure])
                for quantity in TrainingRow._fields
            }
            data["sensitivity"][name] = {
                quantity: np.array([[value_of(run) for run in row] for row in runs]) for quantity, value_of in ENDS
            }
    data["shown"] = settings["shown"]
    return data


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    """Return the values with NaN after the end of the run."""
    return np.concatenate([values, np.full(length - len(values), np.nan)])


def _lost(run: Mapping[str, Any]) -> float:
    """Return the first step with ‖A‖ ≥ 1; NaN if there is none."""
    above = np.flatnonzero(run["norm"] >= 1)
    return float(above[0]) if len(above) else float("nan")


def _last(quantity: str) -> Any:
    """Return a function for the last value of a run; NaN for a run that ended early."""
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
    """Return the range of the last test accuracy over seeds for each step size; infinite if a run ended early."""
    values = np.where(np.isfinite(ends["accuracy"]), ends["accuracy"], np.nan)
    broken = np.isnan(values).any(axis=1)
    filled = np.where(np.isnan(values), 0, values)
    return np.where(broken, np.inf, filled.max(axis=1) - filled.min(axis=1))


def steady(ends: Data) -> np.ndarray:
    """Return for each step size whether all objectives fell, and accuracies are within UNSTABLE_RANGE."""
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
    """Return the mean over seeds at each step; NaN after one of the runs has ended."""
    return {m: data["curves"][line(m, projected)][quantity].mean(axis=0) for m in METHODS}


def last_accuracies(data: Data, projected: bool) -> dict[str, float]:
    return {m: float(values[-1]) for m, values in means(data, projected, "accuracy").items()}


def percent(accuracies: Mapping[str, float]) -> str:
    return ", ".join(f"{METHODS[m]} {100 * value:.1f} %" for m, value in accuracies.items())


def gap(data: Data, projected: bool) -> float:
    """Return the largest difference of the mean test accuracies of two methods, over all steps with measurements."""
    accuracies = np.stack(list(means(data, projected, "accuracy").values()))
    complete = accuracies[:, np.isfinite(accuracies).all(axis=0)]
    return float((complete.max(axis=0) - complete.min(axis=0)).max(initial=0)) if complete.size else float("nan")


def notes(settings: Settings, data: Data) -> list[str]:
    part = " (the paper: 5 seeds, 5000 images)" if settings["quick"] else ""
    sizes = ", ".join(f"{z:g}" for z in settings["step_sizes"])
    lost = any(np.isfinite(ends["lost"]).any() for ends in data["sensitivity"].values())
    no_contraction = (
        "where Φ is not a contraction, no theorem of the paper applies: Φ still has a fixed point (Brouwer), but it "
        "need not be unique, w_t and v_k need not converge, and no error bound holds; only the measurements remain"
    )
    return [
        f"{settings['size']} training and {settings['test_size']} test images, {settings['steps']} steps, "
        f"seeds: {settings['seeds']}, step sizes: {sizes}{part}",
        *(contraction(settings, name, ends) for name, ends in data["sensitivity"].items()),
        *([no_contraction] if lost else []),
        "the paper gives its curves as pictures only, and does not give the step size, the momentum or the start of λ",
    ]


def contraction(settings: Settings, name: str, ends: Data) -> str:
    """Return whether Assumption 2 fails, from which step on and by how much, and whether iterations still converge."""
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
