"""The error of a random method in a few numbers: how large it is, and how much of it is bias and variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boundcheck.report.stochastic_curve import Measured

if TYPE_CHECKING:
    from boundcheck.report.stochastic_curve import StochasticCurve
    from boundcheck.report.stochastic_report import StochasticReport

PARTS = (Measured.BIAS, Measured.VARIANCE_GIVEN_W, Measured.VARIANCE_OF_MEAN)  # E‖g − ∇f‖² is their sum, bias squared


@dataclass(frozen=True)
class Size:
    """An estimate of an error and its confidence interval.

    Attributes
    ----------
    value : float
        The estimate; infinite if a run diverged.
    lower : float
        The lower end of the interval.
    upper : float
        The upper end of the interval; infinite if there is no bound.
    """

    value: float
    lower: float
    upper: float

    @property
    def nonzero(self) -> bool:
        """Whether the runs show that the error is not 0."""
        return self.lower > 0


@dataclass(frozen=True)
class ErrorParts:
    """The error of one random method at the last point of the grid.

    Attributes
    ----------
    method : str
        The name of the method, as in the call of `check`.
    t : int
        The last t.
    k : int
        The steps of the linear solver at the last t; for "neumann" the length of the sum.
    relative : bool
        Whether errors are relative to ‖∇f‖; they are absolute if ‖∇f‖ is 0 or unknown.
    error : Size
        The root of the mean square error.
    bias : Size or None
        ‖E g − ∇f‖; None if it was not measured.
    shares : mapping from Measured to float
        The shares of the squared bias and of the two variances in the mean square error; they add up to 1. Empty if
        unknown.
    rounding : bool
        Whether the error is not above the rounding floor.
    """

    method: str
    t: int
    k: int
    relative: bool
    error: Size
    bias: Size | None
    shares: Mapping[Measured, float]
    rounding: bool

    @property
    def diverges(self) -> bool:
        """Whether the error is not a finite number."""
        return not math.isfinite(self.error.value)

    @property
    def largest(self) -> Measured | None:
        """The largest part of the mean square error; None if that is not known."""
        return max(self.shares, key=lambda part: self.shares[part], default=None)

    @property
    def steps(self) -> str:
        """The steps in words, as in "t = k = 200"."""
        return f"t = k = {self.t}" if self.t == self.k else f"t = {self.t}, k = {self.k}"


def error_parts(report: StochasticReport, method: str) -> ErrorParts:
    """The error of a method at the last point, and its parts."""
    curve = report.curve(method)
    relative = 0 < report.gradient_norm < math.inf
    unit = report.gradient_norm if relative else 1.0
    error = _size(curve, Measured.MSE, unit, root=True)
    return ErrorParts(
        method=method,
        t=int(curve.t[-1]),
        k=int(curve.k[-1]),
        relative=relative,
        error=error if error is not None else Size(math.inf, 0.0, math.inf),
        bias=_size(curve, Measured.BIAS, unit),
        shares=shares_of_parts(curve),
        rounding=error is not None and error.value * unit <= curve.floor[-1],
    )


def _size(curve: StochasticCurve, quantity: Measured, unit: float, *, root: bool = False) -> Size | None:
    if quantity.value not in curve.means:
        return None
    mean = curve.means[quantity.value]
    value, lower, upper = (float(x[-1]) for x in (mean.value, mean.lower, mean.upper))
    value, upper = (math.inf if math.isnan(x) else max(x, 0.0) for x in (value, upper))
    lower = 0.0 if math.isnan(lower) else max(lower, 0.0)
    if root:
        value, lower, upper = math.sqrt(value), math.sqrt(lower), math.sqrt(upper)
    return Size(value / unit, lower / unit, upper / unit)


def shares_of_parts(curve: StochasticCurve, place: int = -1) -> dict[Measured, float]:
    """The share of each part at a point. An estimate of a variance may be below 0 by chance, and then counts as 0."""
    if any(part.value not in curve.means for part in PARTS):
        return {}
    parts = {part: max(float(curve.means[part.value].value[place]), 0.0) for part in PARTS}
    parts[Measured.BIAS] **= 2
    total = sum(parts.values())
    return {part: value / total for part, value in parts.items()} if 0 < total < math.inf else {}
