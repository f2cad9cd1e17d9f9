"""Values that a constant certainly reaches on its ball, from points that the generator knows to be bad.

On the ball ‖w − centre‖ ≤ R of a statement (centre 0 and R = 2D, or w* and r_0): every norm at one point is at most a
supremum, and every ‖F(w) − F(w*)‖/‖w − w*‖ at most a Lipschitz constant. μ and μ_λ are infima, so a value at one point
is at least them. Constants at w* are known in full. `theory.md`'s definitions, with Y = ∂₁Φ and Z = ∂₂Φ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from .case import Case
from .exact import Matrix, Vector, minus, mp, norm, spectral_norm, transpose

AT_W_STAR = ("q_star", "L_Phi_star", "W", "g_star", "D", "r_0")
SUPREMA = ("q", "L_Phi", "L_E", "nu_1", "nu_2", "eta_1", "eta_2", "kappa", "L")
INFIMA = ("mu", "mu_inv")  # for these the safe side is below
POINTS = 8  # a ball; 4 in many dimensions
ASIDE = 1e-7  # of the scale: from a kink, where there is no derivative
NOISE = 1e-28  # relative: what differences of 70 digits leave
UNITS = 100  # of rounding in which "exact" is right
SHAKE = 16  # ε‖w*‖ by which a computed w* is off, before the condition number


SLOPES = {"nu_1": "d1phi", "nu_2": "d2phi", "eta_1": "d1outer", "eta_2": "d2outer"}  # Lipschitz constants of these


@dataclass(frozen=True)
class Region:
    """A ball in w."""

    centre: Vector
    radius: Any

    def has(self, w: Vector) -> bool:
        return bool(norm(minus(w, self.centre)) <= self.radius * (1 - mp.mpf(10) ** -12))


@dataclass(frozen=True, eq=False)
class Witnesses:
    """What is known of the constants of one case; everything is computed when first asked for."""

    case: Case
    _seen: dict[Any, Matrix] = field(default_factory=dict)
    _norms: dict[Any, float] = field(default_factory=dict)

    def derivative(self, name: str, w: Vector) -> Matrix:
        """∂₁Φ, ∂₂Φ, or ∇₁E and ∇₂E as columns, at w; each computed once."""
        key = (name, *w)
        if key not in self._seen:
            value = getattr(self.case.exact, name)(w)
            self._seen[key] = value if name.endswith("phi") else transpose([value])
        return self._seen[key]

    def region(self, ball: str, given: Any) -> Region:
        """The ball that a statement names, or the true one: ‖w‖ ≤ 2‖w*‖, or ‖w − w*‖ ≤ ‖w_0 − w*‖."""
        exact = self.case.exact
        around_zero = ball == "paper" if given is None else given.centre == "0"
        if around_zero:
            radius = 2 * norm(exact.w_star) if given is None else mp.mpf(given.radius)
            return Region([mp.mpf(0)] * len(exact.w0), radius)
        radius = norm(minus(exact.w0, exact.w_star)) if given is None else mp.mpf(given.radius)
        return Region(exact.w_star, radius)

    def points(self, region: Region) -> list[Vector]:
        """The bad points inside, the start, and the ends of the line through the centre and w*, each a little aside."""
        exact, case = self.case.exact, self.case
        aside = mp.mpf(ASIDE) * mp.mpf(case.w_scale)
        towards = minus(exact.w0, exact.w_star) if region.centre == exact.w_star else exact.w_star
        far = norm(towards)
        ends = []
        if far > 0:
            for part in (0.99, -0.99, 0.5, -0.5):
                size = mp.mpf(part) * region.radius / far
                ends.append([c + size * x for c, x in zip(region.centre, towards, strict=True)])
        bad = [[mp.mpf(x) + aside for x in point] for point in case.bad]
        return [w for w in (*bad, *ends) if region.has(w)][: POINTS if case.d <= 4 else POINTS // 2]

    def _system(self, w: Vector) -> Matrix:
        """I − Y."""
        return self.case.exact._identity_minus(self.derivative("d1phi", w))

    def _inverse(self, w: Vector) -> float:
        """‖(I − Y)⁻¹‖, computed once; ZeroDivisionError where there is none."""
        key = ("inverse", *w)
        if key not in self._norms:
            self._norms[key] = spectral_norm(_inverse(self._system(w)))
        return self._norms[key]

    @cached_property
    def gain(self) -> float:
        """(1 + ‖Y‖)·‖(I − Y)⁻¹‖ at w*, by which rounding in Φ moves w* and w'."""
        try:
            inverse = self._inverse(self.case.exact.w_star)
        except ZeroDivisionError:
            return float("inf")
        return (1 + self.at("q", self.case.exact.w_star)) * inverse

    def at(self, name: str, w: Vector) -> float:
        """The constant `name`, were the ball the point w alone."""
        if name in SLOPES:
            return self._slope(SLOPES[name], w)
        value: dict[str, Callable[[], Any]] = {
            "q": lambda: spectral_norm(self.derivative("d1phi", w)),
            "L_Phi": lambda: spectral_norm(self.derivative("d2phi", w)),
            "L_E": lambda: spectral_norm(self.derivative("d1outer", w)),
            "kappa": lambda: spectral_norm(self._system(w)) * self._inverse(w),
            "mu_inv": lambda: 1 / self._inverse(w),
            "L": lambda: self._eigenvalues(w)[-1],
            "mu": lambda: self._eigenvalues(w)[0],
        }
        return float(value[name]())

    def _slope(self, name: str, w: Vector) -> float:
        """‖F(w) − F(w*)‖/‖w − w*‖."""
        apart = norm(minus(w, self.case.exact.w_star))
        if not apart:
            return 0.0
        here, there = self.derivative(name, w), self.derivative(name, self.case.exact.w_star)
        change = spectral_norm([minus(a, b) for a, b in zip(here, there, strict=True)])
        return change / float(apart) if change > NOISE * (spectral_norm(here) + spectral_norm(there)) else 0.0

    def _eigenvalues(self, w: Vector) -> Any:
        """Of ∇²₁ℓ = (I − Y)/α, in order."""
        A = self._system(w)
        return [x / self.case.alpha for x in mp.eigsy(mp.matrix(A), eigvals_only=True)]

    def known(self, name: str) -> float:
        """The value of a constant at w*."""
        exact = self.case.exact
        value: dict[str, Callable[[], Any]] = {
            "q_star": lambda: self.at("q", exact.w_star),
            "L_Phi_star": lambda: self.at("L_Phi", exact.w_star),
            "g_star": lambda: self.at("L_E", exact.w_star),
            "W": lambda: spectral_norm(exact.w_prime),
            "D": lambda: norm(exact.w_star),
            "r_0": lambda: norm(minus(exact.w0, exact.w_star)),
        }
        return float(value[name]())

    def rounding(self, name: str) -> float:
        """How much a value at a computed w* may be off where it is called exact: rounding moves w* by κε‖w*‖."""
        exact, case = self.case.exact, self.case
        shift = SHAKE * case.eps * self.gain * max(float(norm(exact.w_star)), 1e-3 * case.w_scale)
        moved = [x + mp.mpf(shift) for x in exact.w_star]
        if name in SLOPES:  # ε‖F‖ over the radius is rounding of F
            size = spectral_norm(self.derivative(SLOPES[name], exact.w_star))
            return 4 * case.eps * size / max(float(norm(minus(exact.w0, exact.w_star))), 1e-3 * case.w_scale)
        function = {"q_star": "q", "L_Phi_star": "L_Phi", "g_star": "L_E", "q": "q", "L_Phi": "L_Phi"}.get(name)
        more = 0.0
        if function is not None:
            more = abs(self.at(function, moved) - self.at(function, exact.w_star))
        scale = 1.0 if name in ("q", "q_star") else 0.0
        size = self.known(name) if name in AT_W_STAR else 0.0
        factor = self.gain if name in ("W", "D", "r_0") else 1.0
        return UNITS * case.eps * (scale + factor * size) + 10 * more


def _inverse(A: Matrix) -> Matrix:
    if len(A) == 1:
        return [[1 / A[0][0]]]
    inverse: Matrix = (mp.matrix(A) ** -1).tolist()
    return inverse


def least(witnesses: Witnesses, name: str, ball: str, given: Any) -> float | None:
    """A value that the supremum `name` reaches on the ball, or that the infimum does not exceed; None if unknown."""
    if name in AT_W_STAR:
        return witnesses.known(name)
    if name not in SUPREMA + INFIMA or (name in ("mu", "L") and witnesses.case.alpha is None):
        return None
    region = witnesses.region(ball, given)
    exact = witnesses.case.exact
    every = [exact.w_star, *witnesses.points(region)]
    found = []
    for w in every:
        try:
            found.append(witnesses.at(name, w))
        except ZeroDivisionError:  # I − Y is singular
            found.append(0.0 if name in INFIMA else float("inf"))
    return min(found) if name in INFIMA else max(found)


@lru_cache(maxsize=1)
def witnesses_of(case: Case) -> Witnesses:
    """Those of the case at hand; cases are compared by identity."""
    return Witnesses(case)
