"""The paper's figures explain themselves, in the colours of every other figure; on made-up results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from crowding import crowded
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from boundcheck.paper.equilibrium.views import figures as eqm
from boundcheck.paper.equilibrium.views import states_figures
from boundcheck.paper.fig1.views import figures as fig1
from boundcheck.paper.tightness.views import figures as certified
from boundcheck.views.figures.method_style import style_of
from boundcheck.views.figures.tightness_map import tightness_map

T = 60


def words(figure: Figure) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))


def colours(axes: Axes) -> dict[str, str]:
    return {str(line.get_gid()): to_hex(line.get_color()).upper() for line in axes.lines}


def trained(sizes: tuple[float, ...], seeds: int) -> dict[str, Any]:
    curve = np.linspace(1, 0.5, 5)
    curves = {name: {q: np.tile(curve, (seeds, 1)) for q in eqm.PANELS} for name in eqm.LINES}
    ends = {"accuracy": np.full((len(sizes), seeds), 0.8), "diverged": np.zeros((len(sizes), seeds), dtype=bool)}
    data = {"steps": np.arange(5), "curves": curves, "sensitivity": dict.fromkeys(eqm.LINES, ends)}
    return data | {"step_sizes": np.array(sizes), "shown": dict.fromkeys(("projected", "free"), sizes[0])}


@pytest.mark.parametrize(("sizes", "seeds"), [((0.2,), 1), ((0.1, 0.2), 2)])
def test_the_dagger_is_explained_and_colours_are_those_of_the_methods(sizes: tuple[float, ...], seeds: int) -> None:
    figure = eqm.panels(trained(sizes, seeds))
    assert "†: without projection" in words(figure)
    assert ("from the least to the largest" in words(figure)) == (seeds > 1)
    assert not crowded(figure)
    for axes in figure.axes:
        drawn = colours(axes)
        for method in ("itd", "aid-fp", "aid-cgn"):
            assert {drawn[f"{method}-{kind}"] for kind in ("projected", "free")} == {style_of(method).colour.upper()}
    end = figure.axes[-1]
    places = {float(line.get_xdata()[0]) for line in end.lines if line.get_gid() in eqm.LINES}
    assert len(places) == (6 if len(sizes) == 1 else 1)  # one size: side by side, not on each other
    assert end.get_xlabel() == (r"all with step size $\zeta=0.2$" if len(sizes) == 1 else r"step size $\zeta$")


def test_state_maps_have_a_colour_key() -> None:
    figure = states_figures.maps(np.linspace(-1, 1, 24 * 9).reshape(1, 12, 2, 3, 3), np.zeros((1, 16)), [3])
    assert {"−largest entry", "0", "largest entry"} <= {text.get_text() for text in figure.findobj(Text)}
    assert figure.axes[-1].get_gid() == "colour key"


@pytest.mark.parametrize("ks", [(None,), (1, 5)])
def test_a_map_says_what_its_numbers_are(ks: tuple[int | None, ...]) -> None:
    cells = SimpleNamespace(bound="aid-fp", qs=(0.5, 0.9), ts=(1, 5), ks=ks, ratio=lambda q, t, k: q)
    figure = tightness_map(cells)  # type: ignore[arg-type]
    assert "aid-fp: largest error/bound that was found" in words(figure)
    assert "above 1: refuted" in words(figure)
    assert not crowded(figure)


def run(scale: float) -> dict[str, Any]:
    t = np.arange(1, T + 1)
    mean = scale * 0.8**t * 2.0 ** ((-1.0) ** t)
    spread = {"mean": mean, "std": mean / 2, "min": mean / 3}
    late = np.where(t > 5, 9 * mean, np.nan)
    return {"float32": spread, "float64": spread, "paper": late, "certified": 3 * mean, "afterwards": 2 * mean}


def errors_of_fig1() -> dict[str, Any]:
    floor = {"floor32": 1e-4, "floor64": 1e-8}
    end = [{"methods": dict.fromkeys(fig1.ROWS, floor)}] * 3
    methods = {m: run(i + 1.0) for i, m in enumerate((*fig1.ROWS, *fig1.TEN_STEPS, "fp-momentum", "fp-momentum:10"))}
    return {name: {"methods": methods, "kappa": [1, 2, 3], "end": end} for name in fig1.LABELS}


def test_fig1_explains_its_shades() -> None:
    figure = fig1.errors(errors_of_fig1())
    assert "one standard deviation over 3 λ" in words(figure)
    assert "the range of what oscillates" in words(figure)
    assert not crowded(figure)
    for axes in figure.axes:
        assert sum(area.get_gid() == "range" for area in axes.collections) == len(fig1.LINES)
        drawn = colours(axes)
        assert {line: drawn[line] for line in fig1.LINES} == {
            line: style_of(method).colour.upper() for line, method in fig1.LINES.items()
        }
        smooth = next(line.get_ydata() for line in axes.lines if line.get_gid() == "itd")
        assert (np.diff(np.log(smooth)) < 0).all()


def test_floors_are_bands_and_bounds_have_the_colour_of_the_row() -> None:
    figure = fig1.with_bounds(errors_of_fig1())
    assert not crowded(figure)
    assert {"below the floor of float32", "below the floor of float64"} <= {t.get_text() for t in figure.findobj(Text)}
    for place, axes in enumerate(figure.axes):
        method = list(fig1.ROWS)[place % 3]
        assert axes.get_ylim()[0] < 1e-8
        assert {colours(axes)[kind] for kind in (*fig1.ERRORS, *fig1.BOUNDS)} == {style_of(method).colour.upper()}
        bands = sorted(float(patch.get_bbox().y1) for patch in axes.patches if not patch.get_gid())
        assert bands == pytest.approx([1e-8, 1e-4], rel=1e-12)


def test_ratios_have_grades_and_sparse_ones_are_joined() -> None:
    t = np.arange(1, T + 1)
    sparse = np.where(t % 7 == 0, 3.0, np.nan)
    ratios = {kind: {"ratio": 50.0 * 1.2 ** ((-1.0) ** t)} for kind in certified.KINDS}
    ratios[certified.BoundKind.A_POSTERIORI] = {"ratio": sparse}
    one = {**ratios, "error": t, "paper": 1e4 + t, certified.BoundKind.ENCLOSURE: np.ones(T)}
    figure = certified.ratios({"lr-gd": {"methods": dict.fromkeys(certified.METHODS, one)}})
    assert not crowded(figure)
    assert {"bound = error", "tight (within 10)", "vacuous"} <= {text.get_text() for text in figure.findobj(Text)}
    joined = next(x for x in figure.axes[0].lines if x.get_gid() == certified.BoundKind.A_POSTERIORI)
    assert list(joined.get_xdata()) == [7, 14, 21, 28, 35, 42, 49, 56]
    assert joined.get_markevery() == list(range(8))
