"""All figures of a report name the problem, leave room for every constant, and nothing in them overlaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crowding import crowded
from figure_parts import keys, legend, line, report, texts

from boundcheck import Constant, Constants, InputError, Provenance, Side
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.views.figures import report_figures
from boundcheck.views.figures.proof_figure import trace_title

FIGURES: dict[str, Any] = {
    **{f"{what} {case}": (what, case) for what in ("errors", "tightness") for case in
       ("lr", "scalar", "five", "floor", "none", "one")},
    **{f"constants {case}": ("constants", case) for case in ("lr", "scalar", "five")},
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps_or_leaves_the_figure(name: str) -> None:
    what, case = FIGURES[name]
    assert not crowded(getattr(report_figures, what)(report(case)))


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


def test_nothing_to_draw() -> None:
    empty = replace(report(), curves={}, constants={})
    for draw in (report_figures.errors, report_figures.tightness, report_figures.constants):
        with pytest.raises(InputError, match=r"to draw; check at least one"):
            draw(empty)
