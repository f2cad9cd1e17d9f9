"""Before anything is measured: is the problem a function at all, and finite where it starts?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.errors import InputError, UserCodeError
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem

BESIDE = 1e-3  # relative


@torch.no_grad()
def check(problem: Problem, lam: Tensor) -> None:
    """Refuses a problem whose functions are not finite at w_0, or give two answers to one question.

    Asked at w_0 and beside it, since noise that is multiplied with w does not show at 0.
    """
    ready, again = (Prepared(problem, lam).ready for _ in range(2))  # `prepare` may be the one that draws lots
    beside = problem.w0 + BESIDE * (1 + problem.w0.abs())
    for what, function in (("Φ", problem.phi_at), ("E", problem.outer_at)):
        _finite(problem, what, function, problem.w0, ready)
        for w in (problem.w0, beside):
            first, second = function(w, ready), function(w, again)
            if torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
                continue
            apart = float((first - second).norm())
            raise InputError(
                f"{problem.name}: two calls of {what} at one w and lam differ by {apart:.2e}, so it is stochastic; "
                "fix its random numbers (a seeded generator made anew in each call, or data drawn beforehand)"
            )


def _finite(
    problem: Problem, what: str, function: Callable[[Tensor, object], Tensor], w: Tensor, ready: object
) -> None:
    value = function(w, ready)
    if not bool(torch.isfinite(value).all()):
        raise UserCodeError(
            f"{problem.name}: {what} is not finite at w_0 (‖w_0‖ = {float(w.norm()):.3g}); check the data and the start"
        )
