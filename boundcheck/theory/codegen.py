"""Generate Python and JavaScript functions from the formula of a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.printing.jscode import JavascriptCodePrinter
from sympy.printing.pycode import PythonCodePrinter

from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.symbols import QUANTITIES

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound

ONE_BALL = " Here with one ball for all radii."
PYTHON_GEOMETRIC_SUM = '''\
def geometric_sum(gap, n):
    """1 + x + ... + x**(n-1) for x = 1 - gap, without cancellation as x -> 1."""
    return -math.expm1(n * math.log1p(-gap)) / gap if gap < 1 else float(min(n, 1))
'''
JAVASCRIPT_GEOMETRIC_SUM = """\
  // 1 + x + ... + x^(n-1) for x = 1 - gap, without cancellation as x -> 1
  const geometricSum = (gap, n) => gap < 1 ? -Math.expm1(n * Math.log1p(-gap)) / gap : Math.min(n, 1);
"""


def arguments(bound: Bound) -> tuple[str, ...]:
    """The arguments of the generated functions: indices first, then constants, in the order of the vocabulary."""
    return tuple(sorted(bound.symbols, key=lambda name: QUANTITIES[name].kind != "index"))


def _body(expressions: tuple[sp.Expr, ...], printer: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Common subexpressions as (name, code), and the code of each expression."""
    shared, reduced = sp.cse(expressions, symbols=sp.numbered_symbols("x"))
    return [(str(name), printer.doprint(value)) for name, value in shared], [printer.doprint(e) for e in reduced]


def _uses_geometric_sum(bound: Bound) -> bool:
    return bool(bound.resolved().has(GeometricSum))


def python(bound: Bound) -> str:
    printer = PythonCodePrinter({"user_functions": {"GeometricSum": "geometric_sum"}, "standard": "python3"})
    lines = [f"def {bound.name.replace('-', '_')}({', '.join(arguments(bound))}):"]
    holds = "".join(f"\n\n    Says nothing unless {test}." for test in _conditions(bound, printer, " and "))
    end = "\n    " if holds else ""
    lines.append(f'    """{bound.title}: {bound.reference}.{ONE_BALL if bound.shrinks else ""}{holds}{end}"""')
    if bound.recursion:
        recursion = bound.recursion.on_one_ball
        state = ", ".join(symbol.name for symbol in recursion.state)
        start, first, step = (
            ", ".join(printer.doprint(e) for e in part) for part in (recursion.start, recursion.first, recursion.step)
        )
        lines += [f"    {state} = {start}", "    for i in range(t):"]
        lines += ["        if i == 0:", f"            {state} = {first}"]
        lines += ["        else:", f"            {state} = {step}"]
    shared, (result,) = _body((bound.resolved(),), printer)
    lines += [f"    {name} = {code}" for name, code in shared]
    lines.append(f"    return {result}")
    source = "\n".join(lines) + "\n"
    helper = PYTHON_GEOMETRIC_SUM + "\n\n" if _uses_geometric_sum(bound) else ""
    return ("import math\n\n\n" if "math." in helper + source else "") + helper + source


def javascript(bound: Bound) -> str:
    printer = _javascript_printer()
    lines = [f"// {bound.title}: {bound.reference}{ONE_BALL if bound.shrinks else ''}"]
    lines += [f"// Says nothing unless {test}." for test in _conditions(bound, printer, " && ")]
    lines.append(f"function {bound.name.replace('-', '_')}({{{', '.join(arguments(bound))}}}) {{")
    text = "\n".join(lines) + "\n"
    if _uses_geometric_sum(bound):
        text += JAVASCRIPT_GEOMETRIC_SUM
    if bound.recursion:
        recursion = bound.recursion.on_one_ball
        state = ", ".join(symbol.name for symbol in recursion.state)
        start, first, step = (
            ", ".join(printer.doprint(e) for e in part) for part in (recursion.start, recursion.first, recursion.step)
        )
        text += f"  let [{state}] = [{start}];\n"
        text += f"  for (let i = 0; i < t; i++) [{state}] = i === 0 ? [{first}] : [{step}];\n"
    shared, (result,) = _body((bound.resolved(),), printer)
    text += "".join(f"  const {name} = {code};\n" for name, code in shared)
    return text + f"  return {result};\n}}\n"


def _javascript_printer() -> JavascriptCodePrinter:
    return JavascriptCodePrinter({"user_functions": {"GeometricSum": "geometricSum"}})


def javascript_conditions(bound: Bound) -> str:
    """A JavaScript function of the same arguments that returns an array: whether each condition holds."""
    tests = _tests(bound, _javascript_printer())
    head = f"function {bound.name.replace('-', '_')}_conditions({{{', '.join(arguments(bound))}}})"
    return f"{head} {{\n  return [{', '.join(tests)}];\n}}\n"


def _tests(bound: Bound, printer: Any) -> list[str]:
    """The conditions of the theorem in code."""
    tests = []
    for condition in bound.conditions:
        left, right = (bound.substitute(side, frozenset()) for side in (condition.left, condition.right))
        tests.append(f"{printer.doprint(left)} {'<' if condition.strict else '<='} {printer.doprint(right)}")
    return tests


def _conditions(bound: Bound, printer: Any, both: str) -> list[str]:
    """All conditions in one line of code; none where there are none."""
    tests = _tests(bound, printer)
    return [both.join(tests)] if tests else []


def javascript_of(name: str, expression: sp.Expr) -> str:
    """A bare expression as a JavaScript function of its symbols."""
    names = sorted(symbol.name for symbol in expression.free_symbols)
    return f"function {name}({{{', '.join(names)}}}) {{\n  return {_javascript_printer().doprint(expression)};\n}}\n"
