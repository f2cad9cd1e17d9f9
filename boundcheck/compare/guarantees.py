"""What `plan` returns: the offers of the bounds, the guarantee for each method, and the plan for all methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from boundcheck.compare import plan_card
from boundcheck.compare.step_costs import Costs
from boundcheck.constants import Constants
from boundcheck.frames import frame
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.side import Side

if TYPE_CHECKING:
    from pandas import DataFrame

WITHOUT_BOUND = 500  # steps of a run without a guarantee


@dataclass(frozen=True)
class Offer:
    """The cheapest t and k for which one bound is at most the accuracy.

    Attributes
    ----------
    method : str
        The method.
    bound : str
        The name of the bound.
    t : int
        The lower-level steps.
    k : int or None
        The steps of the linear solver; None for ITD.
    value : float
        The bound at t and k.
    side : Side
        The side of the value, given its constants.
    cost : float
        The cost of the run, in lower-level steps.
    """

    method: str
    bound: str
    t: int
    k: int | None
    value: float
    side: Side
    cost: float


@dataclass(frozen=True)
class Guarantee(Offer):
    """The best offer for a method, and what a run found.

    Attributes
    ----------
    method : str
        The method.
    bound : str
        The name of the bound.
    t : int
        The lower-level steps.
    k : int or None
        The steps of the linear solver; None for ITD.
    value : float
        The bound at t and k.
    side : Side
        The side of the value, given its constants.
    cost : float
        The cost of the run, in lower-level steps.
    memory : int
        The memory of the run, in bytes.
    error : float or None
        The error of the run at (t, k); None where it was not run or would take too long.
    met : bool or None
        Whether that error is within the accuracy; None where it was not run.
    needed : tuple of int and int or None, or None
        The least t, with the same k, from which on the error was within the accuracy; None where it was not run, or the
        error at t was not.
    """

    memory: int
    error: float | None
    met: bool | None
    needed: tuple[int, int | None] | None


@dataclass(frozen=True, eq=False)
class Plan:
    """What the bounds guarantee for an accuracy, and what runs needed.

    Attributes
    ----------
    problem : Problem
        The problem.
    eps : float
        The accuracy ‖g − ∇f(λ)‖ ≤ eps.
    constants : Constants
        The constants on the local ball.
    costs : Costs
        How long steps take on this machine.
    offers : tuple of Offer
        Of every bound that applies, the cheapest t and k; for each method, those that are proved first, then by cost.
    guarantees : tuple of Guarantee
        For each method the best offer, tried by a run.
    silent : dict from str to str
        The methods without a guarantee, and why.
    measured : dict from str to int or None
        For the methods without a guarantee, the least t (with k = t) from which on a run was within the accuracy; None
        where it never was.
    floor : float
        The rounding floor: a smaller accuracy cannot be reached in this precision.
    longest_run : int
        How long the runs of methods without a guarantee are, in lower-level steps.
    """

    problem: Problem
    eps: float
    constants: Constants
    costs: Costs
    offers: tuple[Offer, ...]
    guarantees: tuple[Guarantee, ...]
    silent: dict[str, str]
    measured: dict[str, int | None]
    floor: float
    longest_run: ClassVar[int] = WITHOUT_BOUND

    def __repr__(self) -> str:
        return plan_card.line(self)

    def __str__(self) -> str:
        return plan_card.card(self).text()

    def _repr_html_(self) -> str:
        return plan_card.card(self).html()

    def to_frame(self) -> DataFrame:
        """The offers as a pandas table, one row for each method and bound.

        Returns
        -------
        DataFrame
            With the columns method, bound, t, k, value, known ("proved", "probable" or "estimated"), side, cost, best
            (whether it is the guarantee of its method) and error (that of the run at t and k; NaN where none was made).

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        return frame(plan_card.columns(self))

    @property
    def cheapest(self) -> Guarantee | None:
        """The cheapest of the guarantees that no run has shown to miss the accuracy; None if there is none."""
        return min((g for g in self.guarantees if g.met is not False), key=lambda g: g.cost, default=None)
