"""The result of `plan_stochastic` as data: steps, t, k and batch for a mean square error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from boundcheck.card import Card
from boundcheck.constants import Constants
from boundcheck.frames import frame
from boundcheck.json_numbers import SCHEMA
from boundcheck.number_text import number, percent
from boundcheck.report.stochastic_split import CheapestSplit, MeasuredSplit
from boundcheck.report.stochastic_summary import PARTS
from boundcheck.report.stochastic_words import parts_sentence
from boundcheck.side import Side, standing

if TYPE_CHECKING:
    from pandas import DataFrame

OF_PARTS = tuple(part.value for part in PARTS)
COLUMNS = ("batch", "t", "k", "bound", "value", *OF_PARTS, "known", "side", "cost", "best")
HEADER = ("batch", "t", "k", "examples", "error", "bias", "√V given w", "√V of mean", "status")
ENOUGH = {
    "proved": "is proved to be enough",
    "probable": "is probably enough",
    "estimated": "may be enough (estimated)",
}


@dataclass(frozen=True, eq=False)
class StochasticPlan:
    """The steps, t, k and batch for a mean square error.

    Attributes
    ----------
    problem : mapping from str to object
        name, dim (d), hdim (n), examples (N), batch and so on.
    rmse : float
        The allowed root mean square error.
    gradient_norm : float
        ‖∇f‖ of the reference.
    splits : tuple of CheapestSplit
        The cheapest t and k that a bound guarantees, for each batch size that has a guarantee.
    measured : MeasuredSplit or None
        The t = k that runs needed; None if no run reached the error, or there were no runs.
    reasons : mapping from int to str
        Why there is no guarantee, by batch size.
    constants : Constants
        The constants, for the smallest batch.
    """

    problem: Mapping[str, object]
    rmse: float
    gradient_norm: float
    splits: tuple[CheapestSplit, ...]
    measured: MeasuredSplit | None
    reasons: Mapping[int, str]
    constants: Constants

    @property
    def cheapest(self) -> CheapestSplit | None:
        """The split that evaluates the fewest examples, proved splits first; None if there is none."""
        return min(self.splits, key=lambda split: (split.side is Side.LOWER, split.cost), default=None)

    def card(self) -> Card:
        """What to use, in a sentence and a table.

        Returns
        -------
        Card
            The card, which prints as text or as HTML.
        """
        relative = f" ({percent(self.rmse / self.gradient_norm)} of ‖∇f‖)" if self.gradient_norm > 0 else ""
        goal = f"a root mean square error of {number(self.rmse)}{relative}"
        best, sentences = self.cheapest, []
        if best is None:
            sentences.append(f"No bound guarantees {goal}{_why_none(self.reasons)}.")
        else:
            sentences.append(
                f"For {goal}: batch = {best.batch}, t = {best.t}, k = {best.k} "
                f"{ENOUGH[standing(best.side)]}, by {best.bound_name}."
            )
            sentences.append(f"Steps: {best.steps} for w; {best.steps_v} for v.")
        if self.measured is not None:
            m = self.measured
            error, most = number(math.sqrt(m.mse)), number(math.sqrt(m.upper))
            enough = f"In {m.runs} runs with batch = {m.batch}, t = k = {m.t} was enough: {error}"
            if m.upper <= self.rmse**2:
                sentences.append(f"{enough}, at most {most} (measured).")
            else:
                sentences.append(
                    f"{enough} (an estimate: rare runs may be far off, and the interval goes up to {most})."
                )
            sentences += [parts_sentence(m.shares)] if m.shares else []
            sentences.append(f"Steps of these runs: {m.steps} for w; {m.steps_v} for v.")
        rows = tuple(self._row(split) for split in self.splits)
        notes = [f"batch = {batch}: {why}" for batch, why in self.reasons.items()]
        if rows:
            unit = " in per cent of ‖∇f‖" if self.gradient_norm > 0 else ""
            notes.insert(0, f"error, bias and standard deviations: upper bounds{unit}")
        return Card(_title(self.problem), tuple(sentences), HEADER, rows, frozenset(HEADER[:-1]), tuple(notes))

    def _row(self, split: CheapestSplit) -> tuple[str, ...]:
        of_parts = (_size(None if part is None else part.root, self) for part in map(split.part, PARTS))
        error = _size(math.sqrt(split.bound), self)
        known = standing(split.side)
        return (str(split.batch), str(split.t), str(split.k), f"{split.cost:,}", error, *of_parts, known)

    def to_frame(self) -> DataFrame:
        """The splits as a pandas table, one row for each batch size that has a guarantee.

        Returns
        -------
        DataFrame
            A table with the columns batch, t, k, bound, value (of the bound on the mean square error), bias,
            variance_given_w and variance_of_mean (bounds on its parts), known ("proved", "probable" or "estimated"),
            side, cost (the number of examples) and best (True for the cheapest).

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        best = self.cheapest
        cells = [
            (
                s.batch,
                s.t,
                s.k,
                s.bound_name,
                s.bound,
                *(None if part is None else part.value for part in map(s.part, PARTS)),
                standing(s.side),
                s.side.value,
                s.cost,
                s is best,
            )
            for s in self.splits
        ]
        return frame({name: [row[i] for row in cells] for i, name in enumerate(COLUMNS)})

    def __repr__(self) -> str:
        return f"StochasticPlan({self.problem['name']}, rmse={self.rmse:.4g}, {len(self.splits)} splits)"

    def __str__(self) -> str:
        return self.card().text()

    def _repr_html_(self) -> str:
        return self.card().html()

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data, for a JSON file.

        Returns
        -------
        dict
            A dictionary without NaN or infinity.
        """
        return {
            "schema": SCHEMA,
            "kind": "stochastic plan",
            "problem": dict(self.problem),
            "rmse": self.rmse,
            "gradient_norm": self.gradient_norm,
            "splits": [_split_as_json(split) for split in self.splits],
            "measured": None if self.measured is None else _measured_as_json(self.measured),
            "reasons": {str(batch): why for batch, why in self.reasons.items()},
            "constants": self.constants.as_json(),
        }


def _why_none(reasons: Mapping[int, str]) -> str:
    """The reason of the largest batch, for that of a smaller one may be that it is too small."""
    if not reasons:
        return ": nothing applies"
    batch = max(reasons)
    return f"{f', not even with batch = {batch}' if len(reasons) > 1 else ''}: {reasons[batch]}"


def _title(problem: Mapping[str, object]) -> str:
    return (
        f"{problem['name']}: d = {problem['dim']}, n = {problem['hdim']}, {problem['examples']} examples, "
        f"{problem['dtype']} on {problem['device']}"
    )


def _size(x: float | None, plan: StochasticPlan) -> str:
    if x is None:
        return "–"
    return percent(x / plan.gradient_norm) if plan.gradient_norm > 0 else number(x)


def _split_as_json(split: CheapestSplit) -> dict[str, Any]:
    parts = {
        part.quantity.value: {"value": part.value, "side": part.side.value, "bound_name": part.bound_name}
        for part in split.parts
    }
    return {**asdict(split), "side": split.side.value, "parts": parts}


def _measured_as_json(measured: MeasuredSplit) -> dict[str, Any]:
    return {**asdict(measured), "shares": {part.value: share for part, share in measured.shares.items()}}
