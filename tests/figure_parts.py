"""Reports to draw, made once, and the parts of a drawn figure."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from reports import made

from boundcheck.report.method_curve import Trace
from boundcheck.report.report import Report

FIVE = ("itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10")


@cache
def report(case: str = "lr") -> Report:
    return {
        "lr": lambda: made("lr"),
        "scalar": lambda: made("scalar", ("itd", "aid-fp")),
        "five": lambda: made("hr", FIVE, samples=4, T=120),
        "floor": lambda: made("lr", floor=1e3),
        "none": lambda: made("lr", only=()),
        "broken": lambda: made("lr", ("itd",), broken=True),
        "one": lambda: made("lr", ("itd", "itd-truncated:5"), T=1),
    }[case]()


def falling(broken: bool = False, slack: float = 0.9169) -> Report:
    """One bound, with a second link that changes the value by `slack` and a third that makes up for it."""
    plain = made("lr", ("itd",), only=("itd",))
    curve = plain.curves["itd"]
    trace = curve.bounds["itd"].trace
    assert trace is not None
    slacks = np.ones_like(trace.slacks)
    slacks[2], slacks[3] = slack, 1 / slack
    values = trace.values[0] * slacks.cumprod(axis=0)
    told = replace(trace, values=values, slacks=slacks, broken=(slacks < 1) & broken)
    bounds = {**curve.bounds, "itd": replace(curve.bounds["itd"], trace=told)}
    return replace(plain, curves={"itd": replace(curve, bounds=bounds)})


def trace(case: str = "lr", method: str = "itd") -> Trace:
    return report(case).trace(method)


def line(axes: Axes, gid: str) -> Line2D:
    return next(result for result in axes.lines if result.get_gid() == gid)


def texts(axes: Axes, gid: str) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_gid() == gid]


def legend(axes: Axes) -> list[str]:
    return [" ".join(text.split("\n")) for text in texts(axes, "legend")]


def dashes(drawn: Line2D) -> tuple[float, ...]:
    return tuple(drawn._unscaled_dash_pattern[1] or ())  # type: ignore[attr-defined]


def keys(axes: Axes) -> list[Artist]:
    return [result for result in axes.get_children() if result.get_gid() == "key"]


def error_line(axes: Axes) -> Line2D:
    return next(
        result for result in axes.lines if str(result.get_label()).startswith("error") and result.get_gid() != "key"
    )
