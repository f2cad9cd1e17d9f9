"""One hypergradient the way of hypertorch: the clone that BOUNDCHECK_HYPERTORCH names, or the loop its users write.

The lower level is run without a graph for AID, and with one for ITD; then hypertorch's functions, or the same by hand.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import grad

from boundcheck.numerics.bilevel.problem import Problem

Map = Callable[[Tensor, Tensor], Tensor]


def library() -> Any:
    """hypertorch's package, if there is a clone; else None."""
    if not (path := os.environ.get("BOUNDCHECK_HYPERTORCH")):
        return None
    if path not in sys.path:
        sys.path.insert(0, path)
    return importlib.import_module("hypergrad")


def map_of(problem: Problem) -> Map:
    """Φ as a user of hypertorch writes it: a gradient step with a graph, or the map itself."""
    if problem.inner_at is None or problem.step_at is None:
        return problem.phi
    alpha = float(problem.step_at(problem.prepare(problem.lam)))

    def gradient_step(w: Tensor, lam: Tensor) -> Tensor:
        return w - alpha * grad(problem.inner(w, lam), w, create_graph=True)[0]

    return gradient_step


def hypergradient(problem: Problem, method: str, t: int, k: int) -> Tensor:
    """By "aid-fp", "aid-cg", "aid-cgn" (CG on the normal equations) or "itd"."""
    lam, phi = problem.lam.detach().requires_grad_(), map_of(problem)
    if method == "itd":
        w = problem.w0.clone().requires_grad_()
        for _ in range(t):
            w = phi(w, lam)
        return grad(problem.outer(w, lam), lam)[0]
    w = problem.w0.clone()
    for _ in range(t):
        w = phi(w.requires_grad_(), lam).detach()
    if (hypergrad := library()) is not None:
        solve = {"aid-fp": hypergrad.fixed_point, "aid-cg": hypergrad.CG, "aid-cgn": hypergrad.CG_normaleq}[method]
        args = [w], [lam], k, lambda p, h: [phi(p[0], h[0])], lambda p, h: problem.outer(p[0], h[0])
        result: Tensor = solve(*args, tol=0.0, set_grad=False)[0]
        return result
    return _aid(problem, phi, w, lam, method, k)


def _aid(problem: Problem, phi: Map, w: Tensor, lam: Tensor, method: str, k: int) -> Tensor:
    w = w.requires_grad_()
    E = problem.outer(w, lam)
    b, by_lam = grad(E, (w, lam), allow_unused=True)
    mapped = phi(w, lam)

    def d1phi_T(v: Tensor) -> Tensor:
        return grad(mapped, w, v, retain_graph=True)[0]

    if method == "aid-fp":
        v = torch.zeros_like(b)
        for _ in range(k):
            v = d1phi_T(v) + b
    elif method == "aid-cg":
        v = _cg(lambda v: v - d1phi_T(v), b, k)
    else:
        u = torch.zeros_like(mapped, requires_grad=True)
        transposed = grad(mapped, w, u, create_graph=True)[0]

        def d1phi(v: Tensor) -> Tensor:
            return grad(transposed, u, v, retain_graph=True)[0]

        def normal(v: Tensor) -> Tensor:
            r = v - d1phi_T(v)
            return r - d1phi(r)

        v = _cg(normal, b - d1phi(b), k)
    total = grad(mapped, lam, v)[0]
    return total if by_lam is None else total + by_lam


def _cg(A: Callable[[Tensor], Tensor], b: Tensor, k: int) -> Tensor:
    v, r, p = torch.zeros_like(b), b, b
    for _ in range(k):
        Ap, rr = A(p), r @ r
        step = rr / (p @ Ap)
        v, r = v + step * p, r - step * Ap
        if not bool(r @ r > 0):
            break
        p = r + (r @ r) / rr * p
    return v
