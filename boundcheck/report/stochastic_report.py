"""The result of `check_stochastic` as data: mean square errors, bias and variance over many runs, bounds, verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from boundcheck.constants import Constant, Constants
from boundcheck.errors import UnknownNameError
from boundcheck.frames import frame
from boundcheck.report import stochastic_card
from boundcheck.report.stochastic_curve import StochasticCurve
from boundcheck.report.verdict import Verdict, worst
from boundcheck.step_schedule import StepSchedule

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class StochasticReport:
    """The result of `check_stochastic` on one problem.

    Attributes
    ----------
    problem : mapping from str to object
        The problem: name, dim (d), hdim (n), seed, dtype, device, examples (N), batch (b) and replacement.
    constants : Constants
        The constants, on the ball of all possible iterates.
    radius : float or None
        The radius of this ball around w*; None if no ball is proved.
    ball_doubt : str
        Why no ball is proved; empty if a ball is proved.
    curves : mapping from str to StochasticCurve
        The measured quantities of each method, and the bounds on them.
    steps : StepSchedule
        The steps of the lower level.
    steps_v : StepSchedule
        The steps of the linear solver.
    steps_how : str
        The source of the steps, in words.
    runs : int
        The number of independent runs.
    level : float
        The probability with which all confidence intervals hold together.
    gradient_norm : float
        ‖∇f‖ of the reference.
    certificate : Constant or None
        A bound ε_g on the error of the reference hypergradient; None if there is no bound.
    largest_error : float or None
        A proved upper bound on ‖g − ∇f‖ for every draw, which the proved intervals use; None if there is none.
    seed : int
        The seed of the draws.
    seconds : float
        The run time of `check_stochastic`.
    """

    problem: Mapping[str, object]
    constants: Constants
    radius: float | None
    ball_doubt: str
    curves: Mapping[str, StochasticCurve]
    steps: StepSchedule
    steps_v: StepSchedule
    steps_how: str
    runs: int
    level: float
    gradient_norm: float
    certificate: Constant | None
    largest_error: float | None
    seed: int
    seconds: float

    @property
    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """The verdicts by method and bound, as ``verdicts[method, bound]``."""
        return {(m, b.name): b.verdict for m, curve in self.curves.items() for b in curve.bounds.values()}

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the bounds that apply."""
        return worst([v for v in self.verdicts.values() if v is not Verdict.NOT_APPLICABLE])

    @property
    def refuted(self) -> list[str]:
        """The user's constants that were not used, and why; a sentence for each."""
        return [f"{c.name} was {c.provenance.refuted}" for c in self.constants.values() if c.provenance.refuted]

    def curve(self, method: str) -> StochasticCurve:
        """The measured quantities of one method, and the bounds on them.

        Parameters
        ----------
        method : str
            The name of the method, as in the call of `check_stochastic`.

        Returns
        -------
        StochasticCurve
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

    def __repr__(self) -> str:
        return f"StochasticReport({self.problem['name']}, {self.verdict.value}, {', '.join(self.curves)})"

    def __str__(self) -> str:
        return stochastic_card.card(self).text()

    def _repr_html_(self) -> str:
        return stochastic_card.card(self).html()

    def to_frame(self) -> DataFrame:
        """The measured quantities and the bounds as a pandas table, one row for each method and point.

        Returns
        -------
        DataFrame
            A table with the columns method, t, k, for each quantity its estimate and the ends of its interval (mse,
            mse_lower, mse_upper, …), and a column for each bound; NaN where there is no value.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        return frame(stochastic_card.columns(self))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, for a JSON file.

        Returns
        -------
        dict
            A dictionary without NaN or infinity. `load` reads the file back.
        """
        from boundcheck.report import stochastic_json

        return stochastic_json.to_json(self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> StochasticReport:
        """Read a saved report.

        Parameters
        ----------
        path : str or path
            A `report.json`, or the directory that `save` wrote.

        Returns
        -------
        StochasticReport
            The report.

        Raises
        ------
        InputError
            If the file does not exist, or is not a report of `check_stochastic`.
        """
        from boundcheck.report import stochastic_json

        return stochastic_json.load(path)

    def table(self, verbose: bool = False) -> str:
        """The report as text, as on the command line.

        Parameters
        ----------
        verbose : bool
            Whether to show every bound and every constant; by default only the first screen.

        Returns
        -------
        str
            The text, without colours.
        """
        from boundcheck.views.terminal import show_stochastic

        return show_stochastic.as_text(self, verbose=verbose)

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the mean square error, the bias and the variances, each under its bounds.

        Parameters
        ----------
        path : str or path
            The file to write; it ends in .png, .pdf or .svg.

        Raises
        ------
        InputError
            If the file name has another ending, or the file cannot be written.
        """
        from boundcheck.views.figures import stochastic_figures

        stochastic_figures.save(stochastic_figures.errors(self), path)

    def page(self, path: str | PathLike[str]) -> None:
        """Write an HTML page: bias, variance and mean square error under their bounds, verdicts and constants.

        Parameters
        ----------
        path : str or path
            The HTML file to write. It needs no network.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        from boundcheck.views.page import stochastic_page

        stochastic_page.write(path, self)

    def save(self, directory: str | PathLike[str]) -> None:
        """Write report.json, curves.csv and the figures.

        Parameters
        ----------
        directory : str or path
            The directory; created if it does not exist. Each file is written completely or not at all.

        Raises
        ------
        InputError
            If the directory cannot be written to, or is in use.
        """
        from boundcheck.views import stochastic_files

        stochastic_files.save(self, directory)
