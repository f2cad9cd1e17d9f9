"""The data of one batch of λ that every method shares: the iterates, and the gradients of E at them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.problem import Problem
from boundcheck.products import Prepared


@dataclass(frozen=True, eq=False)
class Batch:
    """States z_0 … z_T for each of several λ, of shape (λ, T + 1, state)."""

    problem: Problem
    prepared: Prepared
    z: Tensor

    @property
    def T(self) -> int:
        return self.z.shape[1] - 1

    @property
    def w(self) -> Tensor:
        """w_1 … w_T, of shape (λ, T, d)."""
        return self.problem.dynamics.iterate(self.z[:, 1:])


def run(problem: Problem, lams: Tensor, T: int) -> Batch:
    """T steps of the dynamics for all rows of `lams` at once."""
    prepared = Prepared(problem, lams)
    z0 = problem.dynamics.start(problem.w0)
    states = torch.empty(len(lams), T + 1, z0.numel(), dtype=z0.dtype, device=z0.device)
    states[:, 0] = z0
    step = vmap(problem.psi_at)
    with torch.no_grad():
        for t in range(T):
            states[:, t + 1] = step(states[:, t], prepared.ready)
    return Batch(problem, prepared, states)
