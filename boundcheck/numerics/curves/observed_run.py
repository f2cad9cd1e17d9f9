"""One run of the dynamics with its solution, at some times. The observables are computed from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.derivatives import rows, rows_outer, used
from boundcheck.numerics.bilevel.prepared import Cotangents, Leaves
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.batch import Batch, pieces
from boundcheck.numerics.curves.cost import ROWS
from boundcheck.numerics.curves.observed_matrix_norms import Matrices
from boundcheck.numerics.solvers.reference import ReferenceSolution


def norm(x: Tensor) -> Tensor:
    """Return the norms of rows."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return length


@dataclass(frozen=True, eq=False)
class ObservedRun:
    """A run at one λ. Vectors are rows, one for each of the times, of shape (times, d)."""

    every_t: Batch  # all t up to the last of `ts`
    solution: ReferenceSolution
    ts: Tensor  # the times, ascending
    memory: int  # the budget in bytes, vectors not counted

    @property
    def problem(self) -> Problem:
        return self.every_t.problem

    @cached_property
    def batch(self) -> Batch:
        """z_0, and the states at the times `ts`."""
        return self.only(slice(0, len(self.ts)))

    def only(self, part: slice) -> Batch:
        """Return a batch with z_0 and the states at some of the times."""
        keep = torch.cat((torch.zeros_like(self.ts[:1]), self.ts[part]))
        every_t = self.every_t
        return Batch(every_t.problem, every_t.prepared, every_t.z[:, keep], every_t.constant, every_t.spectrum)

    @cached_property
    def w(self) -> Tensor:
        return self.batch.w[0]

    @cached_property
    def of_phi(self) -> Leaves:
        return used(self.every_t.prepared.leaves, rows(self.problem.phi_at), self.solution.w[:, None])

    @cached_property
    def of_outer(self) -> Leaves:
        return used(self.every_t.prepared.leaves, rows(self.problem.outer_at), self.solution.w[:, None])

    @cached_property
    def matrices(self) -> Matrices:
        return Matrices(self.every_t, self.solution.w[0], self.of_phi, self.memory)

    @cached_property
    def b(self) -> Tensor:
        """∇₁E(w_t)."""
        return torch.cat([self._grad_w(self.w[part]) for part in self.parts(12 * self.problem.d)])

    @cached_property
    def b_star(self) -> Tensor:
        """∇₁E(w*), as a row."""
        return self._grad_w(self.solution.w)

    def _grad_w(self, w: Tensor) -> Tensor:
        return rows_outer(self.problem, w[None], self.of_outer.none()).w[0]

    def grad_lam(self, w: Tensor) -> Cotangents:
        """Return ∇₂E at rows w, as cotangents of the leaves."""
        return rows_outer(self.problem, w[None], self.of_outer).lam

    def implicit(self, x: Tensor) -> Tensor:
        """Return w'ᵀx for rows x."""
        return self.matrices.turned(x) @ self.matrices.w_prime

    @property
    def width(self) -> int:
        """The most entries of a cotangent that is pulled back to λ."""
        return max(self.problem.n, sum(leaf.numel() for leaf in self.every_t.prepared.leaves.tensors))

    def at_once(self, numbers: int) -> int:
        """Return how many t to process at once, given how many numbers each needs (at least 1, even if too many)."""
        return max(1, self.fit(numbers))

    def fit(self, numbers: int) -> int:
        """Return how many t fit into memory, given how many numbers each needs."""
        return min(ROWS, self.memory // (numbers * self.w.element_size()))

    def parts(self, numbers: int) -> list[slice]:
        """Return the times in pieces that fit into memory."""
        return pieces(0, len(self.ts), self.at_once(numbers))
