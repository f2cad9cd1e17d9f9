"""What a Lanczos run from a random start proves of an end of a spectrum (`docs/constants_spectral.md`).

Ritz values lie inside the spectrum, so they err on the unsafe side, and a small residual does not tell that the *last*
eigenvalue was found. A start drawn uniformly from the sphere does: with probability 1 − δ its overlap |v₁ᵀb| with the
eigenvector at the end is at least `least_overlap(n, δ)`, and then no eigenvalue can hide far from the Ritz values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.side import Side

STEP_ROUNDING = 4.0  # a step is taken to be off by ε‖A‖ in no particular direction: by this times ε‖A‖/√n along one
HALVINGS = 30  # of the logarithm of a bracket: its ends, apart by a factor of 4, come to agree to 1e-9


@dataclass(frozen=True)
class Extreme:
    """One end of a spectrum, or a norm."""

    value: float  # on the safe side if `side` is exact or high-probability, otherwise the estimate
    estimate: float  # the Ritz value, inside the spectrum
    side: Side  # EXACT: dense, to rounding; HIGH_PROBABILITY: with `delta`; LOWER: inside the spectrum, no certificate
    products: int  # with A; a JVP and a VJP count one each
    steps: int
    residual: float  # ‖Au − θu‖ of the Ritz pair
    slack: float  # value/estimate: what the certificate costs
    delta: float | None
    converged: bool  # the estimate has come to rest within rtol


@dataclass(frozen=True)
class Symmetric:
    """Both ends of the spectrum of a symmetric matrix, each with its own side and δ."""

    largest: Extreme
    smallest: Extreme

    @property
    def norm(self) -> Extreme:
        """‖A‖ = max(λmax, −λmin), which needs both certificates."""
        top, low = self.largest, self.smallest
        value, estimate = max(top.value, -low.value), max(top.estimate, -low.estimate)
        ends = (top, low)
        outer = max(ends, key=lambda end: abs(end.estimate))
        deltas = [end.delta for end in ends if end.delta is not None]
        return Extreme(
            value=value,
            estimate=estimate,
            side=weaker(top.side, low.side),
            products=top.products,
            steps=top.steps,
            residual=outer.residual,
            slack=ratio(value, estimate),
            delta=min(1.0, sum(deltas)) if deltas else None,
            converged=outer.converged,
        )


def weaker(*sides: Side) -> Side:
    """Of exact, high-probability and lower, the one that says least."""
    order = (Side.LOWER, Side.HIGH_PROBABILITY, Side.EXACT)
    return next(side for side in order if side in sides)


def ratio(value: float, estimate: float) -> float:
    return value / estimate if estimate else (1.0 if value == 0 else math.inf)


def least_overlap(n: int, delta: float) -> float:
    """t with P(|v₁ᵀb| < t) ≤ δ for b uniform on the sphere of Rⁿ and a fixed unit vector v₁."""
    if n < 1:
        raise InputError(f"n = {n} is not a dimension; give an operator on at least one unknown")
    if not 0 < delta < 1:
        raise InputError(f"delta = {delta} is not a failure probability; give 0 < delta < 1, such as 1e-3")
    if n == 1:
        return 1.0
    if n == 2:
        return math.sin(math.pi * delta / 2)
    return delta / math.sqrt(2 * (n - 1) / math.pi)  # the density of v₁ᵀb is largest at 0 from n = 3 on


class Slack(NamedTuple):
    """λmax ≤ cosh2 · θ if A ⪰ 0, and λmin ≥ θ − sinh2 · (λmax − θ), for the extreme Ritz values θ."""

    cosh2: float
    sinh2: float


def slack(n: int, k: int, delta: float) -> Slack:
    """What k products certify at worst, whatever the spectrum: cosh² a and sinh² a, a = arccosh(1/t)/(2k − 1)."""
    if k < 1:
        raise InputError(f"k = {k} products tell nothing; give k ≥ 1")
    a = math.acosh(1 / least_overlap(n, delta)) / (2 * k - 1)
    if a > 300:  # cosh² would overflow
        return Slack(math.inf, math.inf)
    return Slack(math.cosh(a) ** 2, math.sinh(a) ** 2)


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """T of k Lanczos steps, on the host: its diagonal, β₁…β_k (β_k couples to the rest), Ritz values and vectors.

    Always in double precision: the matrix is small, and the question is sensitive to rounding.
    """

    diagonal: tuple[float, ...]
    beta: tuple[float, ...]
    theta: Tensor  # ascending
    S: Tensor  # columns: eigenvectors of T
    n: int
    eps: float  # of the arithmetic that made it

    @classmethod
    def of(cls, diagonal: tuple[float, ...], beta: tuple[float, ...], n: int, eps: float) -> Tridiagonal:
        a, b = (torch.tensor(x, dtype=torch.float64, device="cpu") for x in (diagonal, beta[:-1]))
        theta, S = torch.linalg.eigh(torch.diag(a) + torch.diag(b, 1) + torch.diag(b, -1))
        return cls(diagonal, beta, theta, S, n, eps)

    @property
    def k(self) -> int:
        return len(self.diagonal)

    @property
    def scale(self) -> float:
        """‖A‖ as far as it is known."""
        return max(float(self.theta.abs().max()), *self.beta)

    @property
    def noise(self) -> float:
        """Changes of a Ritz value below this are rounding."""
        return 2 * self.eps * self.scale

    @property
    def negative(self) -> Tridiagonal:
        """The same of −A."""
        diagonal = tuple(-a for a in self.diagonal)
        return replace(self, diagonal=diagonal, theta=-self.theta.flip(0), S=self.S.flip(1))

    @property
    def residual(self) -> float:
        """‖Au − θu‖ of the largest Ritz pair."""
        return self.beta[-1] * abs(float(self.S[-1, -1]))

    def upper_end(self, t: float) -> float:
        """λmax is at most this if |v₁ᵀb| ≥ t, whatever the signs of the eigenvalues: the largest x not excluded."""
        scale = self.scale
        if scale == 0:
            return 0.0
        theta, diagonal, beta = (
            [x / scale for x in values] for values in (self.theta.tolist(), self.diagonal, self.beta)
        )
        first, top = self.S[0].tolist(), theta[-1]
        margin = STEP_ROUNDING * self.eps * math.sqrt(self.k)
        eta = margin / math.sqrt(self.n)

        def possible(gap: float) -> bool:
            """Could λmax = θ + gap have left so little in T? Less and less so as the gap grows."""
            rounding = eta * math.hypot(*(s / (top - x + gap) for s, x in zip(first, theta, strict=True)))
            return (1 + eta / gap) * math.exp(-log_growth(diagonal, beta, top + gap)) + rounding >= t

        low = high = self.eps
        while possible(high):
            low, high = high, 4 * high
        for _ in range(HALVINGS if high > low else 0):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if possible(middle) else (low, middle)
        return scale * (top + high + margin)


def log_growth(diagonal: Sequence[float], beta: Sequence[float], x: float) -> float:
    """½ log Σ p_j(x)², j = 0…k, for the polynomials q_{j+1} = p_j(A)b, through p_j/p_{j−1} = d_j/β_j.

    The d_j are the pivots of xI − T, so they are positive to the right of its eigenvalues.
    """
    log_p, total, pivot, before = 0.0, 1.0, math.inf, 0.0  # total = Σ (p_i/p_j)²
    for a, b in zip(diagonal, beta, strict=True):
        pivot = x - a - before * (before / pivot)
        if pivot <= 0:  # x is an eigenvalue of T to rounding: nothing is excluded
            return -math.inf
        if b == 0:
            return math.inf
        growth = pivot / b
        log_p += math.log(growth)
        total = 1 + total / growth**2 if growth > 1e-100 else math.inf
        before = b
    return log_p + 0.5 * math.log(total)
