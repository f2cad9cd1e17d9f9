"""The rows of a page: a bound for a method, with the rates of the method, and the code that evaluates the bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sympy as sp

from boundcheck.methods import METHODS
from boundcheck.theory.bound import Bound
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.citation import BOUNDCHECK, GRAZZI
from boundcheck.theory.codegen import arguments, javascript_conditions
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.rates import RATES, SOLVER_RATES
from boundcheck.theory.symbols import INDEX_NAMES, K, error, rho, sigma

SHOWN_METHODS = ("itd", "aid-fp", "aid-cg")  # methods with a drawn bound on a page without a problem
FROM_A_RUN, SPECTRUM, DERIVATIVES, ANALYTIC = "from-a-run", "from-the-spectrum", "derivatives", "analytic"
MEANS = "means"
GROUPS: Mapping[str, str] = {
    **METHODS,
    ANALYTIC: "the gradient of E at w_t, without differentiating w_t",
    DERIVATIVES: "not the hypergradient but a derivative on the way to it",
    MEANS: "means over the draws of a stochastic method, and of its lower level",
    SPECTRUM: "a priori, on a quadratic whose eigenvalues and eigenvectors are known",
    FROM_A_RUN: "a posteriori, computed after a run: for any AID method, and from a reference",
}


@dataclass(frozen=True, eq=False)
class Row:
    """One bound on one method. `code` is the bound that the page evaluates; its arguments are from controls."""

    method: str
    bound: Bound
    code: Bound
    controls: Mapping[str, str]  # the control of each argument
    shown: bool
    k: int | None = None  # the k of the run; None for k = t
    fixed_arguments: Mapping[str, float] = field(default_factory=dict)  # arguments without a control
    fixed: list[float | None] | None = None  # the values of the run, if no code computes them

    def as_json(self) -> dict[str, Any]:
        return {
            "id": f"{self.method}/{self.bound.name}",
            "method": self.method,
            "bound": self.bound.name,
            "formula": None if self.fixed is not None else self.code.name,
            "indices": [name for name in arguments(self.code) if name in INDEX_NAMES],
            "controls": dict(self.controls),
            "own": dict(self.fixed_arguments),
            "fixed": self.fixed,
            "k": self.k,
            "line": line(self.bound),
            "shown": self.shown,
        }


def line(bound: Bound) -> str:
    """Return the line style of a bound: of the paper, ours, of other papers, or from a run."""
    if bound.kind not in (BoundKind.A_PRIORI, BoundKind.FROM_SPECTRUM):
        return "posteriori"
    return {GRAZZI: "paper", BOUNDCHECK: "local"}.get(bound.reference.paper, "other")


def specialised(
    bound: Bound, method: str, lower: str = "contraction", given: frozenset[str] = frozenset(), truncated: bool = False
) -> Bound:
    """Return the bound with ρ and σ of the method as defaults, and without defaults for symbols in `given`."""
    rates: dict[sp.Symbol, str] = {}
    if bound.mentions(sigma) and method in SOLVER_RATES:
        rates[sigma] = SOLVER_RATES[method]
    if bound.mentions(rho) and (rho not in bound.defaults or (bound.takes_rates and lower != "contraction")):
        rates[rho] = lower
    defaults = {symbol: value for symbol, value in bound.defaults.items() if symbol.name not in given}
    defaults |= {symbol: bound.expand(RATES[name].expression) for symbol, name in rates.items()}
    if truncated:
        defaults.pop(K, None)
    name = "-".join((bound.name, *(f"with-{rate}" for rate in rates.values())))
    return replace(bound, name=name, defaults=defaults)


def theory() -> list[Row]:
    """Return a row for every bound of the catalogue and every method to which it applies."""
    entries = []
    for group in GROUPS:
        for bound in bounds.values():
            if group in _groups(bound):
                code = specialised(bound, group, truncated=True)
                controls = {name: name for name in code.symbols if name not in INDEX_NAMES}
                entries.append(Row(group, bound, code, controls, bound.name == group and group in SHOWN_METHODS))
    order = list(GROUPS)
    return sorted(entries, key=lambda row: (order.index(row.method), row.bound.reference.paper is not GRAZZI))


def _groups(bound: Bound) -> tuple[str, ...]:
    if bound.stochastic:
        return (MEANS,)
    if bound.kind is not BoundKind.A_PRIORI:
        return (SPECTRUM if bound.kind is BoundKind.FROM_SPECTRUM else FROM_A_RUN,)
    if bound.bounds != error:
        return (DERIVATIVES,)
    return tuple(m for m in bound.methods if m != "exact" or bound.methods == ("exact",)) or (ANALYTIC,)


def source(rows: Iterable[Row]) -> str:
    """Return the JavaScript of all rows: each function once, and two tables of the functions by name."""
    codes = {row.code.name: row.code for row in rows if row.fixed is None}
    text = "".join(code.javascript() for code in codes.values())
    text += "".join(javascript_conditions(code) for code in codes.values() if code.conditions)
    formulas = ", ".join(f'"{name}": {name.replace("-", "_")}' for name in codes)
    checks = ", ".join(
        f'"{name}": {name.replace("-", "_")}_conditions' for name, code in codes.items() if code.conditions
    )
    return f"{text}const FORMULAS = {{{formulas}}};\nconst CONDITIONS = {{{checks}}};\n"
