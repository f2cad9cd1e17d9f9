"""What a run of `minimise` arrived at, as data: the point, its certificate, and a row for each trial on the way."""

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
        f(λ) there, with an error of about `f_error`.
    f_error : float
        An estimate of the error of `f`.
    gradient_norm : float
        ‖g‖ of the hypergradient g there, in the coordinates of the run.
    asked : float
        The relative error of g that was asked for.
    error : float
        The relative error of g that was reached, an estimate.
    t : int
        Products with ∂₁Φ, and steps of Φ, that were spent on w.
    k : int
        Products that were spent on the linear system.
    products : int
        All evaluations of Φ and products with its derivatives of this trial.
    step_size : float
        The step that led here; 0 for the start.
    accepted : bool
        Whether the run went on from here.
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
    """Where a descent on λ ended, and what is known of the gradient there.

    Attributes
    ----------
    lam : structure of the hyperparameters
        The point, as the problem was given its hyperparameters.
    params : structure of the parameters
        w(λ) there, to the accuracy of the run.
    f : float
        E(w) − vᵀ(w − Φ(w)) there, an estimate of f(λ). It is below every value of E where f(λ) is within `f_error` of
        the smallest.
    f_error : float
        An estimate of the error of `f`.
    gradient_norm : Enclosure
        Lower and upper bounds on ‖∇f(λ)‖, in the coordinates of the run. Its `side` is `UPPER` if they are
        proved, and `LOWER` if they are estimates.
    tol : float
        The requested bound on ‖∇f(λ)‖.
    converged : bool
        Whether it is, by `gradient_norm`.
    coordinates : str
        "plain" for ∇f by λ, "log" for that by log λ, which is λ∘∇f(λ).
    history : tuple of Trial
        Every point that was tried, in order, the start first.
    products : int
        All evaluations of Φ and products with its derivatives, without those of the proof.
    message : str
        How it ended, in words.
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
        """Whether `gradient_norm` is proved; False for an estimate and for what holds with a probability."""
        return self.gradient_norm.side in (Side.UPPER, Side.EXACT)

    @property
    def steps(self) -> int:
        """The outer steps that were taken."""
        return sum(trial.accepted for trial in self.history) - 1

    def __repr__(self) -> str:
        what, norm = cards.known(self.gradient_norm), upward(float(self.gradient_norm.upper))
        return (
            f"Minimum(f={self.f:.6g} ± {self.f_error:.1g} (estimated), "
            f"gradient norm ≤ {norm} ({what}, tol {self.tol:g}), {self.steps} steps, "
            f"{self.products} products; {self.message})"
        )

    def __str__(self) -> str:
        return cards.minimum_card(self).text()

    def _repr_html_(self) -> str:
        return cards.minimum_card(self).html()
