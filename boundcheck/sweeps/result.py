"""The result of `sweep`: a row for each check, and methods that show the rows."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boundcheck import __version__
from boundcheck.atomic_write import Results, sole_use
from boundcheck.frames import frame
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.sweeps import maps, sentences
from boundcheck.sweeps.grid import Grid
from boundcheck.sweeps.row import SweepRow

if TYPE_CHECKING:
    from pandas import DataFrame

FORMATS = ("png", "svg")


@dataclass(frozen=True, eq=False)
class Sweep:
    """The result of a sweep: all its checks, or all its plans.

    Attributes
    ----------
    problem : str
        The name of the problem, or of the function that makes it.
    action : str
        "check" or "plan".
    grid : Grid
        The axes with their values, and the number of λ that were drawn at each point.
    rows : tuple of SweepRow
        A row for each method at each point, in the order of the grid.
    settings : dict
        Everything that the rows depend on.
    from_before : int
        The number of points from an earlier call that was stopped.
    """

    problem: str
    action: str
    grid: Grid
    rows: tuple[SweepRow, ...]
    settings: Mapping[str, Any] = field(repr=False)
    from_before: int = 0

    def __repr__(self) -> str:
        return f"Sweep({sentences.sentences(self)[0].rstrip('.')})"

    def __str__(self) -> str:
        return sentences.card(self).text()

    def _repr_html_(self) -> str:
        return sentences.card(self).html()

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the rows."""
        named = list(dict.fromkeys(row.method for row in self.rows))
        return [method for method in named if method] or named

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows with each verdict."""
        return dict(Counter(row.verdict for row in self.rows))

    def table(self) -> str:
        """Return the first screen: sentences and a small table.

        Returns
        -------
        str
            At most 40 lines.
        """
        return str(self)

    def to_frame(self) -> DataFrame:
        """Return the rows as a pandas table.

        Returns
        -------
        DataFrame
            A column for each axis, and one for each field of `SweepRow`.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        rows = [row.flat() for row in self.rows]
        return frame({name: [row[name] for row in rows] for name in rows[0]})

    def plot(
        self, path: str | PathLike[str], what: str = "tightness", *, x: str | None = None, y: str | None = None
    ) -> Path:
        """Draw a map over two axes, with a panel for each method, or over one axis and the methods.

        Parameters
        ----------
        path : str or path
            The file; it ends in .png, .pdf or .svg.
        what : {"tightness", "a-priori", "verdicts", "rates", "steps"}
            What to show; "tightness" by default, the best bound over the error.
        x : str, optional
            The horizontal axis; "sample" is the axis of the drawn λ. By default the axes are those with several
            values, without seeds and samples.
        y : str, optional
            The vertical axis.

        Returns
        -------
        Path
            The file that was written.

        Raises
        ------
        UnknownNameError
            If there is no such map or axis.
        InputError
            If both axes are the same, or the file cannot be written.
        """
        from boundcheck.views.figures import canvas

        return canvas.save(maps.drawn(self, what, x, y), path)

    def to_json(self) -> dict[str, Any]:
        """Return the sweep as plain data, for a JSON file.

        Returns
        -------
        dict
            Plain data without NaN or infinity.
        """
        return {
            "schema": SCHEMA,
            "version": __version__,
            "sentences": sentences.sentences(self),
            "counts": self.counts,
            "settings": dict(self.settings),
            "rows": [{name: finite(value) for name, value in asdict(row).items()} for row in self.rows],
        }

    def save(self, directory: str | PathLike[str]) -> list[Path]:
        """Write sweep.csv, sweep.json, table.md and the maps to a folder, all of them or none.

        Parameters
        ----------
        directory : str or path
            The folder; it is created if it does not exist.

        Returns
        -------
        list of Path
            The files that were written.

        Raises
        ------
        InputError
            If the folder cannot be written to, or is in use.
        """
        return save(self, directory)


def save(sweep: Sweep, directory: str | PathLike[str] | Results) -> list[Path]:
    """Write the files of `Sweep.save`, also to a folder that is already claimed."""
    from boundcheck.views.figures import canvas

    content = json.dumps(sweep.to_json(), ensure_ascii=False, allow_nan=False)
    texts = {"sweep.csv": _csv(sweep), "sweep.json": content, "table.md": sentences.markdown(sweep)}
    with sole_use(directory) as results:
        with results.together() as parts:
            for name, text in texts.items():
                (parts / name).write_text(text, encoding="utf-8", newline="")
            pictures = []
            for what in maps.kinds(sweep.action):
                figure = maps.drawn(sweep, what)
                pictures += [canvas.save(figure, parts / f"map-{what}.{suffix}").name for suffix in FORMATS]
        return [results.place / name for name in (*texts, *pictures)]


def _csv(sweep: Sweep) -> str:
    """Return the rows as CSV, with an empty cell for a missing value."""
    rows, text = [row.flat() for row in sweep.rows], io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
