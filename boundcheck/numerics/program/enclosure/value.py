"""Enclosures of one tensor of a program and its derivatives, for every w of a ball and one λ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from boundcheck.numerics.program.cholesky_certificate import spectral_norm
from boundcheck.numerics.program.enclosure.forms import Trilinear, block_norms, trilinear_norm
from boundcheck.numerics.program.enclosure.intervals import UP, Interval, around, norm, row_norms
from boundcheck.numerics.program.enclosure.sparse_derivative import LARGE, Sparse, unit
from boundcheck.numerics.program.rounding_rules.ball import gamma

if TYPE_CHECKING:
    from boundcheck.numerics.program.enclosure.chain import Chain
    from boundcheck.numerics.program.enclosure.curvature_form import Curvature

W, LAM = "w", "lam"  # the two inputs
SLOTS = (W, LAM)
MOST_NUMBERS = 60_000_000  # largest number of numbers in all derivatives together: half a gigabyte
Pair = tuple[str, str]
Triple = tuple[str, str, str]
PAIRS: tuple[Pair, ...] = ((W, W), (W, LAM))


def pairs_of(slots: Triple) -> Iterator[tuple[Pair, tuple[int, int, int]]]:
    """Yield each choice of two of three inputs for a second derivative, with the places of the pair and the third."""
    for third in range(3):
        first, second = (i for i in range(3) if i != third)
        for places in ((first, second, third), (second, first, third)):
            pair = slots[places[0]], slots[places[1]]
            if pair in PAIRS:
                yield pair, places
                break


@dataclass(frozen=True, eq=False)
class Slope:
    """The derivative J of a tensor x by one input z of length k.

    Attributes
    ----------
    held : Tensor or Sparse
        J at the centre, as computed. `F` is the same, as a tensor of shape (k, *x.shape).
    slip : Tensor of the shape of x
        Upper bound of ‖F_i − J_i(centre)‖, for every entry i of x.
    rows : Tensor of the shape of x
        Upper bound of ‖F_i − J_i(w)‖, for every w of the ball.
    """

    held: Tensor | Sparse
    slip: Tensor
    rows: Tensor

    @cached_property
    def F(self) -> Tensor:
        """J at the centre as a dense tensor."""
        return self.held.formed() if isinstance(self.held, Sparse) else self.held

    @property
    def k(self) -> int:
        """The length of the input."""
        return self.held.k if isinstance(self.held, Sparse) else self.held.shape[0]

    @property
    def numbers(self) -> int:
        """The number of stored numbers."""
        return int(self.held.rows.nnz) if isinstance(self.held, Sparse) else self.held.numel()

    def with_rows(self, rows: Tensor) -> Slope:
        """The same with other bounds over the ball; what is known of F stays known."""
        slope = Slope(self.held, self.slip, rows)
        vars(slope).update((name, vars(self)[name]) for name in ("F", "norms", "norm", "matrix") if name in vars(self))
        return slope

    @cached_property
    def norms(self) -> Tensor:
        """Upper bounds of ‖F_i‖."""
        return self.held.row_norms() if isinstance(self.held, Sparse) else row_norms(self.held)

    @cached_property
    def norm(self) -> float:
        """Upper bound of ‖F‖, as a matrix."""
        return self.held.norm() if isinstance(self.held, Sparse) else spectral_norm(self.matrix)

    def weighted_norm(self, s: Tensor) -> float:
        """Return an upper bound of ‖diag(s)F‖, for a vector s with one number per row; infinite if s is not finite."""
        if not bool(s.isfinite().all()):
            return math.inf
        return self.held.scaled(s).norm() if isinstance(self.held, Sparse) else spectral_norm(s[:, None] * self.matrix)

    @cached_property
    def reach(self) -> Tensor:
        """Upper bounds of ‖J_i(w)‖ for every w of the ball."""
        return (self.norms + self.rows) * UP

    @cached_property
    def matrix(self) -> Tensor:
        """F as a matrix with a row for each entry of x."""
        return self.F.reshape(self.F.shape[0], -1).T


@dataclass(frozen=True, eq=False)
class Term:
    """Σ_g M_g c_g T_g(A_g a, B_g b) with ‖T_g‖ ≤ 1, a part of the second derivative of x.

    A has shape (G, rows, k₁) and B has shape (G, rows, k₂). With one row, T_g is the product of two numbers. M has
    shape (G, *x.shape); None means the identity, in which block g is added to entry g.
    """

    c: Interval  # shape (G,)
    A: Tensor
    B: Tensor
    M: Tensor | None = None

    def matrix(self, shape: torch.Size) -> Tensor:
        """Return M as a tensor, also if it is the identity."""
        count = len(self.c.lo)
        return torch.eye(count, dtype=torch.float64).reshape(count, *shape) if self.M is None else self.M

    def sizes(self, shape: torch.Size) -> Tensor:
        """Return an upper bound of Σ_g |M_gi| |c_g| ‖A_g‖ ‖B_g‖, for every entry i of x."""
        c = self.c.size * block_norms(self.A) * block_norms(self.B) * UP
        if self.M is None:
            return c.reshape(shape)
        sizes: Tensor = torch.tensordot(c, self.M.abs(), 1) * (UP + rounding(len(c)))
        return sizes


@dataclass(frozen=True, eq=False)
class Bend:
    """The second derivative D²x of x by two inputs: the sum of its terms and a rest.

    Attributes
    ----------
    terms : tuple of Term
        The parts that have this form.
    rest : Tensor of the shape of x
        Upper bound of the norm of the rest of D²x_i, for every entry i.
    rest_norm : float
        Upper bound of the norm of the rest of D²x as a whole.
    most : float
        Upper bound of the norm of D²x as a whole, if it is known in another way.
    """

    terms: tuple[Term, ...]
    rest: Tensor
    rest_norm: float
    most: float = math.inf

    def norm(self, shape: torch.Size) -> float:
        """Return an upper bound of the norm of D²x, the supremum over unit a, b and u of Σ_i u_i D²x_i(a, b)."""
        return self._norm

    @cached_property
    def _norm(self) -> float:
        forms = [
            Trilinear(term.c, term.A, term.B, None if term.M is None else term.M.reshape(len(term.M), 1, -1), 0.0)
            for term in self.terms
        ]
        return min((trilinear_norm(forms) + self.rest_norm) * UP, self.most)


class Rule(Protocol):
    """The rule by which one tensor is computed from others, and how it enters derivatives of a scalar f."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors that the rule reads."""

    def backward(self, adjoint: Interval) -> Iterator[tuple[Value, Interval]]:
        """Yield each input with an enclosure of ∂f/∂input. `adjoint` encloses the derivative of f by the result."""

    def curvature(self, adjoint: Interval, pair: Pair) -> Iterator[Curvature]:
        """Yield the contributions of the operation's own second derivative to D²f."""

    def third(self, adjoint: Interval, slots: Triple) -> Iterator[Trilinear]:
        """Yield the contributions of the operation's own higher derivatives to D³f."""

    def bend(self, pair: Pair) -> Bend:
        """Return the second derivative of the result."""


@dataclass(eq=False)
class Value:
    """Enclosures of one tensor x.

    Attributes
    ----------
    centre : Interval
        x at the centre of the ball.
    box : Interval
        x over the ball.
    slopes : dict from input to Slope
        The derivatives of x by the inputs. x does not depend on an input that is missing.
    bends : dict from pair of inputs to Tensor
        Upper bound of ‖D²x_i‖ over the ball. A missing pair means 0.
    rule : Rule or None
        The rule by which x is computed; None for an input.
    chain : Chain or None
        x as a function, entry by entry, of another tensor.
    name, line : str
        The operation, and the line of the user's code that called it.
    radius : float
        The radius of the ball.
    """

    centre: Interval
    box: Interval
    slopes: dict[str, Slope]
    bends: dict[Pair, Tensor]
    rule: Rule | None = None
    chain: Chain | None = None
    name: str = ""
    line: str = ""
    radius: float = 0.0
    _second: dict[Pair, Bend] = field(default_factory=dict)
    _norms: dict[str, float] = field(default_factory=dict)

    @property
    def shape(self) -> torch.Size:
        return self.box.shape

    def bend(self, pair: Pair) -> Bend | None:
        """Return the second derivative in parts, computed at the first call; None if it is 0."""
        if pair not in self.bends or self.rule is None:
            return None
        if pair not in self._second:
            self._second[pair] = self.rule.bend(pair)
        return self._second[pair]

    def off(self) -> Tensor:
        """Return an upper bound of |x(w) − centre.mid| for every w of the ball."""
        mid = self.centre.mid
        return torch.maximum(self.box.hi - mid, mid - self.box.lo).clamp(min=0) * UP

    def remainder(self, slot: str) -> float:
        """Return an upper bound of ‖J(w) − F‖, as a matrix, for every w of the ball."""
        if slot not in self._norms:
            slope, pair = self.slopes[slot], (W, slot)
            best = norm(slope.rows)
            bend = self.bend(pair) if best > 0 and self.radius > 0 else None
            if bend is not None:
                best = min(best, norm(slope.slip) + self.radius * bend.norm(self.shape) * UP)
            self._norms[slot] = best
        return self._norms[slot]

    def slope_norm(self, slot: str) -> tuple[float, float]:
        """Return upper bounds of ‖F‖, as a matrix, and of ‖J(w) − F‖ for every w of the ball."""
        name = f"centre of {slot}"
        if name not in self._norms:
            self._norms[name] = self.slopes[slot].norm
        return self._norms[name], self.remainder(slot)

    @property
    def at_point(self) -> bool:
        """Whether box and centre are the same, because the ball is a point or x does not depend on w."""
        return self.box is self.centre

    @property
    def depends(self) -> bool:
        """Whether x depends on w or λ."""
        return bool(self.slopes)


def refined(value: Value, radius: float) -> Value:
    """Tighten enclosures by mean-value forms: x differs from its centre by at most r‖J‖, and J by at most r‖D²x‖."""
    slopes = {}
    for slot, slope in value.slopes.items():
        bend = value.bends.get((W, slot), torch.zeros((), dtype=torch.float64))
        rows = torch.minimum(slope.rows, (slope.slip + radius * bend) * UP)
        slopes[slot] = slope.with_rows(rows)
    change = radius * slopes[W].reach * UP if W in slopes else torch.zeros((), dtype=torch.float64)
    box = value.box if value.at_point else value.box.meet(value.centre.grown(change))
    return replace(value, box=box, slopes=slopes, radius=radius, _second={}, _norms={})


def input_value(x: Tensor, slot: str, radius: float) -> Value:
    """Return the enclosure of w over its ball, or of λ."""
    zeros = torch.zeros_like(x)
    identity: Tensor | Sparse = unit(x.shape)
    if x.numel() ** 2 < LARGE:
        identity = torch.eye(x.numel(), dtype=torch.float64).reshape(x.numel(), *x.shape)
    centre = Interval(x, x)
    box = around(x, zeros + radius) if radius else centre
    return Value(centre, box, {slot: Slope(identity, zeros, zeros)}, {}, name=slot, radius=radius)


def rounding(n: int) -> float:
    """Return the relative rounding error of a sum of n products."""
    return gamma(n + 2)
