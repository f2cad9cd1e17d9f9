"""The answer of a report in a few facts: errors, the best bound of each method, steps for 1 %, and what to do next."""

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
        """The grade of a bound/error."""
        return cls.TIGHT if ratio <= TIGHT else cls.LOOSE if ratio <= LOOSE else cls.VACUOUS


class Course(str, Enum):
    """What the error of a method does as t grows.

    Attributes
    ----------
    CONVERGES : str
        "converges": it falls, and Φ contracts on the ball of the iterates, or at w* if the error still falls at the
        end.
    FALLS : str
        "falls": it is smaller than at the start, but may not fall any more.
    ROUNDING : str
        "converged": it is at the rounding floor.
    STALLS : str
        "stalls": it does not fall.
    DIVERGES : str
        "diverges": it does not fall, and Φ does not contract at w*, or the error grows or is not finite.
    """

    CONVERGES = "converges"
    FALLS = "falls"
    ROUNDING = "converged"
    STALLS = "stalls"
    DIVERGES = "diverges"


@dataclass(frozen=True)
class BestBound:
    """The smallest bound of a method at the last t: a proved one, or else a probable one, or else an estimated one.

    Attributes
    ----------
    name : str
        Its name in the catalogue.
    kind : str
        "a priori", "a priori, from the spectrum" or "a posteriori".
    known : str
        "proved", "probable" or "estimated".
    ratio : float or None
        bound/error at the last t above the rounding floor; None where there is none.
    """

    name: str
    kind: str
    known: str
    ratio: float | None

    @property
    def grade(self) -> Grade | None:
        """How close the bound is; None where it was not compared."""
        return None if self.ratio is None else Grade.of(self.ratio)


@dataclass(frozen=True)
class StepsNeeded:
    """The steps for an error of 1 % of ‖∇f‖; those of the linear solver are as many, unless the method fixes them.

    Attributes
    ----------
    needed : int or None
        The t from which on the error was, or is expected to be, within 1 %; None if that cannot be said.
    measured : bool
        Whether the run got there; False if `needed` follows from the rate of the last part of the run.
    guaranteed : int or None
        The least t for which a proved bound is within 1 %; None if there is none.
    earliest : int or None
        The least t that `needed` may be, by the rates of other parts of the run; `needed` itself if it is measured.
    latest : int or None
        The largest t that `needed` may be, likewise; None if that cannot be said.
    """

    needed: int | None
    measured: bool
    guaranteed: int | None
    earliest: int | None = None
    latest: int | None = None

    def is_less(self, other: StepsNeeded) -> bool:
        """Whether fewer steps are needed than `other` has, whatever the estimates of both are off by."""
        return self.latest is not None and (other.earliest is None or self.latest < other.earliest)


@dataclass(frozen=True)
class MethodSummary:
    """One method in a few numbers, at the last t.

    Attributes
    ----------
    method : str
        The method, as it was named.
    t : int
        The last t.
    k : int or None
        The steps of the linear solver there; None for "itd".
    error : float
        ‖g − ∇f‖, the mean over λ.
    relative_error : float or None
        ‖g − ∇f‖/‖∇f‖, the mean over λ; None where ‖∇f‖ is 0 or not known.
    known : str
        What the errors are worth: "proved", "probable" or "estimated".
    angle : float or None
        At least the angle between g and ∇f at the first λ, in degrees; None where the run is not finite.
    descent : bool or None
        Whether −g is a descent direction at the first λ; None where that is not known.
    course : Course
        Whether the error falls.
    best : BestBound or None
        The best bound; None if none applies.
    blocked : str
        Why no bound is proved; empty if one is.
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
    """What a report says, in a few facts and sentences.

    Attributes
    ----------
    verdict : Verdict
        The worst verdict of the bounds that apply.
    verdict_sentence : str
        The verdict in words.
    methods : tuple of MethodSummary
        One for each method that was run.
    step_sentence : str
        Whether Φ contracts and which step size to use; empty where nothing is known.
    next_steps : tuple of str
        What to do next, the most useful first.
    """

    verdict: Verdict
    verdict_sentence: str
    methods: tuple[MethodSummary, ...]
    step_sentence: str
    next_steps: tuple[str, ...]
