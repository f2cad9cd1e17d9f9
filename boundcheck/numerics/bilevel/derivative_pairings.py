"""Derivatives of Φ and E as functions of w, paired with vectors, and derivatives of the pairings. Suprema use them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import Function, rows, rows_d2_T, rows_outer
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready

Form = Callable[[Tensor, Tensor], Cotangents]  # (w, v) ↦ F(w)ᵀv for rows w and v, or F(w) if v is empty


class Derivative(Enum):
    """A derivative of Φ or E, as a function of w."""

    D1_PHI = "∂₁Φ"
    D2_PHI = "∂₂Φ"
    D1_E = "∇₁E"
    D2_E = "∇₂E"

    @property
    def is_of_phi(self) -> bool:
        return self in (Derivative.D1_PHI, Derivative.D2_PHI)

    @property
    def is_by_lam(self) -> bool:
        return self in (Derivative.D2_PHI, Derivative.D2_E)

    def function(self, problem: Problem) -> Function:
        """Return the function that is differentiated."""
        return problem.phi_at if self.is_of_phi else problem.outer_at

    def form(self, problem: Problem, leaves: Leaves, ready: Ready) -> Form:
        """Return the pairing with rows v, with its graph. A derivative by λ is given as cotangents of `leaves`."""

        def by_w(w: Tensor, v: Tensor) -> Cotangents:
            y = rows(self.function(problem))(w, ready)
            return _pull((y,), (w,), (v if self.is_of_phi else torch.ones_like(y),), create_graph=True)

        def d2phi(w: Tensor, v: Tensor) -> Cotangents:
            return tuple(c[:, :, 0] for c in rows_d2_T(problem.phi_at, w, leaves, v[:, :, None]))

        def d2E(w: Tensor, v: Tensor) -> Cotangents:
            return rows_outer(problem, w, leaves).lam if leaves.active else ()

        if not self.is_by_lam:
            return by_w
        return d2phi if self.is_of_phi else d2E


class Pairing:
    """The vectors c = F(w)ᵀv, or F(w)ᵀv − F(base)ᵀv, for rows, and derivatives of the pairing ⟨t, c⟩ by w and v."""

    def __init__(self, form: Form, w: Tensor, v: Tensor, base: Tensor | None = None) -> None:
        self.w, self.v = w.detach().requires_grad_(), v.detach().requires_grad_()
        with torch.enable_grad():
            self._c = form(self.w, self.v)
            if base is not None:
                at_base = form(base.detach().requires_grad_(), self.v)
                self._c = tuple(x - y for x, y in zip(self._c, at_base, strict=True))
        self.c = tuple(x.detach() for x in self._c)

    def by_v(self, t: Cotangents) -> Tensor:
        return _pull(self._c, (self.v,), t)[0]

    def by_w_and_v(self, t: Cotangents) -> tuple[Tensor, Tensor]:
        by_w, by_v = _pull(self._c, (self.w, self.v), t)
        return by_w, by_v

    def slots(self, t: Cotangents, a: Tensor) -> tuple[Tensor, Tensor, Cotangents]:
        """Return the derivatives by a, v and t of the derivative of ⟨t, c⟩ along a, which is linear in a, v and t."""
        with torch.enable_grad():
            t = tuple(x.detach().requires_grad_() for x in t)
            by_w = _pull(self._c, (self.w,), t, create_graph=True)[0]
        by_v, *by_t = _pull((by_w,), (self.v, *t), (a,))
        return by_w.detach(), by_v, tuple(by_t)


def _pull(
    outputs: Cotangents, inputs: tuple[Tensor, ...], cotangents: Cotangents, create_graph: bool = False
) -> tuple[Tensor, ...]:
    pairs = [(y, c) for y, c in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(x) for x in inputs)
    ys, cs = zip(*pairs, strict=True)
    return torch.autograd.grad(ys, inputs, cs, create_graph=create_graph, materialize_grads=True)
