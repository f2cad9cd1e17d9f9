"""The figure of an upper-level run: what is drawn, and that an estimate does not look like a proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_traces import BROKEN, trace

from boundcheck.errors import InputError
from boundcheck.side import Side
from boundcheck.views.figures.canvas import save
from boundcheck.views.figures.run_figure import along_run


def lines(axes: object, gid: str) -> list:
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def test_every_number_of_a_run_is_drawn() -> None:
    run = trace(4)
    errors, distances, angles, f = along_run(run).axes
    for axes, name in ((errors, "relative_error"), (distances, "r_t"), (angles, "angle"), (f, "f")):
        (line,) = lines(axes, name)
        np.testing.assert_array_equal(line.get_ydata(), run.column(name))
    for name in ("r_t_bound", "r_t_estimate"):
        (line,) = lines(distances, name)
        np.testing.assert_array_equal(line.get_ydata(), run.column(name))


def test_with_a_wanted_error_the_steps_that_would_have_done_are_drawn() -> None:
    errors, _, steps, _ = along_run(trace(4, rtol=0.1)).axes
    assert lines(errors, "wanted")[0].get_ydata()[0] == 0.1
    assert lines(steps, "t_enough")[0].get_ydata().tolist() == [5, 6, 7, 8]
    assert lines(steps, "t")[0].get_ydata().tolist() == [5] * 4


@pytest.mark.parametrize("side", [Side.UPPER, Side.LOWER])
def test_estimates_are_hollow(side: Side) -> None:
    proved, estimated = lines(along_run(trace(3, side=side)).axes[0], "relative_error marks")
    assert estimated.get_markerfacecolor() == "white" != proved.get_markerfacecolor()
    assert (len(proved.get_xdata()), len(estimated.get_xdata())) == ((3, 0) if side is Side.UPPER else (0, 3))


def test_two_runs_and_a_row_without_numbers(tmp_path: Path) -> None:
    cold = trace(4, warm=False)
    cold = replace(cold, rows=(*cold.rows, replace(BROKEN, step=4)))
    figure = along_run({"warm": trace(4), "cold": cold})
    colours = {line.get_color() for line in lines(figure.axes[0], "relative_error")}
    assert len(colours) == 2
    first, again = (save(along_run({"warm": trace(4), "cold": cold}), tmp_path / f"{x}.png") for x in "ab")
    assert first.read_bytes() == again.read_bytes()


def test_one_row_and_none(tmp_path: Path) -> None:
    save(along_run(trace(1)), tmp_path / "one.png")
    with pytest.raises(InputError, match="the run has no rows to draw; watch at least one step"):
        along_run(trace(0))
    save(along_run(replace(trace(1), rows=(BROKEN,))), tmp_path / "broken.png")
