"""A few numbers of a problem that show whether two reports are about different problems."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem


@torch.no_grad()
def landmarks(problem: Problem, lam: Tensor, w_star: Tensor) -> dict[str, float | None]:
    """Norms of λ and w_0, the distance from w_0 to w*, and the losses at both. They do not depend on a step size."""
    ready = Prepared(problem, lam).ready
    vectors = {"norm of λ": lam, "norm of w_0": problem.w0, "distance from w_0 to w*": w_star - problem.w0}
    numbers = {name: float(torch.linalg.vector_norm(vector.double())) for name, vector in vectors.items()}
    losses = {"outer loss": problem.outer_at} | ({"inner loss": problem.inner_at} if problem.inner_at else {})
    for name, loss in losses.items():
        numbers |= {f"{name} at w_0": float(loss(problem.w0, ready)), f"{name} at w*": float(loss(w_star, ready))}
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}
