"""What a solver returns: the hypergradient, and what was really run to get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from boundcheck.numerics.bilevel.flatten import Layout


@dataclass(frozen=True)
class Residuals:
    """How far from solved: w is ‖w_t − Φ(w_t)‖, v is ‖(I − ∂₁Φᵀ)v_k − ∇₁E(w_t)‖ (None where no system is solved)."""

    w: float
    v: float | None = None


@dataclass(frozen=True)
class Certificate:
    """‖w − w(λ)‖ ≤ w and ‖v − (I − ∂₁Φ(w)ᵀ)⁻¹∇₁E(w)‖ ≤ v, from the residuals and the contraction constant."""

    w: float
    v: float


@dataclass(frozen=True, eq=False)
class Hypergradient:
    """An approximation of ∇f(λ) by t lower-level steps and k steps of the linear solver."""

    value: Tensor
    method: str
    t: int
    k: int | None  # None where no linear system is solved
    residual: Residuals
    status: str  # "completed": exactly the steps asked for; otherwise why it stopped, in words
    dynamics: str  # what produced w_t
    linear_map: str | None  # whose ∂₁Φ defines the linear system
    w: Tensor  # w_t, for a warm start
    v: Tensor | None  # v_k, likewise
    certificate: Certificate | None = None  # of `exact`, where the contraction constant is known
    layout: Layout | None = None

    @property
    def hparams(self) -> Any:
        """The value in the structure in which the hyperparameters were given."""
        return self.value if self.layout is None else self.layout.unflatten(self.value)

    def __repr__(self) -> str:
        k = "" if self.k is None else f", k={self.k}"
        v = "" if self.residual.v is None else f", residual.v={self.residual.v:.2e}"
        return (
            f"Hypergradient({self.method}, t={self.t}{k}, norm={float(self.value.norm()):.6g}, "
            f"residual.w={self.residual.w:.2e}{v}, {self.status})"
        )


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """v_k of the linear system (I − ∂₁Φᵀ)v = ∇₁E."""

    v: Tensor
    k: int
    stopped: str = ""  # why before k steps, if so


COMPLETED = "completed"
