"""One method of a report: its errors, the bounds on them, and the traces of their proofs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.report.accuracy import Accuracy
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side
from boundcheck.theory.kinds import BoundKind

CLEARLY = 0.99  # a value is clearly smaller than another if it is below this fraction of it


@dataclass(frozen=True, eq=False)
class Trace:
    """A proof on the problem: the value after each link, and the slack of each link.

    Attributes
    ----------
    links : tuple of str
        The names of the links, from the measured error to the bound.
    because : tuple of str
        The justification of each link.
    uses : tuple of tuple of str
        The constants that each link introduces.
    t : ndarray
        The t at which the proof was traced.
    values : ndarray of shape (links, t)
        The value after each link.
    slacks : ndarray of shape (links, t)
        Each value divided by the value before, and 1 in the first row; their product is bound/error.
    broken : ndarray of bool, of shape (links, t)
        Whether the link is false: the value falls at it by more than rounding.
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
        """log(slack) of each link divided by log(bound/error), links × t; NaN where the bound equals the error."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.slacks)
            total = logs.sum(axis=0)
            return np.where(np.abs(total) > 1e-9, logs / total, np.nan)

    @property
    def first_broken(self) -> str | None:
        """The first false link, at the first t with a false link; None if all links hold."""
        steps = self.broken.any(axis=0)
        return self.links[int(self.broken[:, steps.argmax()].argmax())] if steps.any() else None


@dataclass(frozen=True)
class MeasuredRate:
    """A measured rate: the factor by which the error shrinks at each step, where log(error) is a line.

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
    """One bound on the error of one method, compared with the error.

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
        The bound; NaN where the theorem does not apply.
    side : Side
        The side of the values, given their constants.
    delta : float
        The probability that the values are too small; 0 unless the side is "high-probability".
    weakest : tuple of str
        The least certain constants, which decide the side.
    verdict : Verdict
        Whether the error stays below the bound.
    reason : str
        Why the bound is not applicable, inconclusive or violated; otherwise the evidence for the verdict.
    tightness : ndarray of shape (samples, t)
        bound/error; NaN where the error is at the rounding floor.
    rate_predicted : float or None
        The factor for each step that the bound predicts.
    asks : mapping from float to int or None
        For some accuracies, the t that the bound guarantees to be enough; None if there is none.
    trace : Trace or None
        The proof on this problem; None if it was not traced.
    asks_relative : mapping from float to int or None
        The same as `asks` for accuracies in units of ‖∇f‖: 0.1, 0.01 and 0.001; empty if ‖∇f‖ is unknown.
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
    asks_relative: Mapping[float, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", BoundKind.parse(self.kind))

    @property
    def compared(self) -> int:
        """The number of points (t, λ) at which error and bound were compared; elsewhere the error is rounding."""
        return int((~np.isnan(self.tightness)).sum())

    @property
    def best(self) -> float | None:
        """The smallest bound/error; None if every error is at the floor."""
        return None if np.isnan(self.tightness).all() else float(np.nanmin(self.tightness))

    @property
    def worst(self) -> float | None:
        """The largest bound/error; None if every error is at the floor."""
        return None if np.isnan(self.tightness).all() else float(np.nanmax(self.tightness))

    @property
    def at_end(self) -> float:
        """The mean over λ of bound/error at the last t where the error exceeds rounding; infinite if there is none."""
        finite = np.isfinite(self.tightness).any(axis=0)
        return float(np.nanmean(self.tightness[:, np.flatnonzero(finite)[-1]])) if finite.any() else np.inf


@dataclass(frozen=True, eq=False)
class Curve:
    """One method on the problem: its errors, and the bounds on them.

    Attributes
    ----------
    method : str
        The name of the method, as in the call of `check`.
    t : ndarray of shape (T,)
        The numbers of steps 1 … T.
    k : ndarray of shape (T,) or None
        The steps of the linear solver at each t, or the steps that are differentiated through; None for "itd".
    errors : ndarray of shape (samples, T)
        ‖g(t) − ∇f(λ)‖.
    floor : ndarray of shape (samples, T)
        The rounding floor; an error below it is rounding.
    rate : MeasuredRate or None
        The measured rate on the first sample; None if log(error) is not a line.
    needs : mapping from float to int or None
        For some accuracies, the t from which on the error of every sample is below the accuracy; None if there is none.
    bounds : mapping from str to BoundCurve
        The bounds on this method, by name.
    last : Accuracy or None
        The relative error, the angle to ∇f and the descent direction of g at the last t and the first λ; None if the
        run diverged, and in reports of versions before 0.2.
    """

    method: str
    t: np.ndarray
    k: np.ndarray | None
    errors: np.ndarray
    floor: np.ndarray
    rate: MeasuredRate | None
    needs: Mapping[float, int | None]
    bounds: Mapping[str, BoundCurve]
    last: Accuracy | None = None

    @property
    def falls(self) -> bool:
        """Whether the error falls with t, or is at the floor, for every λ.

        This compares the median errors over the first and the last quarter of t.
        """
        T = len(self.t)
        part = max(1, T // 4)
        first, last = self._median_error(T, T - part), self._median_error(part, 0)
        return bool(((last < first) | (np.isfinite(last) & (last <= self.floor[:, -1]))).all())

    @property
    def still_falls(self) -> bool:
        """Whether the error of every λ fell clearly over the last quarter of t, or is at the floor."""
        part = max(1, len(self.t) // 8)
        before, last = self._median_error(2 * part, part), self._median_error(part, 0)
        return bool(((last < CLEARLY * before) | (np.isfinite(last) & (last <= self.floor[:, -1]))).all())

    @property
    def grows(self) -> bool:
        """Whether the error of some λ is larger at the end than at the start and in the middle, or not finite."""
        T = len(self.t)
        part = max(1, T // 4)
        first, middle = self._median_error(T, T - part), self._median_error(2 * part, part)
        last = self._median_error(part, 0)
        return bool((~np.isfinite(last) | ((last > first) & (last * CLEARLY > middle))).any())

    def _median_error(self, since: int, until: int) -> np.ndarray:
        """The median error of each λ over a range of t, counted from the end; the range is never empty."""
        stop = max(1, len(self.t) - until)
        median: np.ndarray = np.median(self.errors[:, min(max(0, len(self.t) - since), stop - 1) : stop], axis=1)
        return median

    def certified(self, kind: BoundKind | str = "") -> np.ndarray:
        """The smallest of the bounds that are proved for these constants.

        Parameters
        ----------
        kind : {"", "a priori", "a priori, from the spectrum", "a posteriori"}
            The kind of the bounds to include; all kinds by default.

        Returns
        -------
        ndarray of shape (samples, T)
            The least value at each t; NaN if no bound is proved.
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
        """The bounds that apply to this method on this problem, by name."""
        return {name: bound for name, bound in self.bounds.items() if bound.verdict is not Verdict.NOT_APPLICABLE}
