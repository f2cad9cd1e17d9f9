"""`ji-itd` on users' problems: its one L is that of every second derivative, and its step is small and fixed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.compare.one_smoothness import one_smoothness
from boundcheck.errors import MissingConstantError

X = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
y = X.sum(1).sign()
START, LAM = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)


def inner(w: Tensor, lam: Tensor) -> Tensor:
    return torch.nn.functional.softplus(-y * (X @ w)).mean() + (lam * w**2).sum() / 2


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return torch.nn.functional.softplus(-y * (X @ w)).sum()


def problem(step: float | Callable[[Tensor], Tensor], **more: bool) -> bc.Problem:
    return bc.Problem.from_loss(inner, outer, START, LAM, step, **more)


def test_it_holds_where_the_step_is_small() -> None:
    small = problem(0.1)
    L = one_smoothness(bc.estimate_constants(small, ball="local")).value
    assert 0.1 * L <= 1
    report = bc.check(small, methods=["itd"], t=40)
    assert report.verdicts["itd", "ji-itd"] is bc.Verdict.HOLDS
    bound = report.curve("itd").bounds["ji-itd"].values
    assert (bound >= report.curve("itd").bounds["itd-local"].values).all()


def test_the_curvature_of_E_counts() -> None:
    """E is ten times the data term of ℓ: 1/L is far below what ℓ alone would allow."""
    constants = bc.estimate_constants(problem(0.3), ball="local")
    one = one_smoothness(constants)
    assert constants["eta_1"].value > constants["L"].value
    assert one.value >= max(constants[name].value for name in ("L", "eta_1", "eta_2"))
    assert one.side is bc.Side.UPPER
    assert 0.3 * constants["L"].value < 1 < 0.3 * one.value
    report = bc.check(problem(0.3), methods=["itd"], t=10)
    assert report.verdicts["itd", "ji-itd"] is bc.Verdict.NOT_APPLICABLE
    assert "the result is for α ≤ 1/L" in report.curve("itd").bounds["ji-itd"].reason


def test_the_derivative_by_lam_counts() -> None:
    given = bc.Constants.given(L=1.0, L_Phi=3.0, alpha=0.5, eta_1=2.0, eta_2=0.1, side="upper")
    assert one_smoothness(given).value == pytest.approx(6)


def test_an_estimate_stays_one() -> None:
    given = bc.Constants.given(L=1.0, L_Phi=3.0, alpha=0.5, eta_1=2.0, side="exact")
    estimate = bc.Constants.given(eta_2=0.1, side="lower")["eta_2"]
    assert one_smoothness(given.replace(estimate)).side is bc.Side.LOWER
    with pytest.raises(MissingConstantError, match="it needs eta_2"):
        one_smoothness(given)


def test_a_step_that_is_differentiated_is_refused() -> None:
    moving = problem(lambda lam: 0.05 / lam.mean(), differentiate_step=True)
    report = bc.check(moving, methods=["itd"], t=5, budget=20)
    assert report.verdicts["itd", "ji-itd"] is bc.Verdict.NOT_APPLICABLE
