"""A derivative of Φ or E at many w at once, with the products that ascent needs. It counts its products."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.bilevel import user_functions
from boundcheck.numerics.bilevel.derivative_pairings import Derivative, Pairing
from boundcheck.numerics.bilevel.derivatives import rows, used
from boundcheck.numerics.bilevel.prepared import Cotangents, Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.ascent import FiniteWatch, Slopes, unit


@dataclass(frozen=True, eq=False)
class FieldSlots:
    """The derivative T[v, u, a] of a field at w with two of its three vectors inserted, row by row."""

    by_a: Tensor  # T[v, u, ·]
    by_v: Tensor  # T[·, u, a]
    by_u: Tensor  # T[v, ·, a]


class DerivativeField:
    """A field F(w) for rows w: ∂₁Φ or ∂₂Φ, combined by v, or ∇₁E or ∇₂E, for which v is empty."""

    def __init__(self, derivative: Derivative, problem: Problem, prepared: Prepared, watch: FiniteWatch) -> None:
        self._derivative, self._prepared, self._watch = derivative, prepared, watch
        self._leaves = used(prepared.leaves, rows(derivative.function(problem)), problem.w0[None, None])
        self._form = derivative.form(problem, self._leaves, prepared.ready)
        self.width = problem.d if derivative.is_of_phi else 0  # length of v
        lengths = [problem.n, *(leaf.numel() for leaf in self._leaves.tensors)] if derivative.is_by_lam else []
        self.longest = max(problem.d, *lengths, 1)  # length of the longest vector of one row
        self.spent = 0  # number of products so far

    def slopes(self, w: Tensor, v: Tensor, base: Tensor | None = None) -> Slopes:
        """Return ‖F(w)ᵀv‖ with its gradients, or ‖(F(w) − F(base))ᵀv‖ if `base` is given."""
        pairing = self._pair(w, v, base)
        u = self._pull(pairing.c, len(w))
        value = u.norm(dim=-1)
        self._watch.look(value, w)
        t = self._push(unit(u, otherwise=torch.ones_like(u)))  # at a zero of F, all directions are equally good
        by_w, by_v = user_functions.call(pairing.by_w_and_v, f"a derivative of {self._derivative.value}", t)
        self.spent += len(w) * (1 + (self.width > 0) * (1 if base is None else 2))
        by_w = torch.where(torch.isfinite(by_w), by_w, 0)  # without a finite slope, w does not move
        return Slopes(value, by_w[0], by_v[0])

    def squared(self, w: Tensor, v: Tensor, base: Tensor | None = None) -> Tensor:
        """Return F(w)F(w)ᵀv, or the same product for F(w) − F(base) if `base` is given."""
        pairing = self._pair(w, v, base)
        product: Tensor = pairing.by_v(self._push(self._pull(pairing.c, len(w))))[0]
        self.spent += len(w) * (1 if base is None else 2)
        return product

    def slots(self, w: Tensor, v: Tensor, u: Tensor | None, a: Tensor) -> FieldSlots:
        """Return the derivative T of F at w with v, u and a inserted. If u is None, only `by_u` is meaningful."""
        pairing = self._pair(w, v)
        t = tuple(torch.zeros_like(c) for c in pairing.c) if u is None else self._push(u)
        what = f"a second derivative in {self._derivative.value}"
        by_a, by_v, by_t = user_functions.call(pairing.slots, what, t, a[None])
        self.spent += len(w) * (2 + (self.width > 0))
        return FieldSlots(by_a[0], by_v[0], self._pull(by_t, len(w)))

    def squared_slope(self, w: Tensor, v: Tensor, a: Tensor) -> Tensor:
        """Return TᵀTa, where T is the matrix T[v, ·, ·]."""
        u = self.slots(w, v, None, a).by_u
        return self.slots(w, v, u, a).by_a

    def _pair(self, w: Tensor, v: Tensor, base: Tensor | None = None) -> Pairing:
        base_rows = None if base is None else base.expand_as(w)[None]
        what = f"a derivative of {self._derivative.value}"
        pairing: Pairing = user_functions.call(Pairing, what, self._form, w[None], v[None], base_rows)
        self.spent += len(w) * (1 if base is None else 2)
        return pairing

    def _pull(self, c: Cotangents, count: int) -> Tensor:
        """Convert cotangents to vectors u of length d or n."""
        if not self._derivative.is_by_lam:
            return c[0][0]
        return self._prepared.pull_back_rows(self._leaves, c)[0].expand(count, -1)

    def _push(self, u: Tensor) -> Cotangents:
        if not self._derivative.is_by_lam:
            return (u[None],)
        pushed = self._prepared.push_rows(self._leaves, u[None])
        self._watch.look_at_products(u, pushed)
        return pushed
