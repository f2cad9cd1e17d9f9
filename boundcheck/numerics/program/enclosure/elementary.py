"""Smooth functions of one number: ranges of φ, φ', φ'' and φ''' over an interval.

An entry of the table has these four functions and, for each, the points at which it may have an extremum. The range
over an interval is the hull of the values at its ends and at the critical points inside. A critical point need not be
exact: at a stationary point, an error of 1e-16 changes the value by 1e-32.

`scale` bounds the numbers inside a formula, such as the 1 and the tanh² of 1 − tanh². The computed value is within
`UNITS`·(|value| + scale) of the true value, since PyTorch's functions are accurate to 4 units in the last place (an
assumption of `rounding_rules.elementwise`) and a formula has at most six operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from boundcheck.numerics.program.enclosure.intervals import Interval
from boundcheck.numerics.program.rounding_rules.ball import TINY, U

UNITS = 64 * U
TAIL = 1e-20  # scale of formulas with e^(−z): for z > 40, the rounding of z alone exceeds `UNITS` times the value
NEAR = 1e-9  # a critical point this close to an interval counts as inside
Function = Callable[[Tensor], Tensor]
Jet = tuple[Interval, Interval, Interval, Interval]  # φ, φ', φ'', φ'''


@dataclass(frozen=True, eq=False)
class Elementary:
    """A function with its first three derivatives.

    Attributes
    ----------
    derivatives : sequence of four functions
        φ, φ', φ'', φ'''.
    critical : sequence of four sequences
        The points at which each of the four functions may have an extremum.
    scale : sequence of four floats
        The size of the numbers inside each formula, in addition to its value.
    domain : pair of floats
        The open interval in which the function is smooth. On a box that leaves it, all ranges are infinite.
    kinks : sequence of (point, order)
        Points at which the derivative of this order jumps. Derivatives of higher order are infinite there.
    every : float
        If not 0, its multiples are critical points too, and any four consecutive ones take all extreme values.
    fold : str
        "positive" for max(x, 0), "absolute" for |x|; empty for any other function.
    exponent : int
        p for x ↦ x^p with a whole p ≥ 2; 0 for any other function.
    """

    derivatives: tuple[Function, Function, Function, Function]
    critical: tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]] = ((), (), (), ())
    scale: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    domain: tuple[float, float] = (-math.inf, math.inf)
    kinks: tuple[tuple[float, int], ...] = ()
    every: float = 0.0
    fold: str = ""
    exponent: int = 0

    def jet(self, x: Interval) -> Jet:
        """Return the ranges of φ, φ', φ'' and φ''' over an interval; infinite if the function is not smooth there."""
        ranges = []
        inside = (x.lo > self.domain[0]) & (x.hi < self.domain[1])
        for order in range(4):
            lo, hi = self._range(order, x)
            outside = ~inside
            for place, jumps in self.kinks:
                if order > jumps:
                    outside = outside | ((x.lo <= place) & (place <= x.hi))
            infinite = torch.full_like(lo, math.inf)
            is_unbounded = outside | lo.isnan() | hi.isnan()
            ranges.append(Interval(torch.where(is_unbounded, -infinite, lo), torch.where(is_unbounded, infinite, hi)))
        return ranges[0], ranges[1], ranges[2], ranges[3]

    def _range(self, order: int, x: Interval) -> tuple[Tensor, Tensor]:
        f, scale = self.derivatives[order], self.scale[order]
        places = [x.lo, x.hi]
        near = NEAR * (1 + x.size)
        for place in (*self.critical[order], *(p for p, _ in self.kinks)):
            points = torch.full_like(x.lo, place)
            places.append(torch.where((x.lo - near <= points) & (points <= x.hi + near), points, x.lo))
        for step in range(-1, 5) if self.every else ():
            points = (torch.ceil(x.lo / self.every) + step) * self.every
            places.append(torch.where((x.lo - near <= points) & (points <= x.hi + near), points, x.lo))
        jump_points = [p for p, jumps in self.kinks if order == jumps]
        places += [torch.where((x.lo <= p) & (p <= x.hi), torch.full_like(x.lo, beside), x.lo) for p in jump_points
                   for beside in (math.nextafter(p, -math.inf), math.nextafter(p, math.inf))]  # fmt: skip
        values = torch.stack([f(place) for place in places])
        lo, hi = values.amin(0), values.amax(0)
        return lo - UNITS * (lo.abs() + scale) - TINY, hi + UNITS * (hi.abs() + scale) + TINY


def _sigmoid_slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(-x.abs())
    return s * (1 - s)


def _sigmoid_bend(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return _sigmoid_slope(x) * (1 - 2 * s)


def _sigmoid_third(x: Tensor) -> Tensor:
    slope = _sigmoid_slope(x)
    return slope * (1 - 6 * slope)


def _tanh_slope(x: Tensor) -> Tensor:
    return 4 * _sigmoid_slope(2 * x)  # 1 − tanh², without cancellation


BEND = math.log(2 + math.sqrt(3))  # |σ''| is largest at ±BEND
THIRD = math.log(5 + 2 * math.sqrt(6))  # σ''' is extreme at ±THIRD and at 0
SIGMOID = (torch.sigmoid, _sigmoid_slope, _sigmoid_bend, _sigmoid_third)
SIGMOID_CRITICAL = ((), (0.0,), (-BEND, BEND), (-THIRD, 0.0, THIRD))


def _half(points: Sequence[float]) -> tuple[float, ...]:
    return tuple(p / 2 for p in points)


def power(exponent: float) -> Elementary:
    """Return x ↦ x^p: for all x if p ≥ 0 is an integer, otherwise for x > 0."""
    p = float(exponent)
    whole = p == int(p)
    factors = [1.0, p, p * (p - 1), p * (p - 1) * (p - 2)]

    def derivative(order: int) -> Function:
        if factors[order] == 0:
            return torch.zeros_like
        if p == order:
            return lambda x: torch.full_like(x, factors[order])
        return lambda x: factors[order] * x.pow(p - order)

    functions = derivative(0), derivative(1), derivative(2), derivative(3)
    if whole and p >= 0:
        return Elementary(functions, ((0.0,), (0.0,), (0.0,), (0.0,)), exponent=int(p) if p >= 2 else 0)
    if all(Fraction(p) - order == Fraction(p - order) for order in range(4)):
        return Elementary(functions, domain=(0.0, math.inf))
    return Elementary(functions, domain=(1e-20, 1e20))  # rounding of p − order changes x^(p − order) by |log x| units


def soft_plus(beta: float = 1.0) -> Elementary:
    """Return log(1 + e^(βx))/β. Beyond βx = 20, or another threshold, PyTorch returns x, with an error of 2.1e-9/β."""
    return Elementary(
        (
            lambda x: softplus(beta * x, 1.0, math.inf) / beta,
            lambda x: torch.sigmoid(beta * x),
            lambda x: beta * _sigmoid_slope(beta * x),
            lambda x: beta**2 * _sigmoid_bend(beta * x),
        ),
        ((), (), (0.0,), (-BEND / beta, BEND / beta)),
        (TAIL / abs(beta), TAIL, TAIL * abs(beta), beta**2),
    )


def _erf_slope(x: Tensor) -> Tensor:
    return 2 / math.sqrt(math.pi) * torch.exp(-x * x)


def _sine(order: int) -> Elementary:
    """Return the derivative of sin of this order, for |x| < 10⁶, where multiples of ½π are accurate to 10⁻⁹."""
    waves: list[Function] = [torch.sin, torch.cos, lambda x: -torch.sin(x), lambda x: -torch.cos(x)] * 2
    derivatives = waves[order], waves[order + 1], waves[order + 2], waves[order + 3]
    return Elementary(derivatives, domain=(-1e6, 1e6), every=math.pi / 2)


def _root(x: Tensor) -> Tensor:
    return torch.sqrt(1 + x * x)


LN2, LN10 = math.log(2), math.log(10)
ELEMENTARY: dict[str, Elementary] = {
    "sin": _sine(0),
    "cos": _sine(1),
    "exp2": Elementary(
        (
            torch.exp2,
            lambda x: LN2 * torch.exp2(x),
            lambda x: LN2**2 * torch.exp2(x),
            lambda x: LN2**3 * torch.exp2(x),
        )
    ),
    "log2": Elementary(
        (
            torch.log2,
            lambda x: 1 / (LN2 * x),
            lambda x: -1 / (LN2 * x * x),
            lambda x: 2 / (LN2 * x * x * x),
        ),
        domain=(0.0, math.inf),
    ),
    "log10": Elementary(
        (
            torch.log10,
            lambda x: 1 / (LN10 * x),
            lambda x: -1 / (LN10 * x * x),
            lambda x: 2 / (LN10 * x * x * x),
        ),
        domain=(0.0, math.inf),
    ),
    "asinh": Elementary(
        (
            torch.asinh,
            lambda x: 1 / _root(x),
            lambda x: -x / _root(x) ** 3,
            lambda x: (2 * x * x - 1) / _root(x) ** 5,
        ),
        ((), (0.0,), (-(0.5**0.5), 0.5**0.5), (-(1.5**0.5), 0.0, 1.5**0.5)),
        (0.0, 0.0, 0.0, 2.0),
    ),
    "erfc": Elementary(
        (
            torch.erfc,
            lambda x: -_erf_slope(x),
            lambda x: 2 * x * _erf_slope(x),
            lambda x: -(4 * x * x - 2) * _erf_slope(x),
        ),
        ((), (0.0,), (-(0.5**0.5), 0.5**0.5), (-(1.5**0.5), 0.0, 1.5**0.5)),
        (TAIL, TAIL, TAIL, 4.0),
    ),
    "exp": Elementary((torch.exp,) * 4),
    "expm1": Elementary((torch.expm1, torch.exp, torch.exp, torch.exp)),
    "log": Elementary(
        (torch.log, lambda x: 1 / x, lambda x: -1 / (x * x), lambda x: 2 / (x * x * x)), domain=(0.0, math.inf)
    ),
    "log1p": Elementary(
        (torch.log1p, lambda x: 1 / (1 + x), lambda x: -((1 + x) ** -2), lambda x: 2 * (1 + x) ** -3),
        domain=(-1.0, math.inf),
    ),
    "sqrt": power(0.5),
    "rsqrt": power(-0.5),
    "reciprocal": Elementary(
        (lambda x: 1 / x, lambda x: -1 / (x * x), lambda x: 2 / (x * x * x), lambda x: -6 / (x * x * x * x)),
        kinks=((0.0, -1),),
    ),
    "square": power(2),
    "sigmoid": Elementary(SIGMOID, SIGMOID_CRITICAL, (0.0, 0.0, 1.0, 1.0)),
    "log_sigmoid": Elementary(
        (
            logsigmoid,
            lambda x: torch.sigmoid(-x),
            lambda x: -_sigmoid_slope(x),
            lambda x: -_sigmoid_bend(x),
        ),
        ((), (), (0.0,), (-BEND, BEND)),
        (0.0, 0.0, 0.0, 1.0),
    ),
    "tanh": Elementary(
        (
            torch.tanh,
            _tanh_slope,
            lambda x: 8 * _sigmoid_bend(2 * x),
            lambda x: 16 * _sigmoid_third(2 * x),
        ),
        ((), _half(SIGMOID_CRITICAL[1]), _half(SIGMOID_CRITICAL[2]), _half(SIGMOID_CRITICAL[3])),
        (0.0, 0.0, 8.0, 16.0),
    ),
    "atan": Elementary(
        (
            torch.atan,
            lambda x: 1 / (1 + x * x),
            lambda x: -2 * x / (1 + x * x) ** 2,
            lambda x: (6 * x * x - 2) / (1 + x * x) ** 3,
        ),
        ((), (0.0,), (-(3**-0.5), 3**-0.5), (-1.0, 0.0, 1.0)),
        (0.0, 0.0, 0.0, 8.0),
    ),
    "erf": Elementary(
        (
            torch.erf,
            _erf_slope,
            lambda x: -2 * x * _erf_slope(x),
            lambda x: (4 * x * x - 2) * _erf_slope(x),
        ),
        ((), (0.0,), (-(0.5**0.5), 0.5**0.5), (-(1.5**0.5), 0.0, 1.5**0.5)),
        (0.0, TAIL, TAIL, 4.0),
    ),
    "sinh": Elementary((torch.sinh, torch.cosh, torch.sinh, torch.cosh), ((), (0.0,), (), (0.0,))),
    "cosh": Elementary((torch.cosh, torch.sinh, torch.cosh, torch.sinh), ((0.0,), (), (0.0,), ())),
    "abs": Elementary(
        (torch.abs, torch.sign, torch.zeros_like, torch.zeros_like),
        ((0.0,), (), (), ()),
        kinks=((0.0, 1),),
        fold="absolute",
    ),
    "sign": Elementary((torch.sign, torch.zeros_like, torch.zeros_like, torch.zeros_like), kinks=((0.0, 0),)),
    "sgn": Elementary((torch.sgn, torch.zeros_like, torch.zeros_like, torch.zeros_like), kinks=((0.0, 0),)),
    "relu": Elementary(
        (torch.relu, lambda x: (x > 0).to(x), torch.zeros_like, torch.zeros_like), kinks=((0.0, 1),), fold="positive"
    ),
}
