"""The terms of a bound at an instance: their shares of the bound, and how much of each the error attains.

The error is a signed sum with one part for each kind of term (`methods_on_instance.parts`): through ∇₂E (η₂), through
∇₁E (η₁), through the change of ∂₂Φ (ν₂) and of ∂₁Φ (ν₁), and the rest, from the incomplete differentiation or solve.
For the bounds of the paper, which bound ∇₁E(w_t) by L_E, the parts correspond to the terms of the formula one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp

from boundcheck.ball import BallKind
from boundcheck.worst_case import methods_on_instance
from boundcheck.worst_case.instance import Instance
from boundcheck.worst_case.target import Target

OF = {"hat_rho_1": "nu_1", "hat_rho_2": "nu_2"}
SMALLEST_SHARE = 1e-9  # for smaller shares the attained part is only rounding
ORDER = ("eta_2", "eta_1", "nu_2", "nu_1", "rest")


@dataclass(frozen=True)
class BoundTerm:
    """A term of a bound: its `share` of the bound, and the signed fraction of the term that the error attains."""

    name: str  # nu_1, nu_2, eta_1, eta_2 or rest
    share: float
    attained: float | None


def grouped(expression: sp.Expr) -> dict[str, sp.Expr]:
    """Return the additive terms of a formula, grouped by the Lipschitz constant that they contain."""
    groups: dict[str, list[sp.Expr]] = {}
    for term in sp.Add.make_args(sp.expand_mul(expression)):
        names = {OF.get(symbol.name, symbol.name) for symbol in term.free_symbols}
        name = next((part for part in ("nu_1", "nu_2", "eta_2", "eta_1") if part in names), "rest")
        groups.setdefault(name, []).append(term)
    return {name: sp.Add(*groups[name]) for name in ORDER if name in groups}


def required_terms(parts: frozenset[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the terms of a formula that an instance with these parts should attain."""
    wanted = tuple(name for name in ORDER[:-1] if name in parts and name in names)
    return (*wanted, "rest") if {"L_Phi", "L_E"} <= parts and "rest" in names else wanted


def terms(target: Target, instance: Instance, t: int, k: int) -> tuple[BoundTerm, ...]:
    """Return the terms at one instance; `attained` is None if the formula is not a sum of such terms."""
    outcome = target.outcome(instance, t, k, split=True)
    expression = target.expression(t, k)
    total = target.right(instance, outcome, t, expression)[0]
    if not total:
        return ()
    signed = methods_on_instance.parts(instance, outcome)
    sign = 1 if sum(part[0] for part in signed.values()) >= 0 else -1
    split = target.ball == BallKind.PAPER and target.bound.bounds.name == "error" and target.bound.recursion is None
    rows = []
    for name, part in grouped(expression).items():
        value = target.right(instance, outcome, t, part)
        value = value[0] if hasattr(value, "shape") else value
        share = float(value / total)
        attained = float(sign * signed[name][0] / value) if split and share > SMALLEST_SHARE else None
        rows.append(BoundTerm(name, share, attained))
    return tuple(rows)
