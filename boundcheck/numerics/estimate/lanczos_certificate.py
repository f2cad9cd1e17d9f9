"""Bounds on the ends of a spectrum from a Lanczos run with a random start (`docs/constants_spectral.md`).

Ritz values are inside the spectrum, so they err on the unsafe side, and a small residual does not prove that the *last*
eigenvalue was found. A start that is uniform on the sphere does: with probability 1 − δ, its overlap |v₁ᵀb| with the
eigenvector at the end is at least `least_overlap(n, δ)`, and then no eigenvalue is far from the Ritz values.
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

# The model of rounding: a step has an error of ε‖A‖ in a random direction, at most this times ε‖A‖/√n along any one.
STEP_ROUNDING = 4.0
HALVINGS = 30  # of the logarithm of a bracket whose ends differ by a factor of 4: they then agree to 1e-9


@dataclass(frozen=True)
class Extreme:
    """One end of a spectrum, or a norm."""

    value: float  # on the safe side if `side` is exact or high-probability, otherwise the estimate
    estimate: float  # the Ritz value, inside the spectrum
    side: Side  # EXACT: dense, up to rounding; HIGH_PROBABILITY: with `delta`; LOWER: no certificate
    products: int  # number of products with A; a JVP and a VJP count one each
    steps: int
    residual: float  # ‖Au − θu‖ of the Ritz pair
    slack: float  # value/estimate, the price of the certificate
    delta: float | None
    converged: bool  # whether the estimate has converged to rtol


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
    """Return the weakest of several sides, among exact, high-probability and lower."""
    order = (Side.LOWER, Side.HIGH_PROBABILITY, Side.EXACT)
    return next(side for side in order if side in sides)


def ratio(value: float, estimate: float) -> float:
    return value / estimate if estimate else (1.0 if value == 0 else math.inf)


def least_overlap(n: int, delta: float) -> float:
    """Return a t with P(|v₁ᵀb| < t) ≤ δ, for b uniform on the sphere of Rⁿ and a fixed unit vector v₁."""
    if n < 1:
        raise InputError(f"n = {n} is not a dimension; give an operator on at least one unknown")
    if not 0 < delta < 1:
        raise InputError(f"delta = {delta} is not a failure probability; give 0 < delta < 1, such as 1e-3")
    if n == 1:
        return 1.0
    if n == 2:
        return math.sin(math.pi * delta / 2)
    return delta / math.sqrt(2 * (n - 1) / math.pi)  # for n ≥ 3, the density of v₁ᵀb is largest at 0


class Slack(NamedTuple):
    """λmax ≤ cosh2 · θ if A ⪰ 0, and λmin ≥ θ − sinh2 · (λmax − θ), for the extreme Ritz values θ."""

    cosh2: float
    sinh2: float


def slack(n: int, k: int, delta: float) -> Slack:
    """Return the certificate of k products for the worst spectrum: cosh² a and sinh² a, a = arccosh(1/t)/(2k − 1)."""
    if k < 1:
        raise InputError(f"k = {k} products tell nothing; give k ≥ 1")
    a = math.acosh(1 / least_overlap(n, delta)) / (2 * k - 1)
    if a > 300:  # cosh² would overflow
        return Slack(math.inf, math.inf)
    return Slack(math.cosh(a) ** 2, math.sinh(a) ** 2)


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """The matrix T of k Lanczos steps: its diagonal, β₁…β_k (β_k couples T to the rest), Ritz values and vectors.

    It is on the CPU and in double precision, because the matrix is small and the certificate is sensitive to rounding.
    """

    diagonal: tuple[float, ...]
    beta: tuple[float, ...]
    theta: Tensor  # ascending
    S: Tensor  # columns: eigenvectors of T
    n: int
    eps: float  # ε of the arithmetic of the Lanczos run

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
        """An estimate of ‖A‖."""
        return max(float(self.theta.abs().max()), *self.beta)

    @property
    def noise(self) -> float:
        """The size of rounding in a Ritz value."""
        return 2 * self.eps * self.scale

    @property
    def negative(self) -> Tridiagonal:
        """The T of the same run for −A."""
        diagonal = tuple(-a for a in self.diagonal)
        return replace(self, diagonal=diagonal, theta=-self.theta.flip(0), S=self.S.flip(1))

    @property
    def residual(self) -> float:
        """‖Au − θu‖ of the largest Ritz pair."""
        return self.beta[-1] * abs(float(self.S[-1, -1]))

    def upper_end(self, t: float) -> float:
        """Return an upper bound on λmax that holds if |v₁ᵀb| ≥ t, for eigenvalues of any sign."""
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
            """Return whether T does not exclude λmax = θ + gap. The larger the gap, the sooner it is excluded."""
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
    """Return ½ log Σ p_j(x)², j = 0…k, for the polynomials q_{j+1} = p_j(A)b, from p_j/p_{j−1} = d_j/β_j.

    The d_j are the pivots of xI − T, so they are positive if x is larger than all eigenvalues of T.
    """
    log_p, total, pivot, before = 0.0, 1.0, math.inf, 0.0  # total = Σ (p_i/p_j)²
    for a, b in zip(diagonal, beta, strict=True):
        pivot = x - a - before * (before / pivot)
        if pivot <= 0:  # up to rounding, x is an eigenvalue of T, so it is not excluded
            return -math.inf
        if b == 0:
            return math.inf
        growth = pivot / b
        log_p += math.log(growth)
        total = 1 + total / growth**2 if growth > 1e-100 else math.inf
        before = b
    return log_p + 0.5 * math.log(total)
