"""The proof of a bound, evaluated on a run: the value after each link, and where the proof is loose or broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy as sp

from boundcheck.compare.applied_bound import Applied
from boundcheck.report.method_curve import Trace
from boundcheck.report.verdict import FORMULA_ROUNDING
from boundcheck.theory.symbols import QUANTITIES


def trace(
    applied: Applied, ts: np.ndarray, observed: Mapping[str, np.ndarray], errors: np.ndarray, floor: np.ndarray
) -> Trace | None:
    """Evaluate the proof chain at every t of `ts` at which the error exceeds rounding and all quantities are finite.

    Returns None if there is no such t, if the proof is not encoded, or if a quantity of it was not measured.
    """
    inputs = applied.inputs(ts)
    given = frozenset(inputs) | frozenset(applied.observed)
    chain = applied.bound.proof(given)
    if chain is None or not ts.size:
        return None
    numbers = {**inputs, **observed, "error": errors}
    if any(name not in numbers for name in chain.symbols):
        return None
    spread = {name: np.broadcast_to(numbers[name], ts.shape) for name in chain.symbols}
    fine = np.all([np.isfinite(x) for x in spread.values()], axis=0) & (errors > floor)
    if not fine.any():
        return None
    evaluated = chain.evaluate({name: x[fine] for name, x in spread.items()})
    before = np.concatenate([evaluated.values[:1], evaluated.values[:-1]])
    broken = evaluated.values < before * (1 - FORMULA_ROUNDING) - floor[fine]
    links = evaluated.links
    return Trace(
        links=tuple(link.name for link in links),
        because=tuple(link.because for link in links),
        uses=tuple(_spelled_out(link.uses, applied) for link in links),
        t=ts[fine],
        values=evaluated.values,
        slacks=evaluated.slacks,
        broken=broken,
    )


def _spelled_out(uses: Sequence[str], applied: Applied) -> tuple[str, ...]:
    """The names that a link uses; a rate is followed by its constants, because these may be wrong."""
    formulas = applied.rate_formulas
    spelled = [[name, *_constants(formulas[name])] if name in formulas else [name] for name in uses]
    return tuple(dict.fromkeys(name for names in spelled for name in names))


def _constants(formula: sp.Expr) -> list[str]:
    return sorted(symbol.name for symbol in formula.free_symbols if QUANTITIES[symbol.name].kind == "constant")
