"""A test that functions are deterministic: repeated calls at the same point must return the same values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready

BESIDE = 1e-3  # relative distance of the second point


@dataclass(frozen=True, eq=False)
class Answers:
    """Φ and E at w_0 and at a point near it, because noise that is multiplied by w does not show at 0."""

    lam: Tensor
    phi: tuple[Tensor, ...]
    outer: tuple[Tensor, ...]
    points: tuple[Tensor, ...]

    @classmethod
    def of(
        cls, problem: Problem, lam: Tensor, ready: Ready | None = None, points: tuple[Tensor, ...] | None = None
    ) -> Answers:
        """Evaluate the functions now. Unless `ready` is given, `prepare` is called again, because it may be random."""
        ready = Prepared(problem, lam).ready if ready is None else ready
        points = (problem.w0, beside(problem.w0)) if points is None else points
        phi, outer = (tuple(function(w, ready) for w in points) for function in (problem.phi_at, problem.outer_at))
        return cls(lam, phi, outer, points)

    def refuse_if_changed(self, problem: Problem) -> None:
        """Evaluate again, and raise an InputError if a value has changed, by random numbers or another minibatch."""
        now = Answers.of(problem, self.lam, points=self.points)
        for what, before, after in (("Φ", self.phi, now.phi), ("E", self.outer, now.outer)):
            for first, second in zip(before, after, strict=True):
                if torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
                    continue
                difference = float((first - second).norm())
                raise InputError(
                    f"{problem.name}: two calls of {what} at one w and lam differ by {difference:.2e}, so it is "
                    "stochastic; fix its random numbers (a seeded generator made anew in each call, or data drawn "
                    "beforehand) and its mini-batch"
                )


def beside(w: Tensor) -> Tensor:
    """Return a point near w without zero entries."""
    return w + BESIDE * (1 + w.abs())
