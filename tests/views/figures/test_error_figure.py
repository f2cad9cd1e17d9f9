"""The figure of errors: a panel for each method, its error and the bounds on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from crowding import crowded
from figure_parts import dashes, error_line, legend, line, report, texts
from matplotlib.colors import to_hex

from boundcheck import Constant, Provenance, Side
from boundcheck.report.accuracy import accuracy
from boundcheck.report.verdict import Verdict
from boundcheck.side import standing
from boundcheck.theory.kinds import BoundKind
from boundcheck.views.figures import canvas, drawn_bounds, report_figures
from boundcheck.views.figures.method_style import STANDING_DASHES, style_of


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
    assert third[-1] == "not drawn: aid, aid-cg-chebyshev, aid-cg-directional, aid-cg-local, aid-contraction, aid-local"
    assert legend(report_figures.errors(report("scalar")).axes[0])[2] == "itd-shrinking, equal to the error"


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
