"""Convert a report to JSON and back; numbers that are not finite become null."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from boundcheck import __version__
from boundcheck.ball import BallKind
from boundcheck.constants import Constants
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.report import tightness
from boundcheck.report.accuracy import Accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.report.json_parts import FILE as FILE
from boundcheck.report.json_parts import as_array, as_lists, not_a_report, read_kind
from boundcheck.report.method_curve import BoundCurve, Curve, MeasuredRate, Trace
from boundcheck.report.report import Report
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side


def _over_samples(name: str, array: np.ndarray) -> dict[str, Any]:
    """The mean over λ, and the values at each λ if there are several."""
    with np.errstate(invalid="ignore"):
        mean = {name: as_lists(array.mean(axis=0))}
    return mean if len(array) == 1 else {**mean, f"{name}_of_each": as_lists(array)}


def _samples(entry: dict[str, Any], name: str, missing: float) -> np.ndarray:
    return as_array(entry[f"{name}_of_each"] if f"{name}_of_each" in entry else [entry[name]], missing)


def to_json(report: Report) -> dict[str, Any]:
    """Convert a report to JSON, schema 1; some keys are present only if they have a value."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "problem": dict(report.problem),
        "verdict": report.verdict.value,
        "constants": report.constants[BallKind.PAPER].as_json(),
        "constants_local": report.constants[BallKind.LOCAL].as_json(),
        "curves": [{**_curve(curve), "enclosure": _enclosure(report, curve)} for curve in report.curves.values()],
        "refused": dict(report.refused),
        "ordering": [{"first": a, "second": b, "share": share} for a, b, share in report.ordering],
        "reference": [None if c is None else Constants({c.name: c}).as_json()[c.name] for c in report.certificates],
        "floor": report.floor_how,
        "seconds": report.seconds,
        "gradient_norms": [finite(norm) for norm in report.gradient_norms],
    }


def _enclosure(report: Report, curve: Curve) -> dict[str, Any] | None:
    """Lower and upper bounds on the errors, from the certified reference; None if it is not certified."""
    enclosure = report.enclosure(curve.method)
    if enclosure.side is Side.LOWER:
        return None
    ends = _over_samples("lower", enclosure.lower) | _over_samples("upper", enclosure.upper)
    return {**ends, "side": enclosure.side.value, "delta": enclosure.delta}


def _curve(curve: Curve) -> dict[str, Any]:
    name, _, k = curve.method.partition(":")
    policy = None if curve.k is None else f"k = {k}" if k else "k = t"
    main = curve.bounds.get(name)
    return {
        "method": curve.method,
        "k_policy": policy,
        "t": curve.t.tolist(),
        "k": None if curve.k is None else curve.k.tolist(),
        **_over_samples("error", curve.errors),
        **_over_samples("floor", curve.floor),
        "bounds": {name: _bound(bound) for name, bound in curve.bounds.items()},
        "rate_measured": None if curve.rate is None else finite(curve.rate.value),
        "rate_range": None if curve.rate is None else [curve.rate.first, curve.rate.last],
        "iterations": _accuracies(curve.needs),
        "trace": None if main is None or main.trace is None else at_one_t(main.trace),
        "last": None if curve.last is None else _accuracy(curve.last),
    }


def _accuracies(first_below: Any) -> dict[str, int | None]:
    return {f"{eps:.0e}": t for eps, t in first_below.items()}


def at_one_t(trace: Trace) -> dict[str, Any]:
    """The chain at the last t."""
    rows = zip(trace.links, trace.values[:, -1], trace.slacks[:, -1], strict=True)
    links = [{"name": name, "value": finite(float(v)), "slack": finite(float(s))} for name, v, s in rows]
    return {"t": int(trace.t[-1]), "links": links}


def _bound(bound: BoundCurve) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        closest = np.fmin.reduce(bound.tightness)
    return {
        "title": bound.title,
        "reference": bound.reference,
        "kind": bound.kind,
        "ball": bound.ball,
        **_over_samples("values", bound.values),
        "side": bound.side.value,
        "delta": bound.delta,
        "weakest": list(bound.weakest),
        "verdict": bound.verdict.value,
        "reason": bound.reason,
        "tightness": as_lists(closest),
        "best": finite(bound.best),
        "worst": finite(bound.worst),
        "rate_predicted": finite(bound.rate_predicted),
        "iterations": _accuracies(bound.asks),
        "iterations_relative": _accuracies(bound.asks_relative),
        "trace": None if bound.trace is None else _trace(bound.trace),
    }


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "t": trace.t.tolist(),
        "links": [
            {
                "name": name,
                "because": because,
                "uses": list(uses),
                "value": as_lists(v),
                "slack": as_lists(s),
                "broken": b,
            }
            for name, because, uses, v, s, b in zip(
                trace.links, trace.because, trace.uses, trace.values, trace.slacks, trace.broken.tolist(), strict=True
            )
        ],
    }


def load(path: str | os.PathLike[str]) -> Report:
    """Read a report from its file or its directory; raises InputError if the file is not a report."""
    file, content = read_kind(path, None)
    try:
        return from_json(content)
    except (KeyError, TypeError, ValueError) as why:
        raise not_a_report(file, None, why) from None


def from_json(content: dict[str, Any]) -> Report:
    """The inverse of `to_json`."""
    return Report(
        problem=content["problem"],
        constants={
            BallKind.PAPER: Constants.from_json(content["constants"]),
            BallKind.LOCAL: Constants.from_json(content["constants_local"]),
        },
        curves={entry["method"]: _read_curve(entry) for entry in content["curves"]},
        refused=content["refused"],
        certificates=tuple(
            None if entry is None else Constants.from_json({"eps_g": entry})["eps_g"] for entry in content["reference"]
        ),
        floor_how=content["floor"],
        seconds=content["seconds"],
        gradient_norms=tuple(math.inf if norm is None else norm for norm in content.get("gradient_norms", ())),
    )


def _read_curve(entry: dict[str, Any]) -> Curve:
    errors, floor = _samples(entry, "error", np.inf), _samples(entry, "floor", np.inf)
    rate = None
    if entry["rate_measured"] is not None:
        rate = MeasuredRate(entry["rate_measured"], *entry["rate_range"])
    return Curve(
        method=entry["method"],
        t=np.array(entry["t"], dtype=int),
        k=None if entry["k"] is None else np.array(entry["k"], dtype=int),
        errors=errors,
        floor=floor,
        rate=rate,
        needs=_read_accuracies(entry["iterations"]),
        bounds={name: _read_bound(name, bound, errors, floor) for name, bound in entry["bounds"].items()},
        last=_read_accuracy(entry.get("last")),
    )


def _accuracy(accuracy: Accuracy) -> dict[str, Any]:
    """The accuracy at the last t; None for unknown values."""
    error, gradient = accuracy.error, accuracy.gradient_norm
    return {
        "error": [finite(float(error.lower)), finite(float(error.upper))],
        "gradient_norm": [finite(float(gradient.lower)), finite(float(gradient.upper))],
        "side": error.side.value,
        "delta": error.delta,
        "relative_error": finite(accuracy.relative_error),
        "angle": accuracy.angle,
        "descent": accuracy.descent,
    }


def _read_accuracy(content: dict[str, Any] | None) -> Accuracy | None:
    if content is None:
        return None
    side, delta = Side(content["side"]), content["delta"]
    ends = {name: as_array(content[name], np.inf) for name in ("error", "gradient_norm")}
    error, gradient = (Enclosure(low, high, side, delta) for low, high in ends.values())
    relative = content["relative_error"]
    return Accuracy(error, gradient, math.inf if relative is None else relative, content["angle"], content["descent"])


def _read_accuracies(content: dict[str, int | None]) -> dict[float, int | None]:
    return {float(eps): t for eps, t in content.items()}


def _read_bound(name: str, entry: dict[str, Any], errors: np.ndarray, floor: np.ndarray) -> BoundCurve:
    values = _samples(entry, "values", np.nan)
    return BoundCurve(
        name=name,
        title=entry["title"],
        reference=entry["reference"],
        kind=entry["kind"],
        ball=BallKind(entry["ball"]),
        values=values,
        side=Side(entry["side"]),
        delta=entry["delta"],
        weakest=tuple(entry["weakest"]),
        verdict=Verdict(entry["verdict"]),
        reason=entry["reason"],
        tightness=tightness.ratio(values, errors, floor),
        rate_predicted=entry["rate_predicted"],
        asks=_read_accuracies(entry["iterations"]),
        trace=None if entry["trace"] is None else _read_trace(entry["trace"]),
        asks_relative=_read_accuracies(entry.get("iterations_relative", {})),
    )


def _read_trace(content: dict[str, Any]) -> Trace:
    links = content["links"]
    return Trace(
        links=tuple(link["name"] for link in links),
        because=tuple(link["because"] for link in links),
        uses=tuple(tuple(link["uses"]) for link in links),
        t=np.array(content["t"], dtype=int),
        values=as_array([link["value"] for link in links], np.inf),
        slacks=as_array([link["slack"] for link in links], np.inf),
        broken=np.array([link["broken"] for link in links], dtype=bool),
    )
