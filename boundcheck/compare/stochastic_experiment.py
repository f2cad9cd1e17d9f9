"""One experiment with a random method: run it, measure its means, and judge the bounds on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boundcheck.compare import certificate, stochastic_bounds, stochastic_verdict
from boundcheck.compare.measure_stochastic import FourthPowers, Range, Reference, Runs, collect, measure
from boundcheck.compare.stochastic_bounds import BoundsOnGrid
from boundcheck.compare.stochastic_moments import mean_squares
from boundcheck.compare.stochastic_noise import NoiseSetting
from boundcheck.compare.stochastic_verdict import MeasuredQuantity
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.rounding_floor import FACTOR, unit
from boundcheck.numerics.solvers.neumann import run_neumann
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.numerics.solvers.sid import SidRuns, run_sid
from boundcheck.progress import Progress
from boundcheck.report.stochastic_curve import Measured, StochasticCurve
from boundcheck.step_schedule import StepSchedule


@dataclass(frozen=True, eq=False)
class StochasticExperiment:
    """The inputs that all methods of one check share."""

    problem: Problem
    solution: ReferenceSolution
    setting: NoiseSetting
    t: np.ndarray
    runs: int
    seed: int
    delta: float  # the probability that an end of an interval is wrong
    memory: int

    @property
    def reference(self) -> Reference:
        """The reference with its errors."""
        eps_g, away = self.setting.eps_g, self.setting.away
        proved = certificate.proved(eps_g) and not away.doubt
        off = math.inf if eps_g is None else eps_g.value
        value, w = (x[0].double().cpu().numpy() for x in (self.solution.value, self.solution.w))
        return Reference(value, w, off if proved else 0.0, away.value if proved else 0.0, proved)

    @property
    def reference_doubt(self) -> str:
        """Why the reference is not certified; empty if it is certified."""
        return "" if self.reference.proved else "the error of the reference hypergradient is not proved"


def measured_curve(
    experiment: StochasticExperiment, method: Method, names: Sequence[str] | None, tell: Progress, number: int, of: int
) -> StochasticCurve:
    """Run a method and measure its means at every t of the experiment, with the bounds on them and their verdicts."""
    tell(f"running {method}", number, of)
    results = _run(experiment, method, tell)
    ks = np.array([method.steps(int(t)) for t in experiment.t])
    reference, setting = experiment.reference, experiment.setting
    is_sid, finite_sum = method.name == "sid", experiment.problem.finite_sum
    same = is_sid and finite_sum is not None and finite_sum.variance_factor == 0
    largest = setting.largest_error if is_sid else setting.largest_error_of_neumann(int(ks.max()))
    reach = Range(largest, setting.radius, same)
    tell(f"measuring {method}", number, of)
    squares = mean_squares(BoundsOnGrid(setting.case, experiment.t, ks, method.name), setting.sizes)
    points = []
    for j, each in enumerate(zip(squares.error, squares.given, squares.distance, strict=True)):
        known = FourthPowers(*(float(x) for x in each))
        points.append(measure(_at(results, j), reference, replace(reach, squares=known), experiment.delta))
    means = {quantity.value: collect(points, quantity) for quantity in Measured}
    floor, floor_w = _floors(experiment, method)
    bounds = {}
    for evaluated in stochastic_bounds.every(setting.case, method, experiment.t, ks, names):
        quantity = Measured(evaluated.bound.bounds.name)
        evidence = MeasuredQuantity(
            means[quantity.value], [point[quantity] for point in points], experiment.t,
            floor_w if quantity is Measured.DISTANCE else floor, _largest(quantity, reach, reference),
            experiment.delta, experiment.runs, experiment.reference_doubt,
        )  # fmt: skip
        bounds[evaluated.bound.name] = stochastic_verdict.judge(evaluated, evidence)
    return StochasticCurve(str(method), experiment.t, ks, means, bounds, floor)


def _run(experiment: StochasticExperiment, method: Method, tell: Progress) -> SidRuns:
    problem, setting = experiment.problem, experiment.setting
    grid = [(int(t), method.steps(int(t))) for t in experiment.t]
    t, k = max(t for t, _ in grid), max(k for _, k in grid)
    shared: dict[str, Any] = {
        "steps": setting.case.steps, "runs": experiment.runs, "seed": experiment.seed, "grid": grid, "pairs": True,
        "memory": experiment.memory, "progress": tell,
    }  # fmt: skip
    if method.name == "neumann":
        return run_neumann(problem, t, k, **shared)
    return run_sid(problem, t, k, steps_v=setting.case.steps_v, **shared)


def _at(results: SidRuns, j: int) -> Runs:
    again = results.value_again
    arrays = [x.double().cpu().numpy() for x in (results.value[j], again[j], results.w[j])]
    return Runs(*arrays)


def _largest(quantity: Measured, reach: Range, reference: Reference) -> float | None:
    """An upper bound on the numbers whose mean is the quantity; for the bias, on the distances from the mean."""
    if not reference.proved:
        return None
    if quantity is Measured.DISTANCE:
        return None if reach.distance is None else (reach.distance + reference.w_off) ** 2
    if reach.error is None:
        return None
    error = reach.error + reference.off
    return {Measured.BIAS: 2 * error, Measured.MSE: error**2}.get(quantity, 2 * error**2)


def _floors(experiment: StochasticExperiment, method: Method) -> tuple[np.ndarray, np.ndarray]:
    """The rounding floors of the root mean square errors of g and of w.

    They are the floors of AID-FP with full steps, divided by the least step: a step η contracts by η(1 − q) only, but
    has the rounding of a full step.
    """
    problem, setting, T = experiment.problem, experiment.setting, int(experiment.t[-1])
    plain = replace(method, name="aid-fp")
    floor = certificate.rounding_floor(
        problem, [plain], T, [setting.case.constants], [experiment.solution], {plain: np.zeros((1, T))}
    )
    constants, u = setting.case.constants, unit(problem.dtype)
    gap = max(1e-300, 1 - constants["q"].value if "q" in constants else 1.0)
    size = float(experiment.solution.w[0].norm()) + math.sqrt(constants["mse_0"].value)
    least = _least_step(setting.case.steps, T)
    of_w = np.full(len(experiment.t), FACTOR * u * size / (gap * least))
    least = least if method.name == "neumann" else min(least, _least_step(setting.case.steps_v, method.steps(T)))
    return floor.values[plain][0, experiment.t - 1] / least, of_w


def _least_step(steps: StepSchedule, count: int) -> float:
    """The least of the first `count` steps, which are constant or fall within each phase."""
    last = max(0, count - 1)
    return min(steps.at(i) for i in (0, last, min(last, (steps.switch or 0))))
