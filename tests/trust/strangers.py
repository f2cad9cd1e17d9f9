"""Problems as a stranger writes them, with the parts of their hypergradient by dense matrices in plain torch.

Nothing here uses boundcheck but for making the problem. The truth is float64 whatever the dtype of the problem: w* by
Newton's method, and (I − ∂₁Φᵀ)v = ∇₁E by LU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import jacobian

import boundcheck as bc

Function = Callable[[Tensor, Tensor], Tensor]  # of flat w and λ


@dataclass(frozen=True, eq=False)
class Stranger:
    """A problem, and the parts of ∇f = c + Zᵀv in float64."""

    problem: bc.Problem
    phi: Function
    alpha: float | None
    w: Tensor
    Y: Tensor
    Z: Tensor
    b: Tensor
    c: Tensor

    @property
    def v(self) -> Tensor:
        return torch.linalg.solve((torch.eye(len(self.w), dtype=torch.float64) - self.Y).T, self.b)

    @property
    def implicit(self) -> Tensor:
        return self.Z.T @ self.v

    @property
    def gradient(self) -> Tensor:
        return self.c + self.implicit

    def given(self, g: Tensor) -> Tensor:
        """A vector in the dtype of the problem."""
        return g.to(self.problem.dtype)


def parts(phi: Function, outer: Function, w0: Tensor, lam: Tensor) -> dict[str, Tensor]:
    """w*, ∂₁Φ, ∂₂Φ, ∇₁E and ∇₂E, in float64."""
    w, lam = w0.double(), lam.double()
    for _ in range(50):
        Y = jacobian(lambda x: phi(x, lam), w)
        w = w - torch.linalg.solve(torch.eye(len(w), dtype=w.dtype) - Y, w - phi(w, lam))
    Y, Z = jacobian(phi, (w, lam))
    b, c = jacobian(outer, (w, lam))
    return {"w": w, "Y": Y, "Z": Z, "b": b, "c": c}


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def step(loss: Function, alpha: float) -> Function:
    """w − α∇₁ℓ, differentiable twice."""

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        w = w if w.requires_grad else w.detach().requires_grad_()
        return w - alpha * torch.autograd.grad(loss(w, lam), w, create_graph=True)[0]

    return phi


@cache
def ridge(dtype: torch.dtype = torch.float64) -> Stranger:
    """A dict of parameters, one penalty exp(λ) a weight; λ is in E too."""
    X, Xv = normal(1, 40, 5), normal(2, 20, 5)
    y, yv = X @ normal(3, 5) + 0.3 * normal(4, 40), Xv @ normal(3, 5) + 0.3 * normal(5, 20)

    def inner(params: dict[str, Tensor], hparams: dict[str, Tensor]) -> Tensor:
        w = params["w"]
        return ((X.to(w) @ w - y.to(w)) ** 2).mean() / 2 + 0.5 * (hparams["log_l2"].exp() * w**2).sum()

    def outer(params: dict[str, Tensor], hparams: dict[str, Tensor]) -> Tensor:
        w = params["w"]
        return ((Xv.to(w) @ w - yv.to(w)) ** 2).mean() / 2 + 0.01 * (hparams["log_l2"] ** 2).sum()

    w0, lam, alpha = torch.zeros(5, dtype=dtype), torch.linspace(-1.5, 0.8, 5, dtype=dtype), 0.25
    problem = bc.Problem.from_loss(inner, outer, {"w": w0}, {"log_l2": lam}, step_size=alpha, name="ridge")
    phi = step(lambda w, lam: inner({"w": w}, {"log_l2": lam}), alpha)
    return Stranger(problem, phi, alpha, **parts(phi, lambda w, lam: outer({"w": w}, {"log_l2": lam}), w0, lam))


@cache
def logistic(dtype: torch.dtype = torch.float64) -> Stranger:
    """An nn.Linear, with weights of the data and a penalty as hyperparameters."""
    X, Xv = normal(11, 30, 4), normal(12, 20, 4)
    y, yv = (X @ normal(13, 4) > 0).double(), (Xv @ normal(13, 4) + 0.3 * normal(14, 20) > 0).double()
    torch.manual_seed(0)
    model = nn.Linear(4, 1).to(dtype)

    def loss(weight: Tensor, bias: Tensor, lam: Tensor) -> Tensor:
        losses = F.binary_cross_entropy_with_logits(
            (X.to(weight) @ weight.T + bias)[:, 0], y.to(weight), reduction="none"
        )
        weights = torch.sigmoid(lam[:6]).repeat(5)
        return (weights * losses).mean() + 0.5 * lam[6].exp() * ((weight**2).sum() + (bias**2).sum())

    def valid(weight: Tensor, bias: Tensor, lam: Tensor) -> Tensor:
        logits = (Xv.to(weight) @ weight.T + bias)[:, 0]
        return F.binary_cross_entropy_with_logits(logits, yv.to(weight)) + 0.02 * (lam**2).sum()

    def apart(w: Tensor) -> tuple[Tensor, Tensor]:
        return w[:4].reshape(1, 4), w[4:]

    lam = torch.linspace(-0.5, 1.0, 7, dtype=dtype)
    lam[6] = -2.0
    problem = bc.Problem.from_loss(
        lambda m, lam: loss(m.weight, m.bias, lam), lambda m, lam: valid(m.weight, m.bias, lam), model, lam,
        step_size=0.8, name="logistic",
    )  # fmt: skip
    phi = step(lambda w, lam: loss(*apart(w), lam), 0.8)
    return Stranger(problem, phi, 0.8, **parts(phi, lambda w, lam: valid(*apart(w), lam), problem.w0, lam))


@cache
def equilibrium(dtype: torch.dtype = torch.float64) -> Stranger:
    """tanh(Aw + Uλ) with a matrix A that is not symmetric; as many states as hyperparameters."""
    A, U = normal(21, 6, 6), normal(22, 6, 6)
    A = 0.7 * A / torch.linalg.matrix_norm(A, 2)
    target = normal(23, 6)

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(A.to(w) @ w + 0.4 * U.to(w) @ lam)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - target.to(w)) ** 2).sum() / 2 + 0.2 * (lam**2).sum()

    w0, lam = torch.zeros(6, dtype=dtype), normal(24, 6).to(dtype)
    problem = bc.Problem.from_map(phi, outer, w0, lam, name="equilibrium")
    return Stranger(problem, phi, None, **parts(phi, outer, w0, lam))


@cache
def one_number(dtype: torch.dtype = torch.float64) -> Stranger:
    """Ridge regression with a single λ, where every g is a multiple of ∇f."""
    X, y = normal(31, 20, 3), normal(32, 20)
    Xv, yv = normal(33, 10, 3), normal(34, 10)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return ((X.to(w) @ w - y.to(w)) ** 2).sum() / 40 + 0.5 * lam.exp().sum() * (w**2).sum()

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return ((Xv.to(w) @ w - yv.to(w)) ** 2).sum() / 20 + 0.05 * (lam**2).sum()

    w0, lam = torch.zeros(3, dtype=dtype), torch.full((1,), -0.7, dtype=dtype)
    problem = bc.Problem.from_loss(inner, outer, w0, lam, step_size=0.4, name="one number")
    return Stranger(problem, step(inner, 0.4), 0.4, **parts(step(inner, 0.4), outer, w0, lam))


MAKERS: dict[str, Any] = {"ridge": ridge, "logistic": logistic, "equilibrium": equilibrium, "one number": one_number}
