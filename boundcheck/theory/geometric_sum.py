"""The only special function of the theory. It keeps its name, and every evaluator computes it without cancellation."""

from __future__ import annotations

from typing import Any

import sympy as sp


class GeometricSum(sp.Function):
    """1 + x + … + x^(n−1) = (1−xⁿ)/(1−x) as a function of the gap 1−x and n.

    The argument is the gap, because near x = 1 the quotient loses all digits, and so does 1−x if x was computed.
    """

    nargs = 2
    is_nonnegative = True

    def doit(self, **hints: Any) -> sp.Expr:
        gap, n = (arg.doit(**hints) for arg in self.args)
        return (1 - (1 - gap) ** n) / gap

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        gap, n = self.args
        base, below = printer.doprint(_base(gap)), printer.doprint(gap)
        if _base(gap).is_Atom:
            below = f"1-{base}"
        else:
            base = rf"\left({base}\right)"
        body = rf"\frac{{1-{base}^{{{printer.doprint(n)}}}}}{{{below}}}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


def _base(gap: sp.Expr) -> sp.Expr:
    """q for the gap 1−q, and r for 1−r, in any notation."""
    if gap == sp.Symbol("shrink_gap", positive=True):
        return sp.Symbol("shrink", nonnegative=True)
    return sp.Symbol("q", nonnegative=True) if gap == sp.Symbol("gap", positive=True) else 1 - gap
