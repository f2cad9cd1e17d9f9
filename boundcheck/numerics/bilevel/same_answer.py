"""Does a function give one answer to one question, however often and whenever it is asked?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready

BESIDE = 1e-3  # relative


@dataclass(frozen=True, eq=False)
class Answers:
    """Φ and E at w_0 and beside it, since noise that is multiplied with w does not show at 0."""

    lam: Tensor
    phi: tuple[Tensor, ...]
    outer: tuple[Tensor, ...]
    points: tuple[Tensor, ...]

    @classmethod
    def of(
        cls, problem: Problem, lam: Tensor, ready: Ready | None = None, points: tuple[Tensor, ...] | None = None
    ) -> Answers:
        """What the functions say now; λ is prepared anew unless `ready` is given, as `prepare` may be random."""
        ready = Prepared(problem, lam).ready if ready is None else ready
        points = (problem.w0, beside(problem.w0)) if points is None else points
        phi, outer = (tuple(at(w, ready) for w in points) for at in (problem.phi_at, problem.outer_at))
        return cls(lam, phi, outer, points)

    def refuse_if_changed(self, problem: Problem) -> None:
        """Ask again, and raise InputError if an answer is another one: random numbers, or a mini-batch that changes."""
        now = Answers.of(problem, self.lam, points=self.points)
        for what, before, after in (("Φ", self.phi, now.phi), ("E", self.outer, now.outer)):
            for first, second in zip(before, after, strict=True):
                if torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
                    continue
                apart = float((first - second).norm())
                raise InputError(
                    f"{problem.name}: two calls of {what} at one w and lam differ by {apart:.2e}, so it is "
                    "stochastic; fix its random numbers (a seeded generator made anew in each call, or data drawn "
                    "beforehand) and its mini-batch"
                )


def beside(w: Tensor) -> Tensor:
    """A point near w with no entry that is 0."""
    return w + BESIDE * (1 + w.abs())
