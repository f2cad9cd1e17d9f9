"""The changes between two reports, as data and in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from boundcheck.card import Card
from boundcheck.frames import frame
from boundcheck.json_numbers import SCHEMA, finite

if TYPE_CHECKING:
    from pandas import DataFrame

MOST = 6  # show this many changes of each part; `changes` has all
Cell = float | int | str | None


class ChangePart(str, Enum):
    """The part of a report that changed, in the order in which changes are shown.

    Attributes
    ----------
    PROBLEM : str
        "problem": the name, a size, the precision, the last t, the losses at w_0 and w*, and so on.
    METHOD : str
        "method": a method that is in one report only.
    COURSE : str
        "course": the behaviour of a method's error as t grows, such as "converges" or "diverges".
    VERDICT : str
        "verdict": the verdict of a bound on a method.
    ERROR : str
        "error": the error of a method at the last t of both reports, the mean over λ.
    TIGHTNESS : str
        "bound/error": the mean over λ of this ratio, at the last t at which both reports have it.
    STEPS : str
        "steps": the t that a method needed, or that a proved bound guarantees, for an accuracy.
    CONSTANT : str
        "constant": the value of a constant, or how it is known.
    """

    PROBLEM = "problem"
    METHOD = "method"
    COURSE = "course"
    VERDICT = "verdict"
    ERROR = "error"
    TIGHTNESS = "bound/error"
    STEPS = "steps"
    CONSTANT = "constant"


@dataclass(frozen=True)
class Change:
    """One difference between two reports.

    Attributes
    ----------
    part : ChangePart
        The part of the report that changed.
    name : str
        The item that changed, such as "itd at t = 50".
    before : float, int, str or None
        The value in the first report; None if there is none.
    after : float, int, str or None
        The value in the second report; None if there is none.
    worse : bool or None
        Whether the second value is worse; None if neither is better.
    """

    part: ChangePart
    name: str
    before: Cell
    after: Cell
    worse: bool | None = None


@dataclass(frozen=True)
class Comparison:
    """The changes from one report to another.

    Attributes
    ----------
    problems : tuple of str and str
        The names of both problems; two problems may have the same name (`same_name_only`).
    changes : tuple of Change
        The differences that are larger than rounding, ordered by part.
    violated : tuple of str
        The bounds that are violated in the second report but not in the first, such as "itd-local on itd".
    seconds : tuple of float and float
        The run times of both reports.
    rtol : float
        The relative difference up to which numbers count as equal.
    """

    problems: tuple[str, str]
    changes: tuple[Change, ...]
    violated: tuple[str, ...]
    seconds: tuple[float, float]
    rtol: float

    @property
    def worse(self) -> int:
        """The number of changes for the worse."""
        return sum(change.worse is True for change in self.changes)

    @property
    def same_name_only(self) -> bool:
        """Whether the problems differ but have the same name: another size, or other losses at the same λ."""
        changed = {change.name for change in self._of(ChangePart.PROBLEM)}
        return "name" not in changed and bool(changed & SIZES or (changed & LOSSES and not changed & PLACES))

    @property
    def sentence(self) -> str:
        """The changes in one sentence."""
        first, second = self.problems
        start = first if first == second else f"Different problems, {first} and {second}"
        if first == second and self.same_name_only:
            start = f"Different problems, both called {first}"
        if not self.changes:
            return f"{start}: nothing changed."
        parts = [f"{c.name} {c.after} now (it {COURSES[str(c.before)]} before)" for c in self._of(ChangePart.COURSE)]
        parts += [
            _counted(self._of(ChangePart.VERDICT), "verdict", "got worse", "got better", "changed"),
            _counted(self._of(ChangePart.ERROR), "error", "grew", "fell", "changed"),
        ]
        methods, constants = self._of(ChangePart.METHOD), {c.name for c in self._of(ChangePart.CONSTANT)}
        parts += [f"{len(methods)} method{'s are' if len(methods) > 1 else ' is'} in one report only"] * bool(methods)
        parts += [f"{len(constants)} constant{'s' * (len(constants) > 1)} changed"] * bool(constants)
        properties = [change.name for change in self._of(ChangePart.PROBLEM) if change.name != "name"]
        parts += [f"different {', '.join(properties)}"] * bool(properties)
        return f"{start}: {', '.join(parts)}."

    def _of(self, part: ChangePart) -> list[Change]:
        return [change for change in self.changes if change.part is part]

    def _card(self) -> Card:
        """The sentence, a row for each change (for the first `MOST` if a part has many), and the times."""
        rows: list[tuple[str, ...]] = []
        for part in ChangePart:
            changes = sorted(self._of(part), key=lambda change: change.worse is not True)  # the worse ones first
            visible = changes[:MOST] if len(changes) > MOST + 1 else changes
            rows += [(c.part.value, c.name, _cell(c.before), _cell(c.after), MARKS[c.worse]) for c in visible]
            if len(visible) < len(changes):
                rows.append((part.value, f"… and {len(changes) - len(visible)} more", "", "", ""))
        times = f"time: {self.seconds[0]:.1f} s before, {self.seconds[1]:.1f} s after"
        violated = tuple(f"now violated: {name}" for name in self.violated)
        header = ("what", "which", "before", "after", "")
        return Card(self.sentence, violated, header, tuple(rows), frozenset({"before", "after"}), (times,))

    def __str__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data, for a JSON file.

        Returns
        -------
        dict
            A dictionary without NaN or infinity.
        """
        return {
            "schema": SCHEMA,
            "sentence": self.sentence,
            "problems": list(self.problems),
            "worse": self.worse,
            "violated": list(self.violated),
            "changes": [{**asdict(c), "before": finite(c.before), "after": finite(c.after)} for c in self.changes],
            "seconds": list(self.seconds),
            "rtol": self.rtol,
        }

    def to_frame(self) -> DataFrame:
        """The changes as a pandas table, one row for each.

        Returns
        -------
        DataFrame
            A table with the columns part, name, before, after and worse.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        names = ("part", "name", "before", "after", "worse")
        cells = [{**asdict(change), "part": change.part.value} for change in self.changes]
        return frame({name: [row[name] for row in cells] for name in names})


SIZES = {"dim", "hdim"}
LOSSES = {f"{name} loss at {w}" for name in ("inner", "outer") for w in ("w_0", "w*")}
PLACES = {"norm of λ", "norm of w_0"}
COURSES = {
    "converges": "converged",
    "converged": "converged",
    "falls": "fell",
    "stalls": "stalled",
    "diverges": "diverged",
}
MARKS = {True: "worse", False: "better", None: ""}


def _counted(changes: Iterable[Change], noun: str, worse: str, better: str, other: str) -> str:
    """The number of changes of each kind, such as "2 verdicts got worse, 1 got better"."""
    counts = {True: 0, False: 0, None: 0}
    for change in changes:
        counts[change.worse] += 1
    verbs = [(counts[key], verb) for key, verb in ((True, worse), (False, better), (None, other)) if counts[key]]
    if not verbs:
        return f"all {noun}s are equal"
    (n, verb), *rest = verbs
    return ", ".join([f"{n} {noun}{'s' * (n > 1)} {verb}", *(f"{m} {also}" for m, also in rest)])


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
