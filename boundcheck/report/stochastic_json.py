"""Convert a report of minibatch runs to JSON and back; numbers that are not finite become null."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import Any

import numpy as np

from boundcheck import __version__
from boundcheck.constants import Constants
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.report.json_parts import (
    STOCHASTIC,
    as_array,
    as_lists,
    not_a_report,
    read_kind,
)
from boundcheck.report.stochastic_curve import MeanEstimate, Measured, StochasticBound, StochasticCurve
from boundcheck.report.stochastic_report import StochasticReport
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule


def to_json(report: StochasticReport) -> dict[str, Any]:
    """The report as JSON, schema 1, with "kind": "stochastic"."""
    certificate = report.certificate
    return {
        "schema": SCHEMA,
        "kind": STOCHASTIC,
        "version": __version__,
        "problem": dict(report.problem),
        "verdict": report.verdict.value,
        "constants": report.constants.as_json(),
        "radius": finite(report.radius),
        "ball_doubt": report.ball_doubt,
        "curves": [_curve(curve) for curve in report.curves.values()],
        "steps": asdict(report.steps),
        "steps_v": asdict(report.steps_v),
        "steps_how": report.steps_how,
        "runs": report.runs,
        "level": report.level,
        "gradient_norm": finite(report.gradient_norm),
        "reference": None if certificate is None else Constants({certificate.name: certificate}).as_json(),
        "largest_error": finite(report.largest_error),
        "seed": report.seed,
        "seconds": report.seconds,
    }


def _curve(curve: StochasticCurve) -> dict[str, Any]:
    return {
        "method": curve.method,
        "t": curve.t.tolist(),
        "k": curve.k.tolist(),
        "means": {name: _mean(mean) for name, mean in curve.means.items()},
        "bounds": {name: _bound(bound) for name, bound in curve.bounds.items()},
        "floor": as_lists(curve.floor),
    }


def _mean(mean: MeanEstimate) -> dict[str, Any]:
    ends = {"value": as_lists(mean.value), "lower": as_lists(mean.lower), "upper": as_lists(mean.upper)}
    return {**ends, "proved": mean.proved, "how": mean.how}


def _bound(bound: StochasticBound) -> dict[str, Any]:
    return {
        "title": bound.title,
        "reference": bound.reference,
        "quantity": bound.quantity.value,
        "values": as_lists(bound.values),
        "side": bound.side.value,
        "delta": bound.delta,
        "weakest": list(bound.weakest),
        "verdict": bound.verdict.value,
        "reason": bound.reason,
        "more_runs": bound.more_runs,
    }


def load(path: str | os.PathLike[str]) -> StochasticReport:
    """Read a report from its file or its directory; raises InputError if the file is not such a report."""
    file, content = read_kind(path, STOCHASTIC)
    try:
        return from_json(content)
    except (AttributeError, KeyError, TypeError, ValueError) as why:
        raise not_a_report(file, STOCHASTIC, why) from None


def from_json(content: dict[str, Any]) -> StochasticReport:
    """The inverse of `to_json`."""
    reference, norm = content["reference"], content["gradient_norm"]
    return StochasticReport(
        problem=content["problem"],
        constants=Constants.from_json(content["constants"]),
        radius=content["radius"],
        ball_doubt=content["ball_doubt"],
        curves={entry["method"]: _read_curve(entry) for entry in content["curves"]},
        steps=StepSchedule(**content["steps"]),
        steps_v=StepSchedule(**content["steps_v"]),
        steps_how=content["steps_how"],
        runs=content["runs"],
        level=content["level"],
        gradient_norm=math.inf if norm is None else norm,
        certificate=None if reference is None else next(iter(Constants.from_json(reference).values())),
        largest_error=content["largest_error"],
        seed=content["seed"],
        seconds=content["seconds"],
    )


def _read_curve(entry: dict[str, Any]) -> StochasticCurve:
    return StochasticCurve(
        method=entry["method"],
        t=np.array(entry["t"], dtype=int),
        k=np.array(entry["k"], dtype=int),
        means={name: _read_mean(name, mean) for name, mean in entry["means"].items()},
        bounds={name: _read_bound(name, bound) for name, bound in entry["bounds"].items()},
        floor=as_array(entry["floor"], np.inf),
    )


def _read_mean(name: str, entry: dict[str, Any]) -> MeanEstimate:
    """Read a mean; an end that is null becomes 0 for the lower end and infinity for the upper end."""
    value, upper = (as_array(entry[key], np.inf) for key in ("value", "upper"))
    return MeanEstimate(
        Measured(name), value, as_array(entry["lower"], 0.0), upper, bool(entry["proved"]), entry["how"]
    )


def _read_bound(name: str, entry: dict[str, Any]) -> StochasticBound:
    return StochasticBound(
        name=name,
        title=entry["title"],
        reference=entry["reference"],
        quantity=Measured(entry["quantity"]),
        values=as_array(entry["values"], np.nan),
        side=Side(entry["side"]),
        delta=entry["delta"],
        weakest=tuple(entry["weakest"]),
        verdict=Verdict(entry["verdict"]),
        reason=entry["reason"],
        more_runs=entry["more_runs"],
    )
