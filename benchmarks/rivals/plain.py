"""Error curves the plain way: every t afresh, one hypergradient at a time, with torch.autograd and nothing else.

What a careful user writes, and what a speed-up is measured against: λ is prepared once, the inner steps of AID build no
graph, one graph of Φ serves all k products, and nothing synchronises inside a loop. No solver stops before its k steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import grad

from boundcheck.numerics.bilevel.problem import Problem

Solver = Callable[[Callable[[Tensor], Tensor], Tensor, int], Tensor]  # from ∂₁Φᵀ, ∇₁E and k to v_k


def error_curves(problem: Problem, lam: Tensor, exact: Tensor, T: int, methods: list[str]) -> dict[str, Tensor]:
    """‖hypergradient − exact‖ for t = 1..T, by "itd", "aid-fp" or "aid-cg" with k = t, "aid-fp:10" or "aid-cg:10"."""
    lam = lam.detach().requires_grad_()
    ready = problem.prepare(lam)  # its graph is kept and shared by all t
    curves = {}
    for method in methods:
        name, _, fixed = method.partition(":")
        errors = exact.new_empty(T)
        for t in range(1, T + 1):
            if name == "itd":
                value = _itd(problem, lam, ready, t)
            else:
                value = _aid(problem, lam, ready, t, int(fixed) if fixed else t, SOLVERS[name])
            errors[t - 1] = torch.linalg.vector_norm(value - exact)
        curves[method] = errors
    return curves


def minimal_itd(problem: Problem, lam: Tensor, t: int) -> Tensor:
    """One hypergradient through t unrolled steps, with nothing around it."""
    lam = lam.detach().requires_grad_()
    return _itd(problem, lam, problem.prepare(lam), t)


def minimal_aid_fp(problem: Problem, lam: Tensor, t: int, k: int) -> Tensor:
    """One hypergradient by k fixed-point steps at w_t, with nothing around it."""
    lam = lam.detach().requires_grad_()
    return _aid(problem, lam, problem.prepare(lam), t, k, fixed_point)


def _itd(problem: Problem, lam: Tensor, ready: Any, t: int) -> Tensor:
    z = problem.dynamics.start(problem.w0)
    for _ in range(t):
        z = problem.psi_at(z, ready)
    E = problem.outer_at(problem.dynamics.iterate(z), ready)
    return grad(E, lam, retain_graph=True)[0]  # retained for `prepare`; the steps are freed with z


def _aid(problem: Problem, lam: Tensor, ready: Any, t: int, k: int, solve: Solver) -> Tensor:
    with torch.no_grad():
        z = problem.dynamics.start(problem.w0)
        for _ in range(t):
            z = problem.psi_at(z, ready)
    w = problem.dynamics.iterate(z).detach().requires_grad_()
    E, mapped = problem.outer_at(w, ready), problem.phi_at(w, ready)
    grad_w = grad(E, w, retain_graph=True)[0]
    v = solve(lambda v: grad(mapped, w, v, retain_graph=True)[0], grad_w, k)
    return grad((E, mapped), lam, (torch.ones_like(E), v), retain_graph=True)[0]  # ∇₂E + ∂₂Φᵀv in one pass


def fixed_point(d1phi_T: Callable[[Tensor], Tensor], grad_w: Tensor, k: int) -> Tensor:
    v = grad_w  # v_1: the first product, with v_0 = 0, is left out
    for _ in range(k - 1):
        v = d1phi_T(v) + grad_w
    return v


def conjugate_gradient(d1phi_T: Callable[[Tensor], Tensor], grad_w: Tensor, k: int) -> Tensor:
    r = p = grad_w
    rr = r @ r
    # against 0/0 and underflow once ‖r‖ < eps²‖r_0‖, long after v has come to rest; before, no quotient changes
    least = torch.finfo(r.dtype).eps ** 4 * rr + torch.finfo(r.dtype).tiny
    v = torch.zeros_like(r)
    for _ in range(k):
        Ap = p - d1phi_T(p)
        step = rr / (p @ Ap + least)
        v = torch.addcmul(v, step, p)
        r = torch.addcmul(r, step, Ap, value=-1)
        rr, rr_before = r @ r, rr
        p = torch.addcmul(r, rr / (rr_before + least), p)
    return v


SOLVERS: dict[str, Solver] = {"aid-fp": fixed_point, "aid-cg": conjugate_gradient}
