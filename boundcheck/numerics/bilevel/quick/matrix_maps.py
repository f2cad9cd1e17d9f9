"""Linear maps of w by matrix products, and their transposes, as functions of w and the prepared values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.quick.slots import Slots
from boundcheck.numerics.program.recognise.linear_maps import Combination, Linear, Rows, Selection, TwoSided

Map = Callable[[Tensor, Any], Tensor]


def forward(linear: Linear, shape: torch.Size, slots: Slots) -> Map:
    """Return w ↦ ℓ(w), whose result has the given shape."""
    if isinstance(linear, Combination):
        pieces = [(None if a is None else slots.read(a), forward(piece, shape, slots)) for a, piece in linear.pieces]

        def combined(w: Tensor, ready: Any) -> Tensor:
            terms = [piece(w, ready) if a is None else a(ready) * piece(w, ready) for a, piece in pieces]
            return terms[0] if len(terms) == 1 else sum(terms[1:], terms[0])

        return combined
    if isinstance(linear, Selection):
        return _selected(linear.index)
    if isinstance(linear, Rows):
        matrix = slots.read(linear.matrix)
        return lambda w, ready: torch.mv(matrix(ready), w).view(shape)
    return _two_sided(linear, slots)


def _two_sided(linear: TwoSided, slots: Slots) -> Map:
    entries = _selected(linear.index)
    left, right = (None if side is None else slots.read(side) for side in (linear.left, linear.right))

    def product(w: Tensor, ready: Any) -> Tensor:
        W = entries(w, ready)
        W = W if left is None else left(ready) @ W
        return W if right is None else W @ right(ready)

    return product


def _selected(index: Tensor) -> Map:
    """Return w ↦ w[index], as a view if possible."""
    shape, count = index.shape, index.numel()
    first = int(index.reshape(-1)[0]) if count else 0
    in_order = torch.arange(first, first + count, device=index.device)
    if torch.equal(index.reshape(-1), in_order):
        return lambda w, ready: w[first : first + count].view(shape)
    if index.dim() == 2 and torch.equal(index.mT.reshape(-1), in_order):
        return lambda w, ready: w[first : first + count].view(shape[1], shape[0]).mT
    return lambda w, ready: w[index]


def transposed(linear: Linear, d: int, slots: Slots) -> Map:
    """Return u ↦ ℓᵀ(u), whose result has shape (d,)."""
    if isinstance(linear, Combination):
        pieces = [(None if a is None else slots.read(a), transposed(piece, d, slots)) for a, piece in linear.pieces]

        def combined(u: Tensor, ready: Any) -> Tensor:
            terms = [piece(u if a is None else a(ready) * u, ready) for a, piece in pieces]
            return terms[0] if len(terms) == 1 else sum(terms[1:], terms[0])

        return combined
    if isinstance(linear, Selection):
        return _placed(linear.index, d)
    if isinstance(linear, Rows):
        matrix = slots.read(linear.matrix)
        return lambda u, ready: torch.mv(matrix(ready).mT, u.reshape(-1))
    placed = _placed(linear.index, d)
    left, right = (None if side is None else slots.read(side) for side in (linear.left, linear.right))

    def product(u: Tensor, ready: Any) -> Tensor:
        u = u if left is None else left(ready).mT @ u
        return placed(u if right is None else u @ right(ready).mT, ready)

    return product


def _placed(index: Tensor, d: int) -> Map:
    """Return the transpose of `_selected`, which adds up repeated entries."""
    in_order, shape = torch.arange(d, device=index.device), index.shape
    if index.numel() == d and torch.equal(index.reshape(-1), in_order):
        return lambda u, ready: u.expand(shape).reshape(-1)
    if index.numel() == d and index.dim() == 2 and torch.equal(index.mT.reshape(-1), in_order):
        return lambda u, ready: u.expand(shape).mT.reshape(-1)
    flat = index.reshape(-1)
    return lambda u, ready: u.new_zeros(d).index_add(0, flat, u.expand(shape).reshape(-1))
