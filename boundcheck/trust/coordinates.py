"""The coordinates in which λ moves: λ itself, or log λ if every entry has to be positive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import POSITIVE


@dataclass(frozen=True)
class Coordinates:
    """Coordinates x of λ, entry by entry."""

    name: str
    position: Callable[[Tensor], Tensor]  # x at λ
    move: Callable[[Tensor, Tensor], Tensor]  # the new λ after a step in x
    scale: Callable[[Tensor], Tensor]  # ∂λ/∂x, entry by entry

    def gradient(self, lam: Tensor, g: Tensor) -> Tensor:
        """The gradient by x, of a function with gradient g by λ."""
        return self.scale(lam) * g


PLAIN = Coordinates("plain", lambda lam: lam, lambda lam, x: lam + x, torch.ones_like)
LOG = Coordinates("log", torch.log, lambda lam, x: lam * x.exp(), lambda lam: lam)
BY_NAME = {coordinates.name: coordinates for coordinates in (PLAIN, LOG)}


def coordinates_of(problem: Problem, name: str) -> Coordinates:
    """The coordinates with this name; for "auto", log λ if the domain is `POSITIVE`, else λ."""
    if name == "auto":
        return LOG if problem.domain is POSITIVE else PLAIN
    if name not in BY_NAME:
        raise UnknownNameError.among("coordinates", name, ("auto", *BY_NAME))
    if name == "log" and not bool((problem.lam > 0).all()):
        raise InputError(f"{problem.name}: lam has entries that are not positive; use coordinates='plain'")
    return BY_NAME[name]
