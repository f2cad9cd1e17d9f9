"""The result of `plan_stochastic` as data: steps, t, k and batch for a mean square error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from boundcheck.card import Card
from boundcheck.constants import Constants
from boundcheck.frames import frame
from boundcheck.json_numbers import SCHEMA
from boundcheck.number_text import number, percent
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_summary import PARTS
from boundcheck.report.stochastic_words import parts_sentence
from boundcheck.side import Side, standing
from boundcheck.step_schedule import StepSchedule

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


@dataclass(frozen=True)
class BoundedPart:
    """A bound on one of the three parts of E‖g − ∇f‖², which are the bias squared and two variances.

    Attributes
    ----------
    quantity : Measured
        Which part: the bias, E V[g | w_t] or V[E[g | w_t]].
    value : float
        The bound; for the bias, the bound on the bias itself and not on its square.
    side : Side
        Whether the bound is proved, given the constants.
    bound_name : str
        The name of the bound.
    """

    quantity: Measured
    value: float
    side: Side
    bound_name: str

    @property
    def root(self) -> float:
        """The value in the unit of the hypergradient: the bias, or a standard deviation."""
        return self.value if self.quantity is Measured.BIAS else math.sqrt(self.value)


@dataclass(frozen=True)
class CheapestSplit:
    """The cheapest t and k of one batch size.

    Attributes
    ----------
    batch : int
        The examples in a minibatch.
    t : int
        The steps of the lower level.
    k : int
        The steps of the linear solver.
    steps : StepSchedule
        The steps η_i of the lower level.
    steps_v : StepSchedule
        The steps of the linear solver.
    bound : float
        The bound on the mean square error.
    cost : int
        The number of examples that a run evaluates: batch·(t + k + 1).
    side : Side
        Whether the bound is proved, given the constants.
    bound_name : str
        The name of the bound.
    parts : tuple of BoundedPart
        Bounds on the bias and on both variances. Each comes from a separate theorem, so their sum may exceed `bound`.
    """

    batch: int
    t: int
    k: int
    steps: StepSchedule
    steps_v: StepSchedule
    bound: float
    cost: int
    side: Side
    bound_name: str
    parts: tuple[BoundedPart, ...] = ()

    def part(self, quantity: Measured) -> BoundedPart | None:
        """The bound on one part; None if there is none."""
        return next((part for part in self.parts if part.quantity is quantity), None)


@dataclass(frozen=True)
class MeasuredSplit:
    """The t = k at which runs reached the mean square error, by the whole interval or only by the estimate.

    Attributes
    ----------
    batch : int
        The examples in a minibatch.
    t : int
        The steps of both iterations.
    steps : StepSchedule
        The steps of the lower level.
    steps_v : StepSchedule
        The steps of the linear solver.
    mse : float
        The measured mean square error.
    upper : float
        The upper end of its interval.
    runs : int
        The number of runs.
    cost : int
        The number of examples that one run evaluates.
    shares : mapping from Measured to float
        Estimates of the shares of the squared bias and of the variances in `mse`. They add up to 1; empty if unknown.
    """

    batch: int
    t: int
    steps: StepSchedule
    steps_v: StepSchedule
    mse: float
    upper: float
    runs: int
    cost: int
    shares: Mapping[Measured, float] = field(default_factory=dict)


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
            sentences.append(f"No bound guarantees {goal}: {next(iter(self.reasons.values()), 'nothing applies')}.")
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
