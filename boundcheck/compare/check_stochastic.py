"""`check_stochastic`: mean square errors, bias and variance of random methods, the bounds on them, and verdicts.

The stages are validate, constants of the noise, steps, runs, measure, judge.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from boundcheck import methods as method_names
from boundcheck.compare import stochastic_bounds
from boundcheck.compare.stochastic_experiment import StochasticExperiment, measured_curve
from boundcheck.compare.stochastic_noise import noise_setting
from boundcheck.constants import Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.reference import reference
from boundcheck.numerics.solvers.stochastic_chain import require_seed
from boundcheck.progress import Progress, no_progress
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.catalogue import bounds as catalogue

RANDOM = ("sid", "neumann")
ENDS = 2  # ends of an interval


@on_few_threads
def check_stochastic(
    problem: Problem | str,
    methods: Sequence[str] | None = None,
    t: int = 200,
    runs: int = 1000,
    seed: int = 0,
    *,
    lam: Any = None,
    steps: StepSchedule | str | None = None,
    steps_v: StepSchedule | None = None,
    points: int = 8,
    bounds: Sequence[str] | None = None,
    known: Constants | None = None,
    level: float = 0.999,
    delta: float = 1e-3,
    budget: int | None = None,
    memory: int = 1 << 30,
    progress: Progress | None = None,
) -> StochasticReport:
    """Compare the mean square error, bias and variance of random methods with every bound on them.

    Runs the method many times with independent minibatches. Every measured mean has a confidence interval; a bound
    holds only if the whole interval is below it.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`. Its lower level has to be a mean over examples:
        ``from_loss(…, data=…, batch=…)``.
    methods : sequence of str, optional
        "sid", with k = t steps of the linear solver, "sid:10" with k = 10, or "neumann:10", a Neumann series of random
        length up to 10; "sid" by default.
    t : int
        The largest number of lower-level steps; 200 by default.
    runs : int
        The number of independent runs, at least 2; 1000 by default.
    seed : int
        The seed of all draws; 0 by default.
    lam : structure of the hyperparameters, or tensor of shape (n,), optional
        Where to evaluate; the problem's own λ by default.
    steps : StepSchedule or "paper", optional
        The steps η_i of the lower level. By default `boundcheck.theory.stochastic_steps` derives them from the
        constants: with "paper" from Theorems 4.1 and 4.2, otherwise from the sharper recursion.
    steps_v : StepSchedule, optional
        The steps of the linear solver; by default computed in the same way as `steps`.
    points : int
        The number of t at which the means are measured, in geometric progression from 1 to `t`; 1 measures only at `t`.
        8 by default.
    bounds : sequence of str, optional
        Names of bounds from the catalogue; all that fit by default.
    known : Constants, optional
        Constants that you have proved. The estimator tests them, and does not use constants that it refutes.
    level : float
        The probability that all confidence intervals together are right; 0.999 by default.
    delta : float
        The probability that a certificate by random starts fails; 1e-3 by default.
    budget : int, optional
        The largest number of products with derivatives for each estimated constant; by default the limit of each
        estimator.
    memory : int
        The budget for the runs in bytes; 1 GiB by default.
    progress : callable (what, done, of) -> None, optional
        A function that is called with the name of the current task, the amount done, and the total amount.

    Returns
    -------
    StochasticReport
        `.verdict` is the worst verdict, `.verdicts[method, bound]` each verdict, `.curve(method)` the measurements;
        `.table()`, `.plot(path)` and `.save(directory)` show the report.

    Raises
    ------
    UnknownNameError
        If there is no such method or bound.
    InputError
        If an argument cannot be used, or the problem has no minibatches.
    DivergenceError
        If w(λ) cannot be computed, or the runs diverge.
    UserCodeError
        If a function of the user raises.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.logistic_regression(size=20, features=3, low=1.0, batch=5)
    >>> report = bc.check_stochastic(problem, t=10, runs=50, points=2)
    >>> report.verdict.is_violation
    False
    """
    problem = require_problem(problem)
    start, tell = time.perf_counter(), progress or no_progress
    chosen = _methods(methods)
    t, runs, points = (
        method_names.count(x, name, low) for x, name, low in ((t, "t", 1), (runs, "runs", 2), (points, "points", 1))
    )
    require_seed(seed)
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise InputError(f"level must be between 0 and 1 (got {level!r})")
    _refuse_other_bounds(bounds, chosen)
    finite_sum = require_minibatches(problem)
    if lam is not None:
        problem = problem.at(lam)
    spend = Spend(delta, seed, budget)
    tell("checking the problem", 0, 1)
    doubts = validate.check(problem, problem.lam).unconfirmed
    solution = reference(quick(problem), problem.lam[None])
    grid_t = np.unique(np.geomspace(1 if points > 1 else t, t, points).round().astype(int))
    longest = max([method.steps(t) for method in chosen])
    setting = noise_setting(problem, solution, t, longest, steps, steps_v, known, spend, tell, doubts)
    ends = ENDS * len(Measured) * len(grid_t) * len(chosen)
    experiment = StochasticExperiment(problem, solution, setting, grid_t, runs, seed, (1 - level) / ends, memory)
    curves = {}
    for number, method in enumerate(chosen):
        curves[str(method)] = measured_curve(experiment, method, bounds, tell, number, len(chosen))
    validate.unchanged(problem)
    return StochasticReport(
        problem={
            **problem.about(), "examples": finite_sum.examples, "batch": finite_sum.batch,
            "replacement": finite_sum.replacement,
        },
        constants=setting.case.constants,
        radius=setting.radius,
        ball_doubt=setting.case.ball_doubt,
        curves=curves,
        steps=setting.case.steps,
        steps_v=setting.case.steps_v,
        steps_how=setting.steps_how,
        runs=runs,
        level=level,
        gradient_norm=float(np.linalg.norm(experiment.reference.value)),
        certificate=setting.eps_g,
        largest_error=setting.largest_error,
        seed=seed,
        seconds=time.perf_counter() - start,
    )  # fmt: skip


def require_minibatches(problem: Problem) -> FiniteSum:
    """The finite sum of a problem; InputError if it has none."""
    if problem.finite_sum is None:
        raise InputError(
            f"{problem.name} has no minibatches; give data= and batch= to from_loss or from_map, or batch= to a "
            "built-in problem that takes it, such as lr"
        )
    return problem.finite_sum


def _methods(names: Sequence[str] | None) -> list[Method]:
    if isinstance(names, str):
        raise InputError(f"methods = {names!r} is a text; give a list, as in [{names!r}]")
    chosen = [method_names.parse(name) for name in (("sid",) if names is None else names)]
    if not chosen:
        raise InputError("methods is empty; give at least one, such as 'sid'")
    for method in chosen:
        if method.name not in RANDOM:
            raise InputError(f"{method} draws nothing at random; use check for it, and check_stochastic for sid")
    return list(dict.fromkeys(chosen))


def _refuse_other_bounds(names: Sequence[str] | None, methods: Sequence[Method]) -> None:
    if isinstance(names, str):
        raise InputError(f"bounds = {names!r} is a text; give a list, as in [{names!r}]")
    for name in names or ():
        bound = catalogue[name]
        if bound.bounds.name not in stochastic_bounds.QUANTITIES:
            raise InputError(f"{name} bounds {bound.bounds}, which is not measured here; leave it out")
        if not {method.name for method in methods} & set(bound.methods):
            raise UnknownNameError.among(
                "bound on these methods", name, [b.name for b in stochastic_bounds.about_means()]
            )
