"""Functions of one arb ball: the value, and the first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boundcheck.numerics.program.recorded_program import Declined

try:
    import flint
except ImportError:  # the extra `rigorous`
    flint = None  # type: ignore[assignment]


def _exp_orders(x: Any) -> Any:
    y = x.exp()
    return y, y, y


def _exp2_orders(x: Any) -> Any:
    c = flint.arb(2).log()
    y = (c * x).exp()
    return y, c * y, c * c * y


def _log_orders(x: Any) -> Any:
    return x.log(), 1 / x, -1 / (x * x)


def _tanh_orders(x: Any) -> Any:
    t = x.tanh()
    slope = 1 - t * t
    return t, slope, -2 * t * slope


def _sigmoid_orders(x: Any) -> Any:
    s = 1 / (1 + (-x).exp())
    slope = s * (1 - s)
    return s, slope, slope * (1 - 2 * s)


def _erf_orders(x: Any) -> Any:
    slope = 2 / flint.arb.pi().sqrt() * (-x * x).exp()
    return x.erf(), slope, -2 * x * slope


def _abs_orders(x: Any) -> Any:
    if x.contains(0):
        raise Declined("abs at its kink")
    sign = x.sgn()
    return x * sign, sign, flint.arb(0)


def _sign_orders(x: Any) -> Any:
    if x.contains(0):
        raise Declined("sign at its jump")
    return x.sgn(), flint.arb(0), flint.arb(0)


def _relu_orders(x: Any) -> Any:
    if x.contains(0):
        raise Declined("relu at its kink")
    return (x, flint.arb(1), flint.arb(0)) if x > 0 else (flint.arb(0),) * 3


def clamp(low: float | None, high: float | None) -> Callable[[Any], Any]:
    """Return x between two numbers with its derivatives. Balls that contain one of the numbers are declined."""
    ends = [flint.arb(end) for end in (low, high) if end is not None]

    def orders(x: Any) -> Any:
        zero = flint.arb(0)
        if any(x.overlaps(end) for end in ends):
            raise Declined("clamp at its kink")
        if low is not None and x < low:
            return flint.arb(low), zero, zero
        if high is not None and x > high:
            return flint.arb(high), zero, zero
        return x, flint.arb(1), zero

    return orders


def power(exponent: float) -> Callable[[Any], Any]:
    """Return x^p with its first two derivatives as a function of x. If p is not an integer, x must be positive."""
    p = flint.arb(exponent)
    if exponent == 2:
        return lambda x: (x**2, p * x, p)
    whole = exponent == int(exponent)

    def raised(x: Any, lowered: int) -> Any:
        if whole:
            n = int(exponent) - lowered
            return x**n if n >= 0 else 1 / x**-n
        if not x > 0:
            raise Declined("a power of a number that may not be positive")
        return x ** (p - lowered)

    def orders(x: Any) -> Any:
        first = p * raised(x, 1) if exponent != 0 else flint.arb(0)
        second = p * (p - 1) * raised(x, 2) if exponent not in (0, 1) else flint.arb(0)
        return raised(x, 0), first, second

    return orders


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": _exp_orders,
    "expm1": lambda x: (x.expm1(), x.exp(), x.exp()),
    "log": _log_orders,
    "log1p": lambda x: (x.log1p(), 1 / (1 + x), -1 / ((1 + x) * (1 + x))),
    "sqrt": lambda x: power(0.5)(x),
    "rsqrt": lambda x: power(-0.5)(x),
    "reciprocal": lambda x: (1 / x, -1 / (x * x), 2 / (x * x * x)),
    "sigmoid": _sigmoid_orders,
    "tanh": _tanh_orders,
    "atan": lambda x: (x.atan(), 1 / (1 + x * x), -2 * x / ((1 + x * x) * (1 + x * x))),
    "erf": _erf_orders,
    "erfc": lambda x: (x.erfc(), *(-order for order in _erf_orders(x)[1:])),
    "sin": lambda x: (x.sin(), x.cos(), -x.sin()),
    "cos": lambda x: (x.cos(), -x.sin(), -x.cos()),
    "asinh": lambda x: (x.asinh(), power(-0.5)(1 + x * x)[0], -x * power(-1.5)(1 + x * x)[0]),
    "exp2": lambda x: _exp2_orders(x),
    "log2": lambda x: tuple(order / flint.arb(2).log() for order in _log_orders(x)),
    "log10": lambda x: tuple(order / flint.arb(10).log() for order in _log_orders(x)),
    "sinh": lambda x: (x.sinh(), x.cosh(), x.sinh()),
    "cosh": lambda x: (x.cosh(), x.sinh(), x.cosh()),
    "abs": _abs_orders,
    "sign": _sign_orders,
    "sgn": _sign_orders,
    "relu": _relu_orders,
}
