"""One random method of a report: the quantities measured over many runs, and the bounds on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from boundcheck.report.verdict import Verdict
from boundcheck.side import Side


class Measured(str, Enum):
    """The quantities of a random hypergradient g that are measured; the values are the names of their symbols.

    Attributes
    ----------
    MSE : str
        "mse": E‖g − ∇f‖², the mean square error.
    BIAS : str
        "bias": ‖E g − ∇f‖.
    VARIANCE_GIVEN_W : str
        "variance_given_w": E V[g | w_t], the variance from the linear solver and the last minibatch.
    VARIANCE_OF_MEAN : str
        "variance_of_mean": V[E[g | w_t]], the variance from the lower-level iteration.
    DISTANCE : str
        "mse_w": E‖w_t − w*‖².
    """

    MSE = "mse"
    BIAS = "bias"
    VARIANCE_GIVEN_W = "variance_given_w"
    VARIANCE_OF_MEAN = "variance_of_mean"
    DISTANCE = "mse_w"

    @property
    def formula(self) -> str:
        """The quantity as a formula."""
        return FORMULAS[self]

    @property
    def words(self) -> str:
        """The quantity in words."""
        return WORDS[self]


FORMULAS = {
    Measured.MSE: "E‖g − ∇f‖²",
    Measured.BIAS: "‖E g − ∇f‖",
    Measured.VARIANCE_GIVEN_W: "E V[g | w_t]",
    Measured.VARIANCE_OF_MEAN: "V[E[g | w_t]]",
    Measured.DISTANCE: "E‖w_t − w*‖²",
}
WORDS = {
    Measured.MSE: "mean square error",
    Measured.BIAS: "bias",
    Measured.VARIANCE_GIVEN_W: "variance from the linear solver and the last minibatch",
    Measured.VARIANCE_OF_MEAN: "variance from the lower level",
    Measured.DISTANCE: "mean square distance to w*",
}


@dataclass(frozen=True, eq=False)
class MeanEstimate:
    """A quantity at each point of the grid, with a confidence interval.

    All proved intervals of a report hold together with the probability of its level.

    Attributes
    ----------
    quantity : Measured
        The measured quantity.
    value : ndarray of shape (points,)
        The estimate from the runs.
    lower : ndarray of shape (points,)
        The lower ends of the intervals.
    upper : ndarray of shape (points,)
        The upper ends; infinite if there is no bound on the tail of the distribution.
    proved : bool
        Whether the intervals are proved: the runs are bounded by a proved constant, so no assumption on their
        distribution is needed. Otherwise the upper ends are those of Student's t, which is approximate.
    how : str
        The kind of interval, in words.
    """

    quantity: Measured
    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    proved: bool
    how: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantity", Measured(self.quantity))


@dataclass(frozen=True, eq=False)
class StochasticBound:
    """A bound on one of the measured quantities.

    Attributes
    ----------
    name : str
        The name of the bound in the catalogue.
    title : str
        The bound in words.
    reference : str
        The paper and the number of the theorem.
    quantity : Measured
        The quantity that is bounded.
    values : ndarray of shape (points,)
        The bound; NaN where the theorem does not apply.
    side : Side
        The side of the values, given their constants.
    delta : float
        The probability that a constant is on its unsafe side.
    weakest : tuple of str
        The constants that decide the side.
    verdict : Verdict
        Whether the quantity stays below the bound.
    reason : str
        Why the bound is not applicable or not decided; otherwise the evidence for the verdict.
    more_runs : int or None
        About how many more runs would decide the verdict; None if it is decided, or if more runs do not help.
    """

    name: str
    title: str
    reference: str
    quantity: Measured
    values: np.ndarray
    side: Side
    delta: float
    weakest: tuple[str, ...]
    verdict: Verdict
    reason: str
    more_runs: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantity", Measured(self.quantity))

    @property
    def applies(self) -> bool:
        """Whether the theorem applies at some point."""
        return self.verdict is not Verdict.NOT_APPLICABLE


@dataclass(frozen=True, eq=False)
class StochasticCurve:
    """One random method on the problem.

    Attributes
    ----------
    method : str
        The name of the method, as in the call of `check`.
    t : ndarray of shape (points,)
        The lower-level steps at each point of the grid.
    k : ndarray of shape (points,)
        The steps of the linear solver there.
    means : mapping from str to MeanEstimate
        The measured quantities, by the names of their symbols.
    bounds : mapping from str to StochasticBound
        The bounds, by name.
    floor : ndarray of shape (points,)
        The rounding floor; a root mean square error below it is rounding.
    """

    method: str
    t: np.ndarray
    k: np.ndarray
    means: Mapping[str, MeanEstimate]
    bounds: Mapping[str, StochasticBound]
    floor: np.ndarray

    def ratio(self, name: str) -> np.ndarray:
        """The ratio of a bound to the estimate of its quantity.

        Parameters
        ----------
        name : str
            The name of the bound.

        Returns
        -------
        ndarray of shape (points,)
            bound/estimate; NaN where the theorem does not apply.
        """
        bound = self.bounds[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient: np.ndarray = bound.values / self.means[bound.quantity.value].value
        return quotient

    def best(self, quantity: Measured) -> StochasticBound | None:
        """The smallest bound on a quantity at the last point, proved ones first; None if none applies.

        Parameters
        ----------
        quantity : Measured
            The quantity.

        Returns
        -------
        StochasticBound or None
            The bound.
        """
        fitting = [b for b in self.bounds.values() if b.quantity is quantity and np.isfinite(b.values[-1])]
        return min(fitting, key=lambda b: (b.side is Side.LOWER, float(b.values[-1])), default=None)
