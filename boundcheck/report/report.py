"""What `check` found: errors, bounds, verdicts, proof chains and constants, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np

from boundcheck.constants import BallKind, Constant, Constants, Side
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.report.enclosure import Enclosure, enclosed
from boundcheck.report.verdict import Verdict, worst
from boundcheck.theory.kinds import BoundKind


@dataclass(frozen=True, eq=False)
class Trace:
    """A proof on the problem: the value after each link, and by how much each link is loose.

    Attributes
    ----------
    links : tuple of str
        The names of the links, from the measured error to the bound.
    because : tuple of str
        What justifies each link.
    uses : tuple of tuple of str
        The constants that each link brings in.
    t : ndarray
        The t at which the proof was traced.
    values : ndarray of shape (links, t)
        The value after each link.
    slacks : ndarray of shape (links, t)
        Each value over the one before, and 1 in the first row; their product is bound/error.
    broken : ndarray of bool, of shape (links, t)
        Whether the value falls at a link by more than rounding, so that the link is false.
    """

    links: tuple[str, ...]
    because: tuple[str, ...]
    uses: tuple[tuple[str, ...], ...]
    t: np.ndarray
    values: np.ndarray
    slacks: np.ndarray
    broken: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """log(slack) of each link over log(bound/error), links × t; NaN where the bound is attained."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.slacks)
            total = logs.sum(axis=0)
            return np.where(np.abs(total) > 1e-9, logs / total, np.nan)

    @property
    def first_broken(self) -> str | None:
        """The first link that is false, at the first t where one is; None if all hold."""
        at = self.broken.any(axis=0)
        return self.links[int(self.broken[:, at.argmax()].argmax())] if at.any() else None


@dataclass(frozen=True)
class Rate:
    """A measured rate: where log(error) is a line, the error shrinks by this factor at each step.

    Attributes
    ----------
    value : float
        The factor for each step.
    first : int
        The first t of the line.
    last : int
        The last t of the line.
    """

    value: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class BoundCurve:
    """One bound for one method, and how the error relates to it.

    Attributes
    ----------
    name : str
        The name of the bound in the catalogue.
    title : str
        The bound in words.
    reference : str
        The paper and the number of the theorem.
    kind : str
        "a priori", "a priori, from the spectrum" or "a posteriori".
    ball : BallKind
        The ball on which its constants were taken: "paper" or "local".
    values : ndarray of shape (samples, t)
        The bound; NaN where the theorem says nothing.
    side : Side
        What the values are worth, given their constants.
    delta : float
        The probability that they are too small; 0 unless the side is "high-probability".
    weakest : tuple of str
        The constants that decide the side, as they are the least certain.
    verdict : Verdict
        Whether the error stays below the bound.
    reason : str
        Why the bound is not applicable, inconclusive or violated; or what the verdict rests on.
    tightness : ndarray of shape (samples, t)
        bound/error; NaN where the error is at the rounding floor.
    rate_predicted : float or None
        The factor for each step that the bound predicts.
    asks : mapping from float to int or None
        For each of some accuracies, the t that the bound guarantees to be enough; None if there is none.
    trace : Trace or None
        The proof on this problem; None if it was not traced.
    """

    name: str
    title: str
    reference: str
    kind: BoundKind
    ball: BallKind
    values: np.ndarray
    side: Side
    delta: float
    weakest: tuple[str, ...]
    verdict: Verdict
    reason: str
    tightness: np.ndarray
    rate_predicted: float | None
    asks: Mapping[float, int | None]
    trace: Trace | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", BoundKind.parse(self.kind))

    @property
    def compared(self) -> int:
        """At how many t, over all λ, error and bound were compared; at the others rounding decides."""
        return int((~np.isnan(self.tightness)).sum())

    @property
    def best(self) -> float | None:
        """The smallest bound/error; None where every error is at the floor."""
        return None if np.isnan(self.tightness).all() else float(np.nanmin(self.tightness))

    @property
    def worst(self) -> float | None:
        """The largest bound/error; None where every error is at the floor."""
        return None if np.isnan(self.tightness).all() else float(np.nanmax(self.tightness))


@dataclass(frozen=True, eq=False)
class Curve:
    """One method on the problem: its errors, and the bounds on them.

    Attributes
    ----------
    method : str
        The method, as it was named.
    t : ndarray of shape (T,)
        1 … T.
    k : ndarray of shape (T,) or None
        The steps of the linear solver at each t, or those that are differentiated through; None for "itd".
    errors : ndarray of shape (samples, T)
        ‖g(t) − ∇f(λ)‖.
    floor : ndarray of shape (samples, T)
        Below this, an error is rounding.
    rate : Rate or None
        The measured rate on the first sample; None if there is no line.
    needs : mapping from float to int or None
        For each of some accuracies, the t from which on the error of every sample is below it; None if there is none.
    bounds : mapping from str to BoundCurve
        The bounds on this method, by name.
    """

    method: str
    t: np.ndarray
    k: np.ndarray | None
    errors: np.ndarray
    floor: np.ndarray
    rate: Rate | None
    needs: Mapping[float, int | None]
    bounds: Mapping[str, BoundCurve]

    @property
    def falls(self) -> bool:
        """Whether the error falls with t, or is at the floor, for every λ.

        The median error over the last quarter of t is compared with that over the first.
        """
        part = max(1, len(self.t) // 4)
        first, last = (np.median(self.errors[:, some], axis=1) for some in (slice(part), slice(-part, None)))
        return bool(((last < first) | (last <= self.floor[:, -1])).all())

    def certified(self, kind: BoundKind | str = "") -> np.ndarray:
        """The smallest of the bounds that are proved for these constants.

        Parameters
        ----------
        kind : {"", "a priori", "a priori, from the spectrum", "a posteriori"}
            Which bounds count; all of them by default.

        Returns
        -------
        ndarray of shape (samples, T)
            The least value at each t; NaN where no bound is proved.
        """
        only = BoundKind.parse(kind) if kind else None
        fitting = [b for b in self.bounds.values() if only in (None, b.kind)]
        proved = [b.values for b in fitting if b.verdict is Verdict.HOLDS]
        if not proved:
            return np.full(self.errors.shape, np.nan)
        least: np.ndarray = np.fmin.reduce(proved)
        return least

    @property
    def applicable(self) -> dict[str, BoundCurve]:
        """The bounds that say something about this method on this problem, by name."""
        return {name: bound for name, bound in self.bounds.items() if bound.verdict is not Verdict.NOT_APPLICABLE}


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that `check` found on one problem.

    Attributes
    ----------
    problem : mapping from str to object
        name, dim (d), hdim (n), seed, dtype, device, dynamics and samples.
    constants : mapping from str to Constants
        The constants at the first λ, by ball: "paper" and "local".
    curves : mapping from str to Curve
        The errors and the bounds of each method, as it was named.
    refused : mapping from str to str
        The methods that cannot be run, and why.
    certificates : tuple of Constant or None
        A bound ε_g on the error of the reference hypergradient at each λ; None where nothing bounds it.
    floor_how : str
        How the rounding floor was found.
    seconds : float
        How long `check` took.
    """

    problem: Mapping[str, object]
    constants: Mapping[str, Constants]
    curves: Mapping[str, Curve]
    refused: Mapping[str, str]
    certificates: tuple[Constant | None, ...]
    floor_how: str
    seconds: float

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
        """The constants that the user gave and that are wrong, a sentence each; they were not used."""
        every = [constant for some in self.constants.values() for constant in some.values()]
        return list(dict.fromkeys(f"{c.name} was {c.provenance.refuted}" for c in every if c.provenance.refuted))

    @property
    def diverging(self) -> list[str]:
        """The methods whose error does not fall, where Φ does not contract at w* or the error is not even finite."""
        q_star = self.constants[BallKind.LOCAL].get("q_star") if BallKind.LOCAL in self.constants else None
        repels = q_star is not None and q_star.value > 1 and q_star.side is Side.EXACT
        return [m for m, c in self.curves.items() if not c.falls and (repels or not np.isfinite(c.errors[:, -1]).all())]

    @property
    def samples(self) -> int:
        """How many λ were run."""
        return len(next(iter(self.curves.values())).errors)

    @property
    def ordering(self) -> list[tuple[str, str, float]]:
        """For each pair of methods, how often the first has the smaller mean error.

        The third entry is the part of the t at which one of both is above the rounding floor.
        """
        found = []
        for a, b in combinations(self.curves.values(), 2):
            seen = (a.errors.mean(axis=0) > a.floor.mean(axis=0)) | (b.errors.mean(axis=0) > b.floor.mean(axis=0))
            if seen.any():
                less = a.errors.mean(axis=0)[seen] <= b.errors.mean(axis=0)[seen]
                found.append((a.method, b.method, float(less.mean())))
        return found

    def curve(self, method: str) -> Curve:
        """The errors and the bounds of one method.

        Parameters
        ----------
        method : str
            The method, as it was named in the call of `check`.

        Returns
        -------
        Curve
            Its curve.

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
            The method, as it was named in the call of `check`.
        bound : str, optional
            The name of the bound; by default the one that is named like the method.

        Returns
        -------
        Trace
            The values and the slacks of the proof.

        Raises
        ------
        UnknownNameError
            If the method was not run, or there is no such bound on it.
        InputError
            If the proof of the bound was not traced.
        """
        curve = self.curve(method)
        name = bound or method.partition(":")[0]
        if name not in curve.bounds:
            raise UnknownNameError.among(f"bound on {method}", name, curve.bounds)
        found = curve.bounds[name]
        if found.trace is None:
            raise InputError(f"{name} has no trace on {method}: {found.reason or 'its proof is not encoded'}")
        return found.trace

    def enclosure(self, method: str) -> Enclosure:
        """The true errors of a method from both sides, as the reference is not exact either.

        Parameters
        ----------
        method : str
            The method, as it was named in the call of `check`.

        Returns
        -------
        Enclosure
            With arrays of samples × t.

        Raises
        ------
        UnknownNameError
            If the method was not run.
        """
        return enclosed(self.curve(method).errors, self.certificates)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data, for a JSON file.

        Returns
        -------
        dict
            Without NaN or infinity. `load` makes it a report again.
        """
        from boundcheck.report import report_json

        return report_json.to_json(self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Report:
        """Read a report that was saved.

        Parameters
        ----------
        path : str or path
            A `report.json`, or the directory that `save` wrote.

        Returns
        -------
        Report
            The same report.

        Raises
        ------
        InputError
            If there is no such file, or it is not a report.
        """
        from boundcheck.report import report_json

        return report_json.load(path)

    def table(self) -> str:
        """The report as text, as the command line shows it.

        Returns
        -------
        str
            Verdicts, iterations, and where the proofs are loose.
        """
        from boundcheck.views.terminal import show_report

        return show_report.as_text(self)

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
            Where to write; it is made if it is not there. Each file is there whole or not at all.

        Raises
        ------
        InputError
            If the directory cannot be written to, or is in use.
        """
        from boundcheck.views import report_files

        report_files.save(self, directory)
