"""What a report gives to a page: its rows, its constants as sliders, and errors, verdicts and proofs in few digits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from boundcheck.constants import BallKind
from boundcheck.errors import BoundcheckError
from boundcheck.methods import Method, parse
from boundcheck.report.report import BoundCurve, Curve, Report, Trace
from boundcheck.theory import step_sizes
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.symbols import INDEX_NAMES, QUANTITIES
from boundcheck.views.figures import report_figures
from boundcheck.views.page import theorems
from boundcheck.views.page.rows import Row, specialised
from boundcheck.views.page.sliders import control

DIGITS = 6  # of what is measured; bounds are computed in full
MOST = 200  # t at which a proof is kept
SAME = 1e-11  # to which the page's code must agree with the report to stand for it
SIZES: dict[str, Any] = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}


def rows(report: Report) -> list[Row]:
    """Each bound that applies, for each method of the report; at the first λ."""
    return [
        _row(report, curve, found, found in drawn)
        for curve in report.curves.values()
        for drawn in [report_figures.chosen(curve)]
        for found in curve.applicable.values()
    ]


def _row(report: Report, curve: Curve, found: BoundCurve, shown: bool) -> Row:
    """With code if that makes the values of the report, else with these: observed on the run, or the best of many."""
    method, bound = parse(curve.method), bounds[found.name]
    values = _values(report, found.ball)
    dynamics = str(report.problem.get("dynamics", ""))
    for lower, own in product(("contraction", dynamics), _steps(dynamics, values)):
        if lower not in ("contraction", *SIZES):
            continue
        code = specialised(bound, method.name, lower, frozenset(values), truncated=True)
        try:
            made = (
                code.call({**values, **own}, curve.t, _k(curve), _truncation(method, curve)).values(check=False).values
            )
        except BoundcheckError:
            continue
        speaks = np.isfinite(found.values[0])
        if np.allclose(np.broadcast_to(made, curve.t.shape)[speaks], found.values[0][speaks], rtol=SAME, atol=0):
            needed = [name for name in code.symbols if name not in INDEX_NAMES and name not in own]
            keys = {name: _key(name, found.ball, report) for name in needed}
            own = {name: own[name] for name in own if name in code.symbols}
            return Row(curve.method, bound, code, keys, shown, method.k, own)
    return Row(curve.method, bound, bound, {}, shown, method.k, fixed=_plain(found.values[0]))


def _values(report: Report, ball: str) -> dict[str, float]:
    found = {name: constant.value for name, constant in report.constants[ball].items()}
    if found.get("alpha") and "L_Phi_star" in found:
        found.setdefault("L_ell", found["L_Phi_star"] / found["alpha"])  # ∂₂Φ = −α∇²₂₁ℓ for a frozen step
    return found


def _steps(dynamics: str, values: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """The step size of the constants, or that of the momentum method, which its bounds are about."""
    yield {}
    if dynamics in SIZES and "mu" in values and "L" in values:
        yield {"alpha": SIZES[dynamics](values["mu"], values["L"]).alpha}


def _k(curve: Curve) -> np.ndarray:
    return curve.t if curve.k is None else curve.k


def _truncation(method: Method, curve: Curve) -> dict[str, np.ndarray]:
    return {"K": _k(curve)} if method.name == "itd-truncated" else {}


def _key(name: str, ball: str, report: Report) -> str:
    """One slider for both balls where the constant is the same on them."""
    both = [_values(report, b).get(name) for b in BallKind]
    return f"{name}@local" if ball == BallKind.LOCAL and both[0] not in (None, both[1]) else name


def sliders(report: Report, found: Iterable[Row]) -> list[dict[str, Any]]:
    made = []
    used = {key for row in found for key in row.controls.values()}
    for name in QUANTITIES:
        for key in (name, f"{name}@local"):
            if key in used:
                local = key != name or name not in _values(report, BallKind.PAPER)
                ball = BallKind.LOCAL if local else BallKind.PAPER
                differs = f"{name}@local" in used
                note = ("around w*" if local else "on ‖w‖ ≤ 2D") if differs else ""
                constant = report.constants[ball].get(name)
                side = "" if constant is None else constant.side.value
                made.append(control(key, _values(report, ball)[name], note, side))
    return made


def described(report: Report, made: Iterable[Row]) -> dict[str, Any]:
    """The report without what the page computes itself."""
    live = {(row.method, row.bound.name) for row in made if row.fixed is None}
    return {
        "problem": dict(report.problem),
        "verdict": report.verdict.value,
        "violated": report.verdict.is_violation,
        "samples": report.samples,
        "constants": [
            {"name": name, "latex": QUANTITIES[name].latex, "meaning": QUANTITIES[name].meaning, "ball": ball, **entry}
            for name in QUANTITIES
            for ball, entry in _entries(report, name)
        ],
        "curves": [_curve(curve, live, report) for curve in report.curves.values()],
        "refused": dict(report.refused),
        "floor": report.floor_how,
    }


def _entries(report: Report, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The constant on each ball, once where they agree."""
    found = {ball: constants[name] for ball, constants in report.constants.items() if name in constants}
    same = len({(c.value, c.side) for c in found.values()}) == 1
    for ball, c in list(found.items())[: 1 if same else None]:
        yield "" if same else ball, {"value": c.value, "side": c.side.value, "how": c.provenance.how}


def _curve(curve: Curve, live: set[tuple[str, str]], report: Report) -> dict[str, Any]:
    policy = "" if curve.k is None else f"k = {parse(curve.method).k or 't'}"
    return {
        "method": curve.method,
        "policy": policy,
        "t": curve.t.tolist(),
        "error": _short(curve.errors[0]),
        "floor": _short(curve.floor[0]),
        "compared": _compared(curve),
        "bounds": {b.name: _bound(b, (curve.method, b.name) in live, report) for b in curve.bounds.values()},
    }


def _compared(curve: Curve) -> list[bool]:
    """For each t, whether the error is more than rounding, so that it was compared with the bounds."""
    ratios = [bound.tightness[0] for bound in curve.applicable.values()]
    found: list[bool] = np.isfinite(np.array(ratios)).any(axis=0).tolist() if ratios else [False] * len(curve.t)
    return found


def _bound(found: BoundCurve, live: bool, report: Report) -> dict[str, Any]:
    return {
        "verdict": found.verdict.value,
        "violated": found.verdict.is_violation,
        "reason": found.reason,
        "side": found.side.value,
        "ball": found.ball,
        "kind": found.kind,
        "live": live,
        "best": _finite(found.best),
        "worst": _finite(found.worst),
        "trace": None if found.trace is None else _trace(found, found.trace, report),
    }


def _trace(found: BoundCurve, trace: Trace, report: Report) -> dict[str, Any]:
    at = np.unique(np.linspace(0, len(trace.t) - 1, min(MOST, len(trace.t))).astype(int))
    links = [theorems.described_link(*told) for told in zip(trace.links, trace.because, trace.uses, strict=True)]
    for entry, formula, values, broken in zip(
        links, _formulas(found, trace, report), trace.values[:, at], trace.broken[:, at], strict=True
    ):
        entry |= {"formula": formula, "values": _short(values), "broken": np.flatnonzero(broken).tolist()}
    return {"t": trace.t[at].tolist(), "links": links}


def _formulas(found: BoundCurve, trace: Trace, report: Report) -> list[str]:
    """The right-hand side of each link, from the proof that has the links of the trace."""
    bound, given = bounds[found.name], frozenset(report.constants[found.ball]) | INDEX_NAMES
    observed = frozenset(symbol.name for symbol in bound.primitive.free_symbols)
    for known in (given | {"rho", "sigma"}, given | {"rho"}, given | {"sigma"}, given, given | observed):
        chain = bound.proof(known)
        if chain is not None and tuple(step.name for step in chain.links) == trace.links:
            return [theorems.link(step)["formula"] for step in chain.links]
    return [""] * len(trace.links)


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None


def _plain(array: np.ndarray) -> list[float | None]:
    return [_finite(x) for x in array.tolist()]


def _short(array: np.ndarray) -> list[float | None]:
    return [float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None for x in array.tolist()]
