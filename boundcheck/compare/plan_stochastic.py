"""`plan_stochastic`: steps, t, k and batch for a mean square error, guaranteed by a bound or found by runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch

from boundcheck import methods as method_names
from boundcheck.compare.check_stochastic import check_stochastic, require_minibatches
from boundcheck.compare.stochastic_bounds import BoundsOnGrid, StochasticCase
from boundcheck.compare.stochastic_noise import CALMER, FULL, advised, capped, largest_step, noise_setting
from boundcheck.constants import Constants
from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.numerics.solvers.stochastic_chain import require_seed
from boundcheck.progress import Progress, no_progress
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_plan import StochasticPlan
from boundcheck.report.stochastic_split import BoundedPart, CheapestSplit, MeasuredSplit
from boundcheck.report.stochastic_summary import shares_of_parts
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.rate_inversion import OfRates, doubled

THEOREM = catalogue["sid-orthogonal"]  # at most the bound of Theorem 3.4 of the paper
OF_PARTS = tuple(catalogue[name] for name in ("sid-bias", "sid-variance-given-w", "sid-variance-of-mean"))
LONGEST = 20_000  # steps that a plan may take
MOST_TRIED = 2_000  # up to this many steps, other numbers than powers of two are tried
NEAR = (0.18, 0.25, 0.35, 0.6, 0.7, 0.85, 1.4)  # these multiples of a sufficient power of two are tried too
RUNS, LONGEST_RUN = 300, 2_000
# constants that are variances over minibatches
SCALED = ("V_star", "m_1", "m_2", "L_ell_hat", "sigma_1", "sigma_2", "sigma_1_grad", "sigma_2_grad")


@on_few_threads
def plan_stochastic(
    problem: Problem | str,
    rmse: float | None = None,
    *,
    rtol: float | None = None,
    batches: Sequence[int] | None = None,
    known: Constants | None = None,
    delta: float = 1e-3,
    seed: int = 0,
    budget: int | None = None,
    memory: int = 1 << 30,
    run: bool = True,
    progress: Progress | None = None,
) -> StochasticPlan:
    """Find the steps, t, k and batch with which SID has a root mean square error of at most `rmse`.

    For each batch size, the bound `sid-orthogonal` gives the t and k that evaluate the fewest examples. Runs with the
    batch of the problem then show which t = k was enough, also if no bound applies.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`, with minibatches.
    rmse : float, optional
        The allowed root mean square error: E‖g − ∇f‖² ≤ rmse². Give either `rmse` or `rtol`.
    rtol : float, optional
        The allowed root mean square error in units of ‖∇f‖.
    batches : sequence of int, optional
        The batch sizes to compare; by default 1, 10, 100, … up to all examples, and the batch of the problem.
    known : Constants, optional
        Constants that you have proved. The estimator tests them, and does not use constants that it refutes.
    delta : float
        The probability that a certificate by random starts fails; 1e-3 by default.
    seed : int
        The seed of the runs; 0 by default.
    budget : int, optional
        The largest number of products with derivatives for each estimated constant; by default the limit of each
        estimator.
    memory : int
        The budget for the runs in bytes; 1 GiB by default.
    run : bool
        Whether to run SID to see which steps are enough; True by default.
    progress : callable (what, done, of) -> None, optional
        A function that is called with the name of the current task, the amount done, and the total amount.

    Returns
    -------
    StochasticPlan
        `.splits` has t and k for every batch size, with bounds on the bias and on the variances. `.cheapest` is the
        cheapest split, and `.measured` has the t = k that runs needed.

    Raises
    ------
    InputError
        If an argument cannot be used, or the problem has no minibatches.
    DivergenceError
        If w(λ) cannot be computed.
    UserCodeError
        If a function of the user raises.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.logistic_regression(size=20, features=3, low=1.0, batch=20, replacement=False)
    >>> plan = bc.plan_stochastic(problem, rtol=0.1, batches=[20], run=False)
    >>> plan.cheapest.batch
    20
    """
    problem = require_problem(problem)
    tell = progress or no_progress
    finite_sum = require_minibatches(problem)
    if (rmse is None) == (rtol is None):
        raise InputError("give rmse= or rtol=, one of them")
    allowed = rmse if rmse is not None else rtol
    if not (isinstance(allowed, int | float) and 0 < allowed < math.inf):
        name = "rmse" if rmse is not None else "rtol"
        raise InputError(f"{name} = {allowed!r} is not an accuracy; give a positive number")
    require_seed(seed)
    sizes = _batches(batches, finite_sum.examples, finite_sum.batch, replacement=finite_sum.replacement)
    spend = Spend(delta, seed, budget)
    tell("checking the problem", 0, 1)
    doubts = validate.check(problem, problem.lam).unconfirmed
    solution = reference(quick(problem), problem.lam[None])
    gradient_norm = float(torch.linalg.vector_norm(solution.value[0]))
    goal = allowed if rmse is not None else allowed * gradient_norm
    if goal == 0:
        raise InputError("∇f is 0, so no relative error can be reached; give rmse=")
    case = smallest = _smallest_case(problem, sizes[0], solution, known, spend, tell, doubts)
    splits, reasons = [], {}
    for number, batch in enumerate(sizes):
        tell("inverting the bound", number, len(sizes))
        if number and (case.ball_doubt or case.steps != FULL):  # larger minibatches may allow larger steps
            case = _smallest_case(problem, batch, solution, known, spend, tell, doubts)
        cheapest = _cheapest(_with_batch(case, batch), goal**2)
        if isinstance(cheapest, CheapestSplit):
            splits.append(cheapest)
        else:
            reasons[batch] = cheapest
    measured = _measure(problem, goal, seed, known, memory, tell) if run else None
    validate.unchanged(problem)
    return StochasticPlan(
        {**problem.about(), "examples": finite_sum.examples, "batch": finite_sum.batch}, goal, gradient_norm,
        tuple(splits), measured, reasons, smallest.constants,
    )  # fmt: skip


def _batches(batches: Sequence[int] | None, examples: int, own: int, *, replacement: bool) -> list[int]:
    if batches is not None:
        if not isinstance(batches, Iterable):
            raise InputError(f"batches = {batches!r} is no list; give batch sizes, such as [1, 10]")
        sizes = [method_names.count(batch, "batch", 1) for batch in batches]
        if not sizes:
            raise InputError("batches is empty; give at least one batch size, or leave it out")
        large = [batch for batch in sizes if batch > examples and not replacement]
        if large:
            raise InputError(f"batch = {large[0]} > {examples} examples; give at most {examples}, or replacement=True")
        return sorted(set(sizes))
    return sorted({own, examples, *(10**e for e in range(7) if 10**e < examples)})


def _smallest_case(
    problem: Problem, batch: int, solution: ReferenceSolution, known: Constants | None, spend: Spend, tell: Progress,
    doubts: tuple[str, ...],
) -> StochasticCase:  # fmt: skip
    """The constants for the smallest batch, on a ball that contains the iterates for every batch and all planned steps.

    A larger minibatch is a mean of smaller ones, so its iterates go no farther. Steps up to η stay in the ball of the
    constant steps η: if r is the largest distance so far, a smaller step leads to a mean of r and the distance for η.
    """
    finite_sum = require_minibatches(problem)
    small = replace(problem, finite_sum=finite_sum.with_batch(batch, finite_sum.replacement))
    case = noise_setting(small, solution, LONGEST, LONGEST, FULL, FULL, known, spend, tell, doubts).case
    for _ in range(1 + CALMER):
        most = largest_step(case.constants)
        if not case.ball_doubt or most >= case.steps.eta:
            break
        steps = StepSchedule.constant(most)
        case = noise_setting(small, solution, LONGEST, LONGEST, steps, steps, known, spend, tell, doubts).case
    return case


def _with_batch(case: StochasticCase, batch: int) -> StochasticCase:
    """The case for another batch size: variances are scaled in proportion to `variance_factor`."""
    problem = case.problem
    finite_sum = problem.finite_sum
    if finite_sum is None or batch == finite_sum.batch:
        return case
    other = finite_sum.with_batch(batch, finite_sum.replacement)
    if finite_sum.variance_factor == 0:
        raise InputError(
            f"batch = {finite_sum.batch} is all examples, so there is no noise; start from a smaller batch"
        )
    scale = other.variance_factor / finite_sum.variance_factor * (1 + 1e-12)
    scaled = [replace(c, value=c.value * scale) for name in SCALED if (c := case.constants.get(name)) is not None]
    return replace(case, problem=replace(problem, finite_sum=other), constants=case.constants.replace(*scaled))


def _cheapest(case: StochasticCase, goal: float) -> CheapestSplit | str:
    """The t and k with the least t + k at which the bound is at most the goal; or the reason why there are none."""
    finite_sum = case.problem.finite_sum
    batch = 1 if finite_sum is None else finite_sum.batch
    first = _on_grid(case, 1)
    evaluated = first.evaluate(THEOREM)
    if evaluated.refusal:
        return evaluated.refusal
    of_rates = OfRates(THEOREM, case.constants)
    if not of_rates.floor <= goal:
        return f"no t and k bring the bound below {math.sqrt(of_rates.floor):.3g}; {_larger(case)}"
    grids = {1: first}

    def at(n: int) -> float:
        here = grids.setdefault(n, first if n == 1 else _on_grid(case, n))
        return float(of_rates.values(here.rho[-1], here.sigma[-1]))

    n = doubled(lambda n: at(n) <= goal, LONGEST)
    if n is None:
        return f"after {LONGEST} steps the bound is still {math.sqrt(at(LONGEST)):.3g}; {_larger(case)}"
    for factor in NEAR if n <= MOST_TRIED else ():
        near = max(1, round(n * factor))
        grids.setdefault(near, _on_grid(case, near))
    numbers = sorted(grids)
    of_numbers = [grids[number] for number in numbers]
    rho, sigma = (np.array([getattr(g, name)[-1] for g in of_numbers]) for name in ("rho", "sigma"))
    values = of_rates.values(rho[:, None], sigma[None, :])
    total = np.where(values <= goal, np.add.outer(numbers, numbers), np.iinfo(np.int64).max)
    i, j = np.unravel_index(int(total.argmin()), total.shape)
    t, k = numbers[i], numbers[j]
    side = Side.LOWER if evaluated.doubt else evaluated.worth.side
    steps, steps_v = of_numbers[i].case.steps, of_numbers[j].case.steps_v
    split = CheapestSplit(batch, t, k, steps, steps_v, float(values[i, j]), batch * (t + k + 1), side, THEOREM.name)
    there = BoundsOnGrid(replace(case, steps=steps, steps_v=steps_v), np.array([t]), np.array([k]))
    return replace(split, parts=_parts(there, split))


def _parts(there: BoundsOnGrid, split: CheapestSplit) -> tuple[BoundedPart, ...]:
    """A bound on each part of the error: from its own theorem, or the bound on their sum if that is smaller."""
    parts = []
    for bound in OF_PARTS:
        part = Measured(bound.bounds.name)
        whole = math.sqrt(split.bound) if part is Measured.BIAS else split.bound
        evaluated = there.evaluate(bound)
        if not evaluated.refusal and evaluated.values[-1] < whole:
            side = Side.LOWER if evaluated.doubt else evaluated.worth.side
            parts.append(BoundedPart(part, float(evaluated.values[-1]), side, bound.name))
        else:
            parts.append(BoundedPart(part, whole, split.side, split.bound_name))
    return tuple(parts)


def _larger(case: StochasticCase) -> str:
    """Advice how to reduce the noise."""
    finite_sum = case.problem.finite_sum
    if finite_sum is None or finite_sum.batch < finite_sum.examples:
        return "take a larger batch"
    if finite_sum.replacement:
        return "without replacement, all examples in a minibatch have no noise"
    return "all examples have no noise, so it is the constants that are too large"


def _on_grid(case: StochasticCase, n: int) -> BoundsOnGrid:
    """The bounds at t = k = n, with steps chosen for n and capped at the step of the case, for which the ball holds."""
    steps, most = advised(case.constants, n, n), case.steps.eta
    w, v = capped(steps.w, most), capped(steps.v, most)
    return BoundsOnGrid(replace(case, steps=w, steps_v=v), np.array([n]), np.array([n]))


def _measure(
    problem: Problem, goal: float, seed: int, known: Constants | None, memory: int, tell: Progress
) -> MeasuredSplit | None:  # fmt: skip
    """The least t = k on a grid at which the interval of the mean square error is below the goal, or else the estimate.

    A proved interval may be much wider than the scatter of the runs, because rare runs may be far off.
    """
    finite_sum = problem.finite_sum
    try:
        report = check_stochastic(
            problem, ["sid"], LONGEST_RUN, RUNS, seed, points=12, bounds=[], known=known, level=0.99, memory=memory,
            progress=tell,
        )  # fmt: skip
    except DivergenceError:
        return None
    curve = report.curve("sid")
    mse = curve.means[Measured.MSE.value]
    below = mse.value <= goal**2
    reached = below & (mse.upper <= goal**2)
    if not below.any() or finite_sum is None:
        return None
    i = int(np.argmax(reached if reached.any() else below))
    t = int(curve.t[i])
    return MeasuredSplit(
        finite_sum.batch, t, report.steps, report.steps_v, float(mse.value[i]), float(mse.upper[i]), RUNS,
        finite_sum.batch * (2 * t + 1), shares_of_parts(curve, i),
    )  # fmt: skip
