"""`enclose`: lower and upper bounds on the error of any hypergradient, from any library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from boundcheck.compare.certified_reference import certified_reference
from boundcheck.constants import Constants
from boundcheck.errors import AssumptionError, InputError
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.lower_level import length
from boundcheck.numerics.solvers.result import Hypergradient
from boundcheck.report.enclosure import Enclosure, enclosed


@on_few_threads
def enclose(
    problem: Problem | str,
    g: Any,
    *,
    lam: Any = None,
    known: Constants | None = None,
    delta: float = 1e-3,
    budget: int | None = None,
    seed: int = 0,
) -> Enclosure:
    """Bound the error ‖g − ∇f(λ)‖ of a hypergradient from below and from above.

    The hypergradient may come from any library. It is compared with a reference hypergradient from Newton's method,
    whose own error is bounded by its residuals.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    g : Hypergradient, structure of the hyperparameters, or flat tensor of shape (n,)
        The hypergradient.
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        The λ at which g was computed; the problem's own λ by default.
    known : Constants, optional
        Constants that you have proved. The estimator tests them.
    delta : float
        The probability that a certificate by random starts fails; 1e-3 by default.
    budget : int, optional
        The largest number of products with derivatives for each estimated constant; by default the limit of each
        estimator.
    seed : int
        The seed of certificates by random starts; 0 by default.

    Returns
    -------
    Enclosure
        `.lower` ≤ ‖g − ∇f(λ)‖ ≤ `.upper`. `.side` says whether these bounds are proved or estimated.

    Raises
    ------
    InputError
        If g or λ has another shape, dtype or device than the problem, or another argument cannot be used.
    AssumptionError
        If the error of the reference cannot be bounded.
    DivergenceError
        If w(λ) cannot be computed.
    UserCodeError
        If a function of the user raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.scalar(q=0.5)
    >>> enclosure = bc.enclose(problem, bc.hypergradient(problem, "itd", t=10))
    >>> print(f"{enclosure.lower:.6f} {enclosure.upper:.6f} {enclosure.side.value}")
    0.042969 0.042969 upper
    """
    problem = require_problem(problem)
    at_lam = problem if lam is None else problem.at(lam)
    value = at_lam.checked(g.value if isinstance(g, Hypergradient) else g, "g")
    if known is not None and not isinstance(known, Constants):
        raise InputError(f"known = {known!r} is not a set of constants; give Constants.given(q=0.9, …)")
    certified = certified_reference(at_lam, known, Spend(delta, seed, budget))
    solution, eps_g = certified.solution, certified.eps_g
    if eps_g is None:
        raise AssumptionError(
            f"{problem.name}: the reference cannot be certified: 2ν₁ε_w ≤ μ_λ² fails, Φ does not contract, "
            "or a constant is missing; see boundcheck constants --ball local, or vouch for some with known="
        )
    gap = length((value - solution.value[0]).double()).cpu().numpy()
    subtracted = 4 * torch.finfo(at_lam.dtype).eps * float(length(value) + length(solution.value[0]))
    single = enclosed(gap[None, None], [replace(eps_g, value=eps_g.value + subtracted)])
    return Enclosure(single.lower[0, 0], single.upper[0, 0], single.side, single.delta)
