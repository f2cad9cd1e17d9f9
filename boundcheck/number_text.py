"""Numbers as short text, in the same form in all output for people."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

DIGITS = 3


def number(x: float | None) -> str:
    """Return a number with about three digits.

    Examples
    --------
    >>> from boundcheck.number_text import number
    >>> number(0.12345), number(1234.5), number(1e-7), number(float("inf")), number(None)
    ('0.123', '1234', '1.0e-07', '∞', '–')
    """
    if x is None or math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞"
    if x != 0 and (abs(x) >= 1e5 or abs(x) < 1e-3):
        return f"{x:.1e}"
    return f"{x:.3f}" if abs(x) < 10 else f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def percent(x: float) -> str:
    """Return a relative error in per cent, with about three digits.

    Examples
    --------
    >>> from boundcheck.number_text import percent
    >>> percent(0.01234), percent(2e-9), percent(float("inf"))
    ('1.23%', '2.0e-07%', '∞')
    """
    if not math.isfinite(x):
        return "∞"
    value = 100 * x
    digits = f"{value:.1e}" if value != 0 and (value < 1e-3 or value >= 1e4) else f"{value:.3g}"
    return f"{digits}%"


def upward(x: float, digits: int = DIGITS) -> str:
    """Return x rounded up to a few digits, for upper bounds.

    Examples
    --------
    >>> from boundcheck.number_text import upward
    >>> upward(0.12341), upward(0.5), upward(1.0001e-7), upward(float("inf"))
    ('0.124', '0.5', '1.01e-07', '∞')
    """
    return _rounded(x, ROUND_CEILING, digits)


def downward(x: float, digits: int = DIGITS) -> str:
    """Return x rounded down to a few digits, for lower bounds.

    Examples
    --------
    >>> from boundcheck.number_text import downward
    >>> downward(0.12349), downward(0.5), downward(0.0)
    ('0.123', '0.5', '0')
    """
    return _rounded(x, ROUND_FLOOR, digits)


def percent_at_most(x: float) -> str:
    """Return a fraction in per cent, rounded up.

    Examples
    --------
    >>> from boundcheck.number_text import percent_at_most
    >>> percent_at_most(0.01234), percent_at_most(12.0), percent_at_most(float("inf"))
    ('1.24%', '1200%', '∞%')
    """
    return f"{upward(100 * x)}%"


def _rounded(x: float, rounding: str, digits: int) -> str:
    x = float(x)
    if math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞"
    value = float(Context(prec=digits, rounding=rounding).create_decimal(x))
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e6 else f"{value:.{digits}g}"
