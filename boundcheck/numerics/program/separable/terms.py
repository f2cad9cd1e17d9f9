"""The terms of a separable program, which is a sum of numbers a_i ψ(u_i) φ(z_i).

z is an affine function of w, and u is an affine function of λ. φ and ψ are functions of one number, or φ is the
log-sum-exp of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure import chain as chains
from boundcheck.numerics.program.enclosure.chain import Chain
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.separable.affine import Affine, Move


@dataclass(frozen=True, eq=False)
class Entries:
    """φ(z), entry by entry, for a z that is affine in one input. `limits` holds the argument of every softplus in φ."""

    z: Affine
    chain: Chain
    limits: tuple[Chain, ...] = ()

    @classmethod
    def of(cls, z: Affine) -> Entries:
        """z itself."""
        return cls(z, chains.identity(z))

    @property
    def shape(self) -> torch.Size:
        return self.z.shape


@dataclass(frozen=True, eq=False)
class LogSums:
    """log Σ e^z over the last axis of z."""

    z: Affine

    @property
    def shape(self) -> torch.Size:
        return self.z.shape[:-1]


@dataclass(frozen=True, eq=False)
class Part:
    """The terms a_t ψ_k(t) φ_i(t), each added to the entry to_t of a tensor. φ or ψ is 1 if it is None."""

    phi: Entries | LogSums | None
    i: Tensor
    a: Tensor
    to: Tensor
    psi: Entries | None = None
    k: Tensor | None = None

    def some(self, which: Tensor, to: Tensor) -> Part:
        """Return some of the terms, added to other entries."""
        k = None if self.k is None else self.k[which]
        return replace(self, i=self.i[which], a=self.a[which], to=to, k=k)


@dataclass(frozen=True, eq=False)
class Mix:
    """A tensor whose entries are sums of terms. Added constants are left out, as they have no derivative."""

    parts: tuple[Part, ...]
    shape: torch.Size

    @classmethod
    def of(cls, x: Affine | Entries | LogSums | Mix) -> Mix:
        """Return x as a tensor of sums with one term each."""
        if isinstance(x, Mix):
            return x
        if isinstance(x, Affine):
            x = Entries.of(x)
        count = x.shape.numel()
        places = torch.arange(count)
        if isinstance(x, Entries) and x.z.slot == "lam":
            ones = torch.ones(count, dtype=torch.float64)
            return cls((Part(None, torch.zeros_like(places), ones, places, x, places),), x.shape)
        return cls((Part(x, places, torch.ones(count, dtype=torch.float64), places),), x.shape)

    def moved(self, move: Move) -> Mix:
        """Move, leave out or repeat entries."""
        source = move(torch.arange(self.shape.numel()).reshape(self.shape))
        wanted = source.reshape(-1)
        parts = []
        for part in self.parts:
            order = part.to.argsort(stable=True)
            counts = torch.bincount(part.to, minlength=self.shape.numel())
            starts = counts.cumsum(0) - counts
            repeats = counts[wanted]
            to = torch.arange(len(wanted)).repeat_interleave(repeats)
            within = torch.arange(len(to)) - (repeats.cumsum(0) - repeats)[to]
            parts.append(part.some(order[starts[wanted][to] + within], to))
        return Mix(tuple(parts), source.shape)

    def scaled(self, factor: Tensor) -> Mix:
        """Multiply by numbers, entry by entry."""
        wide = self.expanded(torch.broadcast_shapes(self.shape, factor.shape))  # type: ignore[no-untyped-call]
        numbers = factor.expand(wide.shape).reshape(-1)
        return replace(wide, parts=tuple(replace(part, a=part.a * numbers[part.to]) for part in wide.parts))

    def expanded(self, shape: torch.Size) -> Mix:
        return self if self.shape == shape else self.moved(lambda t: t.expand(shape))

    def weighted(self, by: Mix) -> Mix:
        """Multiply by a function of λ, entry by entry. Each entry of `by` must be one term of λ alone."""
        part = by.parts[0] if len(by.parts) == 1 else None
        one_each = part is not None and torch.equal(part.to.sort().values, torch.arange(by.shape.numel()))
        if part is None or not one_each or part.psi is None or part.k is None or part.phi is not None:
            raise Declined("a product with a sum of functions of λ")
        if any(each.psi is not None for each in self.parts):
            raise Declined("a product of more than one function of λ")
        shape = torch.broadcast_shapes(self.shape, by.shape)  # type: ignore[no-untyped-call]
        wide, order = self.expanded(shape), part.to.argsort()
        term = order.reshape(by.shape).expand(shape).reshape(-1)  # for each entry of the result, the term of λ
        psi, k, a = part.psi, part.k, part.a
        return replace(
            wide,
            parts=tuple(replace(each, psi=psi, k=k[term[each.to]], a=each.a * a[term[each.to]]) for each in wide.parts),
        )

    def times_entries(self, other: Entries) -> Mix:
        """Multiply by a function of the same z, entry by entry, as in λ·w times w."""
        entries = self.parts[0].phi if len(self.parts) == 1 else None
        in_order = all(torch.equal(x, torch.arange(self.shape.numel())) for x in (self.parts[0].i, self.parts[0].to))
        if not isinstance(entries, Entries) or entries.z is not other.z or self.shape != other.shape or not in_order:
            raise Declined("aten.mul of two tensors that vary with w")
        both = Entries(entries.z, chains.multiplied(entries.chain, other.chain), (*entries.limits, *other.limits))
        return replace(self, parts=(replace(self.parts[0], phi=both),))

    def plus(self, other: Mix) -> Mix:
        """Return the sum of both."""
        shape = torch.broadcast_shapes(self.shape, other.shape)  # type: ignore[no-untyped-call]
        return Mix((*self.expanded(shape).parts, *other.expanded(shape).parts), shape)

    def summed(self, target: Tensor, shape: torch.Size) -> Mix:
        """Sum entries: entry o is added to entry target_o."""
        return Mix(tuple(part.some(torch.arange(len(part.to)), target[part.to]) for part in self.parts), shape)
