"""Defaults of symbols that are not given: in a formula, and as the last links of a proof."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import sympy as sp

from boundcheck.theory.chain import Chain
from boundcheck.theory.symbols import QUANTITIES, rho, sigma


@functools.lru_cache(maxsize=1024)
def insert_defaults(
    expression: sp.Expr, defaults: tuple[tuple[sp.Symbol, sp.Expr], ...], available: frozenset[str]
) -> sp.Expr:
    """Replace every symbol that is not available by its default, also inside other defaults."""
    pending = {symbol: value for symbol, value in defaults if symbol.name not in available}
    while missing := pending.keys() & expression.free_symbols:
        expression = expression.subs({symbol: pending[symbol] for symbol in missing})
    return expression


def proof_with_defaults(chain: Chain, defaults: Mapping[sp.Symbol, sp.Expr], given: frozenset[str]) -> Chain:
    """Add a link to the proof for every default that the bound uses."""
    pending = {symbol: value for symbol, value in defaults.items() if symbol.name not in given}
    while missing := pending.keys() & chain.links[-1].formula.free_symbols:
        # take a symbol that occurs in no other default first; then each symbol is replaced once
        ordered = sorted(missing, key=str)  # the same proof in every run
        symbol = next(s for s in ordered if not any(s in pending[other].free_symbols for other in missing - {s}))
        value = pending[symbol]
        brought = (x for x in value.free_symbols if QUANTITIES[x.name].kind == "constant" or x in (rho, sigma))
        uses = tuple(sorted(x.name for x in brought))
        because = f"{QUANTITIES[symbol.name].meaning} is at most {value}"
        chain = chain.replacing(f"{symbol} a priori", {symbol: value}, because, uses)
    return chain
