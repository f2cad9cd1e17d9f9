"""The data of a theorem for a page: statement, assumptions and proof, all from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from boundcheck.theory import typeset
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Link
from boundcheck.theory.symbols import LATEX_NAMES, OBSERVABLES, QUANTITIES

NORMS = frozenset(quantity.symbol for quantity in OBSERVABLES if "-" in quantity.latex)


def described(bound: Bound) -> dict[str, Any]:
    """Return the data of a theorem. `where` has the lines below the inequality: the recursion and the definitions."""
    unless = [
        rf"{typeset.expression_latex(symbol)} = {typeset.expression_latex(value)}"
        for symbol, value in bound.defaults.items()
    ]
    return {
        "title": bound.title,
        "reference": bound.reference.number,
        "paper": bound.reference.paper.citation,
        "kind": bound.kind,
        "statement": typeset.statement_latex(bound),
        "where": [*typeset.recursion_latex(bound), *typeset.definitions(bound)],
        "unless": unless,
        "assumptions": [[a.key, a.statement] for a in bound.assumptions],
        "remedies": [condition.remedy for condition in bound.conditions],
        "code": bound.javascript(),
        "proof": [link(step) for step in bound.chain.links] if bound.chain else [],
    }


def link(step: Link) -> dict[str, Any]:
    """Return the data of a link. In its formula, measured quantities are in braces, so no line breaks inside a norm."""
    formula = typeset.expression_latex(step.formula)
    for symbol in step.formula.free_symbols & NORMS:
        formula = formula.replace(LATEX_NAMES[symbol], f"{{{LATEX_NAMES[symbol]}}}")
    return {**described_link(step.name, step.because, step.uses), "formula": formula}


def described_link(name: str, because: str, uses: Iterable[str]) -> dict[str, Any]:
    known = [QUANTITIES[used] for used in uses if used in QUANTITIES]
    return {"name": name, "because": because, "uses": [[quantity.latex, quantity.meaning] for quantity in known]}
