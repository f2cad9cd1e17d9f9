"""Read the options of `boundcheck bound` as numbers (never as code), and evaluate the bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.bound import Bound
from boundcheck.theory.evaluation import BoundValues
from boundcheck.theory.iterations import Iterations
from boundcheck.theory.rate_inversion import takes_rates
from boundcheck.theory.symbols import QUANTITIES

DEFAULT_T = "1,10,100,1000"
MOST_POINTS = 10**6


@dataclass(frozen=True)
class Request:
    """The options of a request and the results; without numbers, nothing is evaluated."""

    constants: Constants
    rates: Mapping[str, str]
    t: np.ndarray | None = None
    k: np.ndarray | None = None
    values: BoundValues | None = None
    eps: float | None = None
    iterations: Iterations | None = None


def _number(name: str, text: str) -> float:
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        value = float(text)
    except ValueError:
        raise InputError(f"{name} = {text!r} is not a number; write it like 0.9 or 1e-3") from None
    if not math.isfinite(value):
        raise InputError(f"{name} = {text} is not finite; give a finite number")
    return value


def _pairs(option: str, items: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise InputError(f"{option} {item!r} has no '='; write {option} NAME=VALUE")
        if name in pairs:
            raise InputError(f"{option} gives {name} twice, {pairs[name]} and {text}; give it once")
        pairs[name] = text
    return pairs


def _constants(items: Sequence[str], side: str) -> Constants:
    pairs = _pairs("--set", items)
    for name in pairs:
        if name in ("t", "k"):
            raise InputError(f"--set {name}={pairs[name]}: {name} counts iterations; use --{name} {pairs[name]}")
        if name not in QUANTITIES or QUANTITIES[name].kind == "coefficient":
            raise UnknownNameError.among("symbol", name, (n for n, x in QUANTITIES.items() if x.kind != "coefficient"))
    values = {name: _number(name, text) for name, text in pairs.items()}
    for name, value in values.items():
        QUANTITIES[name].check(value)
    if Side.parse(side) is Side.HIGH_PROBABILITY:
        raise InputError("--side high-probability needs a delta for each constant; use exact, upper or lower here")
    return Constants({name: Constant(name, value, Side.parse(side)) for name, value in values.items()})


def _integers(name: str, text: str) -> np.ndarray:
    """Return the numbers of a text such as 50, or 1,10,100, or 0:200:10 with both ends included."""
    try:
        if ":" in text:
            start, stop, step = ([int(part) for part in text.split(":")] + [1])[:3]
            if len(text.split(":")) > 3 or step < 1 or (stop - start) // step >= MOST_POINTS:
                raise ValueError
            array = np.arange(start, stop + 1, step)
        else:
            array = np.array([int(part) for part in text.split(",")])
    except (ValueError, OverflowError):
        raise InputError(
            f"{name} = {text!r} is not a count; write 50, or 1,10,100, or 0:200:10 (at most {MOST_POINTS} of them)"
        ) from None
    if array.size == 0 or array.min() < 0:
        raise InputError(f"{name} = {text}: the number of iterations cannot be negative or empty; give {name} ≥ 0")
    return array


def read(
    theorem: Bound,
    set_: Sequence[str],
    rate: Sequence[str],
    t: str,
    k: str,
    eps: str,
    side: str,
    rigorous: bool,
    step: str = "",
    step_v: str = "",
) -> Request:
    """Read the options, and compute the requested values and iterations."""
    constants, rates = _constants(set_, side), _pairs("--rate", rate)
    for name in rates:
        if name not in ("rho", "sigma"):
            raise UnknownNameError.among("rate symbol", name, ("rho", "sigma"))
        if not theorem.mentions(QUANTITIES[name].symbol):
            raise InputError(f"--rate {name}={rates[name]}: {theorem.name} has no {name}; leave it out")
    if k and not uses_k(theorem, rates):
        raise InputError(f"--k {k}: {theorem.name} does not depend on k; leave it out")
    if k and eps and not t:
        raise InputError(f"--k {k}: --eps chooses k itself; give --t as well for values at this k")
    accuracy = _number("eps", eps) if eps else None
    if accuracy is not None and accuracy <= 0:
        raise InputError(f"eps = {accuracy:g} ≤ 0; give a positive accuracy, such as 1e-3")
    if (step or step_v) and not eps:
        option = "--step" if step else "--step-v"
        raise InputError(f"{option} is for --eps, which asks how many steps are enough; add --eps")
    if step_v and not step:
        raise InputError(f"--step-v {step_v} are the steps for v; give --step as well")
    if not (set_ or t or k or eps):
        return Request(constants, rates)
    ts = _integers("t", t or DEFAULT_T) if t or not eps else None
    ks = _integers("k", k) if k else None
    if ts is not None and ks is not None and ks.size not in (1, ts.size):
        raise InputError(f"k has {ks.size} values and t has {ts.size}; give one k, or as many as there are t")
    given: dict[str, Any] = dict(rates)
    values = theorem.evaluate(constants, ts, ks, rigorous=rigorous, **given) if ts is not None else None
    if accuracy is not None and not step and takes_rates(theorem):
        raise InputError(f"{theorem.name} takes ρ_t and σ_k; give the steps of its iterations, such as --step 0.1")
    given |= {name: StepSchedule.parse(text) for name, text in (("steps", step), ("steps_v", step_v)) if text}
    iterations = theorem.iterations(constants, accuracy, **given) if accuracy is not None else None
    return Request(constants, rates, ts, ks, values, accuracy, iterations)


def uses_k(theorem: Bound, rates: Mapping[str, str]) -> bool:
    """Return whether the bound depends on k, by itself or through the rate of the linear solver."""
    return "k" in theorem.symbols or "sigma" in rates
