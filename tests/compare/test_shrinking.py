"""`check` and `plan` with constants of smaller balls: they hold, guarantee fewer steps, and go through JSON."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from small import small
from torch import Tensor
from torch.nn.functional import softplus

import boundcheck as bc
from boundcheck.report.verdict import Verdict
from boundcheck.views.page import report_data

METHODS = ("itd", "aid-fp", "aid-cg")
LOCAL = {"itd": ("itd-local", "itd-recursive"), "aid-fp": ("aid-fp-local",), "aid-cg": ("aid-cg-local",)}

GENERATOR = torch.Generator().manual_seed(1)
X, X_VAL = (3 * torch.randn(10, 6, generator=GENERATOR, dtype=torch.float64) for _ in range(2))


def inner(w: Tensor, lam: Tensor) -> Tensor:
    return softplus(X @ w).sum() + (lam * w * w).sum() / 2


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return softplus(X_VAL @ w).sum()


@cache
def logistic() -> bc.Problem:
    lam = torch.full((6,), 0.1, dtype=torch.float64)
    step = 1 / (float(torch.linalg.eigvalsh(X.T @ X / 4)[-1]) + 0.1)
    return bc.Problem.from_loss(inner, outer, torch.zeros(6, dtype=torch.float64), lam, step)


@cache
def report(name: str) -> bc.Report:
    return bc.check(logistic() if name == "user" else small(name), list(METHODS), t=60)


@pytest.mark.parametrize("name", ["lr", "user"])
@pytest.mark.parametrize("method", METHODS)
def test_they_hold_and_are_below_the_local_bounds(name: str, method: str) -> None:
    bounds = report(name).curve(method).bounds
    shrinking = bounds[f"{method}-shrinking"]
    assert shrinking.verdict is Verdict.HOLDS
    for other in LOCAL[method]:
        assert (shrinking.values <= bounds[other].values * (1 + 1e-9)).all()
    assert shrinking.trace is not None
    assert shrinking.trace.first_broken is None
    ratio = shrinking.values[0, shrinking.trace.t - 1]
    np.testing.assert_allclose(shrinking.trace.values[-1], ratio, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_smaller_balls_pay(method: str) -> None:
    """Against the same theorem with one ball for all radii."""
    constants = report("user").constants["local"]
    one_ball = {name: constant.value for name, constant in constants.items()}
    bound = bc.bounds[f"{method}-shrinking"]
    assert constants["q"].on_smaller
    assert bound.iterations(constants, 1e-6).cost < 0.9 * bound.iterations(one_ball, 1e-6).cost


def test_constants_of_smaller_balls_are_in_the_file(tmp_path: Path) -> None:
    first = report("user")
    first.save(tmp_path)
    again = bc.Report.load(tmp_path)
    assert again.constants["local"]["q"] == first.constants["local"]["q"]
    assert again.constants["local"]["q"].on_smaller
    assert again.table() == first.table()


def test_a_plan_takes_them() -> None:
    plan = bc.plan(logistic(), 1e-3, ["itd"], run=False)
    offers = {offer.bound: offer for offer in plan.offers}
    assert plan.guarantees[0].bound == "itd-shrinking"
    assert offers["itd-shrinking"].t < offers["itd-recursive"].t
    assert offers["itd-shrinking"].side is bc.Side.UPPER


def test_a_page_shows_their_values_without_sliders() -> None:
    """Its code has one value for each constant, which is another bound."""
    rows = {(row.method, row.bound.name): row for row in report_data.rows(report("user"))}
    for method in METHODS:
        assert bc.bounds[f"{method}-shrinking"].shrinks
        assert rows[method, f"{method}-shrinking"].fixed is not None
    assert not bc.bounds["itd-recursive"].shrinks


def test_bounds_that_do_not_take_them_do_not_pay_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("smaller balls were looked at")

    monkeypatch.setattr("boundcheck.numerics.estimate.estimate_constants.with_smaller_balls", never)
    bc.check(logistic(), ["itd"], t=5, bounds=["itd-local"])
    bc.check(small("lr", dynamics="heavy-ball"), ["itd"], t=5)  # whose iterates are not w_{t+1} = Φ(w_t)


def test_momentum_is_refused() -> None:
    bounds = bc.check(small("br", dynamics="heavy-ball"), ["aid-fp"], t=5).curve("aid-fp").bounds
    assert bounds["aid-fp-shrinking"].verdict is Verdict.NOT_APPLICABLE
    assert "applies only to plain iteration of Φ" in bounds["aid-fp-shrinking"].reason
