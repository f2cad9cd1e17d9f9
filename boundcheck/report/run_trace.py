"""The result of watching an upper-level run: a row for each step, as data for tables, figures and loggers."""

from __future__ import annotations

import csv
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from boundcheck.atomic_write import write_whole
from boundcheck.errors import UnknownNameError
from boundcheck.frames import frame
from boundcheck.report import cards
from boundcheck.report.run_step import COLUMNS, WORDS, RunStep

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class RunTrace:
    """The result of `Watch` or `follow` for an upper-level run.

    Attributes
    ----------
    problem : str
        The name of the problem.
    rows : tuple of RunStep
        A row for each watched step.
    rtol : float or None
        The requested relative error, if there is one.
    method : str
        The method of the run, or the method for `rtol`; empty if unknown.
    warm : bool or None
        Whether each step started from the result of the previous step; None for a user's own loop.
    status : str
        "completed", or why the run ended early.
    lam : ndarray of shape (n,), or None
        The last λ; for `follow` the λ after its last step.
    """

    problem: str
    rows: tuple[RunStep, ...]
    rtol: float | None = None
    method: str = ""
    warm: bool | None = None
    status: str = "completed"
    lam: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RunTrace({self.problem}, {len(self.rows)} steps, {self.status})"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return cards.run_card(self).html()

    def column(self, name: str) -> np.ndarray:
        """A column of numbers.

        Parameters
        ----------
        name : str
            The name of a column of `to_csv` with numbers, such as "relative_error".

        Returns
        -------
        ndarray of shape (rows,)
            The number of each row; NaN if unknown.

        Raises
        ------
        UnknownNameError
            If there is no such column, or it is a column of text.
        """
        if name not in COLUMNS or name in WORDS:
            raise UnknownNameError.among("column", name, [x for x in COLUMNS if x not in WORDS])
        values = [row.numbers()[name] for row in self.rows]
        return np.array([math.nan if value is None else float(value) for value in values])

    @property
    def proved(self) -> bool:
        """Whether the error of every row is proved."""
        return bool(self.rows) and all(row.proved for row in self.rows)

    def summary(self) -> str:
        """A few lines on the accuracy of the hypergradients and of the starts.

        Returns
        -------
        str
            Lines of plain text.
        """
        count = len(self.rows)
        lines = [f"{self.problem}: {count} steps watched, {self.status}"]
        known = [row for row in self.rows if row.accuracy is not None]
        if known:
            errors = [row.accuracy.relative_error for row in known if row.accuracy is not None]
            angles = [row.accuracy.angle for row in known if row.accuracy is not None]
            proofs = sum(row.proved for row in known)
            lines.append(
                f"relative error at most {_short(min(errors))} to {_short(max(errors))}, angle at most "
                f"{_short(max(angles))} degrees; proved at {proofs} of {count} steps"
            )
            certain = sum(row.descent is True for row in known)
            wrong = sum(row.descent is False for row in known)
            lines.append(f"descent direction: certain at {certain} steps, certainly not at {wrong}")
        if held := [row.estimate_held for row in self.rows if row.estimate is not None]:
            share = f"{held.count(True)} of {len(held)} steps"
            lines.append(f"r_t: the estimate from ‖w'‖ at the previous λ held at {share}")
        if self.rtol is not None and known:
            reached = [row for row in known if row.accuracy and row.accuracy.relative_error <= self.rtol]
            lines.append(f"relative error {self.rtol:g} reached at {len(reached)} of {count} steps")
        if reasons := dict.fromkeys(row.why for row in self.rows if row.why):
            lines += [f"note: {reason}" for reason in reasons]
        return "\n".join(lines)

    def to_csv(self) -> str:
        """The rows as CSV: a line of column names, then one line for each step.

        Returns
        -------
        str
            The text; a cell is empty if its number is unknown or not finite.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row.to_csv() for row in self.rows)
        return out.getvalue()

    def to_frame(self) -> DataFrame:
        """The rows as a pandas table, one for each step.

        Returns
        -------
        DataFrame
            A table with the columns of `to_csv`; NaN if a number is unknown.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        cells = [row.numbers() | row.words() for row in self.rows]
        return frame({name: [row[name] for row in cells] for name in COLUMNS})

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `to_csv` to a file, completely or not at all.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Path
            The file that was written.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        return write_whole(Path(path), self.to_csv().encode())


def _short(value: float) -> str:
    return f"{value:.2g}"
