"""How wrong a hypergradient is, from both sides: what a certified reference tells of any vector, from any library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from boundcheck.compare.certificate import certify
from boundcheck.constants import Constant, Constants, Side
from boundcheck.errors import AssumptionError, InputError
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.at_solution import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.solvers.reference import reference
from boundcheck.numerics.solvers.result import Hypergradient
from boundcheck.theory.catalogue import bounds
from boundcheck.theory.sides import combine

THEOREM = bounds["enclosure"]


@dataclass(frozen=True, eq=False)
class Enclosure:
    """`lower` ≤ ‖g − ∇f‖ ≤ `upper`, worth what `side` says; infinite where nothing is known."""

    lower: np.ndarray
    upper: np.ndarray
    side: Side
    delta: float = 0.0

    @property
    def ratio(self) -> np.ndarray:
        """upper/lower: 1 is a measurement, and an error below ε_g is not told from 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: np.ndarray = np.where(self.upper == self.lower, 1.0, self.upper / self.lower)
        return found


def enclosed(gaps: np.ndarray, certificates: Sequence[Constant | None]) -> Enclosure:
    """From the distances to the reference, a row for each λ, and the ε_g of each."""
    lower, upper = np.zeros(gaps.shape), np.full(gaps.shape, np.inf)
    for i, (gap, eps_g) in enumerate(zip(gaps, certificates, strict=True)):
        here = np.isfinite(gap)
        if eps_g is not None:
            upper[i, here] = THEOREM.evaluate(Constants({"eps_g": eps_g}), gap_t=gap[here]).values
            lower[i, here] = np.maximum(gap[here] - eps_g.value, 0)
            lower[i, ~here] = np.inf  # it diverged
    worth = combine((eps_g, +1) for eps_g in certificates if eps_g is not None)
    return Enclosure(lower, upper, Side.LOWER if None in certificates else worth.side, worth.delta)


def enclose(
    problem: Problem,
    g: Any,
    *,
    lam: Any = None,
    known: Constants | None = None,
    delta: float = 1e-3,
    budget: int | None = None,
    seed: int = 0,
) -> Enclosure:
    """Between what the error of g is, a hypergradient of `problem` at `lam` that may come from anywhere.

    g is a `Hypergradient`, or has the structure of the hyperparameters. The reference is computed by Newton's method
    and certified by its residuals; AssumptionError where nothing certifies it. `known`, `delta`, `budget` and `seed`
    are those of `estimate_constants`: with constants that are estimates, `side` says that the enclosure is one.
    """
    require_problem(problem)
    here = problem if lam is None else problem.at(lam)
    value = here.checked(g.value if isinstance(g, Hypergradient) else g, "g")
    if known is not None and not isinstance(known, Constants):
        raise InputError(f"known = {known!r} is no set of constants; give Constants.given(q=0.9, …)")
    doubts = validate.check(here, here.lam).unconfirmed
    found = reference(here, here.lam[None])
    spend = Spend(delta, seed, budget)
    constants = on_balls(
        here, found, ("local",), known=known, spend=spend, tell=lambda what: None, doubts=doubts
    )["local"]  # fmt: skip
    eps_g = certify(here, found, constants)
    if eps_g is None:
        raise AssumptionError(
            f"{problem.name}: the reference cannot be certified: 2ν₁ε_w ≤ μ_λ² fails, Φ does not contract, "
            "or a constant is missing; see boundcheck constants --ball local, or vouch for some with known="
        )
    gap = (value - found.value[0]).norm().double().cpu().numpy()
    subtracted = 4 * torch.finfo(here.dtype).eps * float(value.norm() + found.value[0].norm())
    one = enclosed(gap[None, None], [replace(eps_g, value=eps_g.value + subtracted)])
    return Enclosure(one.lower[0, 0], one.upper[0, 0], one.side, one.delta)
