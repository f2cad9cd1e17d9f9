"""Pictures have the panels, lines and words they must have, nothing overlaps, and files are whole and reproducible."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from crowding import crowded
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath
from reports import made

from boundcheck import Constant, Constants, InputError, Provenance, Side
from boundcheck.report.accuracy import accuracy
from boundcheck.report.method_curve import Trace
from boundcheck.report.report import Report
from boundcheck.report.verdict import Verdict
from boundcheck.side import standing
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.figures import canvas, drawn_bounds, report_figures, text_shapes
from boundcheck.views.figures.method_style import STANDING_DASHES, style_of
from boundcheck.views.figures.proof_figure import trace_title

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


FIGURES: dict[str, Any] = {
    **{f"{what} {case}": (what, case) for what in ("errors", "tightness") for case in
       ("lr", "scalar", "five", "floor", "none", "one")},
    **{f"constants {case}": ("constants", case) for case in ("lr", "scalar", "five")},
}  # fmt: skip
TRACES = [("lr", "itd"), ("lr", "aid-cg"), ("scalar", "itd"), ("broken", "itd"), ("five", "aid-fp"), ("one", "itd")]


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps_or_leaves_the_figure(name: str) -> None:
    what, case = FIGURES[name]
    assert not crowded(getattr(report_figures, what)(report(case)))


@pytest.mark.parametrize(("case", "method"), TRACES)
@pytest.mark.parametrize("draw", [report_figures.waterfall, report_figures.trace_over_t, report_figures.trace])
def test_nothing_overlaps_in_a_proof(draw: Any, case: str, method: str) -> None:
    assert not crowded(draw(trace(case, method)))


def test_overlaps_are_found() -> None:
    figure = Figure()
    axes = canvas.panel(figure, "", "")
    canvas.write(axes, 0.5, 0.5, "one", axes.transAxes)
    canvas.write(axes, 0.501, 0.5, "two", axes.transAxes)
    canvas.write(axes, 0.9, 0.2, "a long way out of the figure", axes.transAxes, fontsize=5)
    assert [text.partition(":")[0] for text in crowded(figure)] == ["small", "outside", "overlap"]


def test_a_panel_a_method() -> None:
    for figure in (report_figures.errors(report("five")), report_figures.tightness(report("five"))):
        titles = [axes.get_title() for axes in figure.axes]
        assert titles == ["ITD", "AID-FP $k=t$", "AID-CG $k=t$", "AID-FP $k=10$", "AID-CG $k=10$"]
        assert figure.get_figwidth() == pytest.approx(3 * 3.3)
        assert len({(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes}) == 1
        assert all(axes.get_xlabel() == "$t$" and axes.get_yscale() == "log" for axes in figure.axes)
    assert report_figures.errors(report()).axes[0].get_ylabel() == r"$\|g(\lambda)-\nabla f(\lambda)\|$"
    assert report_figures.errors(report("one")).axes[1].get_title() == "ITD through the last 5 steps"


def test_error_solid_and_bounds_dashed_in_its_colour() -> None:
    figure = report_figures.errors(report("five"))
    for axes, curve in zip(figure.axes, report("five").curves.values(), strict=True):
        error = error_line(axes)
        assert error.get_linestyle() == "-"
        drawn = [line(axes, bound.name) for bound in report_figures.chosen(curve)]
        assert 2 <= len(drawn) <= drawn_bounds.MOST_BOUNDS
        assert len({result.get_marker() for result in drawn}) == len(drawn)
        assert {to_hex(result.get_color()) for result in (error, *drawn)} == {style_of(curve.method).colour.lower()}
        for result, bound in zip(drawn, report_figures.chosen(curve), strict=True):
            assert dashes(result) == STANDING_DASHES[standing(bound.side)][1]
            np.testing.assert_allclose(result.get_ydata(), bound.values.mean(axis=0))


def test_the_legend_has_the_names_of_the_tables_and_names_what_is_left_out() -> None:
    first, second, third = (legend(axes) for axes in report_figures.errors(report()).axes)
    assert first[:4] == ["error", "itd (Theorem 2.1)", "itd-shrinking", "not drawn: itd-local, itd-recursive"]
    assert "aid-fp (Theorem 2.4)" in second
    assert third[-1] == "not drawn: aid, aid-cg-chebyshev, aid-cg-local, aid-contraction, aid-local"
    assert legend(report_figures.errors(report("scalar")).axes[0])[2] == "itd-shrinking, equal to the error"


def test_figures_name_the_problem() -> None:
    named = replace(report(), problem={**report().problem, "dtype": "float32"})
    d, n = named.problem["dim"], named.problem["hdim"]
    for draw in (report_figures.errors, report_figures.tightness, report_figures.constants):
        (headline,) = texts(draw(named).axes[0], "headline")
        assert " ".join(headline.split("\n")).startswith(f"{named.problem['name']} (d = {d}, n = {n}, float32): ")
    curve = report().curve("itd")
    assert trace_title(report(), curve, curve.bounds["itd"]).endswith(
        "from the error of ITD to its bound itd (Theorem 2.1)"
    )


def test_a_panel_without_bounds_says_why() -> None:
    curve = report("none").curve("itd")
    reason = replace(curve.bounds["itd-local"], reason="w_0 is far from w*; take more steps")
    changed = replace(report("none"), curves={"itd": replace(curve, bounds={**curve.bounds, "itd-local": reason})})
    (said,) = texts(report_figures.tightness(changed).axes[0], "why empty")
    assert " ".join(said.split("\n")) == "no bound applies; itd-local: $w_{0}$ is far from $w^{*}$"
    assert legend(report_figures.errors(changed).axes[0])[1] == " ".join(said.split("\n"))
    (said,) = texts(report_figures.tightness(report("floor")).axes[0], "why empty")
    assert " ".join(said.split("\n")) == "every error is at the rounding floor, so there is nothing to compare"
    assert not texts(report_figures.tightness(report()).axes[0], "why empty")


def test_chosen_bounds() -> None:
    curve = report().curve("aid-cg")
    roles = {role: bound.name for role, bound in drawn_bounds.roles(curve).items()}
    assert roles == {
        "paper": "aid-cg", "a priori": "aid-cg-shrinking", "a posteriori": "aid-posteriori",
        "paper ball": "aid-cg-energy",
    }  # fmt: skip
    tighter = replace(curve.bounds["aid"], tightness=curve.bounds["aid"].tightness / 1e9)
    changed = replace(curve, bounds={**curve.bounds, "aid": tighter})
    names = [bound.name for bound in report_figures.chosen(changed)]
    assert names == ["aid-cg", "aid", "aid-posteriori"]  # the tightest of all is the tightest on the paper's ball too
    # proved before estimated, however tight
    sides = {name: replace(bound, side=Side.LOWER) for name, bound in curve.bounds.items()}
    proved = replace(curve, bounds={**sides, "aid-local": replace(curve.bounds["aid-local"], side=Side.UPPER)})
    assert drawn_bounds.roles(proved)["a priori"].name == "aid-local"
    wrong = {**curve.bounds, "aid-local": replace(curve.bounds["aid-local"], verdict=Verdict.VIOLATED)}
    assert report_figures.chosen(replace(curve, bounds=wrong))[0].name == "aid-local"
    # a sixth role is not drawn
    spectral = replace(curve.bounds["aid-local"], name="aid-spectral", kind=BoundKind.FROM_SPECTRUM)
    full = replace(curve, bounds={**wrong, "aid-spectral": spectral})
    assert list(drawn_bounds.roles(full)) == ["violated", "paper", "a priori", "a posteriori", "from the spectrum"]


def test_a_violation_is_said() -> None:
    curve = report().curve("itd")
    bounds = {**curve.bounds, "itd": replace(curve.bounds["itd"], verdict=Verdict.VIOLATED)}
    changed = replace(report(), curves={"itd": replace(curve, bounds=bounds)})
    assert "itd (Theorem 2.1), violated" in legend(report_figures.errors(changed).axes[0])
    assert line(report_figures.errors(changed).axes[0], "itd").get_marker() == "X"


def test_mean_and_spread_over_samples() -> None:
    axes, curve = report_figures.errors(report("five")).axes[0], report("five").curve("itd")
    assert legend(axes)[0] == "error, mean ± std over 4 λ"
    np.testing.assert_allclose(line(axes, "faint").get_ydata(), curve.errors.mean(axis=0))
    assert len(axes.collections) == 2  # floor and band
    band = axes.collections[1].get_paths()[0].vertices
    top = curve.errors.mean(axis=0) + curve.errors.std(axis=0)
    assert band[:, 1].min() > 0
    assert band[:, 1].max() == pytest.approx(top.max())
    assert len(report_figures.errors(report()).axes[0].collections) == 1


def test_at_the_floor_the_error_is_faint() -> None:
    axes, curve = report_figures.errors(report("five")).axes[0], report("five").curve("itd")
    above = curve.errors.mean(axis=0) > curve.floor.mean(axis=0)
    assert above.any()
    assert not above.all()
    strong = error_line(axes)
    assert (np.isfinite(strong.get_ydata()) == above).all()
    assert line(axes, "faint").get_alpha() < 0.5
    assert "at or below the rounding floor: says nothing" in legend(axes)
    assert legend(report_figures.errors(report("floor")).axes[0])[0] == "error, nowhere above the floor"


def test_a_floor_is_inside_unless_it_is_far_away() -> None:
    curve = report().curve("itd")
    least = float(curve.errors.min())
    for floor, inside in ((least / 3, True), (least / 1e30, False)):
        changed = replace(report(), curves={"itd": replace(curve, floor=np.full_like(curve.floor, floor))})
        axes = report_figures.errors(changed).axes[0]
        assert (axes.get_ylim()[0] < floor) == inside
        note = f"the rounding floor, {canvas.number(floor)}, is below this picture"
        assert (note in legend(axes)) != inside


def test_the_relative_error_is_said_where_it_is_known() -> None:
    curve = report("scalar").curve("itd")
    exact = Constant("eps_g", 0.0, Side.EXACT, Provenance("by hand"))
    last = accuracy(np.array([1.03]), np.array([1.0]), exact)
    for value, words in ((last, "at most 3% of"), (replace(last, relative_error=40.0), "at most 40 ×")):
        changed = replace(report("scalar"), curves={"itd": replace(curve, last=value)})
        assert legend(report_figures.errors(changed).axes[0])[0].startswith(f"error, {words}")
    guess = replace(last, error=replace(last.error, side=Side.LOWER))
    changed = replace(report("scalar"), curves={"itd": replace(curve, last=guess)})
    assert legend(report_figures.errors(changed).axes[0])[0].startswith("error, about 3% of")
    at_floor = replace(curve, last=last, floor=np.full_like(curve.floor, 1e9))
    changed = replace(report("scalar"), curves={"itd": at_floor})
    assert legend(report_figures.errors(changed).axes[0])[0] == "error, nowhere above the floor"


def test_gaps_of_a_bound_are_joined_with_markers_where_it_was_computed() -> None:
    curve = report().curve("itd")
    few, many = curve.bounds["itd"].values.copy(), curve.bounds["itd"].values.copy()
    few[:, ::2] = np.nan
    many[:, 20:23] = np.nan
    for values, marked in ((few, range(30)), (many, [0, 19, 20, 56]), (curve.bounds["itd"].values, range(2, 60, 12))):
        bounds = {"itd": replace(curve.bounds["itd"], values=values)}
        axes = report_figures.errors(replace(report(), curves={"itd": replace(curve, bounds=bounds)})).axes[0]
        drawn = line(axes, "itd")
        np.testing.assert_array_equal(drawn.get_xdata(), curve.t[np.isfinite(values[0])])
        assert drawn.get_markevery() == list(marked)
        joined = any(text.startswith("many markers on a line") for text in legend(axes))
        assert joined == (values is not curve.bounds["itd"].values)


def test_errors_that_diverge_are_named_and_leave_gaps() -> None:
    curve = report().curve("itd")
    broken, silent = curve.errors.copy(), curve.bounds["itd"].values.copy()
    broken[:, 30:], silent[:, :10] = np.inf, np.nan
    bounds = {**curve.bounds, "itd": replace(curve.bounds["itd"], values=silent)}
    floor = np.where(np.isfinite(broken), curve.floor, np.inf)
    changed = replace(report(), curves={"itd": replace(curve, errors=broken, floor=floor, bounds=bounds)})
    figure = report_figures.errors(changed)
    assert not crowded(figure)
    assert np.isnan(line(figure.axes[0], "faint").get_ydata()[30:]).all()
    assert line(figure.axes[0], "itd").get_xdata()[0] == 11
    assert figure.axes[0].get_title() == "ITD: diverges"
    assert "the error is not a finite number from t = 31 on" in legend(figure.axes[0])


def test_tightness_says_best_and_worst_and_how_good_that_is() -> None:
    figure = report_figures.tightness(report("scalar"))
    axes, curve = figure.axes[0], report("scalar").curve("itd")
    assert legend(axes)[0] == "itd (Theorem 2.1): ×1.13 to ×1.9"
    assert line(axes, "one").get_ydata()[0] == 1
    assert texts(axes, "equal") == ["bound = error"]
    np.testing.assert_allclose(line(axes, "itd").get_ydata(), curve.bounds["itd"].tightness[0])
    drawn = {"one", *(bound.name for bound in report_figures.chosen(curve))}
    assert {result.get_gid() for result in axes.lines} == drawn | {"key", "x ticks", "y ticks"}
    assert "at the floor" in legend(report_figures.tightness(report("floor")).axes[0])[0]
    some = report_figures.tightness(report("five")).axes[0]  # faint where some samples are at the floor
    assert np.isfinite(line(some, "faint").get_ydata()).sum() > np.isfinite(line(some, "itd").get_ydata()).sum()
    loose = report_figures.tightness(report()).axes[0]
    bands = {str(patch.get_gid()): patch.get_bbox() for patch in loose.patches if "grade" in str(patch.get_gid())}
    assert {name: box.y0 for name, box in bands.items()} == {
        "grade tight (within 10)": 1, "grade loose (within 10³)": 10, "grade vacuous": 1000,
    }  # fmt: skip
    assert {"tight (within 10)", "loose (within 10³)", "vacuous"} <= set(legend(loose))


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


def test_letters_are_where_they_are_said_to_be() -> None:
    """The box of a text holds its ink, whatever its alignment; of each letter the width is known before drawing."""
    for ha, va, turned in (("left", "top", 0), ("right", "center", 0), ("center", "baseline", 90)):
        figure = Figure(figsize=(4, 3), dpi=200)
        text = text_shapes.words(400, 300, "Agq ‖∇f‖\n$L_\\Phi$ = 10⁻³", ha=ha, va=va, rotation=turned, fontsize=12)
        figure.add_artist(text)
        drawer = FigureCanvasAgg(figure)
        drawer.draw()
        ys, xs = np.nonzero(np.asarray(drawer.buffer_rgba())[::-1, :, 0] < 128)
        box = text.get_window_extent()
        ink = np.array([[xs.min(), ys.min()], [xs.max() + 1, ys.max() + 1]])
        assert (ink[0] >= box.p0 - 3).all()
        assert (ink[1] <= box.p1 + 3).all()
        assert (ink[1] - ink[0] > 0.8 * (box.p1 - box.p0)).all()
    whole = TextPath((0, 0), "two words", size=72).vertices[:, 0].max()
    assert text_shapes.width("two words", 72) == pytest.approx(whole / 72, rel=0.02)
    lines = text_shapes.wrapped("of some words that need more than a line", 1.0, 8).split("\n")
    assert " ".join(lines) == "of some words that need more than a line"
    assert len(lines) > 1
    assert all(text_shapes.width(one, 8) <= 1.0 for one in lines)


def test_the_words_of_a_pdf_are_letters(tmp_path: Path) -> None:
    figure = report_figures.errors(report())
    assert b"/Font" in report_figures.save(figure, tmp_path / "a.pdf").read_bytes()
    again = report_figures.save(figure, tmp_path / "a.svg").read_bytes()
    assert again == report_figures.save(report_figures.errors(report()), tmp_path / "b.svg").read_bytes()
    assert b"<text" not in again  # no font is needed to see it


def test_the_users_font_is_used() -> None:
    before = text_shapes.width("illi", 8)
    with mpl.rc_context({"font.family": "monospace"}):
        assert text_shapes.width("illi", 8) > before
    assert text_shapes.width("illi", 8) == before


def test_an_error_of_zero() -> None:
    shown = trace()
    values, slacks = shown.values.copy(), shown.slacks.copy()
    values[0], slacks[1], slacks[2] = 0, np.inf, 0
    nothing = replace(shown, values=values, slacks=slacks)
    figure = report_figures.waterfall(nothing)
    assert not crowded(figure)
    assert {"0", "×∞"} <= {text.get_text() for text in figure.axes[0].texts}
    assert "finite" in report_figures.trace_over_t(nothing).axes[0].texts[0].get_text()


def test_constants() -> None:
    probable = Constant("L_E", 3e4, Side.HIGH_PROBABILITY, Provenance("sampled", delta=0.01))
    paper = Constants.given(q=0.9, nu_1=0, L_E=probable, D=2, sides={"D": "lower", "nu_1": "upper"})
    local = Constants.given(q=0.8, W=4e-3, side="lower")
    figure = report_figures.constants(replace(report(), constants={"paper": paper, "local": local}))
    axes = figure.axes[0]
    assert texts(axes, "symbol") == ["$q$", r"$\nu_1$", "$D$", "$L_E$", "$W$"]
    assert "bound on ‖w(λ)‖" in [text.get_text() for text in axes.texts]
    marks = {result.get_gid(): result for result in axes.lines if result.get_gid()}
    shapes = {"proved, exact": "o", "proved upper bound": "^", "probable upper bound": "D", "estimated from below": "v"}
    shapes = {f"paper {words}": marker for words, marker in shapes.items()}
    assert {name: marks[name].get_marker() for name in shapes} == shapes
    rows = [text.get_position()[1] for text in axes.texts if text.get_gid() == "symbol"]
    at = [int(np.abs(np.array(rows) - marks[name].get_ydata()[0]).argmin()) for name in shapes]
    assert at == [0, 1, 3, 2]  # the rows of symbols
    assert [float(marks[name].get_xdata()[0]) for name in shapes if "proved upper" not in name] == [0.9, 3e4, 2]
    assert list(marks["local estimated from below"].get_xdata()) == [0.8, 4e-3]
    assert marks["paper estimated from below"].get_markerfacecolor() == "white"
    assert marks["paper proved, exact"].get_markerfacecolor() == "black"
    own, other = (marks[name].get_ydata()[0] for name in ("paper proved, exact", "local estimated from below"))
    assert own < other  # its own place, not under the other
    zero = float(marks["paper proved upper bound"].get_xdata()[0])
    assert axes.get_xlim()[0] < zero < 4e-3
    assert [text.get_position()[0] for text in axes.texts if text.get_text() == "0"] == [zero]
    assert len(keys(axes)) == 6
    words = ["proved, exact", "proved upper bound", "probable upper bound", "estimated from below"]
    assert legend(axes) == ["paper ball", "local ball", *words]
    assert not crowded(figure)


def test_every_constant_has_room() -> None:
    names = [name for name, quantity in QUANTITIES.items() if quantity.kind == "constant"]
    values = {name: 0.5 * 7.0 ** (i % 5) for i, name in enumerate(names)}
    figure = report_figures.constants(replace(report(), constants={"local": Constants.given(**values)}))
    assert len(texts(figure.axes[0], "symbol")) == len(names) > 30
    assert not crowded(figure)


def test_a_sample_that_diverges_is_not_averaged_away() -> None:
    curve = report("five").curve("itd")
    errors = curve.errors.copy()
    errors[1, 50:] = np.inf
    axes = report_figures.errors(replace(report(), curves={"itd": replace(curve, errors=errors)})).axes[0]
    assert (np.isnan(line(axes, "faint").get_ydata()) == (np.arange(120) >= 50)).all()


def test_huge_numbers() -> None:
    curve = report("five").curve("itd")
    bound = replace(curve.bounds["itd"], values=curve.bounds["itd"].values * 1e305)
    changed = replace(report(), curves={"itd": replace(curve, bounds={"itd": bound})})
    assert not crowded(report_figures.errors(changed))


def test_nothing_to_draw() -> None:
    empty = replace(report(), curves={}, constants={})
    for draw in (report_figures.errors, report_figures.tightness, report_figures.constants):
        with pytest.raises(InputError, match=r"to draw; check at least one"):
            draw(empty)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.2345, "1.23"), (1359, "1359"), (0.0765, "0.0765"), (8.31e7, "8.31×10⁷"), (3e-10, "3×10⁻¹⁰"), (0, "0"),
     (np.inf, "∞"), (np.nan, "–"), (9999.9, "1×10⁴"), (100.4, "100")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert canvas.number(value) == text


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.5, 2e3, ["1", "10", "100", "1000"]), (1e-13, 1e3, ["10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³"]),
     (0.3, 30, ["0.5", "1", "2", "5", "10", "20"]), (1.3, 1.6, ["1.3", "1.4", "1.5", "1.6"])],
)  # fmt: skip
def test_ticks(low: float, high: float, labels: list[str]) -> None:
    axes = canvas.panel(Figure(), "", "")
    taken = canvas.log_axis(axes, "y", low, high)
    shown = texts(axes, "y tick")
    assert shown[: len(labels)] == labels
    assert taken > max(text_shapes.width(text, canvas.SMALL) for text in shown)
    np.testing.assert_allclose(line(axes, "y ticks").get_ydata(), [text.get_position()[1] for text in axes.texts])
    assert len(shown) <= 8


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_files_are_valid_and_the_same_twice(suffix: str, tmp_path: Path) -> None:
    paths = [
        report_figures.save(report_figures.errors(report()), tmp_path / f"{name}.{suffix}") for name in ("one", "two")
    ]
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    if suffix == "png":
        assert first.startswith(b"\x89PNG\r\n\x1a\n")
        figure = report_figures.errors(report())
        assert struct.unpack(">II", first[16:24]) == tuple(int(x * canvas.DPI + 1e-6) for x in figure.get_size_inches())
    elif suffix == "pdf":
        assert first.startswith(b"%PDF-")
        assert b"CreationDate" not in first
        assert b"/Type3" not in first.replace(b" ", b"")
    else:
        assert first.startswith(b"<?xml")
        assert b"</svg>" in first
        assert b"<dc:date>" not in first
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}


def test_saving_changes_no_settings(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    report_figures.save(report_figures.constants(report()), str(tmp_path / "a.PDF"))
    assert dict(mpl.rcParams) == before


def test_bad_suffix(tmp_path: Path) -> None:
    for name in ("a.jpg", "a"):
        with pytest.raises(InputError, match=rf"{name}' is not a picture; end it in .png, .pdf, .svg"):
            report_figures.save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "a.png"
    old.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("boundcheck.views.figures.canvas.os.replace", refuse)
        with pytest.raises(InputError, match=r"a.png' cannot be written \(No space left on device\)"):
            report_figures.save(Figure(), old)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert old.read_text() == "old"
    with pytest.raises(InputError, match=re.escape("cannot be written (No such file or directory)")):
        report_figures.save(Figure(), tmp_path / "nowhere" / "a.png")
    assert not (tmp_path / "nowhere").exists()


def test_in_threads(tmp_path: Path) -> None:
    alone = report_figures.save(report_figures.waterfall(trace()), tmp_path / "alone.svg").read_bytes()
    names = [tmp_path / f"{n}.svg" for n in range(4)]
    threads = [
        Thread(target=lambda path=path: report_figures.save(report_figures.waterfall(trace()), path)) for path in names
    ]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {path.read_bytes() for path in names} == {alone}


def test_neither_pyplot_nor_torch_is_loaded(tmp_path: Path) -> None:
    script = f"""
import sys
from matplotlib.figure import Figure
from boundcheck import plot
for suffix in ("png", "pdf", "svg"):
    plot.save(Figure(), {str(tmp_path)!r} + "/a." + suffix)
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(run.stdout.split())
    assert "boundcheck.views.figures.report_figures" in loaded
    assert loaded.isdisjoint({"matplotlib.pyplot", "torch"})
