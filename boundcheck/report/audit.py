"""The result of an audit of any hypergradient: its error, and the part of its computation that is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from boundcheck.number_text import percent_at_most, upward
from boundcheck.report import cards
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side

FAULTS = ("inner", "linear-solve", "direct-term", "sign", "scale", "transpose", "lambda", "precision")


@dataclass(frozen=True, eq=False)
class Audit:
    """The error of a hypergradient g, and the part of its computation that is wrong.

    Attributes
    ----------
    error : Enclosure
        Lower and upper bounds on ‖g − ∇f(λ)‖. The `side` of this enclosure applies to the other attributes too.
    relative_error : float
        An upper bound on ‖g − ∇f(λ)‖/‖∇f(λ)‖; infinite if ∇f(λ) may be 0.
    angle : float
        An upper bound on the angle between g and ∇f(λ), in degrees; 180 if no bound is known.
    descent : bool or None
        Whether −g is a descent direction of f; None if unknown.
    fault : str or None
        "inner", "linear-solve", "direct-term", "sign", "scale", "transpose", "lambda" or "precision"; None if g is
        right, or if no single fault explains its error.
    message : str
        The result in two or three sentences, with what to change.
    gradient_norm : Enclosure
        Lower and upper bounds on ‖∇f(λ)‖.
    remedy : str
        What to change, in one sentence; empty if unknown.
    """

    error: Enclosure
    relative_error: float
    angle: float
    descent: bool | None
    fault: str | None
    message: str
    gradient_norm: Enclosure
    remedy: str = ""

    @property
    def proved(self) -> bool:
        """Whether the numbers are proved; False if they are estimates or hold only with some probability."""
        return self.error.side in (Side.UPPER, Side.EXACT)

    def __repr__(self) -> str:
        ends = f"relative error ≤ {percent_at_most(self.relative_error)}, angle ≤ {upward(self.angle)}°"
        return f"Audit({ends}, descent={self.descent}, fault={self.fault!r}, {cards.known(self.error)})"

    def __str__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        return cards.audit_card(self).html()
