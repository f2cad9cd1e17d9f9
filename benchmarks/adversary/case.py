"""One problem of the adversary: plain torch as a stranger would write it, and the same formulas in mpmath beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

import boundcheck as bc

from .exact import Exact, Map, Value, vector

Function = Callable[[Any, Any], Any]  # of (params, hparams), in torch


@dataclass(frozen=True, eq=False)
class Case:
    """What is given to boundcheck, what is true, and what the adversary knows to be nasty about it.

    `legal`: an honest problem, which the library should answer. A refusal of another is right, and of this one counted.
    """

    number: int
    kinds: tuple[str, ...]
    words: str  # the formula in one line
    function: Function  # Φ, or ℓ where `alpha` is given
    outer: Function
    params: Any
    hparams: Any
    w0: list[float]  # the parameters as one vector
    lam: list[float]
    exact_phi: Map
    exact_outer: Value
    dtype: torch.dtype = torch.float64
    alpha: float | None = None  # the step size, where the problem is a loss
    w_scale: float = 1.0
    lam_scale: float = 1.0
    bad: tuple[tuple[float, ...], ...] = ()  # points where a constant is at its worst
    legal: bool = True
    rough: bool = False  # numbers cancel inside, so that a plain hypergradient may be off by rounding
    unique: bool = False  # one fixed point for certain
    vacuous: bool = False  # E or Φ does not depend on what it should: nothing is to be checked
    undefined: bool = False  # no function at all (random, or NaN in places): there is no truth
    momentum: tuple[str, float, float] | None = None  # name, ω, β
    symmetric: bool | None = None  # as declared
    lopsided: bool = False  # ∂₁Φ is not symmetric in truth
    claims: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # name to (value, side)
    false_claims: frozenset[str] = frozenset()
    misspelt: bool = False

    def __str__(self) -> str:
        return f"#{self.number} [{'+'.join(self.kinds)}] {self.words}"

    @property
    def d(self) -> int:
        return len(self.w0)

    @property
    def eps(self) -> float:
        """The dtype's spacing at 1."""
        return torch.finfo(self.dtype).eps

    def problem(self) -> bc.Problem:
        """As a stranger would make it."""
        known = None
        if self.claims:
            values = {name: value for name, (value, _) in self.claims.items()}
            known = bc.Constants.given(sides={name: side for name, (_, side) in self.claims.items()}, **values)
        more: dict[str, Any] = {"known": known, "name": f"adversary{self.number}"}
        if self.momentum is not None:
            from boundcheck.numerics.bilevel import dynamics

            name, omega, beta = self.momentum
            alpha = self.alpha or 1.0
            more["dynamics"] = dynamics.constant(name, alpha, omega * alpha, beta)
        if self.alpha is not None:
            return bc.Problem.from_loss(
                self.function, self.outer, self.params, self.hparams, step_size=self.alpha, **more
            )
        return bc.Problem.from_map(
            self.function, self.outer, self.params, self.hparams, symmetric=self.symmetric, **more
        )

    @cached_property
    def exact(self) -> Exact:
        """The truth, computed when first asked for."""
        w0, lam = vector(self.w0), vector(self.lam)
        return Exact(
            self.exact_phi, self.exact_outer, w0, lam, self.w_scale, self.lam_scale, self.momentum, self.unique
        )


def number(x: float, dtype: torch.dtype = torch.float32) -> float:
    """x rounded to float32, so that torch in both precisions and mpmath compute with the same number."""
    return float(torch.tensor(x, dtype=dtype))


def tensor(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype)
