"""Print a bound as LaTeX, and as Unicode for the terminal, from its formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.symbols import LATEX_NAMES, QUANTITIES

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound


def _guarded(expr: sp.Max) -> sp.Expr | None:
    """t−1 for max(t−1, 0), which is printed as t−1; the maximum matters only at t = 0, where its factor is 0."""
    rest = [arg for arg in expr.args if arg != 0]
    is_index = len(rest) == 1 and all(QUANTITIES[symbol.name].kind == "index" for symbol in rest[0].free_symbols)
    return rest[0] if is_index else None


class _Latex(LatexPrinter):
    def _print_Max(self, expr: sp.Max, exp: Any = None) -> str:
        if (guarded := _guarded(expr)) is None:
            return str(super()._hprint_variadic_function(expr, exp))
        text = self._print(guarded)
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _needs_mul_brackets(self, expr: sp.Expr, first: bool = False, last: bool = False) -> bool:
        guarded = isinstance(expr, sp.Max) and _guarded(expr) is not None
        return guarded or bool(super()._needs_mul_brackets(expr, first=first, last=last))


class _Unicode(PrettyPrinter):
    def _print_Symbol(self, expr: sp.Symbol, bold_name: bool = False) -> prettyForm:
        quantity = QUANTITIES.get(expr.name)
        return prettyForm(quantity.text) if quantity and quantity.text else super()._print_Symbol(expr)

    def _print_Max(self, expr: sp.Max) -> prettyForm:
        guarded = _guarded(expr)
        return self._named("max", expr) if guarded is None else self._print(guarded)

    def _print_Min(self, expr: sp.Min) -> prettyForm:
        return self._named("min", expr)

    def _named(self, name: str, expr: sp.Expr) -> prettyForm:
        items = self._print_seq(expr.args, "(", ")", delimiter=", ")
        return prettyForm(*stringPict.next(prettyForm(name), items), binding=prettyForm.FUNC)

    def _print_GeometricSum(self, expr: GeometricSum) -> prettyForm:
        return self._print(expr.doit())


def expression_text(expression: sp.Expr) -> str:
    """An expression in Unicode, possibly over several lines."""
    return str(_Unicode({"use_unicode": True, "wrap_line": False}).doprint(expression))


def expression_latex(expression: sp.Expr) -> str:
    """An expression as LaTeX, in the paper's notation."""
    return str(_Latex({"symbol_names": LATEX_NAMES}).doprint(expression))


def definitions(bound: Bound) -> tuple[str, ...]:
    """LaTeX of the definitions of the formula's shorthand, in the order of first use."""
    lines: dict[sp.Symbol, str] = {}
    pending = [bound.formula]
    while pending:
        met = pending.pop(0).free_symbols & bound.where.keys() - lines.keys()
        for symbol in sorted(met, key=list(bound.where).index):
            lines[symbol] = f"{LATEX_NAMES[symbol]} = {expression_latex(bound.where[symbol])}"
            pending.append(bound.where[symbol])
    return tuple(lines.values())


def recursion_latex(bound: Bound) -> tuple[str, ...]:
    """LaTeX of the start and the step of each state of a recursive bound."""
    if not bound.recursion:
        return ()
    lines = []
    for symbol, start, first, step in zip(
        bound.recursion.state, bound.recursion.start, bound.recursion.first, bound.recursion.step, strict=True
    ):
        name = LATEX_NAMES[symbol]
        if symbol.name.replace("_t", "_0") != str(start):
            lines.append(rf"{name.replace('_t', '_0')} = {expression_latex(start)}")
        if first != step:
            lines.append(rf"{name.replace('_t', '_1')} = {expression_latex(first)}")
        lines.append(rf"{name.replace('_t', '_{t+1}')} = {expression_latex(step)}")
    return tuple(lines)


def statement_latex(bound: Bound, *, coefficients: bool = True) -> str:
    """LaTeX of the inequality, without definitions."""
    form = bound.formula if coefficients else bound.primitive
    return rf"{expression_latex(bound.bounds)} \le {expression_latex(form)}"


def latex(bound: Bound, *, coefficients: bool = True) -> str:
    extra = (*recursion_latex(bound), *(definitions(bound) if coefficients else ()))
    return r",\quad ".join((statement_latex(bound, coefficients=coefficients), *extra))
