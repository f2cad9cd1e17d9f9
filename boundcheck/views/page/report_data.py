"""The data of a report for a page: rows, constants as sliders, and errors, verdicts and proofs in few digits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.errors import BoundcheckError
from boundcheck.explanation import ADD_UP, Explanation
from boundcheck.json_numbers import finite
from boundcheck.methods import Method, parse
from boundcheck.report.method_curve import BoundCurve, Curve, Trace
from boundcheck.report.report import Report
from boundcheck.side import in_words, standing
from boundcheck.theory import step_sizes
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.symbols import INDEX_NAMES, QUANTITIES
from boundcheck.views.figures import report_figures
from boundcheck.views.page import theorems
from boundcheck.views.page.answer import answer, why_no_sliders
from boundcheck.views.page.rows import Row, specialised
from boundcheck.views.page.sliders import control

DIGITS = 6  # digits of measured values; bounds have all digits
MOST_PROOF_TIMES = 200  # the most t at which a page has a proof
PAGE_DIFFERENCE = 1e-11  # the largest relative difference between the code of the page and the report
SIZES: dict[str, Any] = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}


def rows(report: Report) -> list[Row]:
    """Return a row for each method and each bound that applies, at the first λ."""
    return [
        _row(report, curve, bound_curve, bound_curve in drawn)
        for curve in report.curves.values()
        for drawn in [report_figures.chosen(curve)]
        for bound_curve in curve.applicable.values()
    ]


def _row(report: Report, curve: Curve, bound_curve: BoundCurve, shown: bool) -> Row:
    """Return a row with code, if the code gives the values of the report; otherwise a row with these values."""
    method, bound = parse(curve.method), bounds[bound_curve.name]
    values = _values(report, bound_curve.ball)
    dynamics = str(report.problem.get("dynamics", ""))
    for lower, fixed_arguments in product(("contraction", dynamics), _steps(dynamics, values)):
        if lower not in ("contraction", *SIZES):
            continue
        code = specialised(bound, method.name, lower, frozenset(values), truncated=True)
        try:
            values_of_code = (
                code.call({**values, **fixed_arguments}, curve.t, _k(curve), _truncation(method, curve))
                .values(check=False)
                .values
            )
        except BoundcheckError:
            continue
        is_finite = np.isfinite(bound_curve.values[0])
        if np.allclose(
            np.broadcast_to(values_of_code, curve.t.shape)[is_finite],
            bound_curve.values[0][is_finite],
            rtol=PAGE_DIFFERENCE,
            atol=0,
        ):
            needed = [name for name in code.symbols if name not in INDEX_NAMES and name not in fixed_arguments]
            keys = {name: _key(name, bound_curve.ball, report) for name in needed}
            fixed_arguments = {name: fixed_arguments[name] for name in fixed_arguments if name in code.symbols}
            return Row(curve.method, bound, code, keys, shown, method.k, fixed_arguments)
    return Row(curve.method, bound, bound, {}, shown, method.k, fixed=_plain(bound_curve.values[0]))


def _values(report: Report, ball: str) -> dict[str, float]:
    values = {name: constant.value for name, constant in report.constants[ball].items()}
    if values.get("alpha") and "L_Phi_star" in values:
        values.setdefault("L_ell", values["L_Phi_star"] / values["alpha"])  # ∂₂Φ = −α∇²₂₁ℓ for a frozen step
    return values


def _steps(dynamics: str, values: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """Yield no change of α, and for a momentum method the α that its bounds assume."""
    yield {}
    if dynamics in SIZES and "mu" in values and "L" in values:
        yield {"alpha": SIZES[dynamics](values["mu"], values["L"]).alpha}


def _k(curve: Curve) -> np.ndarray:
    return curve.t if curve.k is None else curve.k


def _truncation(method: Method, curve: Curve) -> dict[str, np.ndarray]:
    return {"K": _k(curve)} if method.name == "itd-truncated" else {}


def _key(name: str, ball: str, report: Report) -> str:
    """Return the key of the slider of a constant. Both balls share a slider if the constant is the same on both."""
    both = [_values(report, b).get(name) for b in BallKind]
    return f"{name}@local" if ball == BallKind.LOCAL and both[0] not in (None, both[1]) else name


def sliders(report: Report, page_rows: Iterable[Row]) -> list[dict[str, Any]]:
    controls = []
    used = {key for row in page_rows for key in row.controls.values()}
    for name in QUANTITIES:
        for key in (name, f"{name}@local"):
            if key in used:
                local = key != name or name not in _values(report, BallKind.PAPER)
                ball = BallKind.LOCAL if local else BallKind.PAPER
                differs = f"{name}@local" in used
                note = ("around w*" if local else "on ‖w‖ ≤ 2D") if differs else ""
                constant = report.constants[ball].get(name)
                side = "" if constant is None else in_words(constant.side, name)
                controls.append(control(key, _values(report, ball)[name], note, side))
    return controls


def described(
    report: Report, page_rows: Iterable[Row], explanations: Mapping[str, Mapping[str, Explanation]]
) -> dict[str, Any]:
    """Return the data of the report that the page does not compute itself; `explanations` are by ball and name."""
    page_rows = list(page_rows)
    live = {(row.method, row.bound.name) for row in page_rows if row.fixed is None}
    return {
        "problem": dict(report.problem),
        "verdict": report.verdict.value,
        "violated": report.verdict.is_violation,
        "samples": report.samples,
        "answer": answer(report),
        "noSliders": why_no_sliders(report, page_rows),
        "constants": [
            {"name": name, "latex": QUANTITIES[name].latex, "meaning": QUANTITIES[name].meaning, "ball": ball, **entry}
            for name in QUANTITIES
            for ball, entry in _entries(report, name, explanations)
        ],
        "explained": bool(explanations),
        "add_up": ADD_UP,
        "curves": [_curve(curve, live, report) for curve in report.curves.values()],
        "refused": dict(report.refused),
        "floor": report.floor_how,
    }


def _entries(
    report: Report, name: str, explanations: Mapping[str, Mapping[str, Explanation]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the constant on each ball, or once if both balls agree."""
    by_ball = {ball: constants[name] for ball, constants in report.constants.items() if name in constants}
    same = len({(c.value, c.side) for c in by_ball.values()}) == 1
    for ball, c in list(by_ball.items())[: 1 if same else None]:
        how, no_proof = c.provenance.how, c.provenance.no_proof
        explanation = explanations.get(ball, {}).get(name)
        yield (
            "" if same else ball,
            {
                "value": c.value,
                "side": in_words(c.side, name),
                "how": how,
                "noProof": no_proof,
                "explain": _why(explanation),
            },
        )


def _why(explanation: Explanation | None) -> dict[str, Any] | None:
    """Return the contributions of operations; None if there are none."""
    if explanation is None or not explanation.contributions:
        return None
    content = explanation.as_json()
    return {key: content[key] for key in ("quantity", "remark", "contributions")}


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
    """Return for each t whether the error is above rounding, and thus was compared with the bounds."""
    ratios = [bound.tightness[0] for bound in curve.applicable.values()]
    compared: list[bool] = np.isfinite(np.array(ratios)).any(axis=0).tolist() if ratios else [False] * len(curve.t)
    return compared


def _bound(bound_curve: BoundCurve, live: bool, report: Report) -> dict[str, Any]:
    return {
        "verdict": bound_curve.verdict.value,
        "violated": bound_curve.verdict.is_violation,
        "reason": bound_curve.reason,
        "known": standing(bound_curve.side),
        "side": in_words(bound_curve.side),
        "ball": bound_curve.ball,
        "kind": bound_curve.kind,
        "live": live,
        "best": finite(bound_curve.best),
        "worst": finite(bound_curve.worst),
        "trace": None if bound_curve.trace is None else _trace(bound_curve, bound_curve.trace, report),
    }


def _trace(bound_curve: BoundCurve, trace: Trace, report: Report) -> dict[str, Any]:
    places = np.unique(np.linspace(0, len(trace.t) - 1, min(MOST_PROOF_TIMES, len(trace.t))).astype(int))
    links = _links(bound_curve, trace, report)
    for entry, values, broken in zip(links, trace.values[:, places], trace.broken[:, places], strict=True):
        entry |= {"values": _short(values), "broken": np.flatnonzero(broken).tolist()}
    return {"t": trace.t[places].tolist(), "links": links}


def _links(bound_curve: BoundCurve, trace: Trace, report: Report) -> list[dict[str, Any]]:
    """Return the links of the proof in the catalogue; if it has other links now, the saved ones without formulas."""
    bound, names = bounds[bound_curve.name], frozenset(report.constants[bound_curve.ball]) | INDEX_NAMES
    observed = frozenset(symbol.name for symbol in bound.primitive.free_symbols)
    for known in (names | {"rho", "sigma"}, names | {"rho"}, names | {"sigma"}, names, names | observed):
        chain = bound.proof(known)
        if chain is not None and tuple(step.name for step in chain.links) == trace.links:
            return [theorems.link(step) for step in chain.links]
    saved = zip(trace.links, trace.because, trace.uses, strict=True)
    return [{**theorems.described_link(*link), "formula": ""} for link in saved]


def _plain(array: np.ndarray) -> list[float | None]:
    return [finite(x) for x in array.tolist()]


def _short(array: np.ndarray) -> list[float | None]:
    return [float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None for x in array.tolist()]
