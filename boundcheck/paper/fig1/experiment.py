"""Figure 1 of the paper: the error of ITD, FP and CG over t on LR, KRR, BR and HR, with bounds and rounding floors.

There are 20 λ for each problem, and each is a run. It computes errors in float64 with all bounds that apply, errors in
float32, FP on the map of heavy ball, the parts of the final error in float32, and on HR the initial growth of the error
with and without momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boundcheck.ball import BallKind
from boundcheck.compare.check import check
from boundcheck.engine.experiment import Outcome, Settings, Step, Task
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.error_curves import error_curves
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.paper.fig1.problem_variants import closed_form, on_state, without_nu_2
from boundcheck.problems import loading
from boundcheck.report.method_curve import BoundCurve, Curve
from boundcheck.theory.bound import Bound
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.symbols import error

NAME = "fig1"
TITLE = "errors of ITD, FP and CG over t, mean ± std over λ, with bounds and rounding floors"
PROBLEMS = ("lr", "krr", "br", "hr")
METHODS = ("itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10")
MOMENTUM = {"aid-fp": "fp-momentum", "aid-fp:10": "fp-momentum:10"}  # FP on the map of heavy ball
PAPER = {"itd": ("itd", "itd-weighted"), "aid-fp": ("aid-fp",), "aid-cg": ("aid-cg",)}  # the paper's own theorems
FULL = {"lr": 1000, "krr": 300, "br": 300, "hr": 1000}
QUICK = {"lr": 300, "krr": 200, "br": 200, "hr": 400}
COST = {"lr": 3.0, "krr": 1.0, "br": 1.0, "hr": 7.5}
UNITS = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
NO_RATE_STEPS = 10  # fewer steps than this give no rate
GROWTH = 30  # the first steps, in which the error on HR grows


def settings(quick: bool, seed: int, device: str) -> Settings:
    return {
        "quick": quick,
        "seed": seed,
        "device": device,
        "samples": 3 if quick else 20,
        "t": QUICK if quick else FULL,
    }


def tasks(settings: Settings) -> list[Task]:
    shared = {name: settings[name] for name in ("seed", "device", "samples")}
    return [
        Task(f"{name}-{i:02d}", {"problem": name, "sample": i, "t": settings["t"][name], **shared}, COST[name])
        for i in range(settings["samples"])
        for name in PROBLEMS
    ]


def run(task: Task, state: dict[str, Any] | None) -> Generator[Step, None, dict[str, Any]]:
    """Run all parts for one λ of one problem."""
    results = dict(state or {})
    wanted = [part for part in PARTS if part != "growth" or task.parameters["problem"] == "hr"]
    for part in wanted:
        if part not in results:
            results[part] = PARTS[part].compute(task.parameters)
            yield Step(
                dict(results), sum(PARTS[part].cost for part in results), sum(PARTS[part].cost for part in wanted)
            )
    return results


def problem_at(parameters: Mapping[str, Any], dtype: torch.dtype, **options: Any) -> Problem:
    """Return the problem at the λ of this run. λ is rounded to float32, so it is the same in both precisions."""
    seed, device = parameters["seed"], parameters["device"]
    problem = loading.load_problem(parameters["problem"], seed=seed, device=device, dtype=torch.float64, **options)
    lam = problem.sample(parameters["samples"], seed)[parameters["sample"]].float()
    again = loading.load_problem(parameters["problem"], seed=seed, device=device, dtype=dtype, **options)
    return again.at(lam.to(dtype))


def _bounds(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return errors in float64, the least certified bound, the bound of the paper, and the rates of both."""
    problem = problem_at(parameters, torch.float64)
    run = {method.partition(":")[0] for method in METHODS}
    on_methods = [bound for bound in bounds.values() if bound.bounds == error and run & set(bound.methods)]
    names = [bound.name for bound in on_methods if not _is_elsewhere(bound)]
    report = check(problem, METHODS, parameters["t"], bounds=names, proofs=False)
    curves: dict[str, Any] = {}
    for name, curve in report.curves.items():
        stated = [curve.applicable[b] for b in PAPER[name.partition(":")[0]] if b in curve.applicable]
        curves[name] = {
            "error": curve.errors[0],
            "floor": curve.floor[0],
            "certified": curve.certified(BoundKind.A_PRIORI)[0],
            "afterwards": curve.certified(BoundKind.A_POSTERIORI)[0],
            "paper": stated[0].values[0] if stated else np.full(len(curve.t), np.nan),
            "paper_bound": stated[0].name if stated else "",
            "rates": _rates(curve, stated[0]) if stated and curve.rate else None,
            "verdicts": {bound.name: bound.verdict.value for bound in curve.applicable.values()},
        }
    local = report.constants[BallKind.LOCAL]
    kappa = local["kappa"].value if "kappa" in local else (1 + local["q"].value) / (1 - local["q"].value)
    return {"curves": curves, "kappa": kappa, "verdict": report.verdict.value}


def _is_elsewhere(bound: Bound) -> bool:
    """Return whether the bound is for problems with E = ℓ, which these are not, or for the reference solution."""
    return bound.kind is BoundKind.ENCLOSURE or any(assumption.key == "E = ℓ" for assumption in bound.assumptions)


def _rates(curve: Curve, bound: BoundCurve) -> dict[str, float | int | None] | None:
    """Return the factors by which error and bound shrink at each step, over the t at which log(error) is a line."""
    values, error = bound.values[0], curve.errors[0]
    if curve.rate is None or not np.isfinite(values[-1]):
        return None
    first_finite = int(np.isfinite(values).argmax()) + 1
    first, last = max(curve.rate.first, first_finite), curve.rate.last
    if last - first < NO_RATE_STEPS:
        return None
    per_step = [float((x[last - 1] / x[first - 1]) ** (1 / (last - first))) for x in (error, values)]
    rates: dict[str, float | int | None] = {"error": per_step[0], "bound": per_step[1], "limit": bound.rate_predicted}
    return rates | {"first": first, "last": last}


def _float32(parameters: Mapping[str, Any]) -> dict[str, Any]:
    curves = error_curves(problem_at(parameters, torch.float32), METHODS, parameters["t"])
    return {name: errors[0] for name, errors in curves.items()}


def _momentum(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return errors of FP on the map Ψ that produces the iterates, in both precisions; nothing if this map is Φ."""
    errors_by_dynamics: dict[str, Any] = {}
    for dtype, column in ((torch.float64, "error"), (torch.float32, "error32")):
        problem = problem_at(parameters, dtype)
        if problem.dynamics.copies > 1:
            curves = error_curves(on_state(problem), list(MOMENTUM), parameters["t"])
            for name, errors in curves.items():
                errors_by_dynamics.setdefault(MOMENTUM[name], {})[column] = errors[0]
    return errors_by_dynamics


def _end(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far each method, and the exact hypergradient, in float32 are from float64 at the last t.

    The floor of float32 is the sum of the differences between the precisions for the method and for the reference. The
    floor of float64 is smaller by the ratio of the rounding units.
    """
    T = parameters["t"]
    problem, single = (problem_at(parameters, dtype) for dtype in (torch.float64, torch.float32))
    exact, reference = (hypergradient(p, "exact", t=T).value.double() for p in (problem, single))
    record: dict[str, Any] = {"exact": _norm(exact), "reference": _norm(reference - exact), "methods": {}}
    if single.solution is not None:
        record["closed_form"] = _norm(closed_form(single).double() - exact)
    for name in PAPER:
        value, in_single = (hypergradient(p, name, t=T).value.double() for p in (problem, single))
        floor = _norm(in_single - value) + record["reference"]
        record["methods"][name] = {"own": _norm(in_single - exact), "floor32": floor, "floor64": floor * UNITS}
    return record


def _growth(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return for HR the largest error of the first steps over the error at t = 0, which is ‖∇f‖ (w = 0 and v = 0)."""
    growth: dict[str, Any] = {}
    for name in ("gradient-descent", "heavy-ball"):
        problem = problem_at(parameters, torch.float64, dynamics=name)
        curves = error_curves(problem, METHODS[:3], GROWTH)
        fixed = error_curves(without_nu_2(problem, curves.reference.w[0]), METHODS[:3], GROWTH)
        scale = _norm(curves.exact[0])
        growth[name] = {
            "distance": distances(problem, curves.reference.w[0]),
            "growth": {m: float(errors.max()) / scale for m, errors in curves.items()},
            "without_nu_2": {m: float(errors.max()) / scale for m, errors in fixed.items()},
            "same": _norm(fixed.exact[0] - curves.exact[0]) / scale,
        }
    return growth


def distances(problem: Problem, w_star: Tensor) -> np.ndarray:
    """Return ‖w_t − w*‖/‖w_0 − w*‖ for t = 0 … GROWTH."""
    ready, dynamics = problem.prepare(problem.lam), problem.dynamics
    z, lengths = dynamics.start(problem.w0), []
    for _ in range(GROWTH + 1):
        lengths.append(_norm(dynamics.iterate(z) - w_star))
        z = problem.psi_at(z, ready)
    return np.array(lengths) / lengths[0]


def _norm(x: Tensor) -> float:
    return float(x.norm())


class RunPart(NamedTuple):
    """A part of a run, and its relative time."""

    compute: Callable[[Mapping[str, Any]], dict[str, Any]]
    cost: float


PARTS = {
    "bounds": RunPart(_bounds, 8), "float32": RunPart(_float32, 1), "momentum": RunPart(_momentum, 2),
    "end": RunPart(_end, 1), "growth": RunPart(_growth, 1),
}  # fmt: skip


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper.fig1.views import claims

    return claims.outcome(settings, results)
