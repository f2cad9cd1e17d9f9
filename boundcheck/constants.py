"""Constants with their side: the only thing theory and numerics share.

A bound fed with a constant that is too small is not a bound, so no constant travels as a bare float.
This module knows neither sympy nor torch; constants are keyed by the names of `theory/symbols.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, TypeVar, overload

from boundcheck.errors import InputError, UnknownNameError

# What constants may be called; `theory/symbols.py` gives each name its symbol and meaning.
NAMES = frozenset(
    (
        "q", "q_star", "nu_1", "nu_2", "eta_1", "eta_2", "D", "L_E", "L_Phi", "L_Phi_star", "mu_inv", "kappa", "m",
        "mu", "L", "alpha", "grad_alpha", "hat_rho_1", "hat_rho_2", "L_ell", "r_0", "W", "g_star", "eps_g", "q_P",
        "nu_1_P", "nu_2_P", "eta_1_P", "eta_2_P", "D_P", "L_E_P", "L_Phi_P", "t",
        "k", "K",
    )
)  # fmt: skip

# How bounds move with a constant: they fall with these, are not monotone in those, and grow with every other one.
FALLING = frozenset(("mu", "mu_inv"))
NOT_MONOTONE = frozenset(("alpha", "t", "k", "K"))  # chosen, not measured

Default = TypeVar("Default")


class Side(str, Enum):
    """What is known of a value relative to the truth it stands for.

    Attributes
    ----------
    EXACT : str
        "exact": equal to the truth up to rounding, which is at most 1e-9 of the value.
    UPPER : str
        "upper": proved to be at least the truth.
    HIGH_PROBABILITY : str
        "high-probability": on the side that is safe for this constant, with probability 1 − δ.
    LOWER : str
        "lower": at most the truth. Sampling and ascent find this of a supremum; a proved minorant is one too.
    """

    EXACT = "exact"
    UPPER = "upper"
    HIGH_PROBABILITY = "high-probability"
    LOWER = "lower"

    @classmethod
    def parse(cls, side: Side | str) -> Side:
        """A `Side` from itself or from its text, as in ``side="upper"``.

        Parameters
        ----------
        side : Side or str
            A side, or one of "exact", "upper", "high-probability", "lower".

        Returns
        -------
        Side
            The side of that text.

        Raises
        ------
        InputError
            If there is no such side.
        """
        try:
            return cls(side)
        except ValueError:
            raise InputError(f"side = {side!r} is not a side; use one of {', '.join(s.value for s in cls)}") from None

    @classmethod
    def safe_for(cls, direction: int) -> Side:
        """The safe side of a value with which a bound moves.

        Parameters
        ----------
        direction : int
            1 if the bound grows with the value, -1 if it falls, 0 if it is not monotone in it.

        Returns
        -------
        Side
            Above for 1 and below for -1. If the bound is not monotone, only an exact value is safe.
        """
        return {+1: cls.UPPER, -1: cls.LOWER}.get(direction, cls.EXACT)

    def is_safe_for(self, direction: int) -> bool:
        """Whether a bound stays a bound with a value on this side.

        Parameters
        ----------
        direction : int
            1 if the bound grows with the value, -1 if it falls, 0 if it is not monotone in it.

        Returns
        -------
        bool
            True if it does.
        """
        if self is Side.HIGH_PROBABILITY:  # on the safe side, if there is one
            return direction != 0
        return self in (Side.EXACT, Side.safe_for(direction))


def direction(name: str) -> int:
    """How bounds move with a constant: +1 if they grow with it, −1 if they fall, 0 if they are not monotone in it."""
    if name in FALLING:
        return -1
    return 0 if name in NOT_MONOTONE else +1


def safe_side(name: str) -> Side:
    """The side on which an inexact value of a constant leaves every bound a bound.

    Parameters
    ----------
    name : str
        Of a constant, as in `theory/symbols.py`.

    Returns
    -------
    Side
        Above for most constants, below for μ and μ_λ. A step size and a number of iterations have to be exact.
    """
    return Side.safe_for(direction(name))


def estimate_side(name: str) -> Side:
    """The side of an estimate, on which nothing is proved with a constant: below for most, above for μ and μ_λ."""
    return Side.UPPER if safe_side(name) is Side.LOWER else Side.LOWER


class BallKind(str, Enum):
    """Which ball suprema are taken over.

    Attributes
    ----------
    PAPER : str
        "paper": ‖w‖ ≤ 2D, for the theorems that start at w_0 = 0.
    LOCAL : str
        "local": around w*, as wide as the iterates may leave it.
    """

    PAPER = "paper"
    LOCAL = "local"

    __str__ = str.__str__


BALLS = tuple(BallKind)


@dataclass(frozen=True)
class Ball:
    """The ball on which a supremum was taken.

    Attributes
    ----------
    centre : str
        Its centre in words: "0" or "w_star".
    radius : float
        Its radius, in the Euclidean norm of w.
    """

    centre: str
    radius: float


@dataclass(frozen=True)
class Provenance:
    """How a value was obtained: a formula with its reference, or an estimator with what it spent.

    Attributes
    ----------
    how : str
        The formula or the algorithm, in words.
    reference : str
        Where the formula is proved; empty by default.
    products : int or None
        How many products with derivatives the estimator took.
    samples : int or None
        How many points it sampled.
    seed : int or None
        The seed of its random numbers.
    delta : float or None
        The probability that the value is on its unsafe side; needed for the side "high-probability".
    residual : float or None
        The residual ‖w − Φ(w)‖ that the value rests on.
    ball : Ball or None
        The ball on which a supremum was taken.
    dtype : str or None
        The precision in which it was computed.
    device : str or None
        The device on which it was computed.
    refuted : str
        What the user gave in its place, and what contradicts it; empty if nothing was.
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


GIVEN = Provenance("given by the user")


@dataclass(frozen=True)
class Constant:
    """One number of the theory, the side it is on, and where it comes from.

    Attributes
    ----------
    name : str
        Its name in the theory, such as "q" or "L_Phi".
    value : float
        The number, finite.
    side : Side
        What is known of it relative to the truth; `Side.EXACT` by default. A text such as "upper" is accepted.
    provenance : Provenance
        How it was obtained; "given by the user" by default.

    Raises
    ------
    InputError
        If the value is not a finite number, if there is no such side, or if the side is "high-probability" and the
        provenance has no delta between 0 and 1.

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

    @property
    def is_safe(self) -> bool:
        """Is it exact, or on the side on which a bound stays a bound?"""
        return self.side.is_safe_for(direction(self.name))

    @property
    def stated_side(self) -> Side:
        """Exact, upper or lower: high probability is a claim to be on the safe side."""
        return safe_side(self.name) if self.side is Side.HIGH_PROBABILITY else self.side


@dataclass(frozen=True)
class Constants(Mapping[str, Constant]):
    """A read-only mapping from name to `Constant`.

    Make one with `Constants.given`, or from a dict of constants by their names.

    Raises
    ------
    InputError
        If a value is not a `Constant`, or is stored under a name that is not its own.
    UnknownNameError
        If a name is looked up that is not there.
    """

    _by_name: Mapping[str, Constant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, constant in self._by_name.items():
            if not isinstance(constant, Constant):
                raise InputError(
                    f"{name} = {constant!r} is a bare value; wrap it in Constant or use Constants.given({name}=…)"
                )
            if name != constant.name:
                raise InputError(f"the constant stored as {name!r} is named {constant.name!r}; use one name for both")
        object.__setattr__(self, "_by_name", dict(self._by_name))

    @classmethod
    def given(
        cls, *, side: Side | str = Side.EXACT, sides: Mapping[str, Side | str] | None = None, **values: float | Constant
    ) -> Constants:
        """Make constants from numbers that were typed in.

        Parameters
        ----------
        side : Side or str
            The side of every number: "exact" (the default), "upper", "high-probability" or "lower".
        sides : mapping from str to Side or str, optional
            The sides of single names, in place of `side`.
        **values : float or Constant
            The constants by name. A value that is already a `Constant` keeps its own side.

        Returns
        -------
        Constants
            The constants by name.

        Raises
        ------
        UnknownNameError
            If the theory has no constant of that name.
        InputError
            If a value is not a finite number, if there is no such side, or if `sides` has a name without a value.

        Examples
        --------
        >>> import boundcheck as bc
        >>> constants = bc.Constants.given(q=0.9, D=1.0, side="upper", sides={"D": "exact"})
        >>> constants["q"].value, constants["q"].side.value, constants["D"].side.value
        (0.9, 'upper', 'exact')
        """
        sides = dict(sides or {})
        if stray := sorted(set(sides) - set(values)):
            raise InputError(f"sides names {stray[0]!r}, which has no value; give {stray[0]}=… as well")
        if unknown := sorted(set(values) - NAMES):
            raise UnknownNameError.among("constant", unknown[0], NAMES)
        made = {
            name: value if isinstance(value, Constant) else Constant(name, value, Side.parse(sides.get(name, side)))
            for name, value in values.items()
        }
        return cls(made)

    def __getitem__(self, name: str) -> Constant:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownNameError.among("constant", name, self._by_name) from None

    # `Mapping` has these two from `__getitem__`, whose error looks for similar names.
    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @overload
    def get(self, name: str, /) -> Constant | None: ...
    @overload
    def get(self, name: str, /, default: Constant | Default) -> Constant | Default: ...
    def get(self, name: str, /, default: Any = None) -> Any:
        """The constant of a name, or a default.

        Parameters
        ----------
        name : str
            The name of the constant.
        default : optional
            What to return if there is no constant of this name; None by default.

        Returns
        -------
        Constant
            Or `default`.
        """
        return self._by_name.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def replace(self, *constants: Constant) -> Constants:
        """A copy in which these constants stand in place of those of the same name.

        Parameters
        ----------
        *constants : Constant
            The constants to put in; new names are added.

        Returns
        -------
        Constants
            The copy.
        """
        return Constants({**self._by_name, **{c.name: c for c in constants}})

    def as_json(self) -> dict[str, dict[str, Any]]:
        """The constants as plain data, for a JSON file.

        Returns
        -------
        dict
            By name: the value, the side, and every entry of the provenance that is not empty.
        """
        return {
            name: {
                "value": constant.value,
                "side": constant.side.value,
                **{key: value for key, value in asdict(constant.provenance).items() if value not in (None, "")},
            }
            for name, constant in self.items()
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Mapping[str, Any]]) -> Constants:
        """The constants that `as_json` wrote.

        Parameters
        ----------
        content : mapping
            What `as_json` returned.

        Returns
        -------
        Constants
            The same constants.
        """
        made = {}
        for name, entry in content.items():
            rest = {key: value for key, value in entry.items() if key not in ("value", "side")}
            ball = Ball(**rest.pop("ball")) if "ball" in rest else None
            made[name] = Constant(name, entry["value"], Side(entry["side"]), Provenance(**rest, ball=ball))
        return cls(made)
