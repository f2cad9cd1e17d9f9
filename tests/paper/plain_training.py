"""The training of equilibrium models once more, in a few lines: autograd, explicit Jacobians, torch.optim, numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, cross_entropy, max_pool2d, pad

Params = list[Tensor]


def shapes(p: Mapping[str, Any], features: int, classes: int) -> list[tuple[int, ...]]:
    h = p["hidden"]
    if p["problem"] == "eqm":
        return [(h, h), (h, features), (h,), (classes, h), (classes,)]
    side = round(features**0.5)
    return [(h, h, 3, 3), (h, 1, 3, 3), (h,), (classes, h * (side // 4) ** 2), (classes,)]


def split(lam: Tensor, into: list[tuple[int, ...]]) -> Params:
    sizes = [int(np.prod(shape)) for shape in into]
    return [part.reshape(shape).clone() for part, shape in zip(lam.split(sizes), into, strict=True)]


def wrap(x: Tensor) -> Tensor:
    return pad(x, (1, 1, 1, 1), mode="circular")


def phi(p: Mapping[str, Any], X: Tensor, params: Params) -> Callable[[Tensor], Tensor]:
    A, B, c = params[:3]
    if p["problem"] == "eqm":
        return lambda w: torch.tanh(w.reshape(len(X), -1) @ A.T + X @ B.T + c).reshape(-1)
    side = round(X.shape[1] ** 0.5)
    drive = max_pool2d(conv2d(wrap(X.reshape(-1, 1, side, side)), B), 2) + c[:, None, None]
    return lambda w: torch.tanh(conv2d(wrap(w.reshape(drive.shape)), A) + drive).reshape(-1)


def scores(p: Mapping[str, Any], X: Tensor, params: Params, w: Tensor) -> Tensor:
    theta, b = params[3:]
    if p["problem"] != "eqm":
        half = round(X.shape[1] ** 0.5) // 2
        w = max_pool2d(w.reshape(len(X), -1, half, half), 2)
    return w.reshape(len(X), -1) @ theta.T + b


def length(p: Mapping[str, Any], X: Tensor) -> int:
    return len(X) * p["hidden"] * (1 if p["problem"] == "eqm" else X.shape[1] // 4)


def gradient(p: Mapping[str, Any], X: Tensor, y: Tensor, params: Params) -> tuple[float, Params]:
    """f_t and g by the method of p."""
    params = [x.detach().requires_grad_() for x in params]
    step, w = phi(p, X, params), torch.zeros(length(p, X), dtype=X.dtype)
    for _ in range(p["t"]):
        w = step(w)
    loss = cross_entropy(scores(p, X, params, w), y)
    if p["method"] == "itd":
        return float(loss.detach()), list(torch.autograd.grad(loss, params))
    w = w.detach().requires_grad_()
    loss = cross_entropy(scores(p, X, params, w), y)
    b = torch.autograd.grad(loss, w, retain_graph=True)[0]
    J = torch.autograd.functional.jacobian(step, w).detach()
    M = torch.eye(len(b), dtype=b.dtype) - J.T
    if p["method"] == "aid-fp":
        v = sum((torch.linalg.matrix_power(J.T, j) @ b for j in range(p["k"])), torch.zeros_like(b))
    else:
        v = conjugate_gradient(M.T @ M, M.T @ b, p["k"])
    together = loss + step(w.detach()) @ v
    return float(loss.detach()), list(torch.autograd.grad(together, params))


def conjugate_gradient(N: Tensor, b: Tensor, k: int) -> Tensor:
    v, r = torch.zeros_like(b), b
    d = r
    for _ in range(k):
        alpha = (r @ r) / (d @ N @ d)
        v, before = v + alpha * d, r
        r = r - alpha * (N @ d)
        d = r + (r @ r) / (before @ before) * d
    return v


def projected(p: Mapping[str, Any], A: Tensor, half: int) -> Tensor:
    """Singular values cut: of A, or of the blocks of c(K) as in Sedghi et al., then scaled if that left too much."""
    radius = p["radius"]
    if p["problem"] == "eqm":
        U, S, V = np.linalg.svd(A.numpy())
        return torch.from_numpy(U @ np.diag(np.minimum(S, radius)) @ V)
    blocks = np.fft.fft2(A.numpy().transpose(2, 3, 0, 1), (half, half), axes=(0, 1))
    if np.linalg.svd(blocks, compute_uv=False).max() <= radius:
        return A
    U, S, V = np.linalg.svd(blocks, full_matrices=False)
    cut = np.fft.ifft2((U * np.minimum(S, radius)[..., None, :]) @ V, axes=(0, 1)).real[:3, :3]
    K = torch.from_numpy(cut.transpose(2, 3, 0, 1).copy())
    return K * min(1.0, radius / operator_norm(p, K, half))


def operator_norm(p: Mapping[str, Any], A: Tensor, half: int) -> float:
    """Of A, or of the whole matrix of the circular correlation with K."""
    if p["problem"] == "eqm":
        return float(np.linalg.norm(A.numpy(), 2))
    units = torch.eye(len(A) * half**2, dtype=A.dtype).reshape(-1, len(A), half, half)
    return float(np.linalg.norm(conv2d(wrap(units), A).reshape(len(units), -1).numpy(), 2))


def trained(p: Mapping[str, Any], X: Tensor, y: Tensor, lam: Tensor, classes: int) -> tuple[list[float], Tensor, int]:
    """Objectives at λ_0 … λ_S, λ_S, and how often the projection changed something."""
    half, cut = round(X.shape[1] ** 0.5) // 2, 0
    params = split(lam, shapes(p, X.shape[1], classes))
    optimiser = torch.optim.SGD(params, p["step_size"], momentum=p["momentum"], nesterov=True)
    objectives = []
    for _ in range(p["steps"]):
        f, grads = gradient(p, X, y, params)
        objectives.append(f)
        for x, g in zip(params, grads, strict=True):
            x.grad = g
        optimiser.step()
        if p["projected"]:
            cut += operator_norm(p, params[0], half) > p["radius"]
            params[0].data = projected(p, params[0].data, half)
    objectives.append(gradient(p, X, y, params)[0])
    return objectives, torch.cat([x.reshape(-1) for x in params]), cut
