"""Compare the results of `eqm` and `conv-eqm` with the claims of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boundcheck.engine.experiment import Claim, Outcome, Settings
from boundcheck.paper.equilibrium.conv_eqm import DENSE
from boundcheck.paper.equilibrium.training import METHODS, key_of
from boundcheck.paper.equilibrium.views import figures
from boundcheck.paper.equilibrium.views.summary import (  # fmt: skip
    UNSTABLE_RANGE,
    Data,
    gap,
    last_accuracies,
    line,
    means,
    notes,
    percent,
    ranges,
    seeds_of,
    steady,
    steady_counts,
    summary,
)

CAPTION, TEXT, END = "caption of Figure 2", "section 4.2", "conclusions"
APPENDIX, CONV_CAPTION = "appendix C.3", "caption of Figure 3"
SAME_ACCURACY = 0.01  # a smaller difference of accuracies cannot be seen in a figure


def dense(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    data = summary(settings, results)
    claims = [_overlap(data, CAPTION), _unstable(data), _itd_suffers_less(data), _stable(data, TEXT)]
    claims += [_faster(settings), _memory(settings), _regulariser(data), _reliable(data)]
    return Outcome(_cut(settings, claims), data, {"eqm": figures.panels(data)}, notes(settings, data))


def convolutional(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    data = summary(settings, results)
    beside = [
        results[f"{DENSE}{key_of('aid-fp', True, settings['dense']['step_size'], i)}"] for i in seeds_of(settings)
    ]
    data["dense"] = {"accuracy": np.array([float(run["accuracy"][-1]) for run in beside])}
    claims = [_marked(data), _exceeds(data), _fp_best(data), _fp_unreliable(data), _stable(data, APPENDIX)]
    claims += [_smaller_step(settings, data)]
    return Outcome(_cut(settings, claims), data, {"conv-eqm": figures.panels(data)}, notes(settings, data))


def _cut(settings: Settings, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims with a note on how the settings differ from the published ones."""
    if not settings["quick"]:
        return list(claims)
    cut = f"quick: {settings['size']} images and {settings['steps']} steps, not 5000 and 1500"
    return [replace(claim, why="; ".join(filter(None, (claim.why, cut)))) for claim in claims]


def _overlap(data: Data, where: str) -> Claim:
    objectives = np.stack(list(means(data, True, "objective").values()))
    apart = float((objectives.max(axis=0) / objectives.min(axis=0)).max())
    ours = f"mean objectives differ by ×{apart:.3g} at most, mean accuracies by {100 * gap(data, True):.2f} points"
    ends = percent(last_accuracies(data, True))
    holds = gap(data, True) <= SAME_ACCURACY
    return Claim("with projection the curves of all methods mostly overlap", where, "yes", ours, "", ends, holds)


def _unstable(data: Data) -> Claim:
    counts, total = steady_counts(data, False), len(data["step_sizes"])
    claim = "without projection FP and CG are unstable for all but a few step sizes"
    holds = max(counts["aid-fp"], counts["aid-cgn"]) <= total / 2
    return Claim(claim, TEXT, "yes", ranges(data, False), "", _reading(data), holds)


def _reading(data: Data) -> str:
    sizes = ", ".join(f"{z:g}" for z in data["step_sizes"])
    points = f"{100 * UNSTABLE_RANGE:.0f} points"
    return f"step sizes {sizes}; steady: every seed below its first objective, accuracies within {points}"


def _itd_suffers_less(data: Data) -> Claim:
    counts = steady_counts(data, False)
    ours = ", ".join(f"{METHODS[m]}† {count}" for m, count in counts.items())
    steady = f"steady step sizes of {len(data['step_sizes'])}: {ours}"
    less, more = counts["itd"] > max(counts["aid-fp"], counts["aid-cgn"]), counts["itd"] < max(counts.values())
    holds = True if less else False if more else None
    return Claim("without projection ITD suffers comparatively less", TEXT, "yes", steady, "", "", holds)


def _stable(data: Data, where: str) -> Claim:
    counts, total = steady_counts(data, True), len(data["step_sizes"])
    holds = all(count == total for count in counts.values())
    claim = "with projection all methods are successful and stable"
    return Claim(claim, where, "yes", ranges(data, True), "", "", holds)


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
    lines, gains = [], []
    for m in METHODS:
        ends = [
            (data["curves"][line(m, p)]["objective"][:, -1].mean(), last_accuracies(data, p)[m]) for p in (True, False)
        ]
        (f, a), (f_free, a_free) = ends
        lines.append(f"{METHODS[m]} {100 * a:.1f} % at objective {f:.3g}, † {100 * a_free:.1f} % at {f_free:.3g}")
        gains.append(a - a_free)
    difference = ", ".join(f"{100 * gain:+.1f}" for gain in gains) + " points"
    holds = all(gain > 0 for gain in gains) if np.isfinite(gains).all() else None
    claim = "projecting on the spectral ball acts as powerful regulariser"
    return Claim(claim, TEXT, "yes", "; ".join(lines), difference, "", holds)


def worst_accuracy(ends: Data) -> float:
    """Return the least accuracy of all runs; 0 if the numbers of a run are not finite."""
    return float(np.where(ends["diverged"], 0.0, ends["accuracy"]).min())


def _reliable(data: Data) -> Claim:
    worst = {m: worst_accuracy(data["sensitivity"][line(m, False)]) for m in METHODS}
    lost = int(np.isfinite(data["sensitivity"][line("itd", False)]["lost"]).sum())
    ours = f"worst test accuracy of all runs without projection: {percent(worst)}"
    holds = worst["itd"] > max(worst["aid-fp"], worst["aid-cgn"])
    why = f"0 for a run that left the finite numbers; of the runs of ITD†, {lost} have ‖A‖ ≥ 1"
    return Claim("where Φ is not a contraction, ITD is more reliable than AID", END, "yes", ours, "", why, holds)


def _marked(data: Data) -> Claim:
    with_, without = gap(data, True), gap(data, False)
    ours = f"mean accuracies differ by up to {100 * with_:.1f} points with projection, {100 * without:.1f} without"
    claim = "marked differences among the methods, especially without projection"
    return Claim(claim, APPENDIX, "yes", ours, "", "", without > max(with_, SAME_ACCURACY))


def _exceeds(data: Data) -> Claim:
    conv, dense = last_accuracies(data, True), float(data["dense"]["accuracy"].mean())
    ours = f"{percent(conv)}; the model of eqm, same data and steps, FP {100 * dense:.1f} %"
    difference = f"{100 * (conv['aid-fp'] - dense):+.1f} points"
    claim = "the contractive convolutional model exceeds the dense one abundantly"
    return Claim(claim, APPENDIX, "yes", ours, difference, "", conv["aid-fp"] > dense + SAME_ACCURACY)


def _fp_best(data: Data) -> Claim:
    ends = last_accuracies(data, True)
    holds = ends["aid-fp"] > max(ends["aid-cgn"], ends["itd"])
    return Claim("with projection FP is slightly better than the others", APPENDIX, "yes", percent(ends), "", "", holds)


def _fp_unreliable(data: Data) -> Claim:
    is_steady = steady(data["sensitivity"][line("aid-fp", False)])
    claim = "without projection FP does not converge reliably for all step sizes"
    return Claim(claim, APPENDIX, "yes", ranges(data, False), "", _reading(data), not bool(is_steady.all()))


def _smaller_step(settings: Settings, data: Data) -> Claim:
    shown = settings["shown"]
    ours = f"{shown['free']:g} beside {shown['projected']:g}"
    claim = "the step size shown without projection is smaller, to prevent divergence"
    why = "the paper gives neither; these are ours"
    return Claim(claim, CONV_CAPTION, "yes", ours, "", why, shown["free"] < shown["projected"])
