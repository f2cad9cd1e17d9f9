"""What a black box is made of, found by looking."""

from __future__ import annotations

import pytest
import torch
from pieces import normal
from small import small

import boundcheck as bc
from boundcheck.constants import Side
from boundcheck.estimate import checks, structure
from boundcheck.known import Region
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem


def found(problem: Problem, seed: int = 0) -> structure.Structure:
    prepared = Prepared(problem, problem.lam[None])
    return structure.find(problem, prepared, Region("w_star", problem.w0, 1.0), seed)


@pytest.mark.parametrize(
    ("name", "d1phi", "d2phi", "hessian", "d2E"),
    [
        ("lr", False, False, False, True),
        ("krr", True, False, True, False),
        ("br", True, True, True, True),
        ("hr", True, False, True, False),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_problems_of_the_paper(
    name: str, d1phi: bool, d2phi: bool, hessian: bool, d2E: bool, dtype: torch.dtype
) -> None:
    for seed in (0, 1):
        shape = found(small(name, dtype=dtype), seed)
        assert (shape.d1phi, shape.d2phi, shape.hessian_of_E, shape.d2E) == (d1phi, d2phi, hessian, d2E)


def test_what_the_graph_hides_is_seen_in_the_numbers() -> None:
    """(w²).sum() has a constant Hessian although autograd reaches w through it; w³ has not."""
    data = normal(6, 3)

    def of(power: int) -> Problem:
        def inner(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
            return ((data @ w) ** power).sum() / 100 + (lam * w * w).sum()

        return bc.Problem.from_loss(
            inner, lambda w, lam: (w**power).sum(), torch.zeros(3).double(), torch.ones(3).double(), step_size=0.1
        )

    assert found(of(2)).d1phi
    assert found(of(2)).hessian_of_E
    assert not found(of(3)).d1phi
    assert not found(of(3)).hessian_of_E


ANALYTIC = {
    "flat far out": lambda w: 0.5 * w + 0.1 * torch.tanh(w - 100),
    "flat near 0": lambda w: 0.5 * w + 1e-13 * w**3 / 3,
}
IN_PIECES = {
    "huber": lambda w: 0.5 * torch.where(w.abs() < 300, w, 300 * w.sign()),
    "relu": lambda w: 0.5 * torch.relu(w + 1e3),
    "compared": lambda w: 0.5 * w * (1 + 0.5 * (w > 1e3)),
    "clamped": lambda w: 0.5 * w.clamp(-1e3, 1e3),
    "max": lambda w: 0.5 * torch.stack((w, w - 1e3)).amax(0),
}


@pytest.mark.parametrize("name", [*ANALYTIC, *IN_PIECES])
def test_what_bends_elsewhere_is_not_constant(name: str) -> None:
    """Between w_0 and w*, or in another piece: no exact ν₁ = 0 from points where nothing is seen of it."""
    bent = {**ANALYTIC, **IN_PIECES}[name]
    start = torch.full((1,), 1e6 if name == "flat near 0" else 100.0, dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, lam: bent(w) + lam, lambda w, lam: bent(w).sum(), start, torch.zeros(1).double()
    )
    constants = bc.estimate_constants(problem, ball="local", budget=300)
    for constant in ("q", "nu_1", "eta_1"):
        assert constants[constant].side is Side.LOWER


def test_what_bends_between_the_start_and_the_solution_is_not_constant() -> None:
    """In 200 dimensions random points never come near the line from w_0 to w*, on which every bound depends."""
    d, R = 200, 10.0
    e_1 = torch.zeros(d, dtype=torch.float64)
    e_1[0] = 1

    def phi(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        x = w + R * e_1
        return x / 2 - R * e_1 + (0.03 * (torch.tanh(9 * x[0] - 6 * R) - torch.tanh(9 * x[0] - 8 * R)) + lam) * e_1

    problem = bc.Problem.from_map(phi, lambda w, lam: w @ w / 2, 0 * e_1, torch.zeros(1).double())
    constants = bc.estimate_constants(problem, ball="local", budget=300)
    assert constants["nu_1"].side is Side.LOWER
    assert constants["q"].side is Side.LOWER


def test_small_numbers_are_numbers() -> None:
    """E in units in which it is tiny still is no quadratic."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: 1e-14 * (w**4).sum(), torch.ones(2).double(),
        torch.ones(2).double(),
    )  # fmt: skip
    assert not found(problem).hessian_of_E


def test_noise_that_vanishes_at_the_start_is_noise() -> None:
    """Dropout at w_0 = 0."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * torch.nn.functional.dropout(w, 0.5) + lam, lambda w, lam: w.sum(), torch.zeros(9).double(),
        torch.ones(9).double(),
    )  # fmt: skip
    with pytest.raises(bc.InputError, match=r"two calls of Φ at one w and lam differ by .*, so it is stochastic"):
        bc.estimate_constants(problem)


def test_a_stochastic_function_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)

    def phi(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return 0.5 * w + lam + 1e-6 * torch.rand((), generator=generator, dtype=w.dtype)

    problem = bc.Problem.from_map(phi, lambda w, lam: w.sum(), torch.zeros(2).double(), torch.ones(2).double())
    with pytest.raises(bc.InputError, match=r"two calls of Φ at one w and lam differ by .*, so it is stochastic; fix"):
        checks.check(problem, problem.lam)


def test_what_is_not_finite_names_the_call_and_the_point() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: w.sum(), torch.ones(2).double(), torch.ones(2).double()
    )
    broken = problem.__class__(**{**vars(problem), "outer_at": lambda w, ready: (w / 0).sum()})
    with pytest.raises(bc.UserCodeError, match=r"E is not finite at w_0 \(‖w_0‖ = 1.41\)"):
        checks.check(broken, broken.lam)
