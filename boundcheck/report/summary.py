"""The summary of a report: errors, the best bound of each method, steps for 1 %, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from boundcheck.report.verdict import Verdict

TIGHT, LOOSE = 10.0, 1e3  # the largest bound/error of each grade


class Grade(str, Enum):
    """How close a bound is to the error.

    Attributes
    ----------
    TIGHT : str
        "tight": within a factor of 10.
    LOOSE : str
        "loose": within a factor of 1000.
    VACUOUS : str
        "vacuous": more than 1000 times the error.
    """

    TIGHT = "tight"
    LOOSE = "loose"
    VACUOUS = "vacuous"

    @classmethod
    def of(cls, ratio: float) -> Grade:
        """The grade for a ratio bound/error."""
        return cls.TIGHT if ratio <= TIGHT else cls.LOOSE if ratio <= LOOSE else cls.VACUOUS


class Course(str, Enum):
    """The behaviour of a method's error as t grows.

    Attributes
    ----------
    CONVERGES : str
        "converges": the error falls, and Φ contracts on the ball of the iterates; or the error still falls at the end,
        and Φ contracts at w*.
    FALLS : str
        "falls": the error is smaller than at the start, but may not fall any more.
    ROUNDING : str
        "converged": the error is at the rounding floor.
    STALLS : str
        "stalls": the error does not fall.
    DIVERGES : str
        "diverges": the error does not fall, and it grows or is not finite, or Φ does not contract at w*.
    """

    CONVERGES = "converges"
    FALLS = "falls"
    ROUNDING = "converged"
    STALLS = "stalls"
    DIVERGES = "diverges"


@dataclass(frozen=True)
class BestBound:
    """The smallest bound of a method at the last t, among the proved, else the probable, else the estimated bounds.

    Attributes
    ----------
    name : str
        The name in the catalogue.
    kind : str
        "a priori", "a priori, from the spectrum" or "a posteriori".
    known : str
        "proved", "probable" or "estimated".
    ratio : float or None
        bound/error at the last t above the rounding floor; None if there is no such t.
    """

    name: str
    kind: str
    known: str
    ratio: float | None

    @property
    def grade(self) -> Grade | None:
        """How close the bound is; None if it was not compared."""
        return None if self.ratio is None else Grade.of(self.ratio)


@dataclass(frozen=True)
class StepsNeeded:
    """The steps for an error of 1 % of ‖∇f‖. The linear solver takes as many steps, unless the method fixes k.

    Attributes
    ----------
    needed : int or None
        The t from which on the error was, or is expected to be, within 1 %; None if unknown.
    measured : bool
        Whether the run reached 1 %; False if `needed` is extrapolated from the last part of the run.
    guaranteed : int or None
        The least t for which a proved bound is within 1 %; None if there is none.
    earliest : int or None
        The least plausible value of `needed`, from the rates of other parts of the run; `needed` itself if measured.
    latest : int or None
        The largest plausible value of `needed`, from the same rates; None if unknown.
    """

    needed: int | None
    measured: bool
    guaranteed: int | None
    earliest: int | None = None
    latest: int | None = None

    def is_less(self, other: StepsNeeded) -> bool:
        """Whether this needs fewer steps than `other`, given the uncertainty of both estimates."""
        return self.latest is not None and (other.earliest is None or self.latest < other.earliest)


@dataclass(frozen=True)
class MethodSummary:
    """One method in a few numbers, at the last t.

    Attributes
    ----------
    method : str
        The name of the method, as in the call of `check`.
    t : int
        The last t.
    k : int or None
        The steps of the linear solver at the last t; None for "itd".
    error : float
        ‖g − ∇f‖, the mean over λ.
    relative_error : float or None
        ‖g − ∇f‖/‖∇f‖, the mean over λ; None if ‖∇f‖ is 0 or unknown.
    known : str
        How the errors are known: "proved", "probable" or "estimated".
    angle : float or None
        An upper bound on the angle between g and ∇f at the first λ, in degrees; None if the run is not finite.
    descent : bool or None
        Whether −g is a descent direction at the first λ; None if unknown.
    course : Course
        Whether the error falls.
    best : BestBound or None
        The best bound; None if none applies.
    blocked : str
        Why no bound is proved; empty if a bound is proved.
    steps : StepsNeeded
        The steps for 1 %.
    """

    method: str
    t: int
    k: int | None
    error: float
    relative_error: float | None
    known: str
    angle: float | None
    descent: bool | None
    course: Course
    best: BestBound | None
    blocked: str
    steps: StepsNeeded


@dataclass(frozen=True)
class Summary:
    """A report in a few facts and sentences.

    Attributes
    ----------
    verdict : Verdict
        The worst verdict of the bounds that apply.
    verdict_sentence : str
        The verdict in words.
    methods : tuple of MethodSummary
        The summary of each method that was run.
    step_sentence : str
        Whether Φ contracts, and which step size to use; empty if unknown.
    next_steps : tuple of str
        What to do next, the most useful first.
    """

    verdict: Verdict
    verdict_sentence: str
    methods: tuple[MethodSummary, ...]
    step_sentence: str
    next_steps: tuple[str, ...]
