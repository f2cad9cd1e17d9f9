"""A fixed point is proved next to a computed w, and its distance is close to the true one."""

from __future__ import annotations

import pytest
import torch

import boundcheck as bc
from boundcheck.numerics.estimate import fixed_point_certificate
from boundcheck.numerics.estimate.fixed_point_certificate import FixedPoint
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.step_constant import step_constant
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference

FLAT = 1e-3  # curvature in one direction; that of the others is 1, so 1/μ is 1000


def quartic() -> bc.Problem:
    """A loss that is flat in one direction, with a fourth power, so that its Hessian changes."""
    weights = torch.tensor([1.0, 1.0, FLAT], dtype=torch.float64)
    return bc.Problem.from_loss(
        lambda w, h: (weights * (w - h) ** 2).sum() / 2 + 0.1 * ((w - h) ** 4).sum(),
        lambda w, h: (w**2).sum(),
        torch.zeros(3, dtype=torch.float64),
        torch.ones(3, dtype=torch.float64),
        0.5,
    )


def at(problem: bc.Problem, w: torch.Tensor) -> ReferenceSolution:
    solution = reference(problem, problem.lam[None])
    return ReferenceSolution(solution.value, w[None], solution.v, solution.residual_w, solution.residual_v)


@pytest.mark.parametrize("shift", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("direction", [[1.0, 0.0, 0.0], [0.6, -0.8, 1e-3]])
def test_the_distance_is_hardly_more_than_the_true_one(shift: float, direction: list[float]) -> None:
    problem = quartic()
    w = problem.lam + shift * torch.tensor(direction, dtype=torch.float64)  # w* = λ
    result = fixed_point_certificate.certify(ProgramProof.of(problem), at(problem, w), step_constant(problem))
    assert isinstance(result, FixedPoint), result
    true = float((w - problem.lam).norm())
    assert true <= result.distance <= 1.2 * true  # ‖R‖‖w − Φ(w)‖ would be a thousand times as much
    assert result.distance <= result.radius
    assert result.inverse >= 1 / (0.5 * FLAT)


def test_too_far_away_is_not_certified() -> None:
    problem = quartic()
    w = problem.lam + torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64)
    result = fixed_point_certificate.certify(ProgramProof.of(problem), at(problem, w), step_constant(problem))
    assert isinstance(result, str)
