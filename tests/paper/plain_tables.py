"""Gradient descent on λ of appendix C.2 once more, in a few lines of torch: nothing of boundcheck is used here.

A problem is its lower-level step on (w, w before), the gradient step that CG uses, its objective and its scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

Function = Callable[..., Tensor]


class Plain(NamedTuple):
    step: Function  # (w, w before, λ) ↦ the next w
    gradient_step: Function  # (w, λ) ↦ Φ(w, λ)
    objective: Function  # (w, λ) ↦ E on the validation set
    right: Function  # (w, λ) ↦ which test examples are classified correctly
    lam: Tensor
    w: Tensor
    warm: bool = False


class Ended(NamedTuple):
    lam: Tensor
    f_t: float
    accuracy_t: float


def kernel(A: Tensor, B: Tensor, gamma: Tensor) -> Tensor:
    return torch.exp(-((A[:, None] - B[None]) ** 2 * gamma).sum(-1))


def regularised(X: Tensor, lam: Tensor) -> Tensor:
    return kernel(X, X, lam[1:].exp()) + lam[0].exp() * torch.eye(len(X), dtype=X.dtype)


def solution(X: Tensor, y: Tensor, lam: Tensor) -> Tensor:
    """w(λ) of kernel ridge regression."""
    return torch.linalg.solve(regularised(X, lam), y)


def parkinson(X: Tensor, y: Tensor, X_val: Tensor, y_val: Tensor, X_test: Tensor, y_test: Tensor) -> Plain:
    p = X.shape[1]

    def ends(lam: Tensor) -> tuple[float, float]:
        values = torch.linalg.eigvalsh(regularised(X, lam.detach()))
        return float(values[0]), float(values[-1])

    def step(w: Tensor, before: Tensor, lam: Tensor) -> Tensor:
        mu, L = ends(lam)
        alpha = (2 / (L**0.5 + mu**0.5)) ** 2
        beta = ((L**0.5 - mu**0.5) / (L**0.5 + mu**0.5)) ** 2
        return w - alpha * (regularised(X, lam) @ w - y) + beta * (w - before)

    def gradient_step(w: Tensor, lam: Tensor) -> Tensor:
        return w - 2 / sum(ends(lam)) * (regularised(X, lam) @ w - y)

    def objective(w: Tensor, lam: Tensor) -> Tensor:
        return ((y_val - kernel(X_val, X, lam[1:].exp()) @ w) ** 2).sum() / 2

    def right(w: Tensor, lam: Tensor) -> Tensor:
        return (kernel(X_test, X, lam[1:].exp()) @ w > 0.5) == (y_test == 1)

    start = torch.tensor([0.0] + [-math.log(p)] * p, dtype=X.dtype)
    return Plain(step, gradient_step, objective, right, start, torch.zeros_like(y))


def classifier(
    loss: Function, alpha: float, X_val: Tensor, y_val: Tensor, X_test: Tensor, y_test: Tensor, lam: Tensor, warm: bool
) -> Plain:
    """A linear classifier w of p × c by gradient descent on `loss`."""
    p, c = X_val.shape[1], int(y_val.max()) + 1

    def gradient_step(w: Tensor, lam: Tensor) -> Tensor:
        leaf = w if w.requires_grad else w.detach().requires_grad_()
        slope = torch.autograd.grad(loss(leaf, lam), leaf, create_graph=True)[0]
        return leaf - alpha * slope

    def objective(w: Tensor, lam: Tensor) -> Tensor:
        return cross_entropy(X_val @ w, y_val)

    def right(w: Tensor, lam: Tensor) -> Tensor:
        return (X_test @ w).argmax(-1) == y_test

    return Plain(lambda w, before, lam: gradient_step(w, lam), gradient_step, objective, right, lam,
                 torch.zeros(p, c, dtype=X_val.dtype), warm)  # fmt: skip


def newsgroups(
    X: Tensor, y: Tensor, X_val: Tensor, y_val: Tensor, X_test: Tensor, y_test: Tensor, alpha: float
) -> Plain:
    p, c = X.shape[1], int(y_val.max()) + 1

    def loss(w: Tensor, lam: Tensor) -> Tensor:
        return cross_entropy(X @ w, y) + (lam.exp()[:, None] * w**2).sum() / (2 * c * p)

    return classifier(loss, alpha, X_val, y_val, X_test, y_test, torch.zeros(p, dtype=X_val.dtype), True)


def fashion_mnist(X_val: Tensor, y_val: Tensor, X_test: Tensor, y_test: Tensor, alpha: float) -> Plain:
    p, c = X_val.shape[1], int(y_val.max()) + 1

    def loss(w: Tensor, lam: Tensor) -> Tensor:
        return cross_entropy(lam.reshape(c, p) @ w, torch.arange(c)) + (w**2).sum() / (2 * c * p)

    return classifier(loss, alpha, X_val, y_val, X_test, y_test, torch.zeros(c * p, dtype=X_val.dtype), False)


def lower(it: Plain, lam: Tensor, w: Tensor, t: int) -> tuple[Tensor, Tensor]:
    before = w
    for _ in range(t):
        w, before = it.step(w, before, lam), w
    return w, before


def hypergradient(it: Plain, method: str, lam: Tensor, w0: Tensor, t: int, k: int) -> tuple[Tensor, Tensor]:
    """g and w_t; `method` is itd, aid-fp (on Φ), fp-momentum (on the pair of iterates) or aid-cg."""
    leaf = lam.clone().requires_grad_()
    w, before = lower(it, leaf, w0, t)
    if method == "itd":
        return torch.autograd.grad(it.objective(w, leaf), leaf)[0], w.detach()
    w, before = (x.detach().requires_grad_() for x in (w, before))
    b, direct = torch.autograd.grad(it.objective(w, leaf), (w, leaf), allow_unused=True)
    if method == "fp-momentum":
        after = it.step(w, before, leaf)
        v, u = torch.zeros_like(b), torch.zeros_like(b)  # cotangents of the newest iterate, and of the one before
        for _ in range(k):
            pulled = torch.autograd.grad(after, (w, before), v, retain_graph=True, allow_unused=True)
            v, u = pulled[0] + u + b, torch.zeros_like(b) if pulled[1] is None else pulled[1]
    else:
        after = it.gradient_step(w, leaf)

        def d1_T(v: Tensor) -> Tensor:
            return torch.autograd.grad(after, w, v, retain_graph=True)[0]

        v = torch.zeros_like(b)
        if method == "aid-fp":
            for _ in range(k):
                v = d1_T(v) + b
        else:
            r = d = b
            for _ in range(k):
                if float((r * r).sum()) == 0:
                    break
                Ad = d - d1_T(d)
                a = (r * r).sum() / (d * Ad).sum()
                v, r, last = v + a * d, r - a * Ad, r
                d = r + (r * r).sum() / (last * last).sum() * d
    g = torch.autograd.grad(after, leaf, v)[0]
    return g + (0 if direct is None else direct), w.detach()


def descended(it: Plain, method: str, zeta: float, s: int, t: int) -> Ended:
    """λ_s, f_t(λ_s) and the test accuracy of w_t(λ_s)."""
    name, _, k = method.partition(":")
    lam, w0 = it.lam, it.w
    for _ in range(s):
        g, w = hypergradient(it, name, lam, w0, t, int(k or t))
        lam, w0 = lam - zeta * g, w if it.warm else it.w
    w = lower(it, lam, w0, t)[0].detach()
    return Ended(lam, float(it.objective(w, lam)), float(it.right(w, lam).double().mean()))
