"""The data of one batch of λ that every method shares: the iterates, and products with ∂₁Φ at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.problem import Problem
from boundcheck.products import Linearisation, Prepared, jacobian, rows


class Products(Protocol):
    """∂₁Φᵀv and ∂₁Φu for rows v and u."""

    def d1_T(self, v: Tensor) -> Tensor: ...
    def d1(self, u: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class ConstantJacobian:
    """∂₁Φ = J for all points of a λ; J has shape (λ, d, d)."""

    J: Tensor

    def d1_T(self, v: Tensor) -> Tensor:
        return v @ self.J

    def d1(self, u: Tensor) -> Tensor:
        return u @ self.J.mT


@dataclass(frozen=True, eq=False)
class Spectrum:
    """∂₁Φ = U diag(j) Uᵀ: for rows in the coordinates Uᵀv a product is one pass."""

    U: Tensor  # (λ, d, d)
    j: Tensor  # (λ, 1, d)

    def d1_T(self, v: Tensor) -> Tensor:
        return v * self.j

    d1 = d1_T


@dataclass(frozen=True, eq=False)
class Batch:
    """States z_0 … z_T for each of several λ, of shape (λ, T + 1, state)."""

    problem: Problem
    prepared: Prepared
    z: Tensor
    constant: ConstantJacobian | None = None  # where ∂₁Φ is one matrix for each λ and was formed
    spectrum: Spectrum | None = None  # … and is symmetric

    @property
    def T(self) -> int:
        return self.z.shape[1] - 1

    @property
    def w(self) -> Tensor:
        """w_1 … w_T, of shape (λ, T, d)."""
        return self.problem.dynamics.iterate(self.z[:, 1:])

    def products(self, w: Tensor) -> Products:
        """Products with ∂₁Φ at the rows of w."""
        return self.constant or Linearisation(rows(self.problem.phi_at), w, self.prepared.ready)


def run(problem: Problem, lams: Tensor, T: int, *, dense: bool) -> Batch:
    """T steps of the dynamics for all rows of `lams` at once; with `dense`, also ∂₁Φ as a matrix for each λ."""
    prepared = Prepared(problem, lams)
    z0 = problem.dynamics.start(problem.w0)
    states = torch.empty(len(lams), T + 1, z0.numel(), dtype=z0.dtype, device=z0.device)
    states[:, 0] = z0
    step = vmap(problem.psi_at)
    with torch.no_grad():
        for t in range(T):
            states[:, t + 1] = step(states[:, t], prepared.ready)
    if not dense:
        return Batch(problem, prepared, states)
    J = vmap(lambda ready: jacobian(lambda w: problem.phi_at(w, ready), problem.w0))(prepared.ready)
    if not problem.symmetric:
        return Batch(problem, prepared, states, ConstantJacobian(J))
    j, U = torch.linalg.eigh((J + J.mT) / 2)
    return Batch(problem, prepared, states, ConstantJacobian(J), Spectrum(U, j[:, None]))
