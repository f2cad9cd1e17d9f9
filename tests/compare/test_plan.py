"""`plan`: what is guaranteed is met, the split follows the costs, and refusals say why."""

from __future__ import annotations

import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck.compare import plan as planning
from boundcheck.compare.step_costs import Costs

METHODS = ["itd", "aid-fp", "aid-cg"]


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr", "scalar"])
def test_the_guarantee_is_met_and_what_was_needed_is_less(name: str) -> None:
    problem = bc.load_problem("scalar") if name == "scalar" else small(name)
    truth = bc.hypergradient(problem, "exact").value
    eps = 1e-3 * float(truth.norm())
    result = bc.plan(problem, eps, METHODS)
    assert [g.method for g in result.guarantees] == METHODS
    for g in result.guarantees:
        assert g.value <= eps
        assert g.met is True
        assert g.error is not None
        assert g.error <= g.value * (1 + 1e-9)
        assert g.needed is not None
        t, k = g.needed
        assert t <= g.t
        error = float((bc.hypergradient(problem, g.method, t, k).value - truth).norm())
        assert error <= eps
        fewer = t - 1, None if k is None else max(1, round(g.k * (t - 1) / g.t))  # type: ignore[operator]
        if t > 1:
            assert float((bc.hypergradient(problem, g.method, *fewer).value - truth).norm()) > eps
    for method in METHODS:
        of_method = [offer for offer in result.offers if offer.method == method]
        assert len(of_method) == len({offer.bound for offer in of_method}) > (1 if name != "hr" else 0)
        assert min(offer.cost for offer in of_method) == next(g.cost for g in result.guarantees if g.method == method)
        assert all(offer.value <= eps for offer in of_method)
    assert result.cheapest is not None
    assert result.cheapest.cost == min(g.cost for g in result.guarantees)


def test_the_split_follows_the_cost_of_a_linear_step(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = bc.load_problem("scalar")
    splits = []
    for ratio in (0.1, 10.0):
        monkeypatch.setattr(planning, "measure", lambda problem, ratio=ratio: Costs(1e-6, ratio * 1e-6))
        (guarantee,) = bc.plan(problem, 1e-3, ["aid-fp"], run=False).guarantees
        assert guarantee.cost == pytest.approx(guarantee.t + ratio * guarantee.k)
        assert guarantee.error is None
        splits.append(guarantee)
    cheap, expensive = splits
    assert expensive.k < cheap.k  # type: ignore[operator]
    assert expensive.t > cheap.t


def test_memory_grows_with_t_for_itd_alone() -> None:
    problem = bc.load_problem("scalar", q=0.99)
    plans = [{g.method: g for g in bc.plan(problem, eps, ["itd", "aid-fp"], run=False).guarantees} for eps in (1, 1e-6)]
    assert plans[1]["itd"].memory > plans[0]["itd"].memory
    assert plans[1]["aid-fp"].memory == plans[0]["aid-fp"].memory


def test_a_momentum_method_is_given_the_ball_that_it_visits() -> None:
    problem = small("br")
    result = bc.plan(problem, 1e-2, ["itd"], run=False)
    ball = result.constants["L_E"].provenance.ball
    assert ball is not None
    assert ball.radius > result.constants["r_0"].value


def test_without_a_contraction_nothing_is_guaranteed() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 1.5 * w + lam, lambda w, lam: w.sum(), torch.zeros(1).double(), torch.ones(1).double()
    )
    result = bc.plan(problem, 1e-3, ["itd", "aid-fp"])
    assert result.guarantees == ()
    assert result.cheapest is None
    assert "q = 1.5 ≥ 1" in result.silent["itd"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "eps must be a positive number, such as 1e-3"),
        ((-1.0,), r"eps must be a positive number, .*got -1\.0"),
        ((float("nan"),), r"eps must be a positive number, .*got nan"),
        (("small",), "eps must be a positive number, .*got 'small'"),
        ((1e-3, ["aid-cg:5"]), "aid-cg:5 fixes k, which a plan is to find; write aid-cg"),
    ],
)
def test_bad_input(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(bc.InputError, match=message):
        bc.plan(bc.load_problem("scalar"), *arguments)  # type: ignore[arg-type]
