"""A problem at one λ with its constants, and the properties that theorems require."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from boundcheck.ball import BALLS, BallKind
from boundcheck.compare.certificate import certify
from boundcheck.constants import Constant, Constants
from boundcheck.errors import AssumptionError, InputError
from boundcheck.numerics.bilevel.derivatives import jacobian, linearise, rows_outer
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT, Dynamics
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.symmetry import by_construction
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.solvers.conjugate_gradient import refuse_unless_symmetric
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress, no_progress
from boundcheck.side import Side
from boundcheck.theory import step_sizes
from boundcheck.theory.step_sizes import Momentum

SAME_STEPS = 1e-10  # the largest relative difference from the optimal steps; a difference δ changes rates by √δ
FOREVER = 100_000  # ‖w_t − w*‖ is largest within this many steps


@dataclass(frozen=True)
class AssumptionAnswer:
    """Whether an assumption holds. If not, `refusal` says why; if it is not proved, `doubt` says why."""

    refusal: str = ""
    doubt: str = ""


YES = AssumptionAnswer()


@dataclass(frozen=True, eq=False)
class Case:
    """A problem at one λ with its constants by ball, and the properties that theorems require."""

    problem: Problem
    w_star: Tensor
    constants: Mapping[str, Constants]
    momentum: Momentum | None  # the momentum method, if the dynamics are an optimal one
    radius: float  # the radius of the local ball around w*
    certificate: Constant | None  # ε_g of the reference

    @property
    def plain(self) -> bool:
        """Whether the iterates are w_{t+1} = Φ(w_t)."""
        return self.problem.dynamics.step is FIXED_POINT.step

    @property
    def constant_hessian(self) -> bool:
        """Whether Φ is a gradient step on a quadratic."""
        local = self.constants[BallKind.LOCAL]
        exact = all(name in local and local[name].side is Side.EXACT for name in ("nu_1", "alpha"))
        return exact and local["nu_1"].value == 0

    @cached_property
    def quadratic(self) -> bool:
        """Whether Φ is a gradient step on a quadratic, with frozen step sizes."""
        slope = self.constants[BallKind.LOCAL].get("grad_alpha")
        return self.constant_hessian and slope is not None and slope.value == 0 and frozen(self.problem)

    @cached_property
    def value_function(self) -> AssumptionAnswer:
        """Whether E is the lower-level loss: known from the definition of the problem, or tested at random points."""
        problem, no = self.problem, AssumptionAnswer("E is not the lower-level loss")
        if problem.value_function:
            return YES
        if problem.inner_at is None:
            return no
        prepared = Prepared(problem, problem.lam[None])
        generator = torch.Generator(device="cpu").manual_seed(0)
        shift = torch.randn(1, 2, problem.d, generator=generator, dtype=torch.float64, device="cpu").to(problem.w0)
        pair = (problem, replace(problem, outer_at=problem.inner_at))
        E, ell = (rows_outer(p, problem.w0 + shift, prepared.leaves) for p in pair)
        near = 1e4 * torch.finfo(problem.dtype).eps
        same = [bool((a - b).norm() <= near * b.norm()) for a, b in zip((E.w, *E.lam), (ell.w, *ell.lam), strict=True)]
        return (
            AssumptionAnswer(doubt="E agrees with the lower-level loss at two random points, which is not a proof")
            if all(same)
            else no
        )

    @cached_property
    def symmetric(self) -> AssumptionAnswer:
        """Whether ∂₁Φ is symmetric, as for a gradient step.

        For a map, this is tested with random vectors. The test is enough if ∂₁Φ is one matrix and the user says that it
        is symmetric. Otherwise a doubt remains.
        """
        problem = self.problem
        if problem.symmetric is False:
            return AssumptionAnswer("∂₁Φ is not symmetric")
        if by_construction(problem):
            return YES
        prepared = Prepared(problem, problem.lam)
        for w in (problem.w0, self.w_star):
            try:
                refuse_unless_symmetric(linearise(problem, w, prepared), problem)
            except AssumptionError as why:
                return AssumptionAnswer(str(why).removeprefix(f"{problem.name}: "))
        nu_1 = self.constants[BallKind.LOCAL].get("nu_1")
        if problem.symmetric and nu_1 is not None and nu_1.value == 0 and nu_1.side is Side.EXACT:
            return YES
        return AssumptionAnswer(doubt="∂₁Φ is symmetric for two random vectors, which is not a proof")

    @property
    def gradient_step(self) -> bool:
        return all(name in self.constants[BallKind.LOCAL] for name in ("alpha", "mu", "L"))


def momentum_of(problem: Problem, constants: Constants) -> Momentum | None:
    """The optimal heavy ball or Nesterov method, if the dynamics are one of them."""
    dynamics: Dynamics = problem.dynamics
    makers = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}
    if dynamics.coefficients is None or dynamics.name not in makers or not {"mu", "L", "alpha"} <= set(constants):
        return None
    try:
        best = makers[dynamics.name](constants["mu"].value, constants["L"].value)
    except InputError:  # μ = 0, or μ > L
        return None
    omega, beta = (float(x) for x in dynamics.coefficients(problem.prepare(problem.lam)))
    step = omega * constants["alpha"].value
    near = max(SAME_STEPS, 16 * torch.finfo(problem.dtype).eps)
    return best if abs(step - best.alpha) <= near * best.alpha and abs(beta - best.beta) <= near else None


def frozen(problem: Problem) -> bool:
    """Whether ω and β of the momentum are held fixed under differentiation: their derivatives at λ are 0."""
    coefficients = problem.dynamics.coefficients
    if coefficients is None:
        return True

    def both(lam: Tensor) -> Tensor:
        return torch.stack([torch.as_tensor(x, dtype=lam.dtype) for x in coefficients(problem.prepare(lam))])

    return not bool(jacobian(both, problem.lam).any())


def case_at(
    problem: Problem, solution: ReferenceSolution, known: Constants | None, constants: Mapping[str, Constants] | None,
    spend: Spend, doubts: tuple[str, ...] = (), tell: Progress = no_progress, smaller_balls: bool = False,
) -> Case:  # fmt: skip
    """Estimate the constants of a problem on both balls; the local ball contains all iterates of the dynamics.

    With `smaller_balls`, and if the iterates are w_{t+1} = Φ(w_t), the constants have values on smaller balls too.
    """
    if constants is not None:
        if missing := [ball for ball in BALLS if ball not in constants]:
            raise InputError(f"constants has no ball {missing[0].value!r}; give both, {' and '.join(BALLS)}")
        return _case(problem, solution, constants)
    constants_by_ball = on_balls(
        problem, solution, BALLS, known=known, peak=lambda steps: _peak(momentum_of(problem, steps)), spend=spend,
        tell=tell, doubts=doubts, smaller_balls=smaller_balls and problem.dynamics.step is FIXED_POINT.step,
    )  # fmt: skip
    return _case(problem, solution, constants_by_ball)


def _peak(momentum: Momentum | None) -> float:
    """The largest ‖w_t − w*‖/r_0 of the iterates; with momentum it may be above 1."""
    return 1.0 if momentum is None else max(1.0, float(momentum.factor(np.arange(FOREVER)).max()))


def _case(problem: Problem, solution: ReferenceSolution, constants: Mapping[str, Constants]) -> Case:
    local = constants[BallKind.LOCAL]
    momentum = momentum_of(problem, local)
    radius = _peak(momentum) * local["r_0"].value if "r_0" in local else 0.0
    return Case(problem, solution.w[0], constants, momentum, radius, certify(problem, solution, local))
