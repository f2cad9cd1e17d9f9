"""The results of solvers: a hypergradient with the steps that were done and its residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from boundcheck.numerics.bilevel.flatten import Layout
from boundcheck.numerics.solvers import result_card


@dataclass(frozen=True)
class Residuals:
    """The residuals of both levels.

    Attributes
    ----------
    w : float
        ‖w_t − Φ(w_t)‖.
    v : float or None
        ‖(I − ∂₁Φᵀ)v_k − ∇₁E(w_t)‖; None if no linear system is solved.
    """

    w: float
    v: float | None = None


@dataclass(frozen=True)
class Certificate:
    """Bounds on the distances from the exact solutions, from the residuals and the contraction constant.

    Attributes
    ----------
    w : float
        Upper bound on ‖w − w(λ)‖.
    v : float
        Upper bound on ‖v − (I − ∂₁Φ(w)ᵀ)⁻¹∇₁E(w)‖.
    """

    w: float
    v: float


@dataclass(frozen=True, eq=False)
class Hypergradient:
    """An approximation of ∇f(λ) by t lower-level steps and k steps of the linear solver.

    Attributes
    ----------
    value : Tensor of shape (n,)
        The hypergradient as a flat vector. `grad` is the same in the structure of the hyperparameters.
    method : str
        The method that was run, such as "aid-cg" or "aid-cg:10".
    t : int
        The number of lower-level steps that were done; 0 for "exact".
    k : int or None
        The number of steps of the linear solver that were done, or of steps that "itd-truncated" differentiated
        through; None for "itd" and "exact".
    residual : Residuals
        The residuals of both levels.
    status : str
        "completed" if exactly the requested steps were done; otherwise the reason why it stopped.
    dynamics : str
        The iteration that produced w_t, such as "gradient-descent".
    linear_map : str or None
        The map whose ∂₁Φ defines the linear system; None if none is solved.
    w : Tensor of shape (d,)
        The last iterate w_t, for a warm start.
    v : Tensor of shape (d,) or None
        The last iterate v_k of the linear solver, for a warm start; None if no linear system is solved.
    certificate : Certificate or None
        The certificate of "exact" if the contraction constant is known; None otherwise.
    layout : Layout or None
        The structure of the hyperparameters; None for a flat vector.
    """

    value: Tensor
    method: str
    t: int
    k: int | None
    residual: Residuals
    status: str
    dynamics: str
    linear_map: str | None
    w: Tensor
    v: Tensor | None
    certificate: Certificate | None = None
    layout: Layout | None = None

    @property
    def grad(self) -> Any:
        """The gradient in the structure of the hyperparameters; for a module, a dict by name."""
        return self.value if self.layout is None else self.layout.unflatten(self.value)

    @property
    def hparams(self) -> Any:
        """The old name of `grad`, kept for one release."""
        return self.grad

    def __repr__(self) -> str:
        k = "" if self.k is None else f", k={self.k}"
        v = "" if self.residual.v is None else f", residual.v={self.residual.v:.2e}"
        return (
            f"Hypergradient({self.method}, t={self.t}{k}, norm={float(self.value.norm()):.6g}, "
            f"residual.w={self.residual.w:.2e}{v}, {self.status})"
        )

    def __str__(self) -> str:
        return result_card.card(self).text()

    def _repr_html_(self) -> str:
        return result_card.card(self).html()


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """The iterate v_k for the linear system (I − ∂₁Φᵀ)v = ∇₁E.

    Attributes
    ----------
    v : Tensor of shape (d,)
        The iterate.
    k : int
        The number of steps that were done.
    stopped : str
        Why the solver stopped early; empty if it did not.
    """

    v: Tensor
    k: int
    stopped: str = ""


COMPLETED = "completed"
