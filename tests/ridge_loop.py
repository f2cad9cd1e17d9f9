"""Ridge regression with a penalty e^λ for each weight, in plain torch, and its truth by dense solves in numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import boundcheck as bc

generator = torch.Generator().manual_seed(3)
X, X_val = (torch.randn(20, 4, generator=generator, dtype=torch.float64) for _ in range(2))
y, y_val = (torch.randn(20, generator=generator, dtype=torch.float64) for _ in range(2))
ALPHA = 0.3
START = torch.full((4,), -1.0, dtype=torch.float64)
ZERO = torch.zeros(4, dtype=torch.float64)


def inner_loss(w: Tensor, lam: Tensor) -> Tensor:
    return ((X @ w - y) ** 2).mean() / 2 + (lam.exp() * w**2).sum() / 2


def outer_loss(w: Tensor, lam: Tensor) -> Tensor:
    return ((X_val @ w - y_val) ** 2).mean() / 2 + 0.01 * (lam**2).sum()


def problem(**options: object) -> bc.Problem:
    return bc.Problem.from_loss(inner_loss, outer_loss, ZERO, START, step_size=ALPHA, name="ridge", **options)


@dataclass(frozen=True)
class Truth:
    """w(λ), ‖w'(λ)‖, f(λ) and ∇f(λ), each to about 1e-14: matrices of size 4 with condition numbers below 100."""

    w: np.ndarray
    W: float
    f: float
    g: np.ndarray
    q: float


def truth(lam: Tensor | np.ndarray) -> Truth:
    lam = np.asarray(lam)
    A, b, A_val, b_val = X.numpy(), y.numpy(), X_val.numpy(), y_val.numpy()
    H = A.T @ A / 20 + np.diag(np.exp(lam))
    w = np.linalg.solve(H, A.T @ b / 20)
    w_prime = -np.linalg.solve(H, np.diag(np.exp(lam) * w))
    left = A_val @ w - b_val
    f = left @ left / 40 + 0.01 * lam @ lam
    q = float(abs(1 - ALPHA * np.linalg.eigvalsh(H)).max())
    return Truth(w, float(np.linalg.norm(w_prime, 2)), f, 0.02 * lam + w_prime.T @ (A_val.T @ left) / 20, q)


@dataclass(frozen=True)
class LoopStep:
    lam: Tensor
    w: Tensor
    g: Tensor


def descend(w: Tensor, lam: Tensor, t: int) -> Tensor:
    """t steps of gradient descent."""
    for _ in range(t):
        w = w.detach().requires_grad_()
        w = w - ALPHA * torch.autograd.grad(inner_loss(w, lam), w)[0]
    return w.detach()


def loop(steps: int, t: int = 5, k: int = 5, size: float = 0.5, warm: bool = True) -> Iterator[LoopStep]:
    """What a user of an implicit-differentiation library writes: AID by k fixed-point iterations after t steps."""
    lam, w = START.clone().requires_grad_(), ZERO
    for _ in range(steps):
        w = descend(w if warm else ZERO, lam, t).requires_grad_()
        after = w - ALPHA * torch.autograd.grad(inner_loss(w, lam), w, create_graph=True)[0]
        b, direct = torch.autograd.grad(outer_loss(w, lam), (w, lam))
        v = torch.zeros_like(b)
        for _ in range(k):
            v = torch.autograd.grad(after, w, v, retain_graph=True)[0] + b
        g = torch.autograd.grad(after, lam, v)[0] + direct
        yield LoopStep(lam.detach().clone(), w.detach().clone(), g)
        with torch.no_grad():
            lam -= size * g
