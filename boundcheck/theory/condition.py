"""An inequality that a theorem needs."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp


@dataclass(frozen=True)
class Condition:
    """An inequality `left` ≤ `right` that a theorem requires.

    Attributes
    ----------
    left : sympy.Expr
        The left-hand side.
    right : sympy.Expr
        The right-hand side.
    remedy : str
        What to do if the inequality fails.
    strict : bool
        Whether `left` has to be less than `right`; False by default.
    """

    left: sp.Expr
    right: sp.Expr
    remedy: str
    strict: bool = False
