"""The reference hypergradient of a problem at its λ, with a bound on its own error if there is one."""

from __future__ import annotations

from dataclasses import dataclass

from boundcheck.ball import BallKind
from boundcheck.compare.certificate import certify
from boundcheck.constants import Constant, Constants
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import no_progress


@dataclass(frozen=True, eq=False)
class CertifiedReference:
    """∇f, w* and v from Newton's method, and ε_g ≥ ‖reference − ∇f‖; ε_g is None if there is no bound."""

    solution: ReferenceSolution
    eps_g: Constant | None


def certified_reference(problem: Problem, known: Constants | None, spend: Spend) -> CertifiedReference:
    """Compute the reference at the problem's λ.

    ε_g comes from the program of the problem if that gives a proof. Otherwise constants are estimated on a ball around
    w*, and their sides decide the side of ε_g.
    """
    doubts = validate.check(problem, problem.lam).unconfirmed
    solution = reference(quick(problem), problem.lam[None])
    validate.unchanged(problem)
    eps_g = None if doubts or known is not None else certify(problem, solution, Constants())
    if eps_g is None:
        constants = on_balls(
            problem, solution, (BallKind.LOCAL,), known=known, spend=spend, tell=no_progress, doubts=doubts
        )[BallKind.LOCAL]  # fmt: skip
        eps_g = certify(problem, solution, constants)
    validate.unchanged(problem)
    return CertifiedReference(solution, eps_g)
