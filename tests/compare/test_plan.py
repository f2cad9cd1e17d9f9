"""`plan`: what is guaranteed is met, the split follows the costs, and refusals say why."""

from __future__ import annotations

import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck.compare import measured_need
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
        if t > 1:
            assert float((bc.hypergradient(problem, g.method, t - 1, k).value - truth).norm()) > eps
        need = result.needs[g.method]
        assert need is not None
        assert (need.t, need.k) == (t, k)
        assert need.cost <= g.cost
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


@pytest.fixture(scope="module")
def steep() -> bc.Problem:
    """A quadratic with κ = 30 in six dimensions."""
    H = torch.linspace(1.0, 30.0, 6, dtype=torch.float64)
    target = torch.ones(6, dtype=torch.float64)
    return bc.Problem.from_loss(
        lambda w, lam: (H * w * w).sum() / 2 - lam @ w, lambda w, lam: ((w - target) ** 2).sum() / 2,
        torch.zeros_like(H), torch.linspace(1.0, 3.0, 6, dtype=torch.float64),
    )  # fmt: skip


@pytest.mark.parametrize("ratio", [0.2, 5.0])
@pytest.mark.parametrize("method", ["aid-cg", "aid-fp"])
def test_what_a_run_needed_is_the_cheapest_of_all_t_and_k(steep: bc.Problem, method: str, ratio: float) -> None:
    eps, costs = 1e-4, Costs(1e-6, ratio * 1e-6)
    need = measured_need.search(steep, method, eps, costs, 2**30).need
    assert need is not None
    names = {k: f"{method}:{k}" for k in range(1, 201)}
    curves = bc.error_curves(steep, list(names.values()), 300)
    least = {k: measured_need.first_within(curves[name][0], eps) for k, name in names.items()}
    best = min(t + ratio * k for k, t in least.items() if t is not None)
    assert need.t == least[need.k or 0]
    assert need.cost == pytest.approx(need.t + ratio * (need.k or 0))
    assert best <= need.cost * (1 + 1e-12)
    assert need.cost <= best * (1 + 2 * measured_need.SAVING) + max(ratio, 1)
    assert method == "aid-fp" or (need.k or 0) <= 6  # CG is done after d steps, and does not look slower than it is


def test_a_relative_accuracy(steep: bc.Problem) -> None:
    norm = float(bc.hypergradient(steep, "exact").value.norm())
    plan = bc.plan(steep, rtol=0.01, methods=["itd"], run=False)
    assert plan.eps == pytest.approx(0.01 * norm)
    assert plan.rtol == pytest.approx(0.01)
    assert plan.gradient_norm == pytest.approx(norm)
    assert plan.needs == {}
    constant = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: ((w - 2) ** 2).sum(), torch.zeros(1).double(),
        torch.ones(1).double(),
    )  # fmt: skip
    with pytest.raises(bc.InputError, match=r"rtol = 0\.01 asks for a share of ‖∇f‖, which is 0; give eps"):
        bc.plan(constant, rtol=0.01)


def test_a_run_that_does_not_converge_says_so() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 1.5 * w + lam, lambda w, lam: w.sum(), torch.zeros(1).double(), torch.ones(1).double()
    )
    plan = bc.plan(problem, 1e-3, ["itd"])
    assert plan.needs == {"itd": None}
    assert plan.not_reached["itd"].startswith("it diverges: its error after 500 steps is")
    assert plan.cheapest_run is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no accuracy was given; give one of them"),
        ((0,), "eps must be a positive number, such as 1e-3"),
        ((-1.0,), r"eps must be a positive number, .*got -1\.0"),
        ((float("nan"),), r"eps must be a positive number, .*got nan"),
        (("small",), "eps must be a positive number, .*got 'small'"),
        ((1e-3, ["aid-cg:5"]), "aid-cg:5 fixes k, but a plan chooses k; write aid-cg"),
    ],
)
def test_bad_input(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(bc.InputError, match=message):
        bc.plan(bc.load_problem("scalar"), *arguments)  # type: ignore[arg-type]


def test_one_accuracy_is_enough() -> None:
    with pytest.raises(bc.InputError, match="eps and rtol were given together; give one of them"):
        bc.plan(bc.load_problem("scalar"), 1e-3, rtol=0.1)
    with pytest.raises(bc.InputError, match=r"rtol must be a positive number, .*got -0\.1"):
        bc.plan(bc.load_problem("scalar"), rtol=-0.1)
