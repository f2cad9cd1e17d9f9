"""The default steps of a single stochastic run, which the theory derives from the constants."""

from __future__ import annotations

from boundcheck.compare.stochastic_noise import PAPER, BothSteps, noise_setting
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.reference import reference
from boundcheck.progress import no_progress
from boundcheck.step_schedule import StepSchedule

DELTA = 1e-3  # the probability that an estimate fails


def default_steps(
    problem: Problem, t: int, k: int, steps: str | None = None, steps_v: StepSchedule | None = None
) -> BothSteps:
    """Derive the steps of both iterations from constants at the solution, which costs more than a run.

    Parameters
    ----------
    problem : Problem
        A problem with a finite sum.
    t, k : int
        The numbers of steps.
    steps : "paper" or None
        None for steps that make a bound small; "paper" for the advice of Grazzi, Pontil and Salzo (2021).
    steps_v : StepSchedule or None
        The steps of the linear solver; derived in the same way if None.

    Returns
    -------
    BothSteps
        The steps, and their source.

    Raises
    ------
    InputError
        If `steps` is another string.
    """
    if steps is not None and steps != PAPER:
        raise InputError(f"steps = {steps!r} are not steps; give a StepSchedule, such as StepSchedule.constant(0.1)")
    solution = reference(quick(problem), problem.lam[None])
    case = noise_setting(problem, solution, t, k, steps, steps_v, None, Spend(DELTA, problem.seed), no_progress)
    return BothSteps(case.case.steps, case.case.steps_v, case.steps_how)
