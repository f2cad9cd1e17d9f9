"""The shared parts of newsgroups and fashion-mnist: a linear classifier W, cross-entropy losses and a fixed step α."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.bilevel.dynamics import Dynamics
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Curvature
from boundcheck.problems.parts.cross_entropy import around, cross_entropy
from boundcheck.problems.parts.sparse_matrix import SparseMatrix


class LowerLevel(Protocol):
    """The loss ℓ and its gradient step Φ, on all examples and on minibatches."""

    @property
    def alpha(self) -> float:
        """The step α of Φ = W − α∇₁ℓ."""

    def prepare(self, lam: Tensor) -> Any: ...
    def inner_at(self, w: Tensor, ready: Any) -> Tensor: ...
    def phi_at(self, w: Tensor, ready: Any) -> Tensor: ...
    def inner_on(self, w: Tensor, ready: Any, indices: Tensor) -> Tensor: ...
    def phi_on(self, w: Tensor, ready: Any, indices: Tensor) -> Tensor: ...
    def slopes(self, ready: Any, centre: Tensor, radius: float) -> Tensor: ...
    def curvature(self, ready: Any) -> Curvature: ...


def classifier_problem(
    name: str, lower: LowerLevel, X_val: SparseMatrix, Y_val: Tensor, *, hyperparameters: int, dynamics: Dynamics,
    known: ClosedForms, spread: float, seed: int, finite_sum: FiniteSum | None,
) -> Problem:  # fmt: skip
    """Return the problem with E = CE(X'W, Y'), starting from W = 0 and λ = 0.

    Parameters
    ----------
    name : str
        The name of the problem.
    lower : LowerLevel
        The lower level.
    X_val, Y_val : SparseMatrix, Tensor
        The validation examples, and their classes as rows of the identity.
    hyperparameters : int
        The number of entries of λ.
    dynamics : Dynamics
        The dynamics, with the same step as Φ.
    known : ClosedForms
        The constants.
    spread : float
        The standard deviation of the entries of a sampled λ.
    seed : int
        The seed of the problem.
    finite_sum : FiniteSum or None
        The lower level on minibatches, if they are requested.

    Returns
    -------
    Problem
        The problem.
    """
    features, classes = X_val.shape[1], Y_val.shape[1]

    def outer_at(w: Tensor, ready: Any) -> Tensor:
        return cross_entropy(X_val @ w.reshape(features, classes), Y_val)

    def contraction(ready: Any) -> Tensor:
        return lower.curvature(ready).contraction(lower.alpha)

    return Problem(
        name=name,
        w0=Y_val.new_zeros(features * classes),
        lam=Y_val.new_zeros(hyperparameters),
        phi_at=lower.phi_at,
        outer_at=outer_at,
        inner_at=lower.inner_at,
        prepare=lower.prepare,
        dynamics=dynamics,
        symmetric=True,
        curvature=lower.curvature,
        contraction=contraction,
        known=known,
        sampler=around(torch.zeros(hyperparameters, dtype=torch.float64, device="cpu"), spread),
        seed=seed,
        finite_sum=finite_sum,
    )
