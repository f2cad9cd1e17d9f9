"""The side of a number: exact, above or below the truth; and the side that is safe for each constant."""

from __future__ import annotations

from enum import Enum

from boundcheck.errors import InputError

# Bounds fall with the constants in FALLING, are not monotone in those in NOT_MONOTONE, and grow with all others.
FALLING = frozenset(("mu", "mu_inv", "mu_ell_hat"))
NOT_MONOTONE = frozenset(("alpha", "eta", "beta", "gamma", "t", "k", "K"))  # chosen, not measured


class Side(str, Enum):
    """How a value compares with the true value.

    Attributes
    ----------
    EXACT : str
        "exact": equal to the truth up to rounding, which is at most 1e-9 of the value.
    UPPER : str
        "upper": proved to be at least the truth.
    HIGH_PROBABILITY : str
        "high-probability": on the side that is safe for this constant, with probability 1 − δ.
    LOWER : str
        "lower": at most the truth, as a proved lower bound, or a supremum that was estimated by sampling or ascent.
    """

    EXACT = "exact"
    UPPER = "upper"
    HIGH_PROBABILITY = "high-probability"
    LOWER = "lower"

    @classmethod
    def parse(cls, side: Side | str) -> Side:
        """Return the `Side` of a text, as in ``side="upper"``.

        Parameters
        ----------
        side : Side or str
            A side, or one of "exact", "upper", "high-probability", "lower".

        Returns
        -------
        Side
            The side.

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
        """Return the safe side of a value, from how a bound moves with the value.

        Parameters
        ----------
        direction : int
            1 if the bound grows with the value, -1 if it falls, 0 if it is not monotone in it.

        Returns
        -------
        Side
            `Side.UPPER` for 1, `Side.LOWER` for -1. If the bound is not monotone, only an exact value is safe.
        """
        return {+1: cls.UPPER, -1: cls.LOWER}.get(direction, cls.EXACT)

    def is_safe_for(self, direction: int) -> bool:
        """Return whether a bound stays a bound with a value on this side.

        Parameters
        ----------
        direction : int
            1 if the bound grows with the value, -1 if it falls, 0 if it is not monotone in it.

        Returns
        -------
        bool
            True if the bound stays a bound.
        """
        if self is Side.HIGH_PROBABILITY:  # on the safe side, if there is one
            return direction != 0
        return self in (Side.EXACT, Side.safe_for(direction))


def direction(name: str) -> int:
    """Return how bounds move with a constant: +1 if they grow, −1 if they fall, 0 if they are not monotone."""
    if name in FALLING:
        return -1
    return 0 if name in NOT_MONOTONE else +1


def safe_side(name: str) -> Side:
    """Return the side on which an inexact value must be, so that every bound stays a bound.

    Parameters
    ----------
    name : str
        The name of a constant, as in `theory/symbols.py`.

    Returns
    -------
    Side
        `Side.UPPER` for most constants, `Side.LOWER` for μ and μ_λ, `Side.EXACT` for step sizes and numbers of
        iterations.
    """
    return Side.safe_for(direction(name))


def estimate_side(name: str) -> Side:
    """Return the unsafe side of a constant, the side of estimates: lower for most constants, upper for μ and μ_λ."""
    return Side.UPPER if safe_side(name) is Side.LOWER else Side.LOWER


def standing(side: Side, name: str = "") -> str:
    """Return how a value is known, as the word that all tables, figures and pages use.

    Parameters
    ----------
    side : Side
        The side of the value.
    name : str
        The name of the constant; empty for a bound or an error.

    Returns
    -------
    {"proved", "probable", "estimated"}
        "proved" if the value is exact or on its safe side, "probable" if this holds with probability 1 − δ.

    Examples
    --------
    >>> from boundcheck.side import Side, standing
    >>> standing(Side.UPPER), standing(Side.LOWER), standing(Side.LOWER, "mu")
    ('proved', 'estimated', 'proved')
    """
    if side is Side.HIGH_PROBABILITY:
        return "probable"
    return "proved" if side.is_safe_for(direction(name)) else "estimated"


def in_words(side: Side, name: str = "") -> str:
    """Return how a value is known and on which side of the truth it is, as in "proved upper bound".

    Parameters
    ----------
    side : Side
        The side of the value.
    name : str
        The name of the constant; empty for a bound or an error.

    Returns
    -------
    str
        The word of `standing` and the side.

    Examples
    --------
    >>> from boundcheck.side import Side, in_words
    >>> in_words(Side.EXACT), in_words(Side.UPPER, "q"), in_words(Side.LOWER, "q"), in_words(Side.LOWER, "mu")
    ('proved, exact', 'proved upper bound', 'estimated from below', 'proved lower bound')
    """
    word = standing(side, name)
    if side is Side.EXACT:
        return f"{word}, exact"
    if word == "estimated":
        return f"estimated from {'above' if side is Side.UPPER else 'below'}"
    return f"{word} {'lower' if safe_side(name) is Side.LOWER else 'upper'} bound"
