"""Bounds of the derivatives of a separable program over a ball, from products with its linear maps.

For f = Σ_i a_i ψ(u_i) φ(z_i) and z = Fw + b, ∇²₁f = Fᵀ diag(aψφ'') F, and D³f(x, y, z) is at most
Σ_i |aψφ'''| ‖F_i‖ |F_i x||F_i y|‖z‖. For log-sum-exp of a row of z, φ'' is a matrix between 0 and ½, and ‖φ'''‖ is
at most √6/9. So the bounds need only largest eigenvalues of matrices Σ_k F_kᵀ diag(h_k) F_k with h ≥ 0. They are proved
if F ≥ 0, and otherwise certified by random starts with probability 1 − δ (docs/proofs.md#program-separable).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.estimate import lanczos
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.separable_piece import LOOSE, Piece, piece_of
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, norm
from boundcheck.numerics.program.enclosure.log_sum_exp import S3
from boundcheck.numerics.program.recorded_program import Program
from boundcheck.numerics.program.rounding_rules.ball import gamma
from boundcheck.numerics.program.separable.affine import Affine
from boundcheck.numerics.program.separable.recogniser import recognise

ROUNDS = 30  # steps of the power method
CERTIFICATES = 8  # each certificate by a random start may fail with probability δ divided by this
STEPS = 300  # the most steps of Lanczos
Weighted = tuple[Affine, Tensor]  # Fᵀ diag(h) F with h ≥ 0


class SeparableBounds:
    """Bounds over the ball of radius `radius` around `centre`, with the same names as in `ScalarBounds`.

    `delta` is an upper bound on the probability that one of the bounds computed so far is false.
    """

    def __init__(self, program: Program, centre: Tensor, lam: Tensor, radius: float, spend: Spend) -> None:
        self.radius, self.delta = radius, 0.0
        self._centre, self._lam = (x.detach().to(device="cpu", dtype=torch.float64) for x in (centre, lam))
        self._spend, self._runs = spend, 0
        self.notes: dict[str, None] = {}
        mix = recognise(program, len(self._centre), len(self._lam), centre.dtype)
        with torch.no_grad():
            self._pieces = [
                piece_of(part, self._centre, self._lam, radius, self.notes)
                for part in mix.parts
                if part.phi is not None
            ]

    def _curvature(self, piece: Piece) -> Interval:
        """Return the range of aψφ'' for each entry of z; for a group of entries, the range of its eigenvalues."""
        if piece.soft:
            half = Interval(0.5 * piece.weight.lo.clamp(max=0), 0.5 * piece.weight.hi.clamp(min=0))
            return half.map(piece.per_entry)
        return piece.weight * piece.jet[2]

    @cached_property
    def smallest(self) -> float:
        """Lower bound on the eigenvalues of ∇²₁f: the least diagonal sum minus a bound on the other negative parts."""
        diagonal = torch.zeros_like(self._centre)
        size = torch.zeros_like(self._centre)
        below: list[Weighted] = []
        terms = 0
        for piece in self._pieces:
            lo = self._curvature(piece).lo
            if piece.selects:
                part = piece.z.scale**2 * lo
                diagonal.index_add_(0, piece.z.select.reshape(-1), part.reshape(-1))
                size.index_add_(0, piece.z.select.reshape(-1), part.abs().reshape(-1))
                terms += part.numel()
            elif bool((lo < 0).any()):
                below.append((piece.z, (-lo).clamp(min=0)))
        low = float((diagonal - (gamma(min(terms, 10**6) + 8) + 1e-12) * size).min())
        least = low - self._top(below)
        return -math.inf if math.isnan(least) else least

    @cached_property
    def largest(self) -> float:
        """Upper bound on the eigenvalues of ∇²₁f."""
        return self._top([(piece.z, self._curvature(piece).hi.clamp(min=0)) for piece in self._pieces])

    @property
    def hessian(self) -> float:
        """Upper bound on ‖∇²₁f‖."""
        return max(abs(self.smallest), abs(self.largest))

    @cached_property
    def third(self) -> float:
        """Upper bound on ‖D³f‖ by w."""
        return self._top([(piece.z, self._third(piece)) for piece in self._pieces])

    def _third(self, piece: Piece) -> Tensor:
        if piece.soft:
            return piece.per_entry(S3 * piece.weight.size * piece.z.block_norms * LOOSE)
        return _product((piece.weight * piece.jet[3]).size, piece.z.row_norms)

    @cached_property
    def third_cross(self) -> float:
        """Upper bound on the norm of D³f by w twice and λ once, because |u_λ| ≤ ‖u‖."""
        weighted = []
        for piece in self._pieces:
            if len(piece.slope):
                size = piece.along(piece.slope)
                bend = 0.5 * size if piece.soft else _product(size, piece.jet[2].size.reshape(-1))
                weighted.append((piece.z, piece.per_entry(bend)))
        return self._top(weighted)

    @cached_property
    def cross(self) -> float:
        """Upper bound on ‖∇²₁₂f‖."""
        return math.fsum(self._cross(piece) for piece in self._pieces if len(piece.slope)) * LOOSE

    def _cross(self, piece: Piece) -> float:
        """Return a bound on the part M of ∇²₁₂f from one piece.

        M has one column for each entry of λ. If no entry of z or group appears in more than K terms, then
        ‖M‖² ≤ K max ‖column‖².
        """
        if not bool(piece.slope.isfinite().all()):
            return math.inf
        entry = piece.z.select.reshape(-1)[piece.i] if piece.selects else piece.i
        K = int(torch.bincount(entry).max())
        if piece.selects:
            scale = piece.z.scale.abs().reshape(-1)[piece.i]
            first = piece.at[1].size.reshape(-1)[piece.i] * scale * piece.slope
            move = _product(piece.jet[2].size.reshape(-1)[piece.i], scale**2 * piece.slope)
            column = self._columns(first, piece.lam)
            largest = torch.zeros_like(self._lam).scatter_reduce(0, piece.lam, move, "amax")
            column = column + (self.radius * largest * math.sqrt(K) if self.radius else 0.0)
            return math.sqrt(K) * float(column.max()) * LOOSE
        size = torch.ones_like(piece.slope) if piece.soft else piece.jet[1].size.reshape(-1)[piece.i]
        column = self._columns(size * piece.slope, piece.lam)
        return math.sqrt(K) * float(column.max()) * self._norm(piece) * LOOSE

    def _columns(self, values: Tensor, lam: Tensor) -> Tensor:
        squares = torch.zeros_like(self._lam).index_add(0, lam, values**2)
        return squares.sqrt() * (1 + gamma(len(values) + 4)) * LOOSE

    def _norm(self, piece: Piece) -> float:
        """Return an upper bound on ‖F‖."""
        return math.sqrt(self._top([(piece.z, torch.ones(piece.z.shape, dtype=torch.float64))])) * UP

    @cached_property
    def gradient(self) -> float:
        """Upper bound on ‖∇₁f‖, from the gradient at the centre and the Hessian, or from the range of each part."""
        from_centre = self.gradient_at_centre
        if not self.radius:
            return from_centre
        from_centre += self.radius * self.hessian * UP
        constant_slope = [piece for piece in self._pieces if not piece.soft and bool((piece.jet[2].size == 0).all())]
        variable_slope = [piece for piece in self._pieces if not any(piece is x for x in constant_slope)]
        direct = self._gradient_of(constant_slope)
        for piece in variable_slope:
            size = piece.weight.size if piece.soft else (piece.weight * piece.jet[1]).size  # ‖softmax‖ ≤ 1
            direct += norm(size) * self._norm(piece) if bool(size.isfinite().all()) else math.inf
        best = min(direct * UP, from_centre)
        return math.inf if math.isnan(best) else best

    @cached_property
    def gradient_at_centre(self) -> float:
        """Upper bound on ‖∇₁f‖ at the centre."""
        return self._gradient_of(self._pieces)

    def _gradient_of(self, pieces: Sequence[Piece]) -> float:
        middle, off = torch.zeros_like(self._centre), torch.zeros_like(self._centre)
        for piece in pieces:
            adjoint = piece.weight.map(piece.per_entry) * piece.at[1]
            middle = middle + piece.z.transposed(adjoint.mid)
            loss = gamma(piece.z.terms + len(pieces) + 8) + 1e-12
            off = off + piece.z.absolute.transposed(adjoint.rad + loss * adjoint.mid.abs()) * LOOSE
        return (norm(middle) + norm(off)) * UP

    def _top(self, weighted: Sequence[Weighted]) -> float:
        """Return an upper bound on the largest eigenvalue of Σ Fᵀ diag(h) F for h ≥ 0."""
        if not all(bool(h.isfinite().all()) for _, h in weighted):
            return math.inf
        diagonal, dense = torch.zeros_like(self._centre), []
        for z, h in weighted:
            if z.X is None:
                part = (z.scale**2 * h).reshape(-1)
                diagonal.index_add_(0, z.select.reshape(-1), part * (1 + gamma(part.numel() + 4)) * LOOSE)
            else:
                dense.append((z, h))
        if not dense:
            return float(diagonal.max()) * (1 + gamma(len(weighted) + 4)) if len(diagonal) else 0.0
        positive = [(z.absolute, h) for z, h in dense]
        terms = 2 * max(z.terms for z, _ in dense) + len(dense) + 16
        bound = _perron(lambda v: _times(diagonal, positive, v), len(diagonal)) * (1 + 4 * gamma(terms)) * LOOSE
        if all(z.nonnegative for z, _ in dense):
            return bound
        return min(bound, self._by_random_start(lambda v: _times(diagonal, dense, v)))

    def _by_random_start(self, product: Callable[[Tensor], Tensor]) -> float:
        delta = self._spend.delta / CERTIFICATES
        generator = torch.Generator().manual_seed(self._spend.seed + self._runs)
        self._runs += 1
        largest = lanczos.lanczos(
            product, len(self._centre), delta=delta, most=self._spend.steps(STEPS), want="largest", generator=generator
        ).largest
        self.delta += delta
        return largest.value


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return a product of sizes, with 0 times infinity as 0."""
    product = a * b
    return torch.where((a == 0) | (b == 0), torch.zeros_like(product), product) * LOOSE


def _times(diagonal: Tensor, weighted: Sequence[Weighted], v: Tensor) -> Tensor:
    result = diagonal * v
    for z, h in weighted:
        result = result + z.transposed(h * z.times(v))
    return result


def _perron(product: Callable[[Tensor], Tensor], size: int) -> float:
    """Return an upper bound on the largest eigenvalue of a matrix M ≥ 0.

    The bound is max_i (Mv)_i/v_i, which holds for every v > 0 (Collatz and Wielandt).
    """
    v, least = torch.ones(size, dtype=torch.float64), math.inf
    for _ in range(ROUNDS):
        Mv = product(v)
        top = float(Mv.max())
        if not top > 0:
            return max(top, 0.0)
        least = min(least, float((Mv / v).max()))
        v = (Mv / top).clamp(min=1e-30)
    return least
