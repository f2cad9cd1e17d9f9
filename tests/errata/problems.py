"""The small instances of docs/errata.md, in rational arithmetic, with the methods run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction as Q

import sympy as sp

from boundcheck import bounds
from boundcheck.theory import symbols

Function = Callable[[Q], Q]
Rational = Q | int
HALF = Q(1, 2)


def exact(name: str, t: int = 0, k: int = 0, **values: Rational) -> Q:
    """The right-hand side of a bound in rational arithmetic. Unlike `evaluate` it leaves the conditions unchecked."""
    point = {"t": t, "k": k, **values}
    numbers = {symbols.QUANTITIES[n].symbol: sp.Rational(v.numerator, v.denominator) for n, v in point.items()}
    value = bounds[name].resolved(frozenset(values)).xreplace(numbers).doit()
    return Q(int(value.p), int(value.q))


@dataclass(frozen=True)
class Problem:
    """A scalar problem at a fixed λ: Φ and the partial derivatives of Φ and E as functions of w; E = w if unsaid."""

    w_star: Q
    phi: Function
    d1phi: Function
    d2phi: Function
    d1E: Function = lambda w: Q(1)
    d2E: Function = lambda w: Q(0)

    @property
    def w_prime(self) -> Q:
        return self.d2phi(self.w_star) / (1 - self.d1phi(self.w_star))

    @property
    def W(self) -> Q:
        return abs(self.w_prime)

    @property
    def gradient(self) -> Q:
        return self.d2E(self.w_star) + self.w_prime * self.d1E(self.w_star)

    def iterate(self, t: int, w: Q = Q(0)) -> Q:
        for _ in range(t):
            w = self.phi(w)
        return w

    def derivative(self, t: int, w: Q = Q(0), dw: Q = Q(0)) -> Q:
        """w_t' by forward recursion from w_0' = dw."""
        for _ in range(t):
            w, dw = self.phi(w), self.d1phi(w) * dw + self.d2phi(w)
        return dw

    def itd_error(self, t: int, w: Q = Q(0), dw: Q = Q(0)) -> Q:
        w_t = self.iterate(t, w)
        return abs(self.d2E(w_t) + self.derivative(t, w, dw) * self.d1E(w_t) - self.gradient)

    def fixed_point(self, w: Q, k: int, v: Q = Q(0)) -> Q:
        for _ in range(k):
            v = self.d1phi(w) * v + self.d1E(w)
        return v

    def solve(self, w: Q) -> Q:
        return self.d1E(w) / (1 - self.d1phi(w))

    def aid_error(self, w: Q, v: Q) -> Q:
        return abs(self.d2E(w) + self.d2phi(w) * v - self.gradient)

    def fp_error(self, t: int, k: int) -> Q:
        w = self.iterate(t)
        return self.aid_error(w, self.fixed_point(w, k))


def quadratic(alpha: Q, **E: Function) -> Problem:
    """A gradient step with frozen step size on ℓ = ½λw² − w, at λ = 1: w* = 1, w' = −1, q = |1−α|."""
    return Problem(Q(1), lambda w: w - alpha * (w - 1), lambda w: 1 - alpha, lambda w: -alpha * w, **E)


def affine(q: Q, b: Q, s: Rational = 0) -> Problem:
    """Φ = (q+λ)w + b + sλ at λ = 0, with E = w."""
    return Problem(b / (1 - q), lambda w: q * w + b, lambda w: q, lambda w: w + s)


AFFINE = {"nu_1": 0, "nu_2": 1, "eta_1": 0, "eta_2": 0, "L_E": 1}  # of `affine`, on any ball


@dataclass(frozen=True)
class HyperRepresentation:
    """ℓ = ½(λw−y)² + ½βw² and E = ½(λw−y')², one example and one feature, solved by gradient descent with q = ½."""

    y: Q
    y_val: Q
    beta: Q = Q(1, 4)
    lam: Q = Q(1)

    @property
    def h(self) -> Q:
        return self.lam**2 + self.beta

    @property
    def alpha(self) -> Q:
        return HALF / self.h

    @property
    def problem(self) -> Problem:
        lam, alpha = self.lam, self.alpha
        return Problem(
            lam * self.y / self.h,
            lambda w: w - alpha * (self.h * w - lam * self.y),
            lambda w: HALF,
            lambda w: -alpha * (2 * lam * w - self.y),
            lambda w: lam * (lam * w - self.y_val),
            lambda w: (lam * w - self.y_val) * w,
        )

    @property
    def with_constant_d2phi(self) -> Problem:
        """The map Φ(w, 1) + (λ−1)∂₂Φ(w*, 1): the same iterates, w* and w', and ν₂ = 0."""
        p = self.problem
        return Problem(p.w_star, p.phi, p.d1phi, lambda w: p.d2phi(p.w_star), p.d1E, p.d2E)

    def calmness_of_d2E(self, low: Q, high: Q) -> Q:
        """The least η₂ with |∇₂E(w)−∇₂E(w*)| ≤ η₂|w−w*| on [low, high]; the quotient is |λ(w+w*)−y'|."""
        return max(abs(self.lam * (w + self.problem.w_star) - self.y_val) for w in (low, high))
