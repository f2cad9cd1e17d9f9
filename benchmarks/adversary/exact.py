"""The truth: w*, ∇f and what ITD and AID return in exact arithmetic, with 70 digits, from the values of Φ and E alone.

Nothing here knows torch or boundcheck. Derivatives are central differences with a step h of 1e-25 times the problem's
scale: what is cut off is of order h² and what rounding adds of order 1e-70/h, so some forty digits are right where the
function is smooth; where values are much larger than their differences, these are taken with 250 digits. On a kink they
are the mean of both sides, so the problems keep away from kinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mpmath
import numpy as np

mp = mpmath.mp.clone()
mp.dps = 70
MORE = 250  # digits, where so much cancels in a difference that fewer than LEFT are left of it
LEFT = 20
STEP = mp.mpf(10) ** -25
TINY = mp.mpf(10) ** -38  # relative: to which w* is solved
PLAIN = (40, 240, 1200)  # steps of the dynamics before Newton's method is tried
FARTHEST = 1e60  # where iterates go beyond this, they do not come back
NEAR = 1e-3  # Newton's method may go this part of the way that the steps came

Vector = list[Any]  # of mpf
Matrix = list[Vector]  # rows
Map = Callable[[Vector, Vector], Vector]
Value = Callable[[Vector, Vector], Any]


def vector(values: Sequence[float]) -> Vector:
    """Floats as the exact numbers that they are."""
    return [mp.mpf(x) for x in values]


def norm(x: Sequence[Any]) -> Any:
    """The Euclidean norm."""
    return mp.sqrt(mp.fdot(x, x))


def minus(x: Vector, y: Vector) -> Vector:
    return [a - b for a, b in zip(x, y, strict=True)]


def transpose(A: Matrix) -> Matrix:
    return [list(column) for column in zip(*A, strict=True)]


def product(A: Matrix, x: Vector) -> Vector:
    """A x, row by row."""
    return [mp.fdot(row, x) for row in A]


def solve(A: Matrix, b: Vector) -> Vector:
    """A⁻¹b; ZeroDivisionError where A is singular."""
    if len(A) == 1:
        return [b[0] / A[0][0]]
    return list(mp.lu_solve(mp.matrix(A), mp.matrix(b)))


def _change(function: Callable[[Vector], Any], x: Vector, j: int, h: Any) -> tuple[list[Any], bool]:
    """f(x + h·e_j) − f(x − h·e_j), value by value, and whether enough digits are left of each; rounding counts as 0."""
    up, down = list(x), list(x)
    up[j], down[j] = up[j] + h, down[j] - h
    above, below = (value if isinstance(value, list) else [value] for value in (function(up), function(down)))
    changes = [a - b for a, b in zip(above, below, strict=True)]
    shares = [abs(c / a) if a and mp.isfinite(a) else mp.mpf(1) for c, a in zip(changes, above, strict=True)]
    sure = not any(0 < share < mp.mpf(10) ** (LEFT - mp.dps) for share in shares)
    unit = mp.mpf(10) ** (4 - mp.dps)
    return [c if share > unit else mp.mpf(0) for c, share in zip(changes, shares, strict=True)], sure


def spectral_norm(A: Matrix) -> float:
    """‖A‖, to fifteen digits: the entries are exact and numpy takes the norm. Infinite where an entry is no number."""
    if not all(mp.isfinite(a) for row in A for a in row):
        return float("inf")
    if len(A) == 1 or len(A[0]) == 1:
        return float(norm([a for row in A for a in row]))
    size = max(abs(a) for row in A for a in row)
    if not size:
        return 0.0
    return float(np.linalg.norm(np.array([[float(a / size) for a in row] for row in A]), 2)) * float(size)


@dataclass(frozen=True, eq=False)
class Exact:
    """A bilevel problem in exact arithmetic: Φ, E, the start, λ, and how large the numbers are."""

    phi: Map
    outer: Value
    w0: Vector
    lam: Vector
    w_scale: float = 1.0
    lam_scale: float = 1.0
    momentum: tuple[str, float, float] | None = None  # ("heavy-ball" or "nesterov", ω, β)
    unique: bool = False  # is Φ known to have one fixed point only?

    def _slopes(self, function: Callable[[Vector], Any], x: Vector, scale: float) -> list[Vector]:
        """∂f/∂x_j for each j, value by value."""
        h, slopes = STEP * mp.mpf(scale), []
        for j in range(len(x)):
            changes, sure = _change(function, x, j, h)
            if not sure:  # as where E is 1e40 for its w, and λ adds 1
                with mp.workdps(MORE):
                    changes, _ = _change(function, x, j, h)
            slopes.append([c / (2 * h) for c in changes])
        return slopes

    def d1phi(self, w: Vector) -> Matrix:
        """∂₁Φ(w, λ), d × d."""
        return transpose(self._slopes(lambda x: self.phi(x, self.lam), w, self.w_scale))

    def d2phi(self, w: Vector) -> Matrix:
        """∂₂Φ(w, λ), d × n."""
        return transpose(self._slopes(lambda x: self.phi(w, x), self.lam, self.lam_scale))

    def d1outer(self, w: Vector) -> Vector:
        """∇₁E(w, λ)."""
        return [slope for (slope,) in self._slopes(lambda x: self.outer(x, self.lam), w, self.w_scale)]

    def d2outer(self, w: Vector) -> Vector:
        """∇₂E(w, λ)."""
        return [slope for (slope,) in self._slopes(lambda x: self.outer(w, x), self.lam, self.lam_scale)]

    def path(self, lam: Vector, T: int, start: Vector | None = None) -> list[Vector]:
        """w_0 … w_T of the dynamics at this λ."""
        w = before = list(start or self.w0)
        found = [w]
        for _ in range(T):
            w, before = self._next(w, before, lam), w
            found.append(w)
        return found

    def _next(self, w: Vector, before: Vector, lam: Vector) -> Vector:
        if self.momentum is None:
            return self.phi(w, lam)
        name, omega, beta = self.momentum[0], mp.mpf(self.momentum[1]), mp.mpf(self.momentum[2])
        push = [beta * (a - b) for a, b in zip(w, before, strict=True)]
        y = w if name == "heavy-ball" else [a + p for a, p in zip(w, push, strict=True)]
        ahead = [a + omega * (b - a) for a, b in zip(y, self.phi(y, lam), strict=True)]
        return [a + p for a, p in zip(ahead, push, strict=True)] if name == "heavy-ball" else ahead

    @cached_property
    def w_star(self) -> Vector | None:
        """The fixed point that the iterates reach; None where that is not certain."""
        if self.unique:
            return self._newton(self.w0)
        w, done = self.w0, 0
        for steps in PLAIN:
            before = w  # momentum starts afresh: the limit is the same
            for _ in range(steps - done):
                w, before = self._next(w, before, self.lam), w
                if not all(mp.isfinite(a) and abs(a) < FARTHEST for a in w):  # exp of more would take for ever
                    return None
            done = steps
            found = self._newton(w)
            if found is None:
                continue
            came = norm(minus(found, self.w0)) + TINY * mp.mpf(self.w_scale)
            if norm(minus(found, w)) <= NEAR * came:
                return found
        return None

    def _newton(self, w: Vector) -> Vector | None:
        for _ in range(40):
            excess = minus(w, self.phi(w, self.lam))
            if norm(excess) <= TINY * (norm(w) + TINY * mp.mpf(self.w_scale)):
                return w
            try:
                step = solve(self._identity_minus(self.d1phi(w)), excess)
            except ZeroDivisionError:
                return None
            w = minus(w, step)
            if norm(step) <= TINY * norm(w):
                return w
            if not norm(w) < FARTHEST:
                return None
        return None

    @staticmethod
    def _identity_minus(Y: Matrix) -> Matrix:
        return [[(i == j) - a for j, a in enumerate(row)] for i, row in enumerate(Y)]

    @cached_property
    def w_prime(self) -> Matrix:
        """w'(λ) = (I − Y)⁻¹Z, d × n."""
        A, Z = self._identity_minus(self.d1phi(self.w_star)), self.d2phi(self.w_star)
        return transpose([solve(A, column) for column in transpose(Z)])

    @cached_property
    def gradient(self) -> Vector:
        """∇f(λ) = ∇₂E + w'ᵀ∇₁E at w*."""
        b = self.d1outer(self.w_star)
        return [a + c for a, c in zip(self.d2outer(self.w_star), product(transpose(self.w_prime), b), strict=True)]

    def error(self, g: Sequence[Any]) -> Any:
        """‖g − ∇f‖ of any vector, floats taken as the exact numbers that they are."""
        return norm(minus([mp.mpf(x) for x in g], self.gradient))

    def itd(self, T: int) -> list[Vector]:
        """What ITD returns after t = 0 … T steps: the derivative of E(w_t(λ), λ), by differences."""
        h, columns = STEP * mp.mpf(self.lam_scale), []
        for j in range(len(self.lam)):
            values = []
            for sign in (1, -1):
                lam = list(self.lam)
                lam[j] += sign * h
                values.append([self.outer(w, lam) for w in self.path(lam, T)])
            columns.append([(a - b) / (2 * h) for a, b in zip(*values, strict=True)])
        return transpose(columns)

    def aid(self, method: str, w: Vector, k: int) -> Vector:
        """What AID-FP or AID-CG returns from w_t = w with k steps of the linear solver, from v_0 = 0."""
        Y_T, b = transpose(self.d1phi(w)), self.d1outer(w)
        v = _fixed_point(Y_T, b, k) if method == "aid-fp" else _conjugate_gradient(self._identity_minus(Y_T), b, k)
        return [a + c for a, c in zip(self.d2outer(w), product(transpose(self.d2phi(w)), v), strict=True)]


def _fixed_point(Y_T: Matrix, b: Vector, k: int) -> Vector:
    v = [mp.mpf(0)] * len(b)
    for _ in range(k):
        v = [a + c for a, c in zip(product(Y_T, v), b, strict=True)]
    return v


def _conjugate_gradient(A: Matrix, b: Vector, k: int) -> Vector:
    """Hestenes and Stiefel; it has the solution after d steps, and stays there."""
    v, r = [mp.mpf(0)] * len(b), list(b)
    p, rr = list(b), mp.fdot(b, b)
    start = rr
    for _ in range(k):
        if rr <= start * mp.mpf(10) ** -100:
            break
        Ap = product(A, p)
        along = rr / mp.fdot(p, Ap)
        v = [a + along * c for a, c in zip(v, p, strict=True)]
        r = [a - along * c for a, c in zip(r, Ap, strict=True)]
        rr, before = mp.fdot(r, r), rr
        p = [a + rr / before * c for a, c in zip(r, p, strict=True)]
    return v
