"""The limits on the cost of an estimate, and the provenance of its result."""

from __future__ import annotations

from dataclasses import dataclass

from boundcheck.ball import Ball
from boundcheck.constants import Constant, Provenance
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.lanczos import Extreme


@dataclass(frozen=True)
class Spend:
    """The failure probability, the seed and the most products of an estimate."""

    delta: float
    seed: int
    budget: int | None = None  # products

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InputError(f"delta must be between 0 and 1 (got {self.delta})")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"seed must be a whole number (got {self.seed!r})")
        budget = self.budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
            raise InputError(f"budget must be at least 1 product (got {budget})")

    @property
    def half(self) -> float:
        """δ/2, for each of two certificates: a result that needs both fails with probability at most δ."""
        return self.delta / 2

    def steps(self, most: int, products_per_step: int = 1) -> int:
        """Return the number of steps of an iteration: `most`, or fewer if the budget is smaller, but at least one."""
        return most if self.budget is None else max(1, min(most, self.budget // products_per_step))


def provenance_of(
    how: str, problem: Problem, *, products: int | None = None, delta: float | None = None, seed: int | None = None,
    residual: float | None = None, samples: int | None = None, ball: Ball | None = None,
) -> Provenance:  # fmt: skip
    """Return the provenance of a value, with the dtype and device of the problem."""
    dtype, device = str(problem.dtype).removeprefix("torch."), str(problem.device)
    return Provenance(how, "", products, samples, seed, delta, residual, ball, dtype, device)


def constant_of(name: str, extreme: Extreme, how: str, problem: Problem, seed: int | None = None) -> Constant:
    """Return a `Constant` from one end of a spectrum."""
    how += "" if extreme.converged else ", which has not converged"
    provenance = provenance_of(
        how, problem, products=extreme.products, seed=seed, delta=extreme.delta, residual=extreme.residual
    )
    return Constant(name, extreme.value, extreme.side, provenance)
