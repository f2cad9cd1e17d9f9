"""Every assumption has a check or a reason why it is met; what is only likely makes a verdict an estimate."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import boundcheck as bc
from boundcheck.compare import applicability, stochastic_bounds
from boundcheck.compare.applicability import AssumptionAnswer, Case, question
from boundcheck.compare.applied_bound import apply
from boundcheck.compare.reasons import missing
from boundcheck.compare.require_checks import require_checks
from boundcheck.methods import Method
from boundcheck.theory.assumptions import SYMMETRIC

D = torch.float64


def rotation(**options: object) -> bc.Problem:
    R = 0.9 * torch.tensor([[0.0, 1], [-1, 0]], dtype=D)
    return bc.Problem.from_map(
        lambda w, lam: R @ w + lam, lambda w, lam: (w * w).sum(), torch.zeros(2, dtype=D), torch.ones(2, dtype=D),
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def reflection() -> bc.Problem:
    R = 0.9 * torch.tensor([[0.0, 1], [1, 0]], dtype=D)
    return bc.Problem.from_map(
        lambda w, lam: R @ w + lam, lambda w, lam: (w * w).sum(), torch.zeros(2, dtype=D), torch.ones(2, dtype=D)
    )


@pytest.mark.parametrize("module", [applicability, stochastic_bounds])
def test_an_assumption_without_a_check_is_refused_by_name(module: ModuleType) -> None:
    known = (*module.CHECKS, *module.BY_CONSTRUCTION)
    misspelt = replace(bc.bounds["aid-cg"], assumptions=(replace(SYMMETRIC, key="symetric"),))
    with pytest.raises(bc.BoundcheckError, match="unknown assumption of aid-cg 'symetric'"):
        require_checks([misspelt], known)
    assert len(set(known)) == len(known)
    assert all(reason for reason in module.BY_CONSTRUCTION.values())


def test_no_plan_for_conjugate_gradient_on_a_rotation() -> None:
    plan = bc.plan(rotation(), 1e-3)
    assert [g.method for g in plan.guarantees] == ["itd", "aid-fp", "aid-cgn"]  # which is asked in place of aid-cg
    assert [g.method for g in bc.plan(rotation(), 1e-3, ["itd", "aid-cg"], run=False).guarantees] == ["itd"]
    assert plan.silent["aid-cg"].startswith("aid-cg does not apply: ∂₁Φ is not symmetric")
    assert plan.measured["aid-cg"] is None


def test_a_false_word_on_symmetry_is_refused() -> None:
    with pytest.raises(bc.InputError, match="symmetric=True, and ∂₁Φ is not symmetric"):
        rotation(symmetric=True)
    plan = bc.plan(replace(rotation(), symmetric=True), 1e-3, ["aid-cg"])  # as where it fails at w* only
    assert plan.guarantees == ()
    assert "∂₁Φ is not symmetric" in plan.silent["aid-cg"]


def test_symmetry_that_was_only_tried_is_no_proof() -> None:
    """The map is affine, so every constant is proved; that ∂₁Φ is symmetric is not."""
    report = bc.check(reflection(), ["aid-cg", "aid-fp"], t=10)
    bound = report.curve("aid-cg").bounds["aid-cg"]
    assert bound.verdict is bc.Verdict.CONSISTENT
    assert bound.reason == "no proof: ∂₁Φ is symmetric for two random vectors, which is not a proof"
    assert report.curve("aid-fp").bounds["aid-fp"].verdict is bc.Verdict.HOLDS
    plan = bc.plan(reflection(), 1e-3, ["aid-cg"])
    assert all(g.side is bc.Side.LOWER for g in plan.guarantees)


def test_a_loss_that_is_the_outer_loss_is_known_to_be() -> None:
    def loss(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return ((w - lam) ** 2).sum()

    def the_same(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return loss(w, lam)

    start = torch.zeros(2, dtype=D)
    for outer, verdict in ((loss, bc.Verdict.HOLDS), (the_same, bc.Verdict.CONSISTENT)):
        known = bc.Constants.given(hat_rho_1=0, hat_rho_2=0)  # all second derivatives are ±2I
        problem = bc.Problem.from_loss(loss, outer, start, start + 1, step_size=0.2, known=known)
        report = bc.check(problem, ["itd"], t=10)
        assert report.curve("itd").bounds["ablin-automatic"].verdict is verdict


@pytest.fixture(scope="module")
def case() -> Case:
    problem = bc.problems.scalar(q=0.5)
    constants = {ball: bc.estimate_constants(problem, ball=ball) for ball in ("paper", "local")}
    return Case(problem, torch.zeros(1, dtype=D), constants, None, 1.0, None)


def test_a_theorem_says_itself_which_k_it_is_about(case: Case) -> None:
    """By its fields, under any name: a new theorem needs no line in `compare`."""
    renamed = replace(bc.bounds["itd-one-step"], name="new")
    assert question(renamed, Method("itd-truncated", 1), case) == AssumptionAnswer()
    answer = question(renamed, Method("itd-truncated", 3), case)
    assert answer.refusal == "applies to one step only, and itd-truncated:3 differentiates through 3"
    two = replace(bc.bounds["aid-fp"], name="new", only_k=2)
    assert question(two, Method("aid-fp", 2), case) == AssumptionAnswer()
    assert question(two, Method("aid-fp"), case).refusal == "applies to 2 steps only, and aid-fp solves with t"


def test_a_theorem_says_itself_that_no_method_runs_it(case: Case) -> None:
    renamed = replace(bc.bounds["aid-fp-weighted"], name="new")
    assert question(renamed, Method("aid-fp"), case).refusal.startswith("applies only if aid-fp solves with the map")
    assert question(replace(bc.bounds["aid-fp"], not_run="why not"), Method("aid-fp"), case).refusal == "why not"


@pytest.mark.parametrize("name", ["aid-cg", "aid-cg-chebyshev"])
def test_a_theorem_says_itself_which_rate_its_formula_has_written_out(name: str, case: Case) -> None:
    bound = replace(bc.bounds[name], name="new")
    assert bound.solver_rate is not None
    assert apply(bound, Method("aid-cg"), case).rate_formulas["sigma"] == bound.solver_rate.expression
    without = replace(bound, solver_rate=None)
    assert "sigma" not in apply(without, Method("aid-cg"), case).rate_formulas


def test_a_misspelt_kind_is_refused() -> None:
    curve = bc.check(bc.problems.scalar(q=0.5), ["itd"], t=3).curve("itd")
    assert curve.certified("a priori").shape == curve.errors.shape
    with pytest.raises(bc.InputError, match="kind = 'a priory' is not a kind of bound; use one of 'a priori'"):
        curve.certified("a priory")
    with pytest.raises(bc.InputError, match="kind = 'later' is not a kind of bound"):
        replace(curve.bounds["itd"], kind="later")


def test_advice_names_what_can_be_given() -> None:
    """A constant of the user, or the size of the problem where a quantity is not computed."""
    given = missing(bc.MissingConstantError("…", ("hat_rho_1",)), bc.problems.scalar())
    assert given.startswith("needs hat_rho_1 (")
    assert given.endswith("if you can prove a value, give it with --know hat_rho_1=… (known= in Python)")
    large = SimpleNamespace(d=10**6, n=1)
    computed = missing(bc.MissingConstantError("…", ("W_t", "v_t")), large)  # type: ignore[arg-type]
    assert computed.endswith("not computed for a problem of this size (d = 1000000, n = 1)")
    assert "give" not in computed


def test_a_condition_that_never_holds_is_shown_at_the_last_t() -> None:
    values = {"mu_inv": 0.1, "nu_1": 1.0, "nu_2": 1.0, "eta_1": 1.0, "eta_2": 1.0}
    run = {name: np.array([9.0, 5.0, 1.0]) for name in ("eps_w", "eps_v", "W_t", "v_k")}
    with pytest.raises(bc.AssumptionError, match=r"= 2 > .* at t = 3; .*take more steps$"):
        bc.bounds["aid-certificate"].evaluate(bc.Constants.given(**values), t=[1, 2, 3], **run)
