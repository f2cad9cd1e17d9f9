"""The result of `minimise` as data: the final point, its certificate, and a row for each trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boundcheck.number_text import upward
from boundcheck.report import cards
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side


@dataclass(frozen=True)
class Trial:
    """One point that a descent tried.

    Attributes
    ----------
    f : float
        f(λ) at the point, with an error of about `f_error`.
    f_error : float
        An estimate of the error of `f`.
    gradient_norm : float
        ‖g‖ of the hypergradient g at the point, in the coordinates of the run.
    asked : float
        The requested relative error of g.
    error : float
        An estimate of the relative error of g.
    t : int
        The products with ∂₁Φ and the steps of Φ that w needed.
    k : int
        The products that the linear system needed.
    products : int
        All evaluations of Φ and products with its derivatives in this trial.
    step_size : float
        The step that led to the point; 0 for the start.
    accepted : bool
        Whether the run continued from the point.
    """

    f: float
    f_error: float
    gradient_norm: float
    asked: float
    error: float
    t: int
    k: int
    products: int
    step_size: float
    accepted: bool


@dataclass(frozen=True, eq=False)
class Minimum:
    """The final point of a descent on λ, with bounds on the gradient.

    Attributes
    ----------
    lam : structure of the hyperparameters
        The final λ, in the structure of the problem's hyperparameters.
    params : structure of the parameters
        w(λ), to the accuracy of the run.
    f : float
        E(w) − vᵀ(w − Φ(w)), an estimate of f(λ). It may be below every value of E if f(λ) is within `f_error` of the
        smallest value.
    f_error : float
        An estimate of the error of `f`.
    gradient_norm : Enclosure
        Lower and upper bounds on ‖∇f(λ)‖, in the coordinates of the run. The `side` is `UPPER` if they are proved, and
        `LOWER` if they are estimates.
    tol : float
        The requested bound on ‖∇f(λ)‖.
    converged : bool
        Whether `gradient_norm` shows that ‖∇f(λ)‖ is at most `tol`.
    coordinates : str
        "plain" for the gradient by λ, "log" for the gradient by log λ, which is λ∘∇f(λ).
    history : tuple of Trial
        Every point that was tried, in order, the start first.
    products : int
        All evaluations of Φ and products with its derivatives, except those of the proof.
    message : str
        Why the run ended, in words.
    """

    lam: Any
    params: Any
    f: float
    f_error: float
    gradient_norm: Enclosure
    tol: float
    converged: bool
    coordinates: str
    history: tuple[Trial, ...]
    products: int
    message: str

    @property
    def proved(self) -> bool:
        """Whether `gradient_norm` is proved; False if it is an estimate or holds only with some probability."""
        return self.gradient_norm.side in (Side.UPPER, Side.EXACT)

    @property
    def steps(self) -> int:
        """The number of outer steps."""
        return sum(trial.accepted for trial in self.history) - 1

    def __repr__(self) -> str:
        known, norm = cards.known(self.gradient_norm), upward(float(self.gradient_norm.upper))
        return (
            f"Minimum(f={self.f:.6g} ± {self.f_error:.1g} (estimated), "
            f"gradient norm ≤ {norm} ({known}, tol {self.tol:g}), {self.steps} steps, "
            f"{self.products} products; {self.message})"
        )

    def __str__(self) -> str:
        return cards.minimum_card(self).text()

    def _repr_html_(self) -> str:
        return cards.minimum_card(self).html()
