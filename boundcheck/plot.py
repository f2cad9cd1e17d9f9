"""Pictures of a report, for papers: each function returns a Figure, and `save` writes it; no display is needed."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from boundcheck import canvas
from boundcheck.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, SMALL, TEXT, VERMILLION, WIDTH, YELLOW, save
from boundcheck.constants import Side
from boundcheck.errors import InputError
from boundcheck.theory.symbols import QUANTITIES

if TYPE_CHECKING:  # the report brings torch along
    from boundcheck.compare.report import BoundCurve, Curve, Report, Trace

__all__ = ["chosen", "constants", "errors", "save", "tightness", "trace_over_t", "waterfall"]

COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY)
LAYERS = (BLUE, PURPLE, YELLOW, GREY, ORANGE, GREEN, SKY)  # neighbours differ in grey too
DASHES = ((0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.2, 1, 1.2)), (0, (3, 1, 1, 1, 1, 1)))
STYLES = {"paper": "-", "local": (0, (4, 1.5))}
AFTER = (0, (1, 1))  # how an a posteriori bound is drawn among others
MARKERS = "os^DvPX*<>"
SIDES = {Side.EXACT: "o", Side.UPPER: "^", Side.HIGH_PROBABILITY: "D", Side.LOWER: "v"}
MOST = 4  # bounds in a panel of `errors`
ERROR = r"$\|g(\lambda)-\nabla f(\lambda)\|$"
FLOOR = "0.87"


def errors(report: Report) -> Figure:
    """The error of every method over t, the rounding floor, and the bounds that say most: at most four a method.

    Of several λ the mean with a band of one standard deviation, cut below at the least error.
    """
    figure, panels = _panels(report, ERROR)
    low, high = _limits(report)
    for (axes, curve), colour in zip(panels, cycle(COLOURS), strict=False):
        drawn, samples = chosen(curve), len(curve.errors)
        found = np.where(np.isfinite(curve.errors).all(axis=0), curve.errors, np.nan)
        error, floor = found.mean(axis=0), np.where(np.isfinite(curve.floor), curve.floor, high).mean(axis=0)
        above = np.where(error > floor, error, np.nan)
        alone = len(curve.t) == 1  # a point is no line
        axes.fill_between(curve.t, low / 10, floor, color=FLOOR, lw=0)
        label = "error"
        if samples > 1:
            label += f", mean ± std over {samples} λ"
            below = np.maximum(error - found.std(axis=0), found.min(axis=0)).clip(min=low / 10)
            axes.fill_between(curve.t, below, error + found.std(axis=0), color=colour, alpha=0.2, lw=0)
        label += "" if np.isfinite(above).any() else ", nowhere above the floor"
        marker = "o" if alone else ""
        axes.plot(curve.t, error, color=colour, lw=1.2, alpha=0.35, marker=marker, ms=4, gid="faint")
        handles: list[Any] = axes.plot(curve.t, above, color=colour, lw=1.6, marker=marker, ms=4, label=label)
        for bound, dashes in zip(drawn, DASHES, strict=False):
            style: dict[str, Any] = {"color": colour, "lw": 1.3, "ls": dashes, "marker": "_" if alone else ""}
            style |= {"label": _label(bound) + _attained(bound), "gid": bound.name}
            handles += axes.plot(curve.t, canvas.mean(bound.values), **style)
        if (floor > low).any():
            handles.append(Patch(color=FLOOR, label="below the rounding floor"))
        others = [name for name, bound in curve.applicable.items() if bound not in drawn]
        if others or not drawn:
            handles.append(canvas.note(f"not drawn: {', '.join(others)}" if others else "no bound applies"))
        canvas.legend_below(axes, handles)
        canvas.log_axis(axes, "y", low, high)
    canvas.fit_height(figure)
    return figure


def tightness(report: Report) -> Figure:
    """bound/error over t of every bound that applies, with its best and worst value; nothing where rounding rules.

    Of several λ the geometric mean, faint where not all of them are above the floor.
    """
    figure, panels = _panels(report, "bound / error")
    found = [bound.tightness for _, curve in panels for bound in curve.applicable.values()]
    low, high = canvas.extent([*found, np.ones(1)])
    for axes, curve in panels:
        axes.axhline(1, color="black", lw=0.8, gid="one")
        handles: list[Any] = []
        ranked = sorted(curve.applicable.values(), key=lambda bound: (bound.ball != "paper", bound.name))
        step = max(1, len(curve.t) // 4)
        for i, bound in enumerate(ranked):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.exp(canvas.mean(np.log(bound.tightness)))
            of_all = np.where(np.isnan(bound.tightness).any(axis=0), np.nan, ratio)
            said = "every error is at the floor"
            if bound.best is not None and bound.worst is not None:
                said = f"{canvas.number(bound.best)} to {canvas.number(bound.worst)}"
            dashes = AFTER if bound.name.endswith("posteriori") else STYLES.get(bound.ball, "-.")
            style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "ls": dashes, "lw": 1.3}
            axes.plot(curve.t, ratio, alpha=0.35, gid="faint", **style)
            style |= {"marker": MARKERS[i % len(MARKERS)], "ms": 3.5, "markevery": (i * step // len(ranked), step)}
            handles += axes.plot(curve.t, of_all, label=f"{_label(bound)}: {said}", gid=bound.name, **style)
        canvas.legend_below(axes, handles or [canvas.note("no bound applies")])
        canvas.log_axis(axes, "y", low, high)
    canvas.fit_height(figure)
    return figure


def waterfall(trace: Trace, title: str = "From the error to the bound", t: int | None = None) -> Figure:
    """The proof at one t, the last unless told: a bar a link, from the value before it to the value after it."""
    t = trace.t[-1] if t is None else t
    if t not in trace.t:
        raise InputError(f"t = {t} is not in the trace; give one of {trace.t[0]} … {trace.t[-1]}")
    at = int(np.flatnonzero(trace.t == t)[0])
    values, slacks, broken = trace.values[:, at], trace.slacks[:, at], trace.broken[:, at]
    links = [*trace.links, "bound"]
    with np.errstate(divide="ignore", invalid="ignore"):
        total = canvas.number(values[-1] / values[0])
    because = [canvas.wrapped(text, 46) for text in (*trace.because, f"bound / error = {total}")]
    heights = np.array([0.26 + 0.125 * (1 + text.count("\n")) for text in because])  # inches
    tops = heights.cumsum() - heights
    rows = tops + heights / 2
    figure = Figure(figsize=(2 * WIDTH, heights.sum() + 0.8), layout="constrained")
    axes = figure.add_subplot()
    low, high = canvas.extent([values], room=1, least=1.2)
    low *= (low / high) ** 0.04
    canvas.log_axis(axes, "x", low, high)
    axes.set_xlim(low, high * (high / low) ** (0.35 if broken.any() else 0.25))  # room for words
    axes.set_ylim(heights.sum(), 0)
    axes.yaxis.set_major_locator(NullLocator())
    left = blended_transform_factory(axes.transAxes, axes.transData)
    right = axes.transData + ScaledTranslation(7 / 72, 0, figure.dpi_scale_trans)
    ends = np.where(np.isnan(values), low, values).clip(low, high)
    ends = np.append(ends, ends[-1])
    for i, y in enumerate(rows):
        axes.text(-0.02, tops[i] + 0.05, links[i], transform=left, ha="right", va="top", fontsize=TEXT)
        axes.text(-0.02, tops[i] + 0.19, because[i], transform=left, ha="right", va="top", fontsize=SMALL, color=GREY)
        before, after = ends[max(i - 1, 0)], ends[i]
        if 0 < i < len(values):
            colour, words = (VERMILLION, "broken") if broken[i] else (BLUE, "")
            axes.barh(y, after - before, left=before, height=0.2, color=colour, edgecolor=colour, lw=1, gid=links[i])
            said = f"×{canvas.number(slacks[i])} {words}".strip()
        else:
            colour = "black"
            axes.plot(after, y, "D" if i else "o", color=colour, ms=5, gid="bound" if i else "error", clip_on=False)
            said = canvas.number(values[-1] if i else values[0])
        if i:
            axes.plot([before, before], [rows[i - 1], y], color=GREY, lw=0.6, zorder=0)
        ink = VERMILLION if colour == VERMILLION else "black"
        axes.text(max(before, after), y, said, transform=right, va="center", fontsize=TEXT, color=ink)
    canvas.dress(axes, f"{title}, $t={t}$")
    axes.set_xlabel("value after each step of the proof", fontsize=TEXT)
    return figure


def trace_over_t(trace: Trace, title: str = "Where the bound is lost") -> Figure:
    """log₁₀ of the slack of every link over t, one on the other, so that the top is log₁₀(bound/error)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(trace.slacks[1:])
    logs, ts = np.where(np.isfinite(logs).all(axis=0), logs, np.nan), trace.t
    if len(ts) == 1:  # no area over a point
        logs, ts = np.repeat(logs, 2, axis=1), ts[0] + np.array([-0.4, 0.4])
    up, down = (np.pad(part.cumsum(axis=0), ((1, 0), (0, 0))) for part in (np.maximum(logs, 0), np.minimum(logs, 0)))
    figure = Figure(figsize=(2 * WIDTH, 3.0), layout="constrained")
    axes = figure.add_subplot()
    handles: list[Any] = []
    for i, name in enumerate(trace.links[1:]):
        style: dict[str, Any] = {"facecolor": LAYERS[i % len(LAYERS)], "edgecolor": "white", "lw": 0.6}
        style |= {"hatch": "" if i < len(LAYERS) else "////"}
        label = f"{name}, ×{canvas.number(trace.slacks[i + 1, -1])}"
        axes.fill_between(ts, up[i], up[i + 1], gid=name, **style)
        if not trace.broken[i + 1].all():
            handles.insert(0, Patch(label=canvas.wrapped(label, 34), **style))
        if trace.broken[i + 1].any():
            wrong: dict[str, Any] = {"facecolor": VERMILLION, "edgecolor": "white", "lw": 0.6}
            axes.fill_between(ts, down[i], down[i + 1], gid=f"broken: {name}", **wrong)
            handles.append(Patch(label=canvas.wrapped(f"broken: {label}", 34), **wrong))
    total = axes.plot(ts, logs.sum(axis=0), color="black", lw=1.4, label="bound / error")
    axes.axhline(0, color="black", lw=0.8)
    if np.isnan(logs).all():
        style = {"transform": axes.transAxes, "ha": "center", "va": "center", "fontsize": TEXT}
        axes.text(0.5, 0.5, "at no t is every slack a finite number", **style)
    axes.margins(y=0.05)
    axes.set_ylim(bottom=None if trace.broken.any() else 0)
    canvas.dress(axes, title)
    canvas.over_t(axes, trace.t)
    axes.set_ylabel(r"$\log_{10}$ of the slack", fontsize=TEXT)
    axes.legend(
        handles=[*total, *handles], loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0, borderpad=0,
        frameon=False, fontsize=SMALL, title=f"slack at $t={trace.t[-1]}$", title_fontsize=SMALL, alignment="left",
    )  # fmt: skip
    figure.set_figheight(max(3.0, 0.9 + 0.17 * sum(1 + h.get_label().count("\n") for h in [*total, *handles])))
    return figure


def constants(report: Report) -> Figure:
    """Every constant on every ball; the shape of the marker says on which side of the truth the value is."""
    names = [name for name in QUANTITIES if any(name in found for found in report.constants.values())]
    if not names:
        raise InputError("the report has no constants to draw; check at least one bound")
    every = [constant for found in report.constants.values() for constant in found.values()]
    low, high = canvas.extent([np.array([constant.value for constant in every])])
    zero = low * (low / high) ** 0.06
    figure = Figure(figsize=(2 * WIDTH, 0.27 * len(names) + 0.9), layout="constrained")
    axes = figure.add_subplot()
    balls = dict(zip(report.constants, (BLUE, ORANGE, GREEN), strict=False))
    for place, (ball, colour) in enumerate(balls.items()):
        for row, name in enumerate(names):
            if name in report.constants[ball]:
                one = report.constants[ball][name]
                height = row + 0.34 * (place - (len(balls) - 1) / 2)
                style: dict[str, Any] = {"color": colour, "ms": 4.5, "gid": f"{ball} {name}"}
                style |= {"mfc": "white"} if one.side is Side.LOWER else {}
                axes.plot(one.value or zero, height, SIDES[one.side], **style)
    handles = [Line2D([], [], color=colour, lw=4, label=f"{ball} ball") for ball, colour in balls.items()]
    for side in (side for side in SIDES if side in {constant.side for constant in every}):
        face = "white" if side is Side.LOWER else "black"
        handles.append(Line2D([], [], color="black", ls="", marker=SIDES[side], mfc=face, ms=4.5, label=side.value))
    canvas.dress(axes, "Constants")
    axes.set_xlabel("value", fontsize=TEXT)
    canvas.log_axis(axes, "x", low, high, zero)
    axes.set_xlim(zero * (low / high) ** 0.03, high)
    axes.axvline((zero * low) ** 0.5, color=GREY, lw=0.8, ls=":")
    axes.set_yticks(range(len(names)), [f"${QUANTITIES[name].latex}$".replace(r"\star", "*") for name in names])
    axes.tick_params("y", labelsize=TEXT + 1, length=0)
    left = axes.get_yaxis_transform() + ScaledTranslation(-0.5, 0, figure.dpi_scale_trans)
    for row, name in enumerate(names):
        meaning = canvas.wrapped(QUANTITIES[name].meaning, 44)
        axes.text(0, row, meaning, transform=left, ha="right", va="center", fontsize=SMALL, color=GREY)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", color="0.92", lw=0.6)
    axes.set_axisbelow(True)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=SMALL)
    return figure


def chosen(curve: Curve) -> list[BoundCurve]:
    """The bounds to draw: the one named like the method, the tightest on each ball, and the a posteriori one."""
    able = sorted((b for b in curve.applicable.values() if np.isfinite(b.values).any()), key=_looseness)
    own = [b for b in able if b.name == curve.method.partition(":")[0]]
    after = [b for b in able if b.name.endswith("posteriori")]
    tightest = {b.ball: b for b in reversed(able) if b not in after}
    ordered = (*own, *(tightest[ball] for ball in sorted(tightest, reverse=True)), *after[:1])
    return list({b.name: b for b in ordered}.values())[:MOST]


def _looseness(bound: BoundCurve) -> float:
    """The mean logarithm of bound/error, or of the bound where no error is above the floor."""
    values = bound.values if bound.best is None else bound.tightness
    logs = np.log(values[np.isfinite(values) & (values > 0)])
    return float(logs.mean()) if logs.size else -np.inf


def _label(bound: BoundCurve) -> str:
    """The number of the theorem, with what the reader must know besides."""
    ball = " (local ball)" if bound.ball == "local" and "local" not in bound.reference else ""
    return f"{bound.reference}{ball}" + (f", {bound.verdict.value}" if bound.verdict.is_violation else "")


def _attained(bound: BoundCurve) -> str:
    """Said where a bound cannot be seen, because the error covers it."""
    best, worst = bound.best, bound.worst
    covered = best is not None and worst is not None and 0.98 < best <= worst < 1.02
    return ", equal to the error" if covered else ""


def _method(name: str, k: np.ndarray | None) -> str:
    name, _, fixed = name.partition(":")
    if name == "itd-truncated":
        return f"ITD through the last {fixed} steps"
    return name.upper() if k is None or name == "exact" else f"{name.upper()} $k={fixed or 't'}$"


def _limits(report: Report) -> tuple[float, float]:
    """From the least error, or a decade below the floor, to the largest of the errors and of the bounds drawn."""
    curves = report.curves.values()
    low, high = canvas.extent([curve.errors for curve in curves])
    floor, _ = canvas.extent([curve.floor for curve in curves], room=10)
    _, top = canvas.extent([np.array([high / 2]), *(bound.values for curve in curves for bound in chosen(curve))])
    return (max(low, floor) if floor < high / 10 else low), max(high, top)


def _panels(report: Report, label: str) -> tuple[Figure, list[tuple[Axes, Curve]]]:
    """A panel a method, in at most three columns, with common axes."""
    if not report.curves:
        raise InputError("the report has no curves to draw; check at least one method")
    columns = {1: 1, 2: 2, 4: 2}.get(len(report.curves), 3)
    figure = Figure(figsize=(WIDTH * columns, WIDTH))
    figure.set_layout_engine("constrained", h_pad=0.08)
    grid = figure.add_gridspec(-(-len(report.curves) // columns), columns)
    panels: list[tuple[Axes, Curve]] = []
    for place, curve in enumerate(report.curves.values()):
        shared = panels[0][0] if panels else None
        axes = figure.add_subplot(grid[place // columns, place % columns], sharex=shared, sharey=shared)
        canvas.dress(axes, _method(curve.method, curve.k))
        canvas.over_t(axes, np.concatenate([curve.t for curve in report.curves.values()]))
        axes.tick_params(labelleft=place % columns == 0)
        if place % columns == 0:
            axes.set_ylabel(label, fontsize=TEXT)
        panels.append((axes, curve))
    return figure, panels
