"""What `check` says where a theorem, a method or a constant does not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck import Verdict
from boundcheck.constants import Constants
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.side import Side


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def quadratic(alpha: float) -> Problem:
    """ℓ = ½wᵀdiag(1, 2, 4)w − λᵀw, E = ½‖w − 1‖²."""
    H = vector(1, 2, 4)
    return bc.Problem.from_loss(
        lambda w, lam: (H * w * w).sum() / 2 - lam @ w,
        lambda w, lam: ((w - 1) ** 2).sum() / 2,
        torch.zeros(3).double(),
        vector(1, 2, 3),
        step_size=alpha,
    )


def test_no_contraction_is_said_with_its_number_and_the_remedy() -> None:
    report = bc.check(quadratic(0.5075), ["itd"], t=40, bounds=["itd", "itd-local", "itd-gd", "itd-path"])
    assert report.verdict is Verdict.NOT_APPLICABLE
    reason = report.curve("itd").bounds["itd"].reason
    assert "q = 1.03 ≥ 1" in reason
    assert "Assumption 2" in reason
    assert "smaller step" in reason
    assert report.curve("itd").applicable == {}
    assert "no bound applies" in report.table()


def test_what_needs_no_contraction_applies_without_one() -> None:
    """I − ∂₁Φ = αH is definite all the same, and a Newton step certifies the iterates, which diverge."""
    curve = bc.check(quadratic(0.5075), ["aid-cg"], t=40).curve("aid-cg")
    assert list(curve.applicable) == ["aid-certificate", "aid-newton", "aid-path", "aid-spectral"]
    assert curve.bounds["aid-newton"].verdict is Verdict.HOLDS
    alone = bc.check(quadratic(0.5075), ["aid-cg"], t=40, bounds=["aid-newton"])
    assert alone.verdict is Verdict.HOLDS  # what its conditions need is observed for it alone


def test_momentum_leaves_the_theorems_about_contractions() -> None:
    report = bc.check(small("br"), ["itd", "aid-fp"], t=40)
    assert "this problem uses heavy-ball" in report.curve("itd").bounds["itd"].reason
    assert report.curve("itd").bounds["heavy-ball"].verdict is Verdict.HOLDS
    late = report.curve("aid-fp").bounds["aid-fp"]
    assert late.verdict is Verdict.HOLDS
    assert "as ρ(t) > 1 before" in late.reason
    assert np.isnan(late.values[0, 0])
    ball = report.constants["local"]["eta_1"].provenance.ball, report.constants["local"]["L_E"].provenance.ball
    assert any(b is not None and b.radius > report.constants["local"]["r_0"].value for b in ball)  # the peak


def test_a_momentum_that_is_not_optimal_has_no_rate() -> None:
    from boundcheck.numerics.bilevel.dynamics import constant

    problem = replace(quadratic(0.4), dynamics=constant("heavy-ball", 0.4, 0.3, 0.1))
    report = bc.check(problem, ["itd", "aid-fp"], t=20)
    assert report.verdict is not Verdict.VIOLATED
    assert "no rate ρ(t) is proved" in report.curve("aid-fp").bounds["aid-fp"].reason


def test_cg_on_a_system_that_is_not_symmetric_is_refused_and_the_others_run() -> None:
    A = torch.tensor([[0.3, 0.4], [-0.2, 0.1]]).double()
    problem = bc.Problem.from_map(
        lambda w, lam: A @ w + lam, lambda w, lam: (w**2).sum(), torch.zeros(2).double(), vector(1, 2)
    )
    report = bc.check(problem, ["itd", "aid-cg", "aid-cgn"], t=30)
    assert list(report.curves) == ["itd", "aid-cgn"]
    assert "not symmetric" in report.refused["aid-cg"]
    assert "use aid-cgn" in " ".join(report.table().split())
    with pytest.raises(bc.AssumptionError, match="not symmetric"):
        bc.check(problem, ["aid-cg"], t=30)


def test_a_stochastic_map_is_refused() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam + 1e-3 * torch.rand(2).double(),
        lambda w, lam: w.sum(),
        torch.zeros(2).double(),
        vector(1, 2),
    )
    with pytest.raises(bc.InputError, match="stochastic"):
        bc.check(problem, ["itd"], t=5)


def test_float32_is_judged_above_its_floor() -> None:
    report = bc.check(small("lr", dtype=torch.float32), ["itd", "aid-fp", "aid-cg"], t=400)
    precise = bc.check(small("lr"), ["itd", "aid-fp", "aid-cg"], t=400)
    assert report.verdict is Verdict.HOLDS
    for method, curve in report.curves.items():
        assert curve.floor[0, -1] > 1e4 * precise.curve(method).floor[0, -1]
        assert (curve.errors[0, -50:] <= 10 * curve.floor[0, -50:]).all()  # it has arrived there
        assert np.isnan(curve.applicable["aid-local" if method != "itd" else "itd-local"].tightness[0, -1])


def black_box() -> Problem:
    """Neither Φ nor E is quadratic, and nothing is known of them."""
    return bc.Problem.from_map(
        lambda w, lam: 0.6 * torch.sin(w) + 0.2 * lam * w + lam,
        lambda w, lam: torch.cosh(w).sum() + lam @ w,
        torch.zeros(3).double(),
        vector(0.1, 0.2, 0.3),
    )


def test_estimates_from_below_never_prove_and_never_refute(without_program: None) -> None:
    report = bc.check(black_box(), ["itd", "aid-fp"], t=40)
    result = {bound.verdict for curve in report.curves.values() for bound in curve.applicable.values()}
    assert result == {Verdict.CONSISTENT}
    assert "estimated from below" in report.curve("itd").bounds["itd"].reason
    lowered = {
        ball: constants.replace(*(replace(c, value=c.value / 2) for c in constants.values() if c.name == "q"))
        for ball, constants in report.constants.items()
    }
    wrong = bc.check(black_box(), ["itd"], t=40, bounds=["itd-local"], constants=lowered)
    bound = wrong.curve("itd").bounds["itd-local"]
    assert bound.verdict is Verdict.INCONCLUSIVE
    assert "q, " in bound.reason
    assert "may be too small" in bound.reason


def test_a_claim_that_sampling_refutes_is_not_used(without_program: None) -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * torch.sin(w) + lam, lambda w, lam: (w**2).sum() / 2, torch.zeros(2).double(), vector(1, 2)
    )
    claims = Constants.given(q=0.2, side="upper")
    report = bc.check(problem, ["itd"], t=20, known=claims)
    q = report.constants["paper"]["q"]
    assert q.value > 0.4
    assert q.side is Side.LOWER
    assert "given as at most 0.2, but" in q.provenance.how
    assert report.verdict is Verdict.CONSISTENT


def test_a_true_claim_makes_a_proof() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * torch.sin(w) + lam, lambda w, lam: (w**2).sum() / 2, torch.zeros(2).double(), vector(1, 2)
    )
    claims = Constants.given(q=0.5, nu_1=0.5, side="upper")
    report = bc.check(problem, ["itd"], t=20, known=claims)
    assert report.curve("itd").bounds["itd-local"].verdict is Verdict.HOLDS


def test_a_start_away_from_zero_has_its_local_bound_only() -> None:
    problem = replace(quadratic(0.4), w0=vector(1, 1, 1))
    report = bc.check(problem, ["itd"], t=20)
    assert "w_0 is not 0 (‖w_0‖ = 1.73)" in report.curve("itd").bounds["itd"].reason
    assert report.curve("itd").bounds["itd-local"].verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["itf"]}, "unknown method 'itf'"),
        ({"methods": []}, "methods is empty"),
        ({"methods": ["exact"]}, "exact is what errors are measured against"),
        ({"t": 0}, "t must be at least 1 (got 0"),
        ({"t": -3}, "t must be at least 1 (got -3"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"bounds": ["itx"]}, "unknown bound 'itx'"),
        ({"bounds": ["itd-derivative"]}, "itd-derivative bounds dw, not the hypergradient's error"),
        ({"constants": {}}, "constants has no ball 'paper'"),
        ({"delta": 2.0}, "delta must be between 0 and 1"),
        ({"budget": 0}, "budget must be at least 1 product"),
        ({"lam": vector(1, 2)}, "lam"),
    ],
)
def test_bad_input(options: dict[str, object], message: str) -> None:
    with pytest.raises(bc.BoundcheckError, match=message.replace("(", r"\(")):
        bc.check(quadratic(0.4), **{"t": 5, **options})  # type: ignore[arg-type]


def test_a_step_beyond_the_inverse_of_mu_ends_one_bound_and_not_the_report() -> None:
    """Ji et al. take a root of 1 − αμ."""
    problem = bc.Problem.from_loss(
        lambda w, lam: (lam.exp() * (w - 1) ** 2).sum() + 0.01 * torch.cosh(w).sum(),
        lambda w, lam: (w**2).sum() / 20, torch.full((2,), 0.1).double(), torch.zeros(2).double(), 0.8,
    )  # fmt: skip
    report = bc.check(problem, ["itd"], t=12)
    assert report.curve("itd").bounds["ji-itd"].verdict is Verdict.NOT_APPLICABLE
    assert report.curve("itd").bounds["itd-local"].verdict is Verdict.HOLDS
