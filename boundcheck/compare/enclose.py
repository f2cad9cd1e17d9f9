"""`enclose`: how wrong any hypergradient is, from both sides, whatever library it comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from boundcheck.compare.certificate import certify
from boundcheck.constants import BallKind, Constants
from boundcheck.errors import AssumptionError, InputError
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.at_solution import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.solvers.reference import reference
from boundcheck.numerics.solvers.result import Hypergradient
from boundcheck.progress import no_progress
from boundcheck.report.enclosure import Enclosure, enclosed


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
        here, found, (BallKind.LOCAL,), known=known, spend=spend, tell=no_progress, doubts=doubts
    )[BallKind.LOCAL]  # fmt: skip
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
