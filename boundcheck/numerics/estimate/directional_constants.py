"""χ and ω of a gradient step: derivatives of the hypergradient by w, with v* and w' inserted before norms are taken.

For Φ = w − α∇₁ℓ let H = ∇²₁ℓ, C = ∇²₁₂ℓ, u = H⁻¹∇₁E and w' = −H⁻¹C at w*. The step cancels, as v* = u/α. χ bounds the
derivative by w of ∇₂E − Cᵀu + w'ᵀ(∇₁E − Hu). ω bounds the product of ‖N(C + Hw')‖ and ‖N(∇₁E − Hu)‖, each divided by
‖w − w*‖, with a matrix N for which H⁻¹ ⪯ N² on the ball. Both factors are 0 at w*, so means of derivatives along the
segment from w* to w are sufficient. Smaller balls bound the part of the segment near w*. docs/proofs.md, directional
constants.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.ball import Ball
from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.estimate.mean_contraction import shares_of
from boundcheck.numerics.estimate.program_at_point import Enclosed, slope_of, sum_of
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.program.cholesky_certificate import frobenius, gamma, largest_eigenvalue, spectral_norm
from boundcheck.numerics.program.enclosure.curvature_form import Curvature, weighted_sum
from boundcheck.numerics.program.enclosure.forms import Trilinear, trilinear_norm
from boundcheck.numerics.program.enclosure.intervals import UP, norm
from boundcheck.numerics.program.enclosure.part_moves import composed, contracted, mean_of, negative, rows_of
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.enclosure.value import LAM, W
from boundcheck.side import Side

CLOSE = 1e-3  # if the largest eigenvalue of I − N(H_lo)N is more, there is no certificate


@dataclass(frozen=True, eq=False)
class OnBall:
    """Bounds of derivatives on a ball around w*.

    `outer` and `outer_cross` are ∇²₁E and ∇²₁₂E; `hessian` is ∇²₁ℓ; `third` and `third_cross` are the third derivatives
    of ℓ by w three times, and by w twice and λ once.
    """

    radius: float
    outer: Curvature
    outer_cross: Curvature
    hessian: Curvature
    third: list[Trilinear]
    third_cross: list[Trilinear]
    notes: tuple[str, ...] = ()  # remarks of the enclosures, for the provenance of constants

    @classmethod
    @torch.no_grad()
    def of(cls, proof: ProgramProof, w: Tensor, radius: float, wider: float) -> OnBall:
        """Compute the bounds on the ball B(w*, radius), which is inside the ball B(w, wider) around a computed w."""
        lower, outer = proof.lower_bounds(w, wider), proof.outer_bounds(w, wider)
        assert isinstance(lower, ScalarBounds)
        d, n = proof.problem.d, proof.problem.n
        return cls(
            radius,
            _whole(outer.over.curvature((W, W)), d, d),
            _whole(outer.over.curvature((W, LAM)), d, n),
            _whole(lower.over.curvature((W, W)), d, d),
            [part for part in lower.over.third((W, W, W)) if _counts(part)],
            [part for part in lower.over.third((W, W, LAM)) if _counts(part)],
            tuple(lower.over.enclosures.notes | outer.over.enclosures.notes),
        )

    @property
    def finite(self) -> bool:
        """Whether every bound is finite."""
        matrices = (self.outer, self.outer_cross, self.hessian)
        parts = (*self.third, *self.third_cross)
        return (
            all(math.isfinite(M.slack) and bool((M.lo + M.up).isfinite().all()) for M in matrices)
            and all(math.isfinite(part.slack) and bool(part.c.size.isfinite().all()) for part in parts)
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Directions:
    """u = H⁻¹∇₁E and w' = −H⁻¹C at w*, each with a bound on its error."""

    u: Enclosed
    of_w: Enclosed

    @classmethod
    @torch.no_grad()
    def at(cls, proof: ProgramProof, w: Tensor, off: float, near: float) -> Directions | None:
        """Compute u and w' at w*, which is within `off` of w, with bounds on the ball of radius `near` around w."""
        point, E = proof.lower_bounds(w, 0.0), proof.outer_bounds(w, 0.0).over.output
        lower, outer = proof.lower_bounds(w, near), proof.outer_bounds(w, near)
        assert isinstance(point, ScalarBounds)
        assert isinstance(lower, ScalarBounds)
        d, n = proof.problem.d, proof.problem.n
        H = sum_of(point.over.curvature((W, W)), (d, d))
        C = sum_of(point.over.curvature((W, LAM)), (d, n))
        b = slope_of(E, W, d)
        least = lower.smallest
        if not (least > 0 and math.isfinite(H.off + C.off + b.off)):
            return None
        u, of_w = torch.linalg.solve(H.value, b.value), -torch.linalg.solve(H.value, C.value)
        if not bool(u.isfinite().all() and of_w.isfinite().all()):
            return None
        moved_u = off * (outer.hessian + lower.third * norm(u))
        moved_w = off * (lower.third_cross + lower.third * frobenius(of_w))
        return cls(
            Enclosed(u, (_residual(H, u[:, None], b.value[:, None], -1) + b.off + moved_u) / least * UP),
            Enclosed(of_w, (_residual(H, of_w, C.value, 1) + C.off + d**0.5 * moved_w) / least * UP),
        )


def _residual(H: Enclosed, x: Tensor, y: Tensor, sign: int) -> float:
    """Return an upper bound on ‖Hx + sign·y‖_F for the stored y."""
    rounding = gamma(len(x) + 3) * (frobenius(H.value) * frobenius(x) + frobenius(y))
    return (frobenius(H.value @ x + sign * y) + H.off * frobenius(x) + rounding) * UP


@torch.no_grad()
def constants_of(
    proof: ProgramProof, w: Tensor, off: float, balls: Sequence[OnBall], radii: Collection[float]
) -> list[Constant]:
    """Return χ and ω on the first ball and on the balls whose radii are in `radii`; no constants if they are unbounded.

    The other balls serve for the means between w* and the points of a ball.
    """
    if not balls or not balls[0].finite:
        return []
    directions = Directions.at(proof, w, off, balls[-1].radius + off)
    if directions is None:
        return []
    rows: dict[str, list[tuple[float, float]]] = {"chi": [], "omega": []}
    slips = _slips(balls[0], directions)
    for number, ball in enumerate(balls):
        if number and ball.radius not in radii:
            continue
        mean = _mean(balls[number:])
        inverse = _Inverse.of(ball.hessian)
        if inverse is None:
            break
        rows["chi"].append((ball.radius, _chi(mean, directions) + slips["chi"]))
        rows["omega"].append((ball.radius, _omega(mean, directions, inverse, slips)))
    constants = (_constant(name, table, balls[0]) for name, table in rows.items())
    return [constant for constant in constants if constant is not None]


HOW = {
    "chi": "‖D_w(∇₂E − ∇²₂₁ℓ u + w'ᵀ(∇₁E − ∇²₁ℓ u))‖, a mean on the way from w*",
    "omega": "‖(w'(w) − w')ᵀ(∇₁E − ∇²₁ℓ u)‖/‖w − w*‖²",
}


def _constant(name: str, table: list[tuple[float, float]], widest: OnBall) -> Constant | None:
    if not table or not all(math.isfinite(value) for _, value in table):
        return None
    (_, value), *rest = table
    on_smaller, before = [], value
    for radius, smaller in rest:
        if smaller < before:
            on_smaller.append((radius, smaller))
            before = smaller
    how = "; ".join((f"{HOW[name]} over the ball, from the program", *widest.notes))
    provenance = Provenance(how, "program", ball=Ball("w_star", widest.radius))
    return Constant(name, value, Side.UPPER, provenance, on_smaller=tuple(on_smaller))


@dataclass(frozen=True, eq=False)
class _Inverse:
    """A matrix N with H⁻¹ ⪯ N²/(1 − lost) on a ball."""

    N: Tensor
    lost: float

    @classmethod
    def of(cls, hessian: Curvature) -> _Inverse | None:
        d = len(hessian.lo)
        least = (hessian.lo + hessian.lo.T) / 2
        least = least - hessian.slack * UP * torch.eye(d, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(least)
        if not float(values[0]) > 0:
            return None
        N = (vectors / values.sqrt()) @ vectors.T
        N = (N + N.T) / 2  # the stored N is symmetric, so NLN = NᵀLN
        gap = torch.eye(d, dtype=torch.float64) - N @ least @ N
        sizes = frobenius(N) ** 2 * frobenius(least)
        asymmetry = frobenius(hessian.lo - hessian.lo.T) * frobenius(N) ** 2
        lost = largest_eigenvalue(gap) + (gamma(2 * d + 8) * (sizes + d) + asymmetry) * UP
        return cls(N, max(lost, 0.0)) if lost < CLOSE else None


def _chi(ball: OnBall, directions: Directions) -> float:
    """Return an upper bound on χ over a ball: the norm of a bilinear form of a direction in w and a direction in λ."""
    u, of_w = directions.u.value, directions.of_w.value
    middle, width = _halves(ball.outer)
    whole = rows_of(middle)
    parts = [rows_of(ball.outer_cross.lo), composed(whole, 1, of_w)]
    parts += [negative(contracted(part, u, 0)) for part in ball.third_cross]
    parts += [negative(composed(contracted(part, u, 2), 1, of_w)) for part in ball.third]
    return (trilinear_norm(parts) + ball.outer_cross.slack + _spread(width, of_w)) * UP


def _omega(ball: OnBall, directions: Directions, inverse: _Inverse, slips: dict[str, float]) -> float:
    """Return an upper bound on ‖N(C + Hw')‖‖N(∇₁E − Hu)‖/((1 − lost)‖w − w*‖²) over a ball."""
    N = inverse.N
    middle, width = _halves(ball.outer)
    of_N = spectral_norm(N)
    left = [composed(part, 0, N) for part in ball.third_cross]
    left += [composed(composed(part, 0, N), 2, directions.of_w.value) for part in ball.third]
    right = [composed(rows_of(middle), 0, N)]
    right += [negative(composed(contracted(part, directions.u.value, 2), 0, N)) for part in ball.third]
    first = trilinear_norm(left) + of_N * slips["of_w"]
    second = trilinear_norm(right) + _spread(width, N) + of_N * slips["u"]
    return first * second / (1 - inverse.lost) * UP


def _slips(ball: OnBall, directions: Directions) -> dict[str, float]:
    """Return what the errors of the computed u and w' add to χ and to the factors of ω, on the widest ball."""
    third, cross = trilinear_norm(ball.third), trilinear_norm(ball.third_cross)
    outer = max(spectral_norm(ball.outer.lo), spectral_norm(ball.outer.up)) + ball.outer.slack
    of_u, of_w = directions.u.off, directions.of_w.off
    size_w = frobenius(directions.of_w.value) + of_w
    chi = of_u * (cross + third * size_w) + of_w * (outer + third * norm(directions.u.value))
    return {"chi": chi * UP, "u": third * of_u * UP, "of_w": third * of_w * UP}


def _halves(part: Curvature) -> tuple[Tensor, Curvature]:
    """Return the midpoint of an interval of symmetric matrices and half its width, with a bound on the rounding."""
    middle, half = part.lo / 2 + part.up / 2, part.up / 2 - part.lo / 2
    middle = middle / 2 + middle.T / 2  # the asymmetric part is rounding, and does not affect the order of matrices
    slack = part.slack + gamma(4) * (frobenius(part.lo) + frobenius(part.up))
    return middle, Curvature(half, half, slack * UP)


def _spread(width: Curvature, M: Tensor) -> float:
    """Return an upper bound on ‖MᵀK‖ for every symmetric K between −width and width, by |xᵀKy|² ≤ xᵀDx·yᵀDy."""
    size, D = frobenius(M), width.lo
    rounding = gamma(2 * len(D) + 6) * size**2 * frobenius(D)
    one = max(largest_eigenvalue(M.T @ D @ M), 0.0) + rounding + width.slack * size**2
    return math.sqrt(one * (max(largest_eigenvalue(D), 0.0) + width.slack)) * UP


def _mean(balls: Sequence[OnBall]) -> OnBall:
    """Return bounds on the mean derivatives between w* and any point of the first ball.

    Third derivatives whose parts have different forms on the balls are bounded over the first ball alone.
    """
    shares = shares_of([ball.radius for ball in balls])
    first = balls[0]
    return OnBall(
        first.radius,
        weighted_sum([ball.outer for ball in balls], shares),
        weighted_sum([ball.outer_cross for ball in balls], shares),
        first.hessian,
        mean_of([ball.third for ball in balls], shares),
        mean_of([ball.third_cross for ball in balls], shares),
    )


def _whole(parts: list[Curvature], rows: int, columns: int) -> Curvature:
    if not parts:
        none = torch.zeros(rows, columns, dtype=torch.float64)
        return Curvature(none, none, 0.0)
    return weighted_sum(parts)


def _counts(part: Trilinear) -> bool:
    return bool(len(part.c.lo)) or part.slack != 0
