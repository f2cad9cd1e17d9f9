"""Variants of a problem for fig1: on the state of its dynamics, with ν₂ = 0, and with the closed form of w(λ)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready


def on_state(problem: Problem) -> Problem:
    """Return the same problem with Ψ in place of Φ. For heavy ball, the fixed point is (w(λ), w(λ)).

    The authors of the paper run AID-FP on this problem if the lower level is solved with momentum.
    """
    dynamics, solution = problem.dynamics, problem.solution

    def outer_at(z: Tensor, ready: Ready) -> Tensor:
        return problem.outer_at(dynamics.iterate(z), ready)

    return replace(
        problem, name=f"{problem.name} on the state of {dynamics.name}", w0=dynamics.start(problem.w0),
        phi_at=problem.psi_at, outer_at=outer_at, inner_at=None, dynamics=FIXED_POINT,
        d1phi_T_at=None, d2phi_T_at=None, d2outer_at=None,
        symmetric=False, curvature=None, contraction=None, known=None, remake=None,
        solution=None if solution is None else (lambda ready: dynamics.start(solution(ready))),
    )  # fmt: skip


def without_nu_2(problem: Problem, w_star: Tensor) -> Problem:
    """Return the problem with Φ(w, λ₀) + Φ(w*, λ) − Φ(w*, λ₀) in place of Φ.

    At λ₀ it has the same iterates, w(λ) and w', but ∂₂Φ does not depend on w.
    """
    at_lam = problem.prepare(problem.lam)

    def phi_at(w: Tensor, ready: Ready) -> Tensor:
        return problem.phi_at(w, at_lam) + problem.phi_at(w_star, ready) - problem.phi_at(w_star, at_lam)

    return replace(problem, phi_at=phi_at, inner_at=None, d1phi_T_at=None, d2phi_T_at=None, known=None, remake=None)


def closed_form(problem: Problem) -> Tensor:
    """Return ∇f by differentiation of E(w(λ), λ) through the closed form of w(λ), as in the paper."""
    solution = problem.solution
    if solution is None:
        raise InputError(f"{problem.name} has no closed form of w(λ); measure against the method exact")

    def f(lam: Tensor) -> Tensor:
        ready = problem.prepare(lam)
        return problem.outer_at(solution(ready), ready)

    gradient: Tensor = torch.func.grad(f)(problem.lam)
    return gradient
