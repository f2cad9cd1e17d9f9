"""The one special function of the theory, kept by name so that every evaluator can compute it without cancellation."""

from __future__ import annotations

from typing import Any

import sympy as sp


class GeometricSum(sp.Function):
    """1 + x + … + x^(n−1) = (1−xⁿ)/(1−x): exact near x = 1, where the quotient loses every digit."""

    nargs = 2
    is_nonnegative = True

    def doit(self, **hints: Any) -> sp.Expr:
        x, n = (arg.doit(**hints) for arg in self.args)
        return (1 - x**n) / (1 - x)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        x, n = self.args
        base = printer.doprint(x) if x.is_Symbol else rf"\left({printer.doprint(x)}\right)"
        body = rf"\frac{{1-{base}^{{{printer.doprint(n)}}}}}{{1-{base}}}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"
