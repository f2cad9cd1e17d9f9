"""Sums of functions of linear maps of w, entry by entry, with coefficients that depend on λ only.

An `Expression` represents a tensor of a program as a function of w. `algebra.py` has the operations on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.recognise.elementary import Function
from boundcheck.numerics.program.recognise.linear_maps import Linear
from boundcheck.numerics.program.recognise.stage import Value


@dataclass(frozen=True, eq=False)
class Poly:
    """a₂∘ℓ(w)² + a₁∘ℓ(w). A coefficient of None means 0."""

    linear: Linear
    a2: Value | None
    a1: Value | None


@dataclass(frozen=True, eq=False)
class FunctionOfMap:
    """c∘φ(a∘ℓ(w) + b). None means 1 for c and 0 for b."""

    linear: Linear
    function: Function
    c: Value | None
    a: Value
    b: Value | None


@dataclass(frozen=True, eq=False)
class Pair:
    """c∘ℓ(w)∘m(w) for two linear maps ℓ and m. None for c means 1."""

    linear: Linear
    other: Linear
    c: Value | None


@dataclass(frozen=True, eq=False)
class CrossEntropy:
    """c∘(log Σ exp(u) − u[class]) for every row of u = ℓ(w) + b. None means 1 for c and 0 for b."""

    linear: Linear
    c: Value | None
    b: Value | None
    classes: Tensor  # a row of the identity for each row of u


Part = Poly | FunctionOfMap | Pair | CrossEntropy


@dataclass(frozen=True, eq=False)
class Expression:
    """The sum of some parts and a constant, all of shape `inner`; with `summed`, its sum over these axes."""

    parts: tuple[Part, ...]
    constant: Value | None
    inner: torch.Size
    summed: tuple[int, ...] | None = None
    keep: bool = False  # whether summed axes stay, with length 1

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor that the expression represents."""
        if self.summed is None:
            return self.inner
        sizes = (
            1 if i in self.summed else size for i, size in enumerate(self.inner) if self.keep or i not in self.summed
        )
        return torch.Size(sizes)

    @property
    def affine(self) -> bool:
        """Whether every entry has degree 1 in w."""
        return self.summed is None and all(isinstance(part, Poly) and part.a2 is None for part in self.parts)

    def but(self, **changes: Any) -> Expression:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class LogSoftmax:
    """u − log Σ exp(u) for every row of an affine u. A loss takes the entry of one class from each row."""

    u: Expression
