"""Which derivatives are the same for all w, read off the program (degrees.py); nothing is sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem, Ready
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.polynomial_degree import NONE, UNKNOWN, Degree, Degrees
from boundcheck.numerics.program.rounding_rules.ball import Refusal

HOOKS = frozenset(("register_hook", "register_post_accumulate_grad_hook"))


@dataclass(frozen=True)
class Structure:
    """True where a derivative is proved not to depend on w; False where nothing is proved."""

    d1phi: bool
    d2phi: bool
    hessian_of_E: bool
    d2E: bool


@torch.no_grad()
def find(problem: Problem) -> Structure:
    """Read the structure of Φ and E at the λ of the problem.

    For Φ = w − α∇₁ℓ the loss is read: ∂₁Φ is constant where ℓ has degree 2, and ∂₂Φ where ∂ℓ/∂λ has degree 1. With a
    step that is differentiated, ∂₂Φ also contains −∇₁ℓ∇αᵀ.
    """
    E = degree(problem, problem.outer_at)
    if problem.step_at is not None and problem.inner_at is not None:
        loss = degree(problem, problem.inner_at)
        steps = loss.value <= 1 or bool(problem.frozen_step)
        phi = (loss.value <= 2, loss.by_lam <= 1 and steps)
    else:
        of_phi = degree(problem, problem.phi_at)
        phi = (of_phi.value <= 1, of_phi.by_lam <= 0)
    return Structure(d1phi=phi[0], d2phi=phi[1], hessian_of_E=E.value <= 2, d2E=E.by_lam <= 0)


def degree(problem: Problem, function: Callable[[Tensor, Ready], Any]) -> Degree:
    """The degree in w of a function of w and of what is prepared from λ.

    Unknown where numbers leave PyTorch, and where a derivative is not that of the operations that were seen: an
    `autograd.Function` of the user's, or a hook on gradients.
    """
    w, lam = (x.detach().clone().requires_grad_() for x in (problem.w0, problem.lam))
    refusals: list[Refusal] = []

    def refuse(refusal: Refusal) -> Refusal:
        refusals.append(refusal)
        return refusal

    try:
        with torch.enable_grad(), NoWayOut(refuse, HOOKS), Degrees() as degrees:
            degrees.set(w, Degree(1, NONE))
            degrees.set(lam, Degree(0, 0))
            value = function(w, problem.prepare(lam))
            found: Degree = degrees.of(value)
    except Exception:  # a program that cannot be followed is not known
        return UNKNOWN
    return UNKNOWN if refusals or _has_own_derivatives(value) else found


def _has_own_derivatives(value: Tensor) -> bool:
    """Is there an `autograd.Function` of the user's in the graph of a value?"""
    waiting: list[Any] = [value.grad_fn]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
    return False
