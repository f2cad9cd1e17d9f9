"""Stochastic reports made by hand, one for each thing that they can say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from boundcheck import Constant, Constants, Provenance, Side, Verdict
from boundcheck.report.stochastic_curve import MeanEstimate, Measured, StochasticBound, StochasticCurve
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.step_schedule import StepSchedule

T = np.array([1, 2, 4, 9, 20, 43, 93, 200])
NORM = 2.0
HOW = "betting on bounded numbers"
STUDENT = "Student's t, which is approximate, as nothing bounds the numbers"
BELOW = "the whole interval is below the bound at every t"
REFERENCES = {
    "sid-bias": (Measured.BIAS, "Theorem 3.1", "bias of SID"),
    "sid-variance-given-w": (Measured.VARIANCE_GIVEN_W, "Theorem 3.2", "variance of SID given w_t"),
    "sid-variance-of-mean": (Measured.VARIANCE_OF_MEAN, "Theorem 3.3", "variance of the conditional mean of SID"),
    "sid-mse": (Measured.MSE, "Theorem 3.4", "mean square error of SID"),
    "sid-orthogonal": (Measured.MSE, "SID, orthogonal parts", "mean square error of SID, by orthogonal parts"),
    "stochastic-constant": (Measured.DISTANCE, "Theorem 4.1", "constant steps"),
    "stochastic-decreasing": (Measured.DISTANCE, "Theorem 4.2", "decreasing steps"),
    "stochastic-recursive": (Measured.DISTANCE, "step by step", "any steps"),
}
FORBIDDEN = "η = 0.5 is above 1/(1 + σ₂) = 0.0312, the largest step of the theorem; take steps of at most 0.0312"
FACTORS = {"sid-mse": 6.0, "sid-orthogonal": 2.4, "sid-bias": 3.0, "sid-variance-given-w": 2.0}


def means(scale: float = 1.0, proved: bool = True) -> dict[str, MeanEstimate]:
    """Quantities of a run that converges to a floor of the variance, with the parts adding up."""
    bias = 1.2 * scale * 0.97**T + 0.004
    given, of_mean = scale * (0.03 + 0.2 / T), scale * 0.4 / (T + 3)
    values = {
        Measured.MSE: bias**2 + given + of_mean,
        Measured.BIAS: bias,
        Measured.VARIANCE_GIVEN_W: given,
        Measured.VARIANCE_OF_MEAN: of_mean,
        Measured.DISTANCE: 3 * scale / (T + 2.0),
    }
    result = {}
    for quantity, value in values.items():
        half = 0.06 if quantity is Measured.BIAS else 0.08 * value
        lower = np.maximum(value - half, 0.0)
        result[quantity.value] = MeanEstimate(quantity, value, lower, value + half, proved, HOW if proved else STUDENT)
    return result


def bound(name: str, values: np.ndarray, **more: Any) -> StochasticBound:
    quantity, reference, title = REFERENCES[name]
    given: dict[str, Any] = {
        "side": Side.UPPER,
        "delta": 0.0,
        "weakest": ("L_E",),
        "verdict": Verdict.HOLDS_PROBABLY,
        "reason": BELOW,
    }
    return StochasticBound(name, title, reference, quantity, values, **{**given, **more})


def curve(method: str = "sid", k: int | None = None, scale: float = 1.0, proved: bool = True) -> StochasticCurve:
    estimates = means(scale, proved)
    bounds = {
        name: bound(name, FACTORS.get(name, 1.8) * estimates[of[0].value].value + 0.15 * (of[0] is Measured.BIAS))
        for name, of in REFERENCES.items()
    }
    nothing = np.full(T.shape, np.nan)
    silent: dict[str, Any] = {"verdict": Verdict.NOT_APPLICABLE, "weakest": (), "side": Side.LOWER}
    bounds["stochastic-constant"] = bound("stochastic-constant", nothing, reason=FORBIDDEN, **silent)
    bounds["stochastic-decreasing"] = bound("stochastic-decreasing", nothing, reason="the steps are constant", **silent)
    return StochasticCurve(method, T, np.full_like(T, k) if k else T, estimates, bounds, np.full(T.shape, 1e-14))


@cache
def holds() -> StochasticReport:
    known = Provenance("over all minibatches")
    values = {"q": 0.95, "m_2": 0.02, "L_Phi_hat": 1.2, "sigma_1": 0.01, "sigma_2": 31.0, "L_E": 2.0}
    constants = Constants({name: Constant(name, value, "upper", known) for name, value in values.items()})
    return StochasticReport(
        problem={
            "name": "lr", "dim": 50, "hdim": 50, "seed": 0, "dtype": "float64", "device": "cpu", "examples": 120,
            "batch": 10, "replacement": True,
        },
        constants=constants, radius=3.2, ball_doubt="", curves={"sid": curve()}, steps=StepSchedule.constant(0.5),
        steps_v=StepSchedule.decreasing(2.0, 10.0), steps_how="given", runs=1000, level=0.999, gradient_norm=NORM,
        certificate=Constant("eps_g", 1e-12, "upper"), largest_error=40.0, seed=0, seconds=2.5,
    )  # fmt: skip


def changed(report: StochasticReport, name: str, **more: Any) -> StochasticReport:
    """The report with another verdict on a bound of its first method."""
    first = next(iter(report.curves.values()))
    bounds = {**first.bounds, name: replace(first.bounds[name], **more)}
    return replace(report, curves={**report.curves, first.method: replace(first, bounds=bounds)})


@cache
def undecided() -> StochasticReport:
    mse = means()["mse"].value
    why = "undecided at t = 1: the bound 1.745 is inside the interval 1.559 … 1.829; about 6200 more runs would decide"
    return changed(
        holds(), "sid-orthogonal", values=1.03 * mse, verdict=Verdict.INCONCLUSIVE, reason=why, more_runs=6200
    )


@cache
def violated() -> StochasticReport:
    why = "the whole interval is above the bound at t = 1"
    return changed(holds(), "sid-mse", values=0.5 * means()["mse"].value, verdict=Verdict.VIOLATED_PROBABLY, reason=why)


@cache
def no_ball() -> StochasticReport:
    """No ball is proved to hold the iterates, so bounds rest on estimates and intervals on Student's t."""
    of = curve(proved=False)
    rest = {
        n: replace(b, side=Side.LOWER, verdict=Verdict.CONSISTENT, reason="L_E may be too small")
        for n, b in of.bounds.items()
        if b.applies
    }
    doubt = "L_Φ̂ = 1.2 ≥ 1, so that a run may leave every ball"
    return replace(
        holds(), radius=None, ball_doubt=doubt, largest_error=None, certificate=None,
        curves={"sid": replace(of, bounds={**of.bounds, **rest})},
    )  # fmt: skip


@cache
def one_hyperparameter() -> StochasticReport:
    """n = 1, ∇f = 0, sampling without replacement, steps that decrease later."""
    problem = {**holds().problem, "name": "one", "hdim": 1, "replacement": False}
    steps = StepSchedule(0.1, 50, 20.0, 200.0)
    return replace(
        holds(), problem=problem, gradient_norm=0.0, steps=steps, steps_v=steps, steps_how="advice of Theorem 4.2"
    )


@cache
def two_methods() -> StochasticReport:
    neumann = curve("neumann:20", 20, 3.0)
    silent = {
        name: replace(b, verdict=Verdict.NOT_APPLICABLE, values=np.full(T.shape, np.nan), reason="it is about SID")
        for name, b in neumann.bounds.items()
        if b.quantity is not Measured.DISTANCE
    }
    both = {"sid": curve(), "neumann:20": replace(neumann, bounds={**neumann.bounds, **silent})}
    return replace(holds(), curves=both)


@cache
def two_methods_in_doubt() -> StochasticReport:
    """All that a first screen can have to say about two methods."""
    both = {**no_ball().curves, "neumann:20": two_methods().curve("neumann:20")}
    L_E = Constant("L_E", 2.0, "lower", Provenance("ascent", no_proof="no rule for an operation in line 3 of mine.py"))
    report = replace(no_ball(), curves=both, constants=no_ball().constants.replace(L_E))
    more = {"verdict": Verdict.INCONCLUSIVE, "reason": "its interval contains the bound"}
    return changed(changed(report, "sid-bias", **more, more_runs=123000), "sid-mse", **more)


@cache
def many_methods() -> StochasticReport:
    names = ("sid", "sid:5", "sid:50", "neumann:20")
    return replace(holds(), curves={name: curve(name, int(name.partition(":")[2] or 0)) for name in names})


@cache
def diverging() -> StochasticReport:
    """Every estimate but the first is infinite, and no bound applies."""
    first = curve()
    gone = np.where(T > 1, np.inf, 1.0)
    estimates = {
        name: replace(mean, value=mean.value * gone, lower=np.where(T > 1, 0.0, mean.lower), upper=mean.upper * gone)
        for name, mean in first.means.items()
    }
    nothing: dict[str, Any] = {"verdict": Verdict.NOT_APPLICABLE, "values": np.full(T.shape, np.nan)}
    bounds = {n: replace(b, reason="q = 1.2 ≥ 1", **nothing) for n, b in first.bounds.items()}
    return replace(holds(), curves={"sid": replace(first, means=estimates, bounds=bounds)})


REPORTS = (
    holds, undecided, violated, no_ball, one_hyperparameter, two_methods, two_methods_in_doubt, many_methods, diverging,
)  # fmt: skip
ALL = {of.__name__: of for of in REPORTS}
