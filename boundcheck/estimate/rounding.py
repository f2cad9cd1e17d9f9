"""What rounding does to Φ, to a linear system and to a hypergradient at one point, by arithmetic with random errors.

Every operation's result is multiplied by 1 + εξ, entry by entry, with ξ uniform on [−1, 1], twice the unit of rounding
(Monte Carlo arithmetic, Parker 1997). What the results then scatter by shows numbers that were large on the way and
cancelled, which the result itself does not. It is an estimate: `SAFETY` times the largest of `RUNS` differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from boundcheck.problem import Problem

RUNS, SAFETY = 6, 4.0


@dataclass(frozen=True)
class Rounding:
    """In the norms of w − Φ(w), of v − ∂₁Φᵀv − ∇₁E, and of ∇₂E + ∂₂Φᵀv."""

    w: float
    v: float
    g: float


class _Shaken(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Random errors in every operation that makes new numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(device="cpu").manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if any(of.alias_info is not None for of in func._schema.returns):  # a view, or in place
            return made
        return tree_map(self._shaken, made)

    def _shaken(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.layout is not torch.strided:
            return x
        if x._is_zerotensor():  # a zero that autograd makes without memory, which may not be read
            return x
        xi = 2 * torch.rand(x.shape, generator=self.generator, dtype=torch.float64) - 1
        return x * (1 + torch.finfo(x.dtype).eps * xi).to(x)


def measured(problem: Problem, w: Tensor, v: Tensor, seed: int = 0) -> Rounding:
    """At w and v, λ being that of the problem."""
    exact = _parts(problem, w, v)
    worst = [0.0, 0.0, 0.0]
    for run in range(RUNS):
        with _Shaken(seed + run):
            found = _parts(problem, w, v)
        worst = [max(old, float((x - y).norm())) for old, x, y in zip(worst, found, exact, strict=True)]
    return Rounding(*(SAFETY * x for x in worst))


def _parts(problem: Problem, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """w − Φ, v − ∇₁(E + vᵀΦ) and ∇₂(E + vᵀΦ)."""
    with torch.enable_grad():
        w, lam = w.detach().clone().requires_grad_(True), problem.lam.detach().clone().requires_grad_(True)
        ready = problem.prepare(lam)
        phi = problem.phi_at(w, ready)
        total = problem.outer_at(w, ready) + phi @ v
        of_w, of_lam = torch.autograd.grad(total, (w, lam), allow_unused=True, materialize_grads=True)
    return (w - phi).detach(), v - of_w, of_lam
