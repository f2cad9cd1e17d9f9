"""An inequality that a theorem needs."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp


@dataclass(frozen=True)
class Condition:
    """An inequality without which a theorem says nothing.

    Attributes
    ----------
    left : sympy.Expr
        Its left-hand side, at most `right`.
    right : sympy.Expr
        Its right-hand side.
    remedy : str
        What to do where it fails.
    strict : bool
        Whether `left` has to be less than `right`; False by default.
    """

    left: sp.Expr
    right: sp.Expr
    remedy: str
    strict: bool = False
