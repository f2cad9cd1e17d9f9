"""Numbers that a function computes from data alone: where their rounding matters, nothing is proved."""

from __future__ import annotations

from types import ModuleType

import mpmath
import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.estimate import residual_balls, rounding_proof
from boundcheck.numerics.estimate.data_arithmetic import doubt
from boundcheck.numerics.estimate.rounding_proof import EnclosedNorms
from boundcheck.numerics.solvers.reference import reference

ONE = torch.ones(1)


def make(dtype: torch.dtype, big: float) -> bc.Problem:
    """K = (big + 0.3) − big, which is 0.3 in exact arithmetic."""
    large, small = torch.tensor([big], dtype=dtype), torch.tensor([0.3], dtype=dtype)
    return bc.Problem.from_map(
        lambda w, h: ((large + small) - large) * torch.sin(w) + h,
        lambda w, h: ((w - 3) ** 2).sum() / 2, 0 * ONE.to(dtype), ONE.to(dtype),
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "big"), [(torch.float32, 3e3), (torch.float64, 3e11)])
def test_an_enclosure_of_two_functions_is_no_proof(dtype: torch.dtype, big: float) -> None:
    """At 3e3 in float32 the error was said to be at most 3.0e-5, proved; with K = 0.3 it is 5.8e-5."""
    problem = make(dtype, big)
    assert bc.enclose(problem, bc.hypergradient(problem, "exact")).side is bc.Side.LOWER
    constants = bc.estimate_constants(problem, ball="local", budget=12)
    assert constants["q_star"].side is bc.Side.LOWER
    assert "computes with its data in float" in constants["q_star"].provenance.how
    assert bc.hypergradient(problem, rtol=0.01).how == "estimated"


def test_what_is_computed_without_loss_is_data() -> None:
    X = torch.tensor([[2.0, 1.0], [0.0, 1.0]])

    def phi(w: Tensor, h: Tensor) -> Tensor:
        return (X.T @ X) @ w / 16 + 0.1 * torch.sin(w) + h

    problem = bc.Problem.from_map(phi, lambda w, h: ((w - 3) ** 2).sum() / 2, torch.zeros(2), ONE)
    assert bc.estimate_constants(problem, ball="local", budget=12)["q"].side is bc.Side.UPPER


@pytest.mark.parametrize(("big", "rounds"), [(0.0, False), (3e11, True)])
def test_infinite_entries_of_data_do_not_round(big: float, rounds: bool) -> None:
    """A mask of −∞ was said to round; what stands beside it may."""
    large, hidden = torch.tensor([big, 1.0], dtype=torch.float64), torch.tensor([False, True])

    def phi(w: Tensor, h: Tensor) -> Tensor:
        mask = ((large + 0.3) - large).masked_fill(hidden, -float("inf"))
        return 0.5 * torch.sigmoid(w + mask) + h

    start = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_map(phi, lambda w, h: ((w - 3) ** 2).sum(), start, start[:1])
    assert ("rounds" in doubt(problem)) is rounds


@pytest.mark.parametrize("of", [residual_balls, rounding_proof])
def test_residuals_and_constants_are_of_one_function(of: ModuleType) -> None:
    """K = (3000 + 0.3) − 3000 is 5.5e-14 away from 0.3. Residuals took it as 0.3, and constants as computed."""
    problem = make(torch.float64, 3e3)
    assert not doubt(problem)
    solution = reference(problem, problem.lam[None])
    w, v, value = solution.w[0], solution.v[0], solution.value[0]
    proved = of.proved(problem, w, v, value)
    assert isinstance(proved, EnclosedNorms)
    K = (3000 + 0.3) - 3000
    with mpmath.workdps(50):
        truth = abs(mpmath.mpf(w.item()) - mpmath.mpf(K) * mpmath.sin(mpmath.mpf(w.item())) - 1)
        exact = abs(mpmath.mpf(w.item()) - mpmath.mpf("0.3") * mpmath.sin(mpmath.mpf(w.item())) - 1)
    assert truth <= proved.residual_w < 1e-14 < exact


def test_data_that_are_written_in_place_are_data() -> None:
    X = torch.tensor([[2.0, 1.0], [0.3, 1.0]], dtype=torch.float64)

    def phi(w: Tensor, h: Tensor) -> Tensor:
        K = torch.empty(2, 2, dtype=torch.float64)
        K.copy_(X)
        K.div_(16.1)
        out = K @ w
        out[0] = out[0] + 0.1 * torch.sin(w[1])
        return out + h

    start = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_map(phi, lambda w, h: ((w - 3) ** 2).sum(), start, start[:1] + 1)
    solution = reference(problem, problem.lam[None])
    w, v, value = solution.w[0], solution.v[0], solution.value[0]
    proved = rounding_proof.proved(problem, w, v, value)
    assert isinstance(proved, EnclosedNorms), proved
    K = X.clone().div_(16.1)
    with mpmath.workdps(50):
        a = [mpmath.mpf(x) for x in w.tolist()]
        rows = [[mpmath.mpf(x) for x in row] for row in K.tolist()]
        out = [sum(x * y for x, y in zip(row, a, strict=True)) + 1 for row in rows]
        out[0] += mpmath.mpf(0.1) * mpmath.sin(a[1])
        truth = mpmath.norm(mpmath.matrix([x - y for x, y in zip(a, out, strict=True)]))
    assert truth <= proved.residual_w < 1e-14


def test_a_solution_from_data_is_taken_as_computed() -> None:
    """The exact solution is 1e-12 away: the matrix has a condition number of 10⁵."""
    A = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-5]], dtype=torch.float64)
    B = torch.tensor([[0.3, 0.1], [0.3, 0.1 + 1e-6]], dtype=torch.float64)

    def phi(w: Tensor, h: Tensor) -> Tensor:
        return torch.linalg.solve(A, B) @ torch.sin(w) + h

    start = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_map(phi, lambda w, h: ((w - 3) ** 2).sum(), start, start[:1] + 1)
    assert not doubt(problem)
    solution = reference(problem, problem.lam[None])
    w = solution.w[0]
    proved = rounding_proof.proved(problem, w, solution.v[0], solution.value[0])
    assert isinstance(proved, EnclosedNorms), proved
    with mpmath.workdps(50):
        a = [mpmath.mpf(x) for x in w.tolist()]
        K = [[mpmath.mpf(x) for x in row] for row in torch.linalg.solve(A, B).tolist()]
        out = [mpmath.fsum(x * mpmath.sin(y) for x, y in zip(row, a, strict=True)) + 1 for row in K]
        truth = mpmath.norm(mpmath.matrix([x - y for x, y in zip(a, out, strict=True)]))
    assert truth <= proved.residual_w < 1e-14
