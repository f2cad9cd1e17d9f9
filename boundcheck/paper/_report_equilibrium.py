"""What the runs of `eqm` and `conv-eqm` come to, and what the paper says of them beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boundcheck.paper import _draw_equilibrium
from boundcheck.paper._equilibrium import METHODS, PROJECTED, SETTLED, Row, key_of
from boundcheck.paper._experiment import Claim, Outcome, Settings
from boundcheck.paper.conv_eqm import DENSE

Data = Mapping[str, Any]
CAPTION, TEXT, END = "caption of Figure fig:eqm", "section 4.2", "conclusions"
APPENDIX, CONV_CAPTION = "appendix C.3", "caption of Figure fig:conv_eqm"
SAME = 0.01  # accuracies that differ by less cannot be told apart in a figure
WIDE = 0.05  # range of test accuracy over seeds from which a step size counts as unstable


def dense(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    data = summary(settings, results)
    claims = [_overlap(data, CAPTION), _unstable(data), _itd_suffers_less(data), _stable(data, TEXT)]
    claims += [_faster(settings), _memory(settings), _regulariser(data), _reliable(data)]
    return Outcome(claims, data, {"eqm": _draw_equilibrium.panels(data)}, notes(settings, data))


def convolutional(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    data = summary(settings, results)
    beside = [results[f"{DENSE}{key_of('aid-fp', True, settings['dense']['step_size'], i)}"] for i in _seeds(settings)]
    data["dense"] = {"accuracy": np.array([float(one["accuracy"][-1]) for one in beside])}
    claims = [_marked(data), _exceeds(data), _fp_best(data), _fp_unreliable(data), _stable(data, APPENDIX)]
    claims += [_smaller_step(settings, data)]
    return Outcome(claims, data, {"conv-eqm": _draw_equilibrium.panels(data)}, notes(settings, data))


def _seeds(settings: Settings) -> range:
    return range(settings["seeds"])


def line(method: str, projected: bool) -> str:
    return f"{method}-{PROJECTED[projected]}"


def said(name: str) -> str:
    """FP, or FP† without projection, as in the paper."""
    method, _, kind = name.rpartition("-")
    return METHODS[method] + ("" if kind == "projected" else "†")


def summary(settings: Settings, results: Mapping[str, Any]) -> dict[str, Any]:
    """Curves at the step sizes shown, seeds × steps; and of all step sizes, sizes × seeds, how the runs ended."""
    sizes, last = settings["step_sizes"], settings["steps"] + 1
    found: dict[str, Any] = {"steps": np.arange(last), "curves": {}, "sensitivity": {}, "step_sizes": np.array(sizes)}
    for projected, kind in PROJECTED.items():
        for method in METHODS:
            runs = [[results[key_of(method, projected, z, i)] for i in _seeds(settings)] for z in sizes]
            shown = runs[sizes.index(settings["shown"][kind])]
            name = line(method, projected)
            found["curves"][name] = {what: np.stack([_padded(r[what], last) for r in shown]) for what in Row._fields}
            found["sensitivity"][name] = {what: np.array([[ask(r) for r in row] for row in runs]) for what, ask in ENDS}
    found["shown"] = settings["shown"]
    return found


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    """With NaN where a run had ended before."""
    return np.concatenate([values, np.full(length - len(values), np.nan)])


def _lost(run: Mapping[str, Any]) -> float:
    """The first step with ‖A‖ ≥ 1; NaN if there is none."""
    above = np.flatnonzero(run["norm"] >= 1)
    return float(above[0]) if len(above) else float("nan")


def _last(what: str) -> Any:
    """At the end; NaN for a run that did not get there."""
    return lambda run: float("nan") if run["why"] else float(run[what][-1])


ENDS = [
    *((what, _last(what)) for what in ("accuracy", "objective", "residual_w", "residual_v")),
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
    """For each step size: did every seed end below the objective it began with, all of them within WIDE?"""
    worked: np.ndarray = (ends["objective"] < ends["started"]).all(axis=1) & (spread(ends) <= WIDE)
    return worked


def _counts(data: Data, projected: bool) -> dict[str, int]:
    return {m: int(steady(data["sensitivity"][line(m, projected)]).sum()) for m in METHODS}


def _ranges(data: Data, projected: bool) -> str:
    told = []
    for method, count in _counts(data, projected).items():
        ends = data["sensitivity"][line(method, projected)]
        wide = ", ".join("–" if np.isinf(x) else f"{100 * x:.1f}" for x in spread(ends))
        told.append(f"{said(line(method, projected))} steady at {count} of {len(spread(ends))} (ranges {wide} points)")
    return "; ".join(told)


def means(data: Data, projected: bool, what: str) -> dict[str, np.ndarray]:
    """The mean over seeds at each step; NaN where a seed had ended."""
    return {m: data["curves"][line(m, projected)][what].mean(axis=0) for m in METHODS}


def _last_accuracies(data: Data, projected: bool) -> dict[str, float]:
    return {m: float(values[-1]) for m, values in means(data, projected, "accuracy").items()}


def _percent(accuracies: Mapping[str, float]) -> str:
    return ", ".join(f"{METHODS[m]} {100 * value:.1f} %" for m, value in accuracies.items())


def gap(data: Data, projected: bool) -> float:
    """The largest difference of mean test accuracies of two methods, over all steps at which it was measured."""
    every = np.stack(list(means(data, projected, "accuracy").values()))
    seen = every[:, np.isfinite(every).all(axis=0)]
    return float((seen.max(axis=0) - seen.min(axis=0)).max(initial=0)) if seen.size else float("nan")


def _overlap(data: Data, where: str) -> Claim:
    objectives = np.stack(list(means(data, True, "objective").values()))
    apart = float((objectives.max(axis=0) / objectives.min(axis=0)).max())
    ours = f"mean objectives differ by ×{apart:.3g} at most, mean accuracies by {100 * gap(data, True):.2f} points"
    ends = _percent(_last_accuracies(data, True))
    holds = gap(data, True) <= SAME
    return Claim("with projection the curves of all methods mostly overlap", where, "yes", ours, "", ends, holds)


def _unstable(data: Data) -> Claim:
    counts, total = _counts(data, False), len(data["step_sizes"])
    what = "without projection FP and CG are unstable for all but a few step sizes"
    holds = max(counts["aid-fp"], counts["aid-cgn"]) <= total / 2
    return Claim(what, TEXT, "yes", _ranges(data, False), "", _reading(data), holds)


def _reading(data: Data) -> str:
    sizes = ", ".join(f"{z:g}" for z in data["step_sizes"])
    return (
        f"step sizes {sizes}; steady: every seed below its first objective, accuracies within {100 * WIDE:.0f} points"
    )


def _itd_suffers_less(data: Data) -> Claim:
    counts = _counts(data, False)
    ours = ", ".join(f"{METHODS[m]}† {count}" for m, count in counts.items())
    told = f"steady step sizes of {len(data['step_sizes'])}: {ours}"
    less, more = counts["itd"] > max(counts["aid-fp"], counts["aid-cgn"]), counts["itd"] < max(counts.values())
    holds = True if less else False if more else None
    return Claim("without projection ITD suffers comparatively less", TEXT, "yes", told, "", "", holds)


def _stable(data: Data, where: str) -> Claim:
    counts, total = _counts(data, True), len(data["step_sizes"])
    holds = all(count == total for count in counts.values())
    what = "with projection all methods are successful and stable"
    return Claim(what, where, "yes", _ranges(data, True), "", "", holds)


def _faster(settings: Settings) -> Claim:
    k = settings["k"]
    ours = f"products with ∂₁Φ or its transpose at k = {k}: FP {k - 1}, CG {2 * k + 1}"
    why = "counted: times are not part of a result that is the same each time"
    return Claim("FP is faster than CG on the normal equations", TEXT, "yes", ours, "", why, k - 1 < 2 * k + 1)


def _memory(settings: Settings) -> Claim:
    ours = f"states kept for the way back: ITD {settings['t']}, FP 1"
    why = "counted; with √t checkpoints, which are used past 1 GiB, ITD keeps about 2√t"
    return Claim("FP needs substantially less memory than ITD", TEXT, "yes", ours, "", why, settings["t"] > 1)


def _regulariser(data: Data) -> Claim:
    told, gains = [], []
    for m in METHODS:
        ends = [
            (data["curves"][line(m, p)]["objective"][:, -1].mean(), _last_accuracies(data, p)[m]) for p in (True, False)
        ]
        (f, a), (f_free, a_free) = ends
        told.append(f"{METHODS[m]} {100 * a:.1f} % at objective {f:.3g}, † {100 * a_free:.1f} % at {f_free:.3g}")
        gains.append(a - a_free)
    difference = ", ".join(f"{100 * gain:+.1f}" for gain in gains) + " points"
    what = "projecting on the spectral ball acts as powerful regulariser"
    return Claim(what, TEXT, "yes", "; ".join(told), difference, "", all(gain > 0 for gain in gains))


def _reliable(data: Data) -> Claim:
    worst = {m: float(np.nanmin(data["sensitivity"][line(m, False)]["accuracy"], initial=1.0)) for m in METHODS}
    lost = int(np.isfinite(data["sensitivity"][line("itd", False)]["lost"]).sum())
    ours = f"worst test accuracy of all runs without projection: {_percent(worst)}"
    holds = worst["itd"] > max(worst["aid-fp"], worst["aid-cgn"])
    why = f"of the runs of ITD†, {lost} have ‖A‖ ≥ 1"
    return Claim("where Φ is no contraction, ITD is more reliable than AID", END, "yes", ours, "", why, holds)


def _marked(data: Data) -> Claim:
    with_, without = gap(data, True), gap(data, False)
    ours = f"mean accuracies differ by up to {100 * with_:.1f} points with projection, {100 * without:.1f} without"
    what = "marked differences among the methods, especially without projection"
    return Claim(what, APPENDIX, "yes", ours, "", "", without > max(with_, SAME))


def _exceeds(data: Data) -> Claim:
    conv, dense = _last_accuracies(data, True), float(data["dense"]["accuracy"].mean())
    ours = f"{_percent(conv)}; the model of eqm, same data and steps, FP {100 * dense:.1f} %"
    difference = f"{100 * (conv['aid-fp'] - dense):+.1f} points"
    what = "the contractive convolutional model exceeds the dense one abundantly"
    return Claim(what, APPENDIX, "yes", ours, difference, "", conv["aid-fp"] > dense + SAME)


def _fp_best(data: Data) -> Claim:
    ends = _last_accuracies(data, True)
    holds = ends["aid-fp"] > max(ends["aid-cgn"], ends["itd"])
    return Claim(
        "with projection FP is slightly better than the others", APPENDIX, "yes", _percent(ends), "", "", holds
    )


def _fp_unreliable(data: Data) -> Claim:
    held = steady(data["sensitivity"][line("aid-fp", False)])
    what = "without projection FP does not converge reliably for all step sizes"
    return Claim(what, APPENDIX, "yes", _ranges(data, False), "", _reading(data), not bool(held.all()))


def _smaller_step(settings: Settings, data: Data) -> Claim:
    shown = settings["shown"]
    ours = f"{shown['free']:g} beside {shown['projected']:g}"
    what = "the step size shown without projection is smaller, to prevent divergence"
    why = "the paper gives neither; these are ours"
    return Claim(what, CONV_CAPTION, "yes", ours, "", why, shown["free"] < shown["projected"])


def notes(settings: Settings, data: Data) -> list[str]:
    told = [_contraction(settings, name, ends) for name, ends in data["sensitivity"].items()]
    part = " (the paper: 5 seeds, 5000 images)" if settings["quick"] else ""
    sizes: Sequence[float] = settings["step_sizes"]
    return [
        f"{settings['size']} training and {settings['test_size']} test images, {settings['seeds']} seeds, "
        f"{settings['steps']} steps, step sizes {', '.join(f'{z:g}' for z in sizes)}{part}",
        *told,
        "the paper gives its curves in pictures only, and no step size, momentum nor start of λ",
    ]


def _contraction(settings: Settings, name: str, ends: Data) -> str:
    """Which assumption is gone, from which step on and by how much, and what was measured in place of what is lost."""
    letter = "‖A‖" if settings["problem"] == "eqm" else "‖c(K)‖"
    lost, total = np.isfinite(ends["lost"]), ends["lost"].size
    if not lost.any():
        return f"{said(name)}: {letter} ≤ {ends['largest_norm'].max():.4f} in all {total} runs, so Assumption 2 holds"
    settled = ends["settled"][lost]
    rest = int((settled == 1).sum())
    why = int(ends["diverged"].sum())
    return (
        f"{said(name)}: Assumption 2 (contraction) fails in {int(lost.sum())} of {total} runs, from step "
        f"{int(np.nanmin(ends['lost']))} at the earliest, with {letter} up to {ends['largest_norm'].max():.3g}. Then "
        "no theorem of the paper applies: Φ still has a fixed point (Brouwer), but that it is unique, that w_t or v_k "
        "come near what they should, and every error bound are lost. Measured at the last λ of these runs: after "
        f"{settings['long']} iterations ‖w − Φ(w)‖ ≤ {SETTLED:g} ‖w‖ on all examples in {rest} runs, on "
        f"{100 * settled.mean():.0f} % of the examples on average; {why} runs left the finite numbers"
    )
