"""A report made by hand from real errors, constants and bounds; only floors, residuals and slacks are invented."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
from small import small

import boundcheck as bc
from boundcheck.methods import parse
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.report.method_curve import BoundCurve, Curve, Trace
from boundcheck.report.report import Report
from boundcheck.report.verdict import Verdict, judge
from boundcheck.theory.chain import Link

BALLS = ("paper", "local")
LOCAL = ("itd-local", "itd-recursive", "aid-fp-local", "aid-local", "aid-cg-local", "aid-posteriori")
LOCAL += ("itd-shrinking", "aid-fp-shrinking", "aid-cg-shrinking", "aid-fp-directional", "aid-cg-directional")
OTHER_SETTINGS = ("ablin-automatic", "heavy-ball", "nesterov", "itd-quadratic")
SHARES = (1, 2, 0, 3, 4, 2, 3, 2, 1)  # of log(bound/error), by link after the first; repeated in a longer proof
RATES = {"aid-fp": "fixed-point", "aid-cg": "cg", "aid-cgn": "cgn"}


def made(
    problem: Problem | str = "lr",
    methods: Sequence[str] = ("itd", "aid-fp", "aid-cg"),
    *,
    samples: int = 1,
    T: int = 60,
    floor: float = 1e-13,
    broken: bool = False,
    only: Sequence[str] | None = None,
) -> Report:
    """`floor` is relative to the first error; `broken` lets one link of the trace fall; `only` these bounds apply."""
    problem = small(problem) if isinstance(problem, str) else problem
    constants = {ball: bc.estimate_constants(problem, ball=ball) for ball in BALLS}
    result = bc.error_curves(problem, list(methods), t=T, samples=samples, seed=0 if samples > 1 else None)
    curves = {}
    for name in methods:
        errors, method = result[name], parse(name)
        k = None if method.name == "itd" else np.array([method.steps(t) for t in result.t])
        floors = np.full_like(errors, floor * errors[:, :1].max())
        bounds = {}
        for bound in bc.bounds:
            theorem = bc.bounds[bound]
            if theorem.bounds.name == "error" and theorem.kind != "enclosure" and method.name in theorem.methods:
                applies = bound not in OTHER_SETTINGS if only is None else bound in only
                bounds[bound] = _bound(bound, constants, name, result.t, k, errors, floors, broken, applies)
        curves[name] = Curve(name, result.t, k, errors, floors, None, MappingProxyType({}), bounds)
    problem_is = {"name": problem.name, "dim": problem.d, "hdim": problem.n}
    return Report(problem_is, constants, curves, {}, (None,) * samples, "by hand", 0.0)


def _bound(name, constants, method, t, k, errors, floors, broken, applies):  # type: ignore[no-untyped-def]
    theorem, ball = bc.bounds[name], "local" if name in LOCAL else "paper"
    c = {key: constant.value for key, constant in constants[ball].items()}
    given = {} if k is None else {"k": k}
    if name in ("aid", "aid-contraction", "aid-local"):
        given |= {"sigma": RATES[method.partition(":")[0]]}
    if name == "aid":
        given |= {"rho": c["q"] ** t, "mu_inv": 1 - c["q"]}
    if name == "aid-posteriori":
        r_t = c["r_0"] * c["q_star"] ** t
        given |= {"eps_w": 0.3 * r_t, "eps_v": 0.3 * c["g_star"] * c["q_star"] ** k}
        given |= {"g_t": c["g_star"], "Z_t": c["L_Phi_star"], "v_t": c["g_star"] / (1 - c["q_star"])}
    values, verdict, reason, side = np.full(errors.shape, np.nan), Verdict.NOT_APPLICABLE, "left out", bc.Side.LOWER
    try:
        if applies:
            evaluated = theorem.evaluate(constants[ball], t, **given)
            values, side, reason = evaluated.values * errors[:, :1] / errors[0, 0], evaluated.side, ""
            verdict = judge(errors, values, floors, side)
    except bc.BoundcheckError as error:
        reason = str(error)
    with np.errstate(divide="ignore", invalid="ignore"):
        tightness = np.where(errors > floors, values / errors, np.nan)
    proved = theorem.chain is not None and verdict is not Verdict.NOT_APPLICABLE
    trace = _trace(theorem.chain.links, t, errors[0], values[0], broken) if proved else None
    about = (name, theorem.title, theorem.reference.number, theorem.kind, ball)
    return BoundCurve(*about, values, side, 0.0, (), verdict, reason, tightness, None, {}, trace)


def _trace(links: tuple[Link, ...], t: np.ndarray, error: np.ndarray, bound: np.ndarray, broken: bool) -> Trace:
    shares = np.append(0.0, np.resize(SHARES, len(links) - 1))
    if broken:
        shares[[2, 3]] += (-4, 4)
    with np.errstate(divide="ignore"):
        slacks = (bound / error) ** (shares[:, None] / shares.sum())
    values = error * slacks.cumprod(axis=0)
    names, because, uses = zip(*((link.name, link.because, link.uses) for link in links), strict=True)
    return Trace(names, because, uses, t, values, slacks, slacks < 1 - 1e-9)
