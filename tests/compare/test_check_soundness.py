"""Where a verdict could be wrong: which iterates, which steps, which ball and which λ a theorem is asked about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck import Verdict
from boundcheck.compare.case import momentum_of
from boundcheck.constants import Constants
from boundcheck.numerics.bilevel.dynamics import Dynamics, constant, heavy_ball
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.report.verdict import judge
from boundcheck.side import Side

H = torch.tensor([1.0, 2.0], dtype=torch.float64)
HATS = Constants.given(hat_rho_1=0.0, hat_rho_2=0.0, side="upper")


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loss(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
    return (H * w * w).sum() / 2 - lam @ w


def quadratic(**options: object) -> Problem:
    made = {"step_size": 2 / 3, "known": HATS, **options}
    outer = made.pop("outer", lambda w, lam: ((w - 1) ** 2).sum() / 2)
    return bc.Problem.from_loss(loss, outer, vector(0, 0), vector(1, 3), **made)  # type: ignore[arg-type]


def scaled(**options: object) -> Problem:
    """ℓ = λ₁/2 wᵀHw − λ₂Σw with the step 0.9/λ₁, which depends on λ."""
    return bc.Problem.from_loss(
        lambda w, lam: lam[0] * (H * w * w).sum() / 2 - lam[1] * w.sum(),
        lambda w, lam: w.sum(),
        vector(0, 0),
        vector(1, 1),
        lambda lam: 0.9 / lam[0],
        known=Constants.given(hat_rho_1=0.0, hat_rho_2=2.0, side="upper"),
        **options,  # type: ignore[arg-type]
    )


def test_a_differentiated_step_is_not_taken_as_frozen() -> None:
    frozen, moving = (bc.check(scaled(differentiate_step=d), ["itd", "aid-fp"], t=20) for d in (False, True))
    assert frozen.constants["local"]["grad_alpha"].value == 0
    assert frozen.constants["local"]["grad_alpha"].side is Side.EXACT
    assert "grad_alpha" not in moving.constants["local"]
    for report, applies in ((frozen, True), (moving, False)):
        itd, fp = report.curve("itd"), report.curve("aid-fp")
        assert {"itd-gd", "itd-quadratic"} <= set(itd.applicable) if applies else not {"itd-gd"} & set(itd.applicable)
        assert ("itd-quadratic" in itd.applicable) is applies
        assert ("aid-fp-gd" in fp.applicable) is applies
    assert (
        "‖∇α‖ is not known; if you can prove a value, give it with --know grad_alpha"
        in moving.curve("itd").bounds["itd-gd"].reason
    )


def test_a_claimed_slope_of_the_step_is_used() -> None:
    problem = scaled(differentiate_step=True)
    claims = Constants.given(hat_rho_1=0.0, hat_rho_2=2.0, grad_alpha=0.9, side="upper")
    report = bc.check(problem, ["itd"], t=20, known=claims)
    assert report.curve("itd").bounds["itd-gd"].verdict is Verdict.HOLDS
    assert "itd-quadratic" not in report.curve("itd").applicable


def test_momentum_that_is_differentiated_is_not_the_frozen_one() -> None:
    """The rate of the iterates is the same, so AID has its bounds; those of ITD are for a frozen ω and β."""
    problem = small("krr")
    omega, beta = (float(x) for x in problem.dynamics.coefficients(problem.prepare(problem.lam)))  # type: ignore[misc]
    frozen = replace(problem, dynamics=heavy_ball(lambda ready: (omega, beta)))
    norm = float(problem.lam.norm())

    def moving(ready: object) -> tuple[object, object]:
        return omega * problem_lam(ready).norm() / norm, beta

    def problem_lam(ready: object) -> torch.Tensor:
        return ready[1]  # type: ignore[index]

    differentiated = replace(
        problem,
        prepare=lambda lam: (problem.prepare(lam), lam),
        phi_at=lambda w, ready: problem.phi_at(w, ready[0]),
        outer_at=lambda w, ready: problem.outer_at(w, ready[0]),
        inner_at=None,
        d1phi_T_at=None,
        d2phi_T_at=None,
        d2outer_at=None,
        affine=False,
        curvature=None,
        contraction=None,
        solution=None,
        remake=None,
        dynamics=heavy_ball(moving),  # type: ignore[arg-type]
    )
    for made, applies in ((frozen, True), (differentiated, False)):
        report = bc.check(made, ["itd", "aid-fp"], t=20)
        assert ("heavy-ball" in report.curve("itd").applicable) is applies
        assert ("itd-weighted" in report.curve("itd").applicable) is applies
        assert report.curve("aid-fp").bounds["aid-fp-local"].verdict is Verdict.HOLDS


def test_a_relaxed_iteration_is_not_the_map_itself() -> None:
    slow = Dynamics("relaxed", lambda phi, z, _: z + 0.02 * (phi(z) - z), lambda d, v, _: 0.98 * v + 0.02 * d(v))
    report = bc.check(replace(quadratic(), dynamics=slow), ["itd", "aid-fp"], t=40)
    assert report.verdict is not Verdict.VIOLATED
    assert "this problem uses relaxed" in report.curve("itd").bounds["itd-local"].reason
    known_for_all = {"aid-spectral"}  # which follows whatever steps there are
    assert set(report.curve("aid-fp").applicable) == known_for_all | {
        bound.name
        for bound in bc.bounds.values()
        if bound.kind == "a posteriori" and "aid-fp" in bound.methods and not bound.not_run
    }


def test_dynamics_of_a_name_of_ones_own_have_no_optimal_steps() -> None:
    own = replace(constant("heavy-ball", 2 / 3, 0.5, 0.1), name="mine")
    assert set(bc.check(replace(quadratic(), dynamics=own), ["itd"], t=5).curve("itd").applicable) == {"itd-spectral"}


def test_steps_rounded_to_six_digits_are_not_optimal() -> None:
    """Where both ends of the spectrum are double roots, a step off by δ makes rates grow by √δ."""
    constants = bc.estimate_constants(quadratic(), ball="local")
    root = 2**0.5
    alpha, beta = 4 / (1 + root) ** 2, ((root - 1) / (root + 1)) ** 2
    for step, same in ((alpha, True), (round(alpha, 6), False)):
        problem = replace(quadratic(), dynamics=constant("heavy-ball", 2 / 3, step, beta))
        assert (momentum_of(problem, constants) is not None) is same


def test_a_loss_that_agrees_on_a_line_only_is_no_value_function() -> None:
    same_at_c = quadratic(outer=lambda w, lam: loss(w, lam) + 5 * (w[0] - w[1]) ** 2)  # the same at w = c(1, 1)
    report = bc.check(same_at_c, ["itd"], t=20)
    assert report.curve("itd").bounds["ablin-automatic"].reason == "E is not the lower-level loss"
    with pytest.raises(bc.UserCodeError, match="derivative of outer_loss by hparams"):  # the same values, others
        bc.check(quadratic(outer=lambda w, lam: loss(w, lam.detach())), ["itd"], t=20)
    same = bc.check(quadratic(outer=loss), ["itd"], t=20)
    assert same.curve("itd").bounds["ablin-automatic"].verdict is Verdict.HOLDS


def test_the_a_posteriori_bound_is_silent_where_the_iterates_leave_its_ball() -> None:
    """Heavy ball that is too fast overshoots: ‖w_t − w*‖ > r_0 at some t, where no constant is known."""
    problem = replace(quadratic(), dynamics=constant("heavy-ball", 2 / 3, 1.75, 0.8))
    report = bc.check(problem, ["aid-fp"], t=40)
    bound = report.curve("aid-fp").bounds["aid-posteriori"]
    w, outside = problem.dynamics.start(problem.w0), []
    for _ in range(40):
        w = problem.psi_at(w, problem.lam)
        outside.append(float((w[:2] - vector(1, 1.5)).norm()) > 1.8027756377)
    assert any(outside)
    assert (np.isnan(bound.values[0]) == np.array(outside)).all()
    assert bound.reason == "at the t where w_t is in the ball of its constants"
    assert bound.trace is not None
    assert not set(bound.trace.t - 1) & set(np.flatnonzero(outside))


def test_iterates_that_overflow_leave_a_report() -> None:
    problem = replace(
        quadratic(outer=lambda w, lam: torch.cosh(w).sum()), dynamics=constant("heavy-ball", 2 / 3, 40, 0.9)
    )
    report = bc.check(problem, ["itd", "aid-fp"], t=40)
    assert set(report.curve("itd").applicable) <= {"itd-spectral"}
    assert report.verdict is not Verdict.VIOLATED
    assert "outside the ball" in report.curve("aid-fp").bounds["aid-posteriori"].reason


def test_every_lam_is_asked_for_the_assumptions() -> None:
    """The second λ gives no contraction, and the reason says so."""
    problem = bc.Problem.from_loss(
        lambda w, lam: lam[0] * (H * w * w).sum() / 2 - lam[1] * w.sum(),
        lambda w, lam: w.sum(),
        vector(0, 0),
        vector(1, 1),
        0.9,
    )
    report = bc.check(problem, ["itd"], t=20, lam=torch.stack([vector(1, 1), vector(1.3, 1)]))
    reason = report.curve("itd").bounds["itd-local"].reason
    assert reason.startswith("q = 1.34 ≥ 1")
    assert reason.endswith(", λ number 1")


def test_constants_of_one_lam_do_not_lend_their_side_to_another(without_program: None) -> None:
    """At λ = 0 the map is affine and all is proved; at λ = 1 it is not, which decides, with its own constants."""
    problem = bc.Problem.from_map(
        lambda w, lam: 0.4 * w + 0.3 * lam[0] ** 2 * torch.sin(w) + lam[1],
        lambda w, lam: (w**2).sum() / 2,
        vector(0, 0),
        vector(0, 1),
    )
    report = bc.check(problem, ["itd"], t=20, lam=torch.stack([vector(0, 1), vector(1, 1)]))
    bound = report.curve("itd").bounds["itd-local"]
    assert bound.verdict is Verdict.CONSISTENT
    assert "nu_1" in bound.weakest


def test_cg_that_fails_at_a_later_lam_only_is_refused_and_the_others_run() -> None:
    """At λ = 0 the map is symmetric, at λ = 1 it is not."""
    A, B = torch.diag(vector(0.3, 0.1)), torch.tensor([[0.0, 0.4], [-0.2, 0.0]]).double()
    problem = bc.Problem.from_map(
        lambda w, lam: (A + lam[0] * B) @ w + 1, lambda w, lam: (w**2).sum(), vector(0, 0), vector(0)
    )
    report = bc.check(problem, ["itd", "aid-cg"], t=10, lam=torch.stack([vector(0), vector(1)]))
    assert list(report.curves) == ["itd"]
    assert "not symmetric" in report.refused["aid-cg"]


def test_nothing_is_violated_against_a_reference_that_is_not_certified() -> None:
    errors, values, floor = (np.full(3, x) for x in (2.0, 1.0, 0.0))
    assert judge(errors, values, floor, Side.EXACT) is Verdict.VIOLATED
    assert judge(errors, values, floor, Side.EXACT, certified=False) is Verdict.INCONCLUSIVE
    assert judge(errors / 2, values, floor, Side.EXACT, certified=False) is Verdict.HOLDS


def test_rounding_in_the_bound_itself_is_no_violation() -> None:
    errors, floor = np.ones(3), np.zeros(3)
    assert judge(errors, errors * (1 - 1e-12), floor, Side.EXACT) is Verdict.HOLDS
    assert judge(errors, errors * (1 - 1e-6), floor, Side.EXACT) is Verdict.VIOLATED
