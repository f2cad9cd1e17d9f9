"""Eigenvectors of symmetric matrices, one for each λ. Eigenvalues that differ only by rounding count as one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """Neighbouring columns of U, either each with its own eigenvalue (`alone`), or all with the same eigenvalue."""

    columns: slice
    values: slice
    alone: bool


MANY_RUNS = 16  # with more runs than this, a gather is used


def runs_of(which: list[int]) -> tuple[Block, ...]:
    """Return runs of columns, from the index of the value of each column; empty if more than `MANY_RUNS`."""
    sizes = [(value, len(list(columns))) for value, columns in groupby(which)]
    blocks, column = [], 0
    for alone, group in groupby(sizes, key=lambda pair: pair[1] == 1):
        values = list(group)
        for run in [values] if alone else [[value] for value in values]:
            width = sum(size for _, size in run)
            blocks.append(Block(slice(column, column + width), slice(run[0][0], run[-1][0] + 1), alone))
            column += width
    return tuple(blocks) if len(blocks) <= MANY_RUNS else ()


@dataclass(frozen=True, eq=False)
class Spectrum:
    """∂₁Φ = U diag(j) Uᵀ, where `values` are the distinct entries of j.

    Products are with vectors that have one entry for each distinct value. A polynomial in ∂₁Φ times b is U times Uᵀb,
    scaled by one number for each distinct eigenvalue.
    """

    U: Tensor  # (λ, d, d)
    values: Tensor  # (λ, distinct), filled with zeros at the end if a λ has fewer
    which: Tensor  # (λ, d): the index of the value of each column of U
    simple: bool  # whether every λ has d distinct values
    runs: tuple[Block, ...]  # runs of columns, if they are few and the same for all λ; otherwise empty

    def __getitem__(self, lams: slice) -> Spectrum:
        return Spectrum(self.U[lams], self.values[lams], self.which[lams], self.simple, self.runs)

    def d1_T(self, v: Tensor) -> Tensor:
        return v * self.values[:, None]

    d1 = d1_T

    def spread(self, x: Tensor) -> Tensor:
        """Expand numbers of shape (λ, rows, distinct) to shape (λ, rows, d)."""
        if self.simple:
            return x
        return x.gather(-1, self.which[:, None].expand(-1, x.shape[1], -1))

    def parts(self, b: Tensor) -> Tensor:
        """Split b, of shape (λ, rows, d), into its parts in each eigenspace, of shape (λ, rows, distinct, d)."""
        components = b.new_zeros(*b.shape[:2], self.values.shape[-1], b.shape[-1])
        if not self.runs:
            which = self.which[:, None, None].expand(-1, b.shape[1], 1, -1)
            return components.scatter_(2, which, (b @ self.U)[:, :, None]) @ self.U.mT[:, None]
        largest = self.largest
        for run in self.runs:
            if run is largest:
                continue
            vectors = self.U[..., run.columns]
            coordinates = b @ vectors
            if run.alone:
                torch.mul(coordinates[..., None], vectors.mT[:, None], out=components[:, :, run.values])
            else:
                components[:, :, run.values.start] = coordinates @ vectors.mT
        if largest is not None:
            torch.sub(b, components.sum(dim=2), out=components[:, :, largest.values.start])
        return components

    @property
    def largest(self) -> Block | None:
        """The widest run of columns with one value, if any. Its part of a vector is what the other parts leave."""
        wide = [run for run in self.runs if not run.alone]
        return max(wide, key=lambda run: run.columns.stop - run.columns.start, default=None)

    def lengths(self, v: Tensor) -> Tensor:
        """Return the norms of the parts of v = Uᵀb, of shape (λ, rows, d), that belong to each distinct value."""
        squares = v.new_zeros(*v.shape[:-1], self.values.shape[-1])
        return squares.scatter_add_(-1, self.which[:, None].expand_as(v), v * v).sqrt_()


def spectrum_of(J: Tensor) -> Spectrum:
    """Return the spectrum of symmetric matrices."""
    return _grouped(*torch.linalg.eigh((J + J.mT) / 2))


def spectrum_of_data(U: Tensor, weight: Tensor, diagonal: Tensor) -> Spectrum:
    """Return the spectrum of diagonal·I + weight·UᵀU, from U of shape (λ, data, d) and two numbers for each λ."""
    s, V_T = torch.linalg.svd(U)[1:]
    rest = s.new_zeros(len(s), U.shape[-1] - s.shape[-1])
    j = diagonal[:, None] + weight[:, None] * torch.cat((s * s, rest), dim=-1)
    order = j.argsort(dim=-1)
    return _grouped(j.gather(-1, order), V_T.gather(-2, order[..., None].expand_as(V_T)).mT.contiguous())


def _grouped(j: Tensor, U: Tensor) -> Spectrum:
    """Return the spectrum from ascending eigenvalues. Values that differ only by rounding are replaced by the mean."""
    noise = 64 * torch.finfo(j.dtype).eps * j.abs().amax(dim=-1, keepdim=True)
    which = torch.nn.functional.pad((j.diff(dim=-1) > noise).cumsum(-1), (1, 0))
    least, most = which[:, -1].aminmax()
    sums = j.new_zeros(len(j), int(most) + 1)
    counts = torch.zeros_like(sums).scatter_add_(-1, which, torch.ones_like(j))
    values = sums.scatter_add_(-1, which, j) / counts.clamp(min=1)
    alike = torch.where((which == which[:1]).all(), which[0], -1).cpu().numpy().tolist()
    runs = runs_of(alike) if alike[0] == 0 else ()
    return Spectrum(U, values, which, int(least) + 1 == j.shape[-1], runs)
