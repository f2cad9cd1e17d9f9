"""Types of the fields of a problem: prepared values, the domain of λ, and the curvature of a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Ready = Any  # a tensor, or a tuple, named tuple, list or dict of tensors


@dataclass(frozen=True)
class Domain:
    """The set of allowed λ.

    Attributes
    ----------
    says : str
        The set in words, for error messages: "every entry of lam is > 0".
    holds : callable (lam) -> Tensor
        Whether a flat λ is in the set, as a tensor of one boolean.
    """

    says: str
    holds: Callable[[Tensor], Tensor]


POSITIVE = Domain("every entry of lam is > 0", lambda lam: (lam > 0).all())


@dataclass(frozen=True)
class Curvature:
    """μ and L of ℓ(·, λ), as 0-dimensional tensors."""

    mu: Tensor
    L: Tensor

    def contraction(self, alpha: Tensor | float) -> Tensor:
        """Return q = max(1 − αμ, αL − 1) of Φ = w − α∇₁ℓ."""
        return torch.maximum(1 - alpha * self.mu, alpha * self.L - 1)


class Identity:
    """The default `prepare`, which returns λ itself. Its name is readable in signatures."""

    def __call__(self, lam: Tensor) -> Tensor:
        return lam

    def __repr__(self) -> str:
        return "identity"


IDENTITY = Identity()
