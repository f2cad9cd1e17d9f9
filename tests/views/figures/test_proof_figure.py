"""The figures of a proof: bars of its links, and its slacks over t."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crowding import crowded
from figure_parts import keys, legend, line, texts, trace
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from boundcheck import InputError
from boundcheck.views.figures import canvas, report_figures

TRACES = [("lr", "itd"), ("lr", "aid-cg"), ("scalar", "itd"), ("broken", "itd"), ("five", "aid-fp"), ("one", "itd")]


@pytest.mark.parametrize(("case", "method"), TRACES)
@pytest.mark.parametrize("draw", [report_figures.waterfall, report_figures.trace_over_t, report_figures.trace])
def test_nothing_overlaps_in_a_proof(draw: Any, case: str, method: str) -> None:
    assert not crowded(draw(trace(case, method)))


def test_waterfall() -> None:
    shown = trace()
    axes = report_figures.waterfall(shown, title="ITD").axes[0]
    assert axes.get_title() == "ITD, $t=60$"
    assert axes.get_xscale() == "log"
    words = [text.get_text() for text in axes.texts]
    assert [name for name in words if name in shown.links] == list(shown.links)
    assert texts(axes, "link") == [*shown.links, "bound"]
    bars = {bar.get_gid(): bar for bar in axes.patches}
    assert list(bars) == list(shown.links[1:])
    for i, name in enumerate(shown.links[1:], start=1):
        assert bars[name].get_x() == pytest.approx(shown.values[i - 1, -1])
        assert bars[name].get_x() + bars[name].get_width() == pytest.approx(shown.values[i, -1])
        assert to_hex(bars[name].get_facecolor()) == canvas.BLUE.lower()
        assert f"×{canvas.number(shown.slacks[i, -1])}" in words
    assert line(axes, "error").get_xdata()[0] == pytest.approx(shown.values[0, -1])
    assert line(axes, "bound").get_xdata()[0] == pytest.approx(shown.values[-1, -1])
    assert not [word for word in words if "broken" in word]
    early = report_figures.waterfall(shown, t=3).axes[0]
    assert line(early, "error").get_xdata()[0] == pytest.approx(shown.values[0, 2])
    with pytest.raises(InputError, match=r"t = 61 is not in the trace; give one of 1 … 60"):
        report_figures.waterfall(shown, t=61)


def test_a_broken_link_is_vermillion() -> None:
    shown = trace("broken")
    axes = report_figures.waterfall(shown).axes[0]
    red = [bar.get_gid() for bar in axes.patches if to_hex(bar.get_facecolor()) == canvas.VERMILLION.lower()]
    assert red == [shown.first_broken]
    assert len([text for text in axes.texts if text.get_text().endswith(" broken")]) == 1
    areas = {area.get_gid(): area for area in report_figures.trace_over_t(shown).axes[0].collections}
    wrong = areas[f"broken: {shown.first_broken}"]
    assert to_hex(wrong.get_facecolor()[0]) == canvas.VERMILLION.lower()
    assert wrong.get_paths()[0].vertices[:, 1].max() <= 0


def test_nothing_is_negative_where_rounding_decides() -> None:
    shown = trace()
    slacks = shown.slacks.copy()
    slacks[2, 50:], slacks[3, 50:] = 0.5, 4.0
    rounded = replace(shown, slacks=slacks)
    axes = report_figures.trace_over_t(rounded).axes[0]
    top = line(axes, "bound / error").get_ydata()
    assert (np.isnan(top) == (shown.t > 50)).all()
    assert all(area.get_paths()[0].vertices[:, 1].min() >= 0 for area in axes.collections)
    assert "×0.5 (rounding)" in texts(report_figures.waterfall(rounded).axes[0], "slack")
    slacks[2] = 0.5
    never = report_figures.trace_over_t(replace(shown, slacks=slacks)).axes[0]
    assert "rounding decides" in never.texts[0].get_text()


def test_stack_adds_up_to_bound_over_error() -> None:
    shown = trace()
    axes = report_figures.trace_over_t(shown, title="ITD").axes[0]
    top = np.log10(shown.values[-1] / shown.values[0])
    np.testing.assert_allclose(line(axes, "bound / error").get_ydata(), top)
    areas = {area.get_gid(): area.get_paths()[0].vertices[:, 1] for area in axes.collections}
    lossy = [name for name, slack in zip(shown.links, shown.slacks, strict=True) if (slack > 1).any()]
    assert list(areas) == lossy
    assert areas[shown.links[-1]].max() == pytest.approx(top.max())
    assert axes.get_title() == "ITD"
    assert legend(axes)[0] == "bound / error"
    assert legend(axes)[-1] == f"{shown.links[1]}, ×{canvas.number(shown.slacks[1, -1])}"
    assert len(legend(axes)) == len(keys(axes)) == len(shown.links)


def test_both_sides_of_a_proof_in_one_figure() -> None:
    shown = trace()
    figure = report_figures.trace(shown, title="ITD", t=50)
    bars, stack = figure.axes
    assert figure.get_figwidth() == pytest.approx(2 * 3.3)
    assert bars.get_title() == "ITD"
    assert bars.get_xlabel() == "value after each step, $t=50$"
    assert texts(bars, "link") == [*shown.links, "bound"]
    slacks = [f"×{canvas.number(x)}" for x in shown.slacks[1:, 49]]
    values = [canvas.number(x) for x in shown.values[[0, -1], 49]]
    assert texts(bars, "slack") == [values[0], *slacks, values[1]]
    areas = {area.get_gid(): area.get_facecolor()[0] for area in stack.collections}
    *squares, black = keys(bars)
    for name, square in zip(shown.links[1:], squares, strict=True):
        assert isinstance(square, Rectangle)
        if name in areas:
            assert to_hex(square.get_facecolor()) == to_hex(areas[name])
    rows = {bar.get_gid(): to_hex(bar.get_facecolor()) for bar in bars.patches if bar.get_gid() in areas}
    assert rows == {name: to_hex(colour) for name, colour in areas.items()}
    assert isinstance(black, Line2D)
    np.testing.assert_allclose(line(stack, "bound / error").get_ydata(), np.log10(shown.values[-1] / shown.values[0]))
    broken, _ = report_figures.trace(trace("broken")).axes
    red = [bar for bar in broken.patches if to_hex(bar.get_facecolor()) == canvas.VERMILLION.lower()]
    assert {bar.get_gid() for bar in red} == {trace("broken").first_broken, "key"}
    with pytest.raises(InputError, match="t = 61 is not in the trace"):
        report_figures.trace(shown, t=61)


def test_an_error_of_zero() -> None:
    shown = trace()
    values, slacks = shown.values.copy(), shown.slacks.copy()
    values[0], slacks[1], slacks[2] = 0, np.inf, 0
    nothing = replace(shown, values=values, slacks=slacks)
    figure = report_figures.waterfall(nothing)
    assert not crowded(figure)
    assert {"0", "×∞"} <= {text.get_text() for text in figure.axes[0].texts}
    assert "finite" in report_figures.trace_over_t(nothing).axes[0].texts[0].get_text()
