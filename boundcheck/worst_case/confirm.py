"""Evaluate the worst instance again in 50 digits, so that a refutation is not an effect of rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boundcheck.worst_case.arithmetic import _MP
from boundcheck.worst_case.family import Family
from boundcheck.worst_case.instance import Instance
from boundcheck.worst_case.target import Target
from boundcheck.worst_case.terms import BoundTerm, terms

SHOWN_DIGITS = 25  # digits in the output
MANY_DIGITS = 200  # digits in which a ratio above 1 is computed again; for a bound of 10⁻⁸⁰, 50 are not enough
RATIO_MARGIN = 1e-30  # a ratio in 50 digits must exceed 1 by so much; some 10⁴ operations lose at most 10 digits


@dataclass(frozen=True, eq=False)
class Exact:
    """Error, bound and ratio of one instance. The numbers of the instance are doubles and count as exact."""

    error: Any
    bound: Any
    constants: dict[str, float]
    terms: tuple[BoundTerm, ...]

    @property
    def ratio(self) -> Any:
        return self.error / self.bound if self.bound else self.bound

    @property
    def refutes(self) -> bool:
        return bool(self.error > self.bound * (1 + RATIO_MARGIN))

    def digits(self, name: str) -> str:
        value = getattr(self, name)
        return str(value.context.nstr(value, SHOWN_DIGITS))


def evaluate(target: Target, instance: Instance, t: int, k: int) -> Exact:
    """Evaluate one instance (a batch of one) in 50 digits, and again in 200 digits if it seems to refute the bound."""
    exact = _in_digits(target, instance, t, k)
    if exact.error > exact.bound:
        with _MP.workdps(MANY_DIGITS):
            return _in_digits(target, instance, t, k)
    return exact


def _in_digits(target: Target, instance: Instance, t: int, k: int) -> Exact:
    precise = instance.precisely()
    outcome = target.outcome(precise, t, k)
    error = target.error(precise, outcome)[0]
    bound = target.right(precise, outcome, t, target.expression(t, k))[0]
    constants = {name: float(value[0]) for name, value in target.constants(precise).items()}
    return Exact(error, bound, constants, terms(target, precise, t, k))


def of_row(family: Family, raw: Any, t: int, k: int) -> Exact:
    """Evaluate the instance of a row of raw numbers."""
    return evaluate(family.target, family.instance(raw).row(0), t, k)
