"""What a plan promises, and what it says where it promises nothing."""

from __future__ import annotations

import pytest
import torch

import boundcheck as bc

D = torch.float64


def number(x: float) -> torch.Tensor:
    return torch.tensor([x], dtype=D)


def test_an_accuracy_below_rounding_is_refused_with_the_floor() -> None:
    problem = bc.load_problem("scalar")
    with pytest.raises(bc.InputError, match=r"eps = 1e-30 is below the rounding floor 4\.2e-12 .*ask for more than"):
        bc.plan(problem, 1e-30)
    plan = bc.plan(problem, 1e-9, ["itd"])
    assert plan.guarantees[0].met
    assert plan.floor == pytest.approx(4.2e-12, rel=0.05)


def test_needed_is_the_least_t_from_which_on_the_error_stays_small() -> None:
    """E = w² with w from −1 through 0 to 1/2: the error is small where w_t passes through w*, and large again."""
    problem = bc.Problem.from_map(
        lambda w, lam: torch.stack((0.9 * w[0] + 0.4 * w[1], -0.4 * w[0] + 0.8 * w[1])) * 0.9 + lam,
        lambda w, lam: w[0] ** 2,
        torch.tensor([3.0, -2.0], dtype=D),
        torch.tensor([0.1, 0.2], dtype=D),
    )
    eps = 0.05
    for guarantee in bc.plan(problem, eps, ["itd", "aid-fp"]).guarantees:
        assert guarantee.needed is not None
        t, k = guarantee.needed
        name = guarantee.method if k is None else f"{guarantee.method}:{k}"
        errors = bc.error_curves(problem, [name], guarantee.t)[name][0]
        assert t <= guarantee.t
        assert (k or 0) <= (guarantee.k or 0)
        assert (errors[t - 1 :] <= eps).all()
        assert t == 1 or errors[t - 2] > eps


def test_a_kink_is_not_planned_as_a_quadratic() -> None:
    """E = 3|w − 1.9| by norm(p=1): t = 3 was guaranteed for eps = 1, where the error is 11.25."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: 3 * (w - 1.9).norm(p=1), number(0.0), number(1.0)
    )
    assert all(g.side is bc.Side.LOWER for g in bc.plan(problem, 1.0).guarantees)


def test_without_a_bound_the_run_itself_is_told() -> None:
    """Φ = tanh with slope 1.2 at 0 contracts at w* and not on the ball: check has errors, so the plan has a number."""
    problem = bc.Problem.from_map(
        lambda w, lam: 1.2 * torch.tanh(w) + lam, lambda w, lam: (w * w).sum(), number(0.1), number(0.5)
    )
    plan = bc.plan(problem, 1e-3, ["itd"])
    assert plan.guarantees == ()
    assert plan.silent["itd"].startswith("itd: no bound applies; itd-local: q = ")
    errors = bc.error_curves(problem, ["itd"], 500)["itd"][0]
    t = plan.measured["itd"]
    assert t is not None
    assert (errors[t - 1 :] <= 1e-3).all()
    assert errors[t - 2] > 1e-3


@pytest.mark.parametrize(
    ("name", "value"), [("r_0", 1e-6), ("D", 1e-6), ("mu_inv", 10.0), ("W", 1e-3), ("g_star", 1e-3)]
)
def test_claims_that_are_wrong_are_refused_and_told(name: str, value: float) -> None:
    problem = bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: (w * w).sum(), number(3.0), number(0.7))
    report = bc.check(problem, ["itd"], t=5, known=bc.Constants.given(**{name: value}))
    assert report.constants["local"][name].value != value
    assert any(sentence.startswith(f"{name} was given as {value:g}, but") for sentence in report.refuted)
    assert f"not used: {name} was given as" in " ".join(report.table().split())


def test_an_estimate_from_below_replaces_no_proof() -> None:
    problem = bc.Problem.from_map(lambda w, lam: 0.5 * w + lam, lambda w, lam: (w * w).sum(), number(3.0), number(0.7))
    measured = bc.estimate_constants(problem, known=bc.Constants.given(q=0.1, side="lower"))
    assert measured["q"].value == pytest.approx(0.5)
    assert measured["q"].side is bc.Side.EXACT
