"""The result of `check` as data: errors, bounds, verdicts, proof chains and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.frames import frame
from boundcheck.report import report_card
from boundcheck.report.enclosure import Enclosure, enclosed
from boundcheck.report.method_curve import Curve, Trace
from boundcheck.report.summarise import summarise
from boundcheck.report.summary import Summary
from boundcheck.report.verdict import Verdict, worst
from boundcheck.side import Side

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Report:
    """The result of `check` on one problem.

    Attributes
    ----------
    problem : mapping from str to object
        The problem: name, dim (d), hdim (n), seed, dtype, device, dynamics and samples.
    constants : mapping from str to Constants
        The constants at the first λ, by ball: "paper" and "local".
    curves : mapping from str to Curve
        The errors and the bounds of each method, by the method's name in the call of `check`.
    refused : mapping from str to str
        The methods that cannot be run, and why.
    certificates : tuple of Constant or None
        A bound ε_g on the error of the reference hypergradient at each λ; None if there is no bound.
    floor_how : str
        How the rounding floor was computed.
    seconds : float
        The run time of `check`.
    gradient_norms : tuple of float
        ‖∇f‖ of the reference at each λ; empty in reports of versions before 0.2.
    """

    problem: Mapping[str, object]
    constants: Mapping[str, Constants]
    curves: Mapping[str, Curve]
    refused: Mapping[str, str]
    certificates: tuple[Constant | None, ...]
    floor_how: str
    seconds: float
    gradient_norms: tuple[float, ...] = ()

    @property
    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """The verdicts by method and bound, as ``verdicts[method, bound]``."""
        return {(m, b.name): b.verdict for m, curve in self.curves.items() for b in curve.bounds.values()}

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the bounds that apply."""
        applied = [v for v in self.verdicts.values() if v is not Verdict.NOT_APPLICABLE]
        return worst(applied)

    @property
    def refuted(self) -> list[str]:
        """The user's constants that were not used, because they are wrong or unconfirmed; a sentence for each."""
        constants = [constant for on_ball in self.constants.values() for constant in on_ball.values()]
        return list(dict.fromkeys(f"{c.name} was {c.provenance.refuted}" for c in constants if c.provenance.refuted))

    @property
    def diverging(self) -> list[str]:
        """The methods that diverge: their error does not fall, and it grows or is not finite, or Φ repels at w*.

        If Φ contracts on the ball of the iterates, an error that grows does not count.
        """
        local = self.constants.get(BallKind.LOCAL, Constants({}))
        q, q_star = local.get("q"), local.get("q_star")
        repels = q_star is not None and q_star.value > 1 and q_star.side is Side.EXACT
        contracts = q is not None and q.value < 1
        lost = [m for m, c in self.curves.items() if not c.falls]
        return [m for m in lost if repels or not _finite(self.curves[m]) or (self.curves[m].grows and not contracts)]

    @cached_property
    def summary(self) -> Summary:
        """The result in short: errors, the best bound of each method, the steps for 1 %, and what to do next."""
        return summarise(self)

    @property
    def samples(self) -> int:
        """The number of λ."""
        return len(next(iter(self.curves.values())).errors)

    @property
    def ordering(self) -> list[tuple[str, str, float]]:
        """For each pair of methods, the share of the t at which the first has the smaller mean error.

        Only those t count at which at least one of the two errors is above the rounding floor.
        """
        pairs = []
        for a, b in combinations(self.curves.values(), 2):
            above_floor = (a.errors.mean(axis=0) > a.floor.mean(axis=0)) | (
                b.errors.mean(axis=0) > b.floor.mean(axis=0)
            )
            if above_floor.any():
                less = a.errors.mean(axis=0)[above_floor] <= b.errors.mean(axis=0)[above_floor]
                pairs.append((a.method, b.method, float(less.mean())))
        return pairs

    def curve(self, method: str) -> Curve:
        """The errors and the bounds of one method.

        Parameters
        ----------
        method : str
            The name of the method, as in the call of `check`.

        Returns
        -------
        Curve
            The curve of the method.

        Raises
        ------
        UnknownNameError
            If the method was not run.
        """
        try:
            return self.curves[method]
        except KeyError:
            raise UnknownNameError.among("curve", method, self.curves) from None

    def trace(self, method: str, bound: str | None = None) -> Trace:
        """The proof of a bound on this problem, link by link.

        Parameters
        ----------
        method : str
            The name of the method, as in the call of `check`.
        bound : str, optional
            The name of the bound; by default the name of the method.

        Returns
        -------
        Trace
            The values and the slacks of the proof.

        Raises
        ------
        UnknownNameError
            If the method was not run, or has no such bound.
        InputError
            If the proof of the bound was not traced.
        """
        curve = self.curve(method)
        name = bound or method.partition(":")[0]
        if name not in curve.bounds:
            raise UnknownNameError.among(f"bound on {method}", name, curve.bounds)
        bound_curve = curve.bounds[name]
        if bound_curve.trace is None:
            raise InputError(f"{name} has no trace on {method}: {bound_curve.reason or 'its proof is not encoded'}")
        return bound_curve.trace

    def enclosure(self, method: str) -> Enclosure:
        """Lower and upper bounds on the true errors of a method, which account for the error of the reference.

        Parameters
        ----------
        method : str
            The name of the method, as in the call of `check`.

        Returns
        -------
        Enclosure
            The bounds, as arrays of samples × t.

        Raises
        ------
        UnknownNameError
            If the method was not run.
        """
        return enclosed(self.curve(method).errors, self.certificates)

    def __repr__(self) -> str:
        return report_card.line(self)

    def __str__(self) -> str:
        return report_card.card(self).text()

    def _repr_html_(self) -> str:
        return report_card.card(self).html()

    def to_frame(self) -> DataFrame:
        """The errors and bounds as a pandas table, one row for each method, λ and t.

        Returns
        -------
        DataFrame
            A table with the columns method, sample (the number of the λ, from 0), t, k, error, floor, relative_error
            (error/‖∇f‖), and a column for each bound that applies to some method; NaN where there is no value.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        return frame(report_card.columns(self))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, for a JSON file.

        Returns
        -------
        dict
            A dictionary without NaN or infinity. `load` reads the file back.
        """
        from boundcheck.report import report_json

        return report_json.to_json(self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Report:
        """Read a saved report.

        Parameters
        ----------
        path : str or path
            A `report.json`, or the directory that `save` wrote.

        Returns
        -------
        Report
            The report.

        Raises
        ------
        InputError
            If the file does not exist, or is not a report.
        """
        from boundcheck.report import report_json

        return report_json.load(path)

    def table(self, verbose: bool = False) -> str:
        """The report as text, as on the command line.

        Parameters
        ----------
        verbose : bool
            Whether to show every bound, the iterations and the proofs; by default only the first screen.

        Returns
        -------
        str
            The text, without colours.
        """
        from boundcheck.views.terminal import show_report

        return show_report.as_text(self, verbose=verbose)

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the errors and their bounds.

        Parameters
        ----------
        path : str or path
            The file to write; it ends in .png, .pdf or .svg.

        Raises
        ------
        InputError
            If the file name has another ending, or the file cannot be written.
        """
        from boundcheck.views.figures import report_figures as plot

        plot.save(plot.errors(self), path)

    def page(self, path: str | PathLike[str]) -> None:
        """Write an interactive page: errors under their bounds, constants, verdicts and proofs.

        Parameters
        ----------
        path : str or path
            The HTML file to write. It needs no network.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        from boundcheck.views import page

        page.write(path, self)

    def save(self, directory: str | PathLike[str]) -> None:
        """Write report.json, curves.csv and all figures.

        Parameters
        ----------
        directory : str or path
            The directory; created if it does not exist. Each file is written completely or not at all.

        Raises
        ------
        InputError
            If the directory cannot be written to, or is in use.
        """
        from boundcheck.views import report_files

        report_files.save(self, directory)


def _finite(curve: Curve) -> bool:
    return bool(np.isfinite(curve.errors[:, -1]).all())
