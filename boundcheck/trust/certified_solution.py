"""The reference w(λ) and ∇f(λ) for a watched w, with bounds on their errors and constants on the ball of the start."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from boundcheck.ball import BallKind
from boundcheck.compare import certificate
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import BoundcheckError
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.estimate.near_solution import NearSolution, near_solution
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.step_constant import step_constant
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import no_progress
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.report.enclosure import Enclosure
from boundcheck.side import Side

SPEND = Spend(1e-3, 0)
ROUNDED = 8  # the estimated error of a reference, in rounding units of its numbers
NO_PROOF = "the reference cannot be certified: 2ν₁ε_w ≤ μ_λ² fails, Φ does not contract, or a constant is missing"
ESTIMATE = Provenance("a few units of rounding, without a proof")


@dataclass(frozen=True, eq=False)
class CertifiedSolution:
    """The reference at one λ. `eps_g` and `distance` bound its distances from ∇f(λ) and w(λ)."""

    problem: Problem  # at λ, with the start of the step as its w_0
    solution: ReferenceSolution
    eps_g: Constant
    distance: float
    constants: Constants  # on B(w(λ), r_0); empty if no proof was requested
    why: str = ""  # why the bounds are not proved; empty if they are

    @property
    def f(self) -> float:
        """E at the reference."""
        return float(self.problem.outer(self.solution.w[0], self.problem.lam))

    def accuracy(self, g: Tensor) -> Accuracy:
        """The accuracy of a hypergradient."""
        return accuracy(_numbers(g), _numbers(self.solution.value[0]), self.eps_g)

    def distance_of(self, w: Tensor) -> Enclosure:
        """Lower and upper bounds on ‖w − w(λ)‖, with the side of ε_g."""
        w_star = self.solution.w[0].double()
        gap, sizes = float((w.double() - w_star).norm()), float(w.norm() + w_star.norm())
        off = self.distance + ROUNDED * np.finfo(np.float64).eps * (sizes + len(w) * gap)
        delta = self.eps_g.provenance.delta or 0.0
        return Enclosure(np.float64(max(gap - off, 0.0)), np.float64(gap + off), self.eps_g.side, delta)


def certified_solution(problem: Problem, lam: Tensor, w: Tensor, start: Tensor, *, prove: bool) -> CertifiedSolution:
    """Compute the reference by Newton's method from a watched w, and prove its accuracy if requested.

    Parameters
    ----------
    problem : Problem
        The problem.
    lam, w, start : Tensor
        Flat vectors: λ, the start of Newton's method, and the start of the lower level.
    prove : bool
        Whether to prove the accuracy. Without a proof, the bounds are estimates.
    """
    at_lam = replace(problem.at(lam), w0=start)
    solution = reference(quick(replace(at_lam, w0=w)), at_lam.lam[None])
    unit = ROUNDED * torch.finfo(problem.dtype).eps
    guess = Constant("eps_g", unit * float(solution.value[0].norm()), Side.LOWER, ESTIMATE)
    guessed = CertifiedSolution(at_lam, solution, guess, unit * float(solution.w[0].norm()), Constants())
    if not prove:
        return guessed
    try:
        doubts = validate.check(at_lam, at_lam.lam).unconfirmed
        near = _near(guessed)
        constants = near if isinstance(near, Constants) and not doubts else _on_ball(guessed, doubts)
        eps_g = certificate.certify(at_lam, solution, constants)
        away = certificate.distance(at_lam, solution, constants)
    except BoundcheckError as why:
        return replace(guessed, why=f"estimates only: {why}")
    if eps_g is None:
        return replace(guessed, constants=constants, why=f"estimates only: {NO_PROOF}")
    if doubts or away.doubt or not certificate.proved(eps_g):
        doubt = next(iter(doubts), "") or away.doubt or str(near)
        eps_g = replace(eps_g, side=Side.LOWER, provenance=replace(eps_g.provenance, delta=None))
        return CertifiedSolution(at_lam, solution, eps_g, away.value, constants, f"estimates only: {doubt}")
    return CertifiedSolution(at_lam, solution, eps_g, away.value, constants)


def _near(guessed: CertifiedSolution) -> Constants | str:
    """‖w'‖ and, if proved, q on B(w(λ), r_0), if the program proves w(λ); otherwise the reason why it does not."""
    problem, solution = guessed.problem, guessed.solution
    if problem.known is not None:  # closed forms, or constants that the user claims
        return "its constants are not those of a program"
    near = near_solution(problem, solution)
    if not isinstance(near, NearSolution):
        return near
    off = near.fixed_point.distance
    radius = float(replace(guessed, distance=off).distance_of(problem.w0).upper) + off
    region = Region("w_star", solution.w[0], radius * (1 + 1e-15))
    proof = ProgramProof.of(problem)
    return near.constants.replace(*proof.on(region, step_constant(problem), names=("q",)))


def _on_ball(guessed: CertifiedSolution, doubts: tuple[str, ...]) -> Constants:
    """All constants on B(w(λ), r_0), proved or estimated."""
    balls = on_balls(
        guessed.problem, guessed.solution, (BallKind.LOCAL,), spend=SPEND, tell=no_progress, doubts=doubts
    )  # fmt: skip
    return balls[BallKind.LOCAL]


def _numbers(x: Tensor) -> np.ndarray:
    numbers: np.ndarray = x.detach().double().cpu().numpy()
    return numbers
