"""The result of `plan`: the offers of the bounds, the guarantee for each method, and the plan for all methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from boundcheck.compare import plan_card
from boundcheck.compare.measured_need import Need
from boundcheck.compare.step_costs import Costs
from boundcheck.constants import Constants
from boundcheck.frames import frame
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.side import Side
from boundcheck.theory.step_advice import StepAdvice, advise

if TYPE_CHECKING:
    from pandas import DataFrame


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
    estimated : tuple of str
        The constants of the bound that are only estimated; empty if the value is proved.
    doubt : str
        The assumption of the bound that is not proved; empty if all are proved.
    """

    method: str
    bound: str
    t: int
    k: int | None
    value: float
    side: Side
    cost: float
    estimated: tuple[str, ...]
    doubt: str


@dataclass(frozen=True)
class Guarantee(Offer):
    """The best offer for a method, and the result of a run.

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
    estimated : tuple of str
        The constants of the bound that are only estimated; empty if the value is proved.
    doubt : str
        The assumption of the bound that is not proved; empty if all are proved.
    memory : int
        The memory of the run, in bytes.
    error : float or None
        The error of the run at (t, k); None if there was no run, for example because it would take too long.
    met : bool or None
        Whether this error is within the accuracy; None if there was no run.
    needed : tuple of int and int or None, or None
        The cheapest t and k with which a run was within the accuracy, and stayed there; None if there was no run, or if
        it was not within the accuracy at t.
    """

    memory: int
    error: float | None
    met: bool | None
    needed: tuple[int, int | None] | None


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps that the bounds guarantee for an accuracy, and the steps that runs needed.

    Attributes
    ----------
    problem : Problem
        The problem.
    eps : float
        The accuracy ‖g − ∇f(λ)‖ ≤ eps.
    constants : Constants
        The constants on the local ball.
    costs : Costs
        The times of steps on this machine.
    offers : tuple of Offer
        The cheapest t and k of every bound that applies; for each method, proved offers first, then by cost.
    guarantees : tuple of Guarantee
        The best offer for each method, tested by a run.
    silent : dict from str to str
        The methods without a guarantee, and why.
    floor : float
        The rounding floor: an error that rounding alone may cause in this precision. No smaller accuracy is planned.
    needs : dict from str to Need or None
        For each method that was run, the cheapest t and k that reached the accuracy; None if no run reached it. These
        are estimates from one run.
    not_reached : dict from str to str
        For each method whose runs did not reach the accuracy, why.
    gradient_norm : float
        ‖∇f(λ)‖ of the reference solution.
    paper_constants : Constants or None
        The constants on the ball ‖w‖ ≤ 2D.
    """

    problem: Problem
    eps: float
    constants: Constants
    costs: Costs
    offers: tuple[Offer, ...]
    guarantees: tuple[Guarantee, ...]
    silent: dict[str, str]
    floor: float
    needs: Mapping[str, Need | None]
    not_reached: Mapping[str, str]
    gradient_norm: float
    paper_constants: Constants | None = None

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
            A table with the columns method, bound, t, k, value, known ("proved", "probable" or "estimated"), side,
            cost, best (whether it is the guarantee of its method) and error (of the run at t and k; NaN without a run).

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        return frame(plan_card.columns(self))

    @property
    def cheapest(self) -> Guarantee | None:
        """The cheapest guarantee, proved ones first, except those whose run missed the accuracy; or None."""
        kept = [g for g in self.guarantees if g.met is not False]
        return min(kept, key=lambda g: (g.side is Side.LOWER, g.cost), default=None)

    @property
    def cheapest_run(self) -> Need | None:
        """The cheapest t and k that reached the accuracy in a run, an estimate; None if no run reached it."""
        return min((need for need in self.needs.values() if need is not None), key=lambda n: n.cost, default=None)

    @property
    def measured(self) -> dict[str, int | None]:
        """The t that a run needed, for methods without a guarantee; None if no run reached the accuracy."""
        return {m: None if need is None else need.t for m, need in self.needs.items() if m in self.silent}

    @property
    def rtol(self) -> float | None:
        """The accuracy relative to ‖∇f(λ)‖; None if ‖∇f(λ)‖ is 0."""
        return self.eps / self.gradient_norm if self.gradient_norm > 0 else None

    @cached_property
    def advice(self) -> StepAdvice | None:
        """The recommended step size; None if Φ is not a gradient step."""
        return advise(self.constants, self.paper_constants, self.problem.about()["step"])
