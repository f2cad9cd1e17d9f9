"""The check of random methods: verdicts on problems where the truth is known, and what makes them false.

The draws have a fixed seed. An interval is wrong with probability at most 1e-3 for each report, so over all tests of
this file a false verdict has a probability below 4%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scalar_sums import line, quadratic, ridge

import boundcheck as bc
from boundcheck import StepSchedule, check_stochastic
from boundcheck.compare import stochastic_experiment, stochastic_noise
from boundcheck.compare.stochastic_bounds import BoundsOnGrid, StochasticCase
from boundcheck.constants import Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.noise_constants import Noise, noise_constants
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side

FULL = StepSchedule.constant(1.0)
AVERAGE = StepSchedule.decreasing(1.0, 1.0)  # w_t is the average of t draws, where Φ̂ does not depend on w


@pytest.fixture(scope="module")
def report() -> StochasticReport:
    """A user's ridge regression, with steps that the theory chooses."""
    return check_stochastic(
        ridge(), ["sid", "neumann:5"], 20, 2000, points=2, bounds=["sid-bias", "sgd-decreasing", "stochastic-recursive"]
    )


def test_bounds_of_a_users_problem_hold(report: StochasticReport) -> None:
    assert not report.ball_doubt
    assert all(report.constants[name].is_safe for name in ("q", "V_star", "m_1", "m_2", "L_Phi_hat", "sigma_1", "L_E"))
    assert report.verdicts["sid", "sid-bias"] is Verdict.HOLDS_PROBABLY
    assert report.verdicts["sid", "sgd-decreasing"] is Verdict.HOLDS_PROBABLY
    mean = report.curve("sid").means["mse"]
    assert mean.proved
    assert (mean.lower > 0).all()
    assert ((mean.lower < mean.value) & (mean.value < mean.upper)).all()


def test_neumann_has_the_same_lower_level_and_bounds_of_its_own(report: StochasticReport) -> None:
    sid, neumann = report.curve("sid"), report.curve("neumann:5")
    assert np.array_equal(sid.means["mse_w"].value, neumann.means["mse_w"].value)
    assert neumann.means["mse"].proved
    shared = [name for name in neumann.bounds if name.startswith("sid-")]
    assert shared
    for name in shared:
        assert neumann.bounds[name].verdict in (Verdict.HOLDS_PROBABLY, Verdict.CONSISTENT)
        assert not np.array_equal(neumann.bounds[name].values, sid.bounds[name].values)


# ---- a wrong constant


@dataclass(frozen=True)
class Case:
    """A constant with a wrong value, and a bound that the truth is above with it."""

    constant: str
    factor: float
    make: Callable[[], Problem]
    steps: StepSchedule
    bound: str


ADDITIVE = partial(line, [0.0, 0.0], [1.0, 1.0], [1.0, -1.0])  # w* = 1, E‖w_t − w*‖² = V* = 1
GROWING = partial(line, [0.5, -0.5], [0.0, 0.0], [0.0, 0.0])  # w* = 0, E‖w_t − w*‖² = m₁ᵗ = 4⁻ᵗ
LAST_DRAW = partial(line, [0.0, 0.0], [1.5, 0.5], [0.0, 0.0])  # g = 2(1 ± ½), E‖g − ∇f‖² = m₂·4 = 1
UNSTABLE_V = partial(line, [10.0, -10.0], [1.0, 1.0], [0.0, 0.0], lam=0.0, w0=0.0)  # w_t = w* = 0, and v_k grows
NOISY_SLOPE = partial(quadratic, [0.5, 1.5], [0.0, 0.0])
NOISY_OFFSET = partial(quadratic, [1.0, 1.0], [1.0, -1.0])
CASES = (
    Case("V_star", 0.5, ADDITIVE, FULL, "stochastic-recursive"),
    Case("mse_0", 0.5, GROWING, FULL, "stochastic-recursive"),
    Case("m_1", 0.5, GROWING, FULL, "stochastic-recursive"),
    Case("m_2", 0.5, LAST_DRAW, FULL, "sid-orthogonal"),
    Case("m_2", 0.2, LAST_DRAW, FULL, "sid-variance-given-w"),  # which doubles it
    Case("sigma_1", 0.4, ADDITIVE, FULL, "stochastic-constant"),  # 2V*, and V* would do
    # σ₂ = 2m₁/(1−q)²; m₁/(1−q)² is attained where V* = 0, and half of that allows steps up to 8/9
    Case("sigma_2", 0.25, GROWING, StepSchedule.constant(0.88), "stochastic-constant"),
    Case("L_Phi_hat", 0.0, UNSTABLE_V, StepSchedule.decreasing(2.0, 2.0), "sid"),
    Case("sigma_1_grad", 0.4, NOISY_OFFSET, FULL, "sgd-constant"),  # likewise
    Case("sigma_2_grad", 0.25, NOISY_SLOPE, StepSchedule.constant(0.88), "sgd-constant"),  # likewise
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.constant}-{case.bound}")
def test_a_wrong_constant_is_violated(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Noise] = []

    def right(*args: Any, **options: Any) -> Noise:
        seen.append(noise_constants(*args, **options))
        return seen[-1]

    def wrong(*_: Any, **__: Any) -> Noise:
        name, factor = ("r_0", case.factor**0.5) if case.constant == "mse_0" else (case.constant, case.factor)
        constant = seen[0].constants[name]
        return replace(seen[0], constants=seen[0].constants.replace(replace(constant, value=constant.value * factor)))

    def verdict(constants: Callable[..., Noise]) -> Verdict:
        monkeypatch.setattr(stochastic_noise, "noise_constants", constants)
        result = check_stochastic(case.make(), t=2, runs=400, points=2, steps=case.steps, bounds=[case.bound])
        return result.verdicts["sid", case.bound]

    assert not verdict(right).is_violation
    assert verdict(wrong) is Verdict.VIOLATED_PROBABLY


def test_a_wrong_claim_is_refuted() -> None:
    problem = line([0.5, -0.3], [1.5, 0.5], [1.0, -1.0])
    own = check_stochastic(problem, t=2, runs=2, points=1, steps=FULL, bounds=[]).constants
    names = ("V_star", "m_1", "m_2", "L_Phi_hat")
    halves = [replace(own[name], value=own[name].value / 2, side=Side.UPPER) for name in names]
    result = check_stochastic(
        problem, t=2, runs=2, points=1, steps=FULL, bounds=[], known=Constants({c.name: c for c in halves})
    )
    assert len(result.refuted) == len(names), result.refuted
    assert all(result.constants[name].value == own[name].value for name in names)


def test_one_minibatch_for_everything_is_biased(monkeypatch: pytest.MonkeyPatch) -> None:
    # g = (1 + z)²λ with one draw z = ±1 everywhere, so E g = 2λ; with independent draws E g = λ = ∇f
    problem = line([0.0, 0.0], [2.0, 0.0], [0.0, 0.0], square=True)
    check = partial(check_stochastic, problem, t=50, runs=400, points=1, steps=AVERAGE, bounds=["sid-bias"])
    assert not check().verdict.is_violation
    monkeypatch.setattr(stochastic_experiment, "run_sid", partial(run_sid, independent=False))
    wrong = check()
    assert wrong.verdict is Verdict.VIOLATED_PROBABLY
    bias = wrong.curve("sid").means["bias"]
    assert bias.lower[-1] <= 1 <= bias.upper[-1]


# ---- undecided


@pytest.mark.parametrize("bound", ["sid-mse", "sid-variance-given-w"])
def test_as_many_more_runs_as_named_decide(bound: str) -> None:
    problem = line([0.45, 0.35], [1.2, 1.8], [0.0, 0.3])
    check = partial(check_stochastic, problem, t=30, points=1, steps=StepSchedule.constant(0.5), bounds=[bound])
    undecided = check(runs=100).curve("sid").bounds[bound]
    assert undecided.verdict in (Verdict.CONSISTENT, Verdict.INCONCLUSIVE)
    assert undecided.more_runs
    assert "undecided at t = 30" in undecided.reason
    assert f"{undecided.more_runs} more runs would decide" in undecided.reason
    decided = check(runs=100 + 3 * undecided.more_runs // 2, seed=1).curve("sid").bounds[bound]
    assert decided.verdict is Verdict.HOLDS_PROBABLY, (decided.reason, undecided.more_runs)


def test_no_number_of_runs_is_named_where_none_decides() -> None:
    attained = check_stochastic(GROWING(), t=2, runs=100, points=1, steps=FULL, bounds=["stochastic-recursive"])
    bound = attained.curve("sid").bounds["stochastic-recursive"]
    assert bound.verdict is Verdict.CONSISTENT
    assert bound.more_runs is None
    assert "more than 10⁹ runs would be needed" in bound.reason


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_estimated_constants_prove_nothing(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def estimated(*args: Any, **options: Any) -> Noise:
        noise = noise_constants(*args, **options)
        V_star = noise.constants["V_star"]
        doubtful = replace(V_star, value=factor * V_star.value, side=Side.LOWER)
        return replace(noise, constants=noise.constants.replace(doubtful))

    monkeypatch.setattr(stochastic_noise, "noise_constants", estimated)
    result = check_stochastic(ADDITIVE(), t=2, runs=200, points=1, steps=FULL, bounds=["stochastic-recursive"])
    bound = result.curve("sid").bounds["stochastic-recursive"]
    assert bound.verdict is (Verdict.CONSISTENT if factor == 1 else Verdict.INCONCLUSIVE)
    assert bound.more_runs is None
    assert "V_star may be too small" in bound.reason


# ---- what a run is


def test_all_examples_have_no_noise() -> None:
    result = check_stochastic(ridge(24, replacement=False), t=4, runs=5, points=1)
    curve = result.curve("sid")
    assert all(result.constants[name].value == 0 for name in ("V_star", "m_1", "m_2", "sigma_1"))
    there, at_4 = (bc.hypergradient(ridge(), *how).value for how in (("exact",), ("aid-fp", 4, 4)))
    error = float((at_4 - there).norm())
    assert curve.means["bias"].value[0] == pytest.approx(error, rel=1e-6)
    assert curve.means["mse"].value[0] == pytest.approx(error**2, rel=1e-6)
    assert curve.means["variance_given_w"].value[0] < 1e-28
    assert result.verdict is Verdict.HOLDS_PROBABLY, result.table()


def test_reproducible_from_the_seed() -> None:
    check = partial(check_stochastic, LAST_DRAW(), t=3, runs=20, points=2, steps=FULL, bounds=[])
    means = [check(seed=seed).curve("sid").means for seed in (5, 5, 6)]
    assert all(np.array_equal(means[0][q.value].value, means[1][q.value].value) for q in Measured)
    assert not np.array_equal(means[0]["bias"].value, means[2]["bias"].value)


def test_at_another_lam_is_the_problem_there() -> None:
    problem = LAST_DRAW()
    there = check_stochastic(
        problem, t=2, runs=20, points=1, steps=FULL, bounds=[], lam=torch.tensor([3.0], dtype=torch.float64)
    )
    assert there.constants["V_star"].value == pytest.approx(9 * 0.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["itd"]}, "itd draws nothing at random; use check for it"),
        ({"methods": "sid"}, r"methods = 'sid' is a text; give a list"),
        ({"methods": []}, "methods is empty"),
        ({"runs": 1}, "runs must be at least 2"),
        ({"t": 0}, "t must be at least 1"),
        ({"level": 2}, r"level must be between 0 and 1 \(got 2\)"),
        ({"level": float("nan")}, "level must be between 0 and 1"),
        ({"level": "high"}, "level must be between 0 and 1 .*'high'"),
        ({"bounds": "sid-mse"}, r"bounds = 'sid-mse' is a text; give a list, as in \['sid-mse'\]"),
        ({"steps": "nonsense"}, "steps = 'nonsense' are not steps; give a StepSchedule, 'paper'"),
        ({"steps": 0.5}, "steps = 0.5 are not steps"),
        ({"steps_v": 0.5}, "steps_v = 0.5 are not steps"),
        ({"bounds": ["itd"]}, "itd bounds .* which is not measured here"),
        ({"bounds": ["sid-msee"]}, "sid-mse"),
        ({"methods": ["neumann:3"], "bounds": ["sid"]}, "unknown bound on these methods 'sid'"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        check_stochastic(LAST_DRAW(), **{"t": 2, "runs": 2, "points": 1, **options})


@pytest.mark.parametrize("t", [[6], [1, 6]])
@pytest.mark.parametrize("family", ["stochastic", "sgd"])
def test_a_constant_phase_that_a_theorem_forbids_is_one_reason_for_both_of_its_bounds(
    family: str, t: list[int]
) -> None:
    noise = {"sigma_1": 0.1, "sigma_2": 3.0, "sigma_1_grad": 0.1, "sigma_2_grad": 3.0}
    constants = Constants.given(q=0.5, alpha=1.0, mu=0.5, L=1.0, mse_0=1.0, **noise)
    steps, ts = StepSchedule(0.9, 2, 4.0, 60.0), np.array(t)
    grid = BoundsOnGrid(StochasticCase(ridge(), constants, steps, steps, ""), ts, ts)
    of_both = {grid.evaluate(bc.bounds[f"{family}-{kind}"]).refusal for kind in ("constant", "decreasing")}
    assert len(of_both) == 1, of_both  # a report has every reason once
    assert of_both.pop().startswith("eta = 0.9 > ")


def test_a_problem_without_minibatches_is_refused() -> None:
    problem = bc.problems.logistic_regression(size=8, features=2)
    with pytest.raises(InputError, match="has no minibatches; give data= and batch= to from_loss"):
        check_stochastic(problem, t=2, runs=2)


def test_default_steps_keep_every_iterate_in_a_ball_though_one_example_is_steep() -> None:
    """The steep one of 40 examples is none of the few that are looked at first."""
    x = torch.full((40, 1), 0.3, dtype=torch.float64)
    x[1] = 8.0
    outer_at = torch.tensor([0.5], dtype=torch.float64)

    def inner(w: torch.Tensor, lam: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return ((x @ w - 1) ** 2).mean() / 2 + 0.1 * lam.exp().sum() * (w * w).sum() / 2

    problem = bc.Problem.from_loss(
        inner, lambda w, lam: ((w - outer_at) ** 2).sum() / 2, 0 * outer_at, 0 * outer_at, data=x, batch=2
    )
    report = check_stochastic(problem, t=10, runs=50, points=1, bounds=["sid-orthogonal"])
    assert report.ball_doubt == ""
    assert report.radius < 50
    slope = report.constants["L_Phi_hat"]
    assert slope.is_safe
    assert report.steps.largest * (1 + slope.value) < 2  # (1 − η) + η·(−L_Φ̂) > −1


@pytest.mark.parametrize("steps", [None, "paper"])
def test_the_ball_is_that_of_the_steps_that_are_taken(steps: str | None) -> None:
    """One full step may treble distances: their ball has a radius of 10⁸ after 20 steps, with constants to match."""
    problem = quadratic([4.0, 0.5, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0], lam=1.0)
    report = check_stochastic(problem, t=20, runs=2, points=1, steps=steps, bounds=["sid-orthogonal"])
    assert report.constants["L_Phi_hat"].value == pytest.approx(3)
    assert report.radius is not None
    given = check_stochastic(
        problem, t=20, runs=2, points=1, steps=report.steps, steps_v=report.steps_v, bounds=["sid-orthogonal"]
    )
    assert given.radius == pytest.approx(report.radius, rel=0.05)
    assert report.radius < 100
