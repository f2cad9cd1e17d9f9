"""A constant with its side and its provenance.

If a constant is too small, the value of a bound need not be a bound. So no constant is passed as a bare float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from boundcheck import constants_card
from boundcheck.ball import Ball
from boundcheck.errors import InputError
from boundcheck.side import Side, direction, safe_side


@dataclass(frozen=True)
class Provenance:
    """How a value was obtained: a formula with its reference, or an estimator with its cost.

    Attributes
    ----------
    how : str
        The formula or the algorithm, in words.
    reference : str
        Where the formula is proved; empty by default.
    products : int or None
        The number of products with derivatives that the estimator took.
    samples : int or None
        The number of points that it sampled.
    seed : int or None
        The seed of its random numbers.
    delta : float or None
        The probability that the value is on its unsafe side; needed for the side "high-probability".
    residual : float or None
        The residual ‖w − Φ(w)‖ from which the value follows.
    ball : Ball or None
        The ball on which a supremum was taken.
    dtype : str or None
        The precision in which the value was computed.
    device : str or None
        The device on which the value was computed.
    refuted : str
        A value of the user that was not used, and what contradicts it or why nothing confirms it; else empty.
    no_proof : str
        Why the user's functions do not prove the value, with the operation and its line; empty if they do.
    """

    how: str
    reference: str = ""
    products: int | None = None
    samples: int | None = None
    seed: int | None = None
    delta: float | None = None
    residual: float | None = None
    ball: Ball | None = None
    dtype: str | None = None
    device: str | None = None
    refuted: str = ""
    no_proof: str = ""


GIVEN = Provenance("given by the user")


@dataclass(frozen=True)
class Constant:
    """A number of the theory with its side and its provenance.

    Attributes
    ----------
    name : str
        The name in the theory, such as "q" or "L_Phi".
    value : float
        The number, finite.
    side : Side
        How the number compares with the true value; `Side.EXACT` by default. A text such as "upper" is accepted.
    provenance : Provenance
        How the number was obtained; "given by the user" by default.
    on_smaller : tuple of (float, float)
        Values on smaller balls around w*, as pairs of radius and value; empty by default. Radii decrease, and no value
        is worse than the one before. `side` applies to every value.
    towards : tuple of (float, float)
        For q: pairs of a radius and a factor, such that ‖Φ(w) − w*‖ is at most the factor times ‖w − w*‖ on the ball
        of this radius around w*; empty by default. Radii decrease and factors do not grow. `side` applies to every
        factor.

    Raises
    ------
    InputError
        If the value is not a finite number, if there is no such side, if the side is "high-probability" and the
        provenance has no delta between 0 and 1, or if `on_smaller` or `towards` is not in order.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.Constant("q", 0.9, "upper").side.value
    'upper'
    """

    name: str
    value: float
    side: Side = Side.EXACT
    provenance: Provenance = GIVEN
    on_smaller: tuple[tuple[float, float], ...] = ()
    towards: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        try:
            value = float(self.value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{self.name} = {self.value!r} is not a number; give a finite real number") from None
        if not math.isfinite(value):
            raise InputError(f"{self.name} = {value} is not finite; give a finite real number")
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "side", Side.parse(self.side))
        delta = self.provenance.delta
        if self.side is Side.HIGH_PROBABILITY and not (delta is not None and 0 < delta < 1):
            raise InputError(
                f"{self.name}: side high-probability needs 0 < delta < 1, got delta = {delta}; "
                "give Provenance(how, delta=…), the probability that the value is on its unsafe side"
            )
        for field_name in ("on_smaller", "towards"):
            if getattr(self, field_name):
                self._check_table(field_name)

    def __repr__(self) -> str:
        return f"Constant({self.name!r}, {self.value!r}, {self.side.value!r})"

    def __str__(self) -> str:
        return constants_card.card_of_one(self).text()

    def _repr_html_(self) -> str:
        return constants_card.card_of_one(self).html()

    def _check_table(self, field_name: str) -> None:
        table = tuple((float(radius), float(value)) for radius, value in getattr(self, field_name))
        object.__setattr__(self, field_name, table)
        sign = -1 if direction(self.name) < 0 else 1
        before = (math.inf, self.value)
        for radius, value in table:
            if not (0 < radius < before[0] and math.isfinite(radius) and math.isfinite(value)):
                raise InputError(
                    f"{self.name}: the radius {radius:g} follows {before[0]:g}; give falling positive radii"
                )
            if sign * value > sign * before[1]:
                worse = "more" if sign > 0 else "less"
                raise InputError(
                    f"{self.name} = {value:g} on radius {radius:g} is {worse} than {before[1]:g} on the ball around; "
                    "what holds on a ball holds on every ball inside, so give that"
                )
            before = (radius, value)

    @property
    def is_safe(self) -> bool:
        """Whether the value is exact, or on the side on which a bound stays a bound."""
        return self.side.is_safe_for(direction(self.name))

    @property
    def stated_side(self) -> Side:
        """The side as exact, upper or lower; high probability counts as the safe side."""
        return safe_side(self.name) if self.side is Side.HIGH_PROBABILITY else self.side
