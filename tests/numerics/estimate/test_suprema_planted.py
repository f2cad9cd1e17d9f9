"""Suprema that were planted: never above the truth, and close to it; with any radius and any budget."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from measuring import FUNCTIONS, SLACK, measure
from pieces import normal, quadratic, zeros
from planted import CASES, PLANTED, R

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import supremum_search
from boundcheck.numerics.estimate.supremum_search import BUDGET, Effort


@pytest.mark.parametrize(("case", "name"), CASES)
def test_planted(case: str, name: str) -> None:
    planted, effort = PLANTED[case], {"budget": 3000} if case == "n=100000" else {}
    found, truth = measure(name, planted.problem, R, **effort), planted.truth[name]
    assert found.value <= truth * (1 + SLACK) + 1e-14
    assert found.value >= 0.999 * truth
    assert 0 <= found.spread <= 1
    assert found.starts == (3000 // BUDGET.needed if effort else 32)


@pytest.mark.parametrize(
    ("case", "name"), [c for c in CASES if c[0] in ("tanh", "outer", "non-normal", "decomposable")]
)
def test_radius_zero(case: str, name: str) -> None:
    """One point; ν and η are the derivative at it."""
    at_centre = {
        "tanh": {"q": 0.9, "nu_1": 0.0, "L_E": 0.0, "eta_1": 2.0, "L_Phi": 1.0},
        "outer": {**PLANTED["outer"].truth, "L_E": 0.7},
        "non-normal": {**PLANTED["non-normal"].truth, "L_E": 0.0},
        "decomposable": {"q": 0.0, "nu_1": 0.4, "nu_2": 0.0},
    }
    truth = at_centre[case][name]
    found = measure(name, PLANTED[case].problem, 0.0)
    assert 0.9999 * truth <= found.value <= truth * (1 + SLACK)


@pytest.mark.parametrize("radius", [1e-12, 1e-6, 1e3])
def test_any_radius(radius: float) -> None:
    """Differences very near w* would be rounding; there the derivative speaks."""
    planted, w_star = PLANTED["decomposable"], normal(12, seed=9)
    assert measure("nu_1", planted.problem, radius, w_star, budget=8000).value == pytest.approx(0.4, rel=1e-6)
    assert measure("nu_2", planted.problem, radius, w_star, budget=1000).value == 0


def test_region_that_is_not_around_w_star() -> None:
    """sup |w² − w*²|/|w − w*| = |w + w*| on [−R, R] for J = w², w* = 1."""
    problem = Problem.from_map(lambda w, lam: w**3 / 3 + lam, quadratic, zeros(1), zeros(1))
    one = torch.ones(1, dtype=torch.float64)
    assert measure("nu_1", problem, R, one, centre=zeros(1)).value == pytest.approx(R + 1, rel=1e-9)
    assert measure("q", problem, R, one, centre=zeros(1)).value == pytest.approx(R**2, rel=1e-9)
    with pytest.raises(InputError, match=r"w\* is at distance 1 .* radius is 0.5; give a region that holds w\*"):
        measure("nu_1", problem, 0.5, one, centre=zeros(1))


def test_budget() -> None:
    planted = PLANTED["cubic"]
    few = measure("nu_1", planted.problem, R, budget=1000)
    assert (few.starts, few.products <= 1000, few.converged) == (1000 // BUDGET.needed, True, False)
    for budget in (5, 12, BUDGET.least - 1, BUDGET.least, BUDGET.least + 1, 101, BUDGET.needed - 1):
        for name in ("q", "L_E", "nu_1", "eta_1"):
            assert measure(name, planted.problem, R, budget=budget).starts == 1  # and no more products than that
    with pytest.raises(InputError, match="starts must be at least 1"):
        Effort(starts=0)
    assert measure("q", planted.problem, R, starts=1).starts == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_less_than_a_start_needs_is_one_look(name: str) -> None:
    """A value that is attained, so from below; it does not pass for one that has come to rest."""
    problem = PLANTED["non-normal"].problem
    looks = [measure(name, problem, R, budget=budget) for budget in (5, 39)]
    for found in looks:
        assert (found.starts, found.converged) == (1, False)
        assert 0 <= found.value <= PLANTED["non-normal"].truth[name] * (1 + SLACK)
    assert looks[0].value <= looks[1].value
    if name == "q":
        assert looks[1].value >= 4.9  # v was improved, w does not matter
    with pytest.raises(InputError, match="budget must be at least 1 product"):
        Effort(budget=0)


def test_long_vectors_have_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supremum_search, "BUDGET", replace(BUDGET, cells=30))
    found = measure("nu_1", PLANTED["decomposable"].problem, R)
    assert found.starts == 2
    assert found.value >= 0.5 * 0.4  # T has 12 local maxima, and two starts find two of them
