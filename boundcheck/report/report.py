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
    """A proof on the problem: the value after each link at some t, and by how much each link is loose."""

    links: tuple[str, ...]
    because: tuple[str, ...]
    uses: tuple[tuple[str, ...], ...]  # the constants that a link brings in
    t: np.ndarray
    values: np.ndarray  # links × t
    slacks: np.ndarray  # links × t, 1 in the first row; their product is bound/error
    broken: np.ndarray  # links × t: does the link fall by more than rounding?

    @property
    def shares(self) -> np.ndarray:
        """log(slack) of each link over log(bound/error), links × t; NaN where the bound is attained."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.slacks)
            total = logs.sum(axis=0)
            return np.where(np.abs(total) > 1e-9, logs / total, np.nan)

    @property
    def first_broken(self) -> str | None:
        """The first link that falls, at the first t where one does."""
        at = self.broken.any(axis=0)
        return self.links[int(self.broken[:, at.argmax()].argmax())] if at.any() else None


@dataclass(frozen=True)
class Rate:
    """The error shrinks by `value` a step for first ≤ t ≤ last, where its logarithm is a line."""

    value: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class BoundCurve:
    """One bound for one method: its values (NaN where the theorem says nothing), and how the error relates to them."""

    name: str
    title: str
    reference: str
    kind: BoundKind
    ball: BallKind  # on which its constants were taken
    values: np.ndarray  # samples × t
    side: Side
    delta: float
    weakest: tuple[str, ...]
    verdict: Verdict
    reason: str  # why it is not applicable, inconclusive, violated; or what the verdict rests on
    tightness: np.ndarray  # bound/error, samples × t; NaN where the error is at the floor
    rate_predicted: float | None
    asks: Mapping[float, int | None]  # the t that it guarantees for an accuracy
    trace: Trace | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", BoundKind.parse(self.kind))

    @property
    def compared(self) -> int:
        """At how many t (of all λ) error and bound were compared; at the others rounding decides."""
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
    """One method: its error at every t for each λ, the floor below which that is rounding, and the bounds on it."""

    method: str
    t: np.ndarray
    k: np.ndarray | None  # None for ITD
    errors: np.ndarray  # samples × t
    floor: np.ndarray  # samples × t
    rate: Rate | None  # measured on the first sample
    needs: Mapping[float, int | None]  # the t from which on the error of every sample is below an accuracy
    bounds: Mapping[str, BoundCurve]

    @property
    def falls(self) -> bool:
        """Is the median error over the last quarter of t below that over the first, or at the floor, for every λ?"""
        part = max(1, len(self.t) // 4)
        first, last = (np.median(self.errors[:, some], axis=1) for some in (slice(part), slice(-part, None)))
        return bool(((last < first) | (last <= self.floor[:, -1])).all())

    def certified(self, kind: BoundKind | str = "") -> np.ndarray:
        """The least of the bounds that are proved for these constants, samples × t; NaN where there is none.

        Of one `kind` ("a priori", "a priori, from the spectrum", "a posteriori"), or of all.
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
        """The bounds that say something here, by name."""
        return {name: bound for name, bound in self.bounds.items() if bound.verdict is not Verdict.NOT_APPLICABLE}


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that `check` found on one problem."""

    problem: Mapping[str, object]  # name, dim, hdim, seed, dtype, device, dynamics
    constants: Mapping[str, Constants]  # of the first λ, by ball
    curves: Mapping[str, Curve]
    refused: Mapping[str, str]  # methods that cannot be run, and why
    certificates: tuple[Constant | None, ...]  # ε_g of the reference at each λ, None where nothing bounds it
    floor_how: str
    seconds: float

    @property
    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """By method and bound."""
        return {(m, b.name): b.verdict for m, curve in self.curves.items() for b in curve.bounds.values()}

    @property
    def verdict(self) -> Verdict:
        """The worst of those that apply."""
        applied = [v for v in self.verdicts.values() if v is not Verdict.NOT_APPLICABLE]
        return worst(applied)

    @property
    def refuted(self) -> list[str]:
        """Constants that the user gave and that were found to be wrong, a sentence each; they were not used."""
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
        """For each pair of methods, at which part of the t above the floor the first has the smaller mean error."""
        found = []
        for a, b in combinations(self.curves.values(), 2):
            seen = (a.errors.mean(axis=0) > a.floor.mean(axis=0)) | (b.errors.mean(axis=0) > b.floor.mean(axis=0))
            if seen.any():
                less = a.errors.mean(axis=0)[seen] <= b.errors.mean(axis=0)[seen]
                found.append((a.method, b.method, float(less.mean())))
        return found

    def curve(self, method: str) -> Curve:
        """That of a method, by the name under which it was asked for."""
        try:
            return self.curves[method]
        except KeyError:
            raise UnknownNameError.among("curve", method, self.curves) from None

    def trace(self, method: str, bound: str | None = None) -> Trace:
        """The proof of a bound on this problem; of the bound named like the method unless another is named."""
        curve = self.curve(method)
        name = bound or method.partition(":")[0]
        if name not in curve.bounds:
            raise UnknownNameError.among(f"bound on {method}", name, curve.bounds)
        found = curve.bounds[name]
        if found.trace is None:
            raise InputError(f"{name} has no trace on {method}: {found.reason or 'its proof is not encoded'}")
        return found.trace

    def enclosure(self, method: str) -> Enclosure:
        """Between what the true errors of a method are, at each λ and t: the reference is not exact either."""
        return enclosed(self.curve(method).errors, self.certificates)

    def to_json(self) -> dict[str, Any]:
        """Everything, without NaN or infinity; `load` makes it a report again."""
        from boundcheck.report import report_json

        return report_json.to_json(self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Report:
        """From a `report.json`, or from the directory that `save` wrote."""
        from boundcheck.report import report_json

        return report_json.load(path)

    def table(self) -> str:
        """The terminal view as text."""
        from boundcheck.views.terminal import show_report

        return show_report.as_text(self)

    def plot(self, path: str | PathLike[str]) -> None:
        """Errors and their bounds, as png, pdf or svg."""
        from boundcheck.views.figures import report_figures as plot

        plot.save(plot.errors(self), path)

    def page(self, path: str | PathLike[str]) -> None:
        """One HTML file with sliders: errors under their bounds, constants, verdicts and proofs; needs no network."""
        from boundcheck.views import page

        page.write(path, self)

    def save(self, directory: str | PathLike[str]) -> None:
        """report.json, curves.csv and all figures; each file is there whole or not at all."""
        from boundcheck.views import report_files

        report_files.save(self, directory)
