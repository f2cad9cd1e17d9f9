"""The figure of bias and variance: its panels, bars and bounds, and words that do not overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from crowding import crowded
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from stochastic_reports import ALL, T, changed, holds, two_methods, violated

import boundcheck as bc
from boundcheck.report.stochastic_curve import Measured
from boundcheck.views.figures import stochastic_figures
from boundcheck.views.figures.method_style import STANDING_DASHES, style_of

TITLES = ["mean square error", "bias", "variances", "mean square distance to $w^{*}$"]


def drawn(figure: Figure, gid: str) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata()) for axes in figure.axes for line in axes.lines if line.get_gid() == gid]


@pytest.mark.parametrize("name", ["two_methods_in_doubt", "many_methods", "diverging"])
def test_it_can_be_read(name: str) -> None:
    figure = stochastic_figures.errors(ALL[name]())
    assert [axes.title.get_text() for axes in figure.axes] == TITLES
    assert crowded(figure) == []


def test_estimates_intervals_and_bounds_are_those_of_the_report() -> None:
    curve = holds().curve("sid")
    figure = stochastic_figures.errors(holds())
    for mean in curve.means.values():
        np.testing.assert_array_equal(drawn(figure, f"estimate sid {mean.quantity.value}")[0], mean.value)
    for bound in curve.bounds.values():
        lines = drawn(figure, bound.name)
        assert len(lines) == bound.applies
        if lines:
            np.testing.assert_array_equal(lines[0], bound.values)
    (bars,) = (c for c in figure.axes[0].collections if c.get_gid() == "intervals sid mse")
    assert isinstance(bars, LineCollection)
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.stack([curve.means["mse"].lower, curve.means["mse"].upper], axis=1))


def test_colours_and_dashes_are_those_of_every_figure() -> None:
    figure = stochastic_figures.errors(ALL["two_methods_in_doubt"]())
    lines = {str(line.get_gid()): line for line in figure.axes[0].lines}
    assert lines["estimate sid mse"].get_color() == lines["sid-mse"].get_color() == style_of("sid").colour
    assert lines["estimate neumann:20 mse"].get_color() == style_of("neumann").colour
    assert lines["sid-mse"].get_markerfacecolor() == "white"  # estimated
    assert len(set(map(str, STANDING_DASHES.values()))) == 3
    assert lines["estimate neumann:20 mse"].get_linestyle() == "-"  # only bounds are dashed
    several = {str(line.get_gid()): line for line in stochastic_figures.errors(ALL["many_methods"]()).axes[0].lines}
    dashes = [several[f"estimate {method} mse"].get_linestyle() for method in ("sid", "sid:5", "neumann:20")]
    assert dashes == ["-", "--", "-"]  # two k of one method are told apart


def test_a_violated_bound_is_drawn_first_and_at_most_five() -> None:
    loose = changed(violated(), "sid-mse", values=np.full(T.shape, 9.0))  # not the tightest
    first, *_ = stochastic_figures.chosen(loose, [Measured.MSE])
    assert first.bound.name == "sid-mse"
    every = stochastic_figures.chosen(ALL["many_methods"](), list(Measured))
    assert len(every) == stochastic_figures.MOST_BOUNDS
    both = stochastic_figures.chosen(two_methods(), [Measured.MSE])
    assert [row.bound.name for row in both] == ["sid-orthogonal", "sid-mse"]


def test_what_is_not_finite_is_left_out(tmp_path: Path) -> None:
    figure = stochastic_figures.errors(ALL["diverging"]())
    (bars,) = (c for c in figure.axes[0].collections if c.get_gid() == "intervals sid mse")
    assert isinstance(bars, LineCollection)
    assert len(bars.get_segments()) == 1 < len(T)
    ALL["diverging"]().plot(tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(bc.InputError, match=r"end it in \.png"):
        holds().plot(tmp_path / "errors.txt")
