"""Methods with minibatches on the command line: their options, their problems, and their check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundcheck.cli.options import asked_problem
from boundcheck.errors import InputError
from boundcheck.methods import RANDOM_METHODS
from boundcheck.step_schedule import StepSchedule

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem
    from boundcheck.report.stochastic_report import StochasticReport

PAPER = "paper"  # the steps of Theorems 4.1 and 4.2
BATCH, RUNS, POINTS, LEVEL = 10, 1000, 8, 0.999  # default values

Runs = Annotated[int | None, typer.Option("--runs", help=f"With --method sid: independent runs (default {RUNS}).")]
Batch = Annotated[
    int | None,
    typer.Option("--batch", help="With --method sid: examples in a minibatch (default: the problem's, or 10)."),
]
Step = Annotated[
    str, typer.Option("--step", metavar="STEP", help="With --method sid: the step, 0.5 or 2/(10+i) (default: best).")
]
StepV = Annotated[
    str, typer.Option("--step-v", metavar="STEP", help="The same for the linear solver (default: as for --step).")
]
Points = Annotated[
    int | None, typer.Option("--points", help=f"With --method sid: how many t are measured (default {POINTS}).")
]
Level = Annotated[
    float | None,
    typer.Option("--level", help=f"With --method sid: probability of all confidence intervals (default {LEVEL})."),
]


@dataclass(frozen=True)
class Schedules:
    """The steps for w, which may be "paper", and for v; None for the best steps."""

    of_w: StepSchedule | str | None
    of_v: StepSchedule | None


@dataclass(frozen=True)
class Options:
    """The options of methods with minibatches; None or empty if not given."""

    runs: int | None = None
    batch: int | None = None
    step: str = ""
    step_v: str = ""
    points: int | None = None
    level: float | None = None

    def asked(self) -> dict[str, object]:
        """Return the options that were given, by their names on the command line."""
        every = {
            "--runs": self.runs, "--batch": self.batch, "--step": self.step, "--step-v": self.step_v,
            "--points": self.points, "--level": self.level,
        }  # fmt: skip
        return {name: value for name, value in every.items() if value not in (None, "")}

    def schedules(self) -> Schedules:
        """Return the steps that were requested."""
        of_w = self.step if self.step == PAPER else asked_steps("--step", self.step)
        return Schedules(of_w, asked_steps("--step-v", self.step_v))


def asks_for_minibatches(methods: Sequence[str] | None, options: Options, others: dict[str, bool]) -> bool:
    """Return whether methods with minibatches were requested.

    InputError if they are combined with other methods or with options of other methods. `others` has these options by
    name, and whether they were given.
    """
    drawn = [name for name in methods or () if name.partition(":")[0] in RANDOM_METHODS]
    rest = [name for name in methods or () if name not in drawn]
    if drawn and rest:
        raise InputError(f"--method {drawn[0]} draws minibatches and --method {rest[0]} does not; run them one by one")
    if not drawn:
        for name, value in options.asked().items():
            raise InputError(f"{name} {value} is for methods with minibatches; add --method sid")
        return False
    for name in (name for name, given in others.items() if given):
        raise InputError(f"{name} is for methods without minibatches; leave it out with --method {drawn[0]}")
    return True


def asked_finite_sum(
    spec: str, seed: int | None, dtype: str, device: str, settings: Sequence[str] | None, batch: int | None
) -> Problem:
    """Load the problem with minibatches of the requested size. Built-in problems have them only on request."""
    from boundcheck.problems import CATALOGUE

    settings = list(settings or ())
    takes = spec in CATALOGUE and "batch" in inspect.signature(CATALOGUE[spec].make).parameters
    if takes and not any(text.partition("=")[0].strip() == "batch" for text in settings):
        settings.append(f"batch={BATCH if batch is None else batch}")
    problem = asked_problem(spec, seed, dtype, device, settings)
    if batch is None or problem.finite_sum is None:  # without minibatches, the check says what to do
        return problem
    return problem.with_batch(batch, replacement=problem.finite_sum.replacement)


def asked_steps(option: str, text: str) -> StepSchedule | None:
    """Return the steps of an option; None if it was not given."""
    if not text:
        return None
    try:
        return StepSchedule.parse(text)
    except InputError as why:
        raise InputError(f"{option}: {why}" if repr(text) in str(why) else f"{option} {text}: {why}") from None


def run_minibatches(
    problem: Problem,
    methods: Sequence[str],
    t: int,
    options: Options,
    steps: Schedules,
    *,
    seed: int | None,
    **more: Any,
) -> StochasticReport:
    """Run the check of methods with minibatches."""
    from boundcheck.compare.check_stochastic import check_stochastic

    return check_stochastic(
        problem, methods, t, RUNS if options.runs is None else options.runs, seed or 0, steps=steps.of_w,
        steps_v=steps.of_v, points=POINTS if options.points is None else options.points,
        level=LEVEL if options.level is None else options.level, **more,
    )  # fmt: skip


def fewer_runs(options: Options) -> Callable[[float], str]:
    """Return a function from the seconds of a check to advice."""
    runs = RUNS if options.runs is None else options.runs
    return lambda seconds: f"use fewer runs, such as --runs {max(2, int(runs * 600 / seconds))}, or fewer steps (--t)"
