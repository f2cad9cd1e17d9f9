"""The result of `hypergradient` with a requested accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from boundcheck.number_text import upward
from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.report import cards
from boundcheck.report.accuracy import Accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.trust import result_card


@dataclass(frozen=True, eq=False)
class AccurateHypergradient:
    """A hypergradient with its error.

    Attributes
    ----------
    value : Tensor of shape (n,)
        The hypergradient as a flat vector; `grad` has it in the structure of the hyperparameters.
    method : str
        The method: "aid-cg", "aid-fp" or "aid-cgn".
    t : int
        Evaluations of Φ and products with ∂₁Φ for the lower level.
    k : int
        Products with ∂₁Φᵀ for the linear solver.
    accuracy : Accuracy
        Lower and upper bounds on the error, the relative error, the angle to ∇f and whether −g is a descent
        direction. The properties `error`, `relative_error`, `angle` and `descent` are short for its fields.
    corrected : Tensor of shape (n,)
        A more accurate hypergradient, from which the error of `value` is computed.
    corrected_error : float
        An upper bound on the error of `corrected`, with the same side as `error`.
    lower_level_part : float
        The part of the error that is due to w, to first order.
    linear_part : float
        The part of the error that is due to the linear solver, to first order.
    products : int
        All evaluations of Φ and products with its derivatives until the error of `value` was estimated.
    proof_products : int
        The additional evaluations and products for the proof; 0 without a proof.
    why_not_proved : str
        Why the error is an estimate; empty if it is proved.
    w : Tensor of shape (d,)
        The lower-level iterate, for a warm start.
    v : Tensor of shape (d,)
        The iterate of the linear solver, for a warm start.
    layout : Layout or None
        The structure of the hyperparameters; None for a flat vector.
    """

    value: Tensor
    method: str
    t: int
    k: int
    accuracy: Accuracy
    corrected: Tensor
    corrected_error: float
    lower_level_part: float
    linear_part: float
    products: int
    proof_products: int
    why_not_proved: str
    w: Tensor
    v: Tensor
    layout: Layout | None = None

    @property
    def grad(self) -> Any:
        """The gradient in the structure of the hyperparameters: a dict by name for a module."""
        return self.value if self.layout is None else self.layout.unflatten(self.value)

    @property
    def error(self) -> Enclosure:
        """Lower and upper bounds on ‖value − ∇f‖; `side` says how they are known."""
        return self.accuracy.error

    @property
    def relative_error(self) -> float:
        """An upper bound on ‖value − ∇f‖/‖∇f‖."""
        return self.accuracy.relative_error

    @property
    def angle(self) -> float:
        """An upper bound on the angle between `value` and ∇f, in degrees."""
        return self.accuracy.angle

    @property
    def descent(self) -> bool | None:
        """Whether −value is a descent direction; None if unknown."""
        return self.accuracy.descent

    @property
    def how(self) -> str:
        """How the error is known: "proved", "probable (probability 0.999)" or "estimated"."""
        return cards.known(self.error)

    @property
    def spend(self) -> str | None:
        """Which steps to increase for a smaller error: "t" or "k"; None if both parts of the error are 0."""
        if not self.lower_level_part + self.linear_part > 0:
            return None
        return "t" if self.lower_level_part >= self.linear_part else "k"

    def __repr__(self) -> str:
        descent = {True: "a descent direction", False: "not a descent direction", None: "descent not known"}
        return (
            f"AccurateHypergradient({self.method}, t={self.t}, k={self.k}, norm={float(self.value.norm()):.6g}, "
            f"relative error ≤ {upward(self.relative_error)} ({self.how}), angle ≤ {upward(self.angle)}°, "
            f"{descent[self.descent]})"
        )

    def __str__(self) -> str:
        return result_card.card(self).text()

    def _repr_html_(self) -> str:
        return result_card.card(self).html()
