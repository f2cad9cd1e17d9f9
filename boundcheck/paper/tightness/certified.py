"""The ratio of proved bounds to the error on one problem, by kind and theorem, with the proof steps that lose most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck.ball import BallKind
from boundcheck.compare.case import case_at
from boundcheck.compare.certificate import certify, proved
from boundcheck.compare.check import check
from boundcheck.constants import Constant, Constants
from boundcheck.numerics.bilevel.derivatives import jacobian, rows, rows_d2, used
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.numerics.solvers.linear_systems import Dense
from boundcheck.numerics.solvers.reference import reference, reference_at
from boundcheck.problems.loading import load_problem
from boundcheck.report.method_curve import BoundCurve, Curve
from boundcheck.report.report import Report
from boundcheck.report.verdict import Verdict
from boundcheck.theory.kinds import BoundKind

METHODS = ("itd", "aid-fp", "aid-cg")
KINDS = (BoundKind.A_PRIORI, BoundKind.FROM_SPECTRUM, BoundKind.A_POSTERIORI)
OPEN_SHARE = 0.1  # the largest width of an enclosure, as a fraction of the error
NEWTON_STEPS = 20  # the largest number of Newton steps


def certified(name: str, dynamics: str, T: int, seed: int, device: str) -> dict[str, Any]:
    """Return bound/error at every t for each method: the paper's bound, the best bound of each kind, the enclosure."""
    problem = load_problem(name, seed=seed, device=device, dynamics=dynamics)
    report = check(problem, METHODS, T, seed=seed)
    return {
        "methods": {method: _method(report, curve) for method, curve in report.curves.items()},
        "verdict": report.verdict.value,
        "eps_g": None if report.certificates[0] is None else report.certificates[0].value,
    }


def _method(report: Report, curve: Curve) -> dict[str, Any]:
    error, floor = curve.errors[0], curve.floor[0]
    above = error > floor
    stated = curve.bounds.get(curve.method)
    enclosure = report.enclosure(curve.method)
    with np.errstate(divide="ignore", invalid="ignore"):
        enclosing = np.where(above, enclosure.upper[0] / error, np.nan)
    nothing = np.full(len(error), np.nan)
    holds = stated is not None and stated.verdict is Verdict.HOLDS
    return {
        "error": error,
        "above": above,
        "paper": stated.tightness[0] if holds and stated is not None else nothing,
        "enclosure": enclosing,
        **{str(kind): _of_kind(curve, kind) for kind in KINDS},
    }


def _of_kind(curve: Curve, kind: BoundKind) -> dict[str, Any]:
    """Return the least ratio at every t and its bound; and at the t where it is largest, the steps that lose most."""
    fitting = [b for b in curve.bounds.values() if b.kind is kind and b.verdict is Verdict.HOLDS]
    ratios = np.array([np.where(np.isnan(b.tightness[0]), np.inf, b.tightness[0]) for b in fitting])
    if not fitting or not np.isfinite(ratios).any():
        return {"ratio": np.full(curve.errors.shape[1], np.nan), "bound": [], "worst": None}
    least, best = ratios.min(axis=0), ratios.argmin(axis=0)
    finite = np.isfinite(least)
    worst = int(np.where(finite, least, -np.inf).argmax())
    return {
        "ratio": np.where(finite, least, np.nan),
        "bound": [fitting[i].name if ok else "" for i, ok in zip(best, finite, strict=True)],
        "worst": {"t": worst + 1, "bound": fitting[best[worst]].name, "links": _largest_slacks(fitting, worst)},
    }


def _largest_slacks(fitting: Sequence[BoundCurve], index: int) -> list[list[Any]]:
    """Return the two links that lose most in the proof of the best bound at this t that has an encoded proof."""
    traced = [bound for bound in fitting if bound.trace is not None and np.isfinite(bound.tightness[0, index])]
    best = min(traced, key=lambda bound: float(bound.tightness[0, index]), default=None)
    if best is None or best.trace is None:
        return []
    slacks = best.trace.slacks[:, int(np.abs(best.trace.t - index - 1).argmin())]
    most = [i for i in np.argsort(slacks)[::-1][:2] if i]  # the first link is the error itself
    return [[best.trace.links[i], float(slacks[i])] for i in most]


def newton_steps(name: str, ts: Sequence[int], seed: int, device: str) -> Mapping[str, int | None]:
    """Return for w_t of gradient descent the number of Newton steps until the error of AID at w_t is enclosed.

    The enclosure is ‖g(w_t) − g(w)‖ ± ε_g, where w is w_t after these Newton steps, and ε_g is at most a tenth of the
    norm.
    """
    problem = load_problem(name, seed=seed, device=device, dynamics="gradient-descent")
    solution = reference(problem, problem.lam[None])
    constants = case_at(problem, solution, None, None, Spend(1e-3, seed, None)).constants[BallKind.LOCAL]
    return {str(t): _steps(problem, hypergradient(problem, "itd", t=t).w, constants) for t in ts}


def _steps(problem: Problem, w: Tensor, constants: Constants) -> int | None:
    prepared = Prepared(problem, problem.lam[None])
    first: Tensor | None = None
    for steps in range(NEWTON_STEPS):
        A, Z = _derivatives(problem, prepared, w)
        solution = reference_at(problem, prepared, w[None], Dense(A[None]))
        first = solution.value[0] if first is None else first
        W = float(torch.linalg.matrix_norm(torch.linalg.solve(A, Z), 2))
        eps_g = certify(problem, solution, constants.replace(replace(constants["W"], value=W)))
        if _encloses(eps_g, float((solution.value[0] - first).norm())):
            return steps
        w = w - torch.linalg.solve(A, w - problem.phi_at(w, prepared.leaves.at(0)))
    return None


def _encloses(eps_g: Constant | None, gap: float) -> bool:
    return eps_g is not None and proved(eps_g) and eps_g.value <= OPEN_SHARE * gap


def _derivatives(problem: Problem, prepared: Prepared, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return I − ∂₁Φ and ∂₂Φ at w."""
    ready = prepared.leaves.at(0)
    eye = torch.eye(problem.d, dtype=w.dtype, device=w.device)
    A = eye - jacobian(lambda x: problem.phi_at(x, ready), w)
    leaves = used(prepared.leaves, rows(problem.phi_at), w[None, None])
    return A, rows_d2(problem.phi_at, w[None, None], prepared, leaves, problem.d)[0, 0]
