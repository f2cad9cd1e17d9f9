"""The degree in w of the functions of a problem, proved from the operations that they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.program.outside_torch import NoWayOut
from boundcheck.numerics.program.polynomial_degree import NONE, UNKNOWN, Degree, Degrees
from boundcheck.numerics.program.rounding_rules.ball import Refusal

HOOKS = frozenset(("register_hook", "register_post_accumulate_grad_hook"))


@torch.no_grad()
def is_affine(problem: Problem) -> bool:
    """Return whether ∂₁Φ is proved to depend on λ only. The operations are the same at every λ."""
    if problem.step_at is not None and problem.inner_at is not None:
        return degree(problem, problem.inner_at).value <= 2
    return degree(problem, problem.phi_at).value <= 1


def degree(problem: Problem, function: Callable[[Tensor, Ready], Any]) -> Degree:
    """Return the degree in w of a function of w and of the prepared values.

    The degree is unknown if numbers leave PyTorch, or if derivatives may differ from those of the operations: with an
    `autograd.Function` of the user, or a hook on gradients.
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
            result: Degree = degrees.of(value)
    except Exception:  # the degree of a program that cannot be analysed is unknown
        return UNKNOWN
    return UNKNOWN if refusals or _has_own_derivatives(value) else result


def _has_own_derivatives(value: Tensor) -> bool:
    """Return whether the graph of a value contains an `autograd.Function` of the user."""
    pending: list[Any] = [value.grad_fn]
    visited: set[Any] = set()
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        visited.add(node)
        pending += [following for following, _ in node.next_functions]
    return False
