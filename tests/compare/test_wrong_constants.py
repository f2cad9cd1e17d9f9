"""A constant on its wrong side is caught: by a violated bound where it is attained, by the estimator elsewhere.

Wrong is half of it, or twice where a bound falls with it (μ, μ_λ). One case at least for every constant of a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import attained
import pytest
from attained import Instance, constants_of
from small import small

import boundcheck as bc
from boundcheck.constants import Constants
from boundcheck.report.method_curve import BoundCurve
from boundcheck.report.verdict import Verdict
from boundcheck.side import Side
from boundcheck.theory.symbols import CONSTANTS, QUANTITIES, WEIGHTED

T = 20


@dataclass(frozen=True)
class Case:
    """Where a constant is attained, and the link of the proof at which a wrong one shows."""

    constant: str
    make: Callable[[], Instance]
    method: str
    bound: str
    link: str
    given: str = ""  # the constant to change, where `check` makes this one from it

    def __str__(self) -> str:
        return f"{self.constant}-{self.make.__name__}-{self.method}-{self.bound}"

    @property
    def changed(self) -> str:
        return self.given or self.constant

    @property
    def unsafe(self) -> Side:
        return Side.UPPER if QUANTITIES[self.changed].direction < 0 else Side.LOWER


CASES = (
    Case("q", attained.square, "itd", "itd-local", "contraction"),
    Case("q", attained.linear, "itd", "itd", "derivative of the iterate"),
    Case("q", attained.shifted, "aid-fp", "aid-contraction", "linear solver"),  # q as the rate of the linear solver
    Case("q", attained.linear, "aid-cg", "aid-cg", "lower-level rate"),  # and as that of the iterates
    Case("q", attained.linear, "aid-fp", "aid-local", "r_t a priori"),
    Case("q", attained.shifted, "aid-fp", "aid-posteriori", "residual of the system"),
    Case("q_star", attained.linear, "itd", "itd-shrinking", "derivative of the iterate"),
    Case("nu_1", attained.kinked, "aid-cg", "aid-local", "Lipschitz derivatives"),
    Case("nu_1", attained.kinked, "aid-fp", "aid", "Lipschitz derivatives"),
    Case("nu_1", attained.kinked, "itd", "itd", "derivative of the iterate"),
    Case("nu_1", attained.kinked, "aid-fp", "aid-fp", "derivative that FP implies"),
    Case("nu_2", attained.linear, "itd", "itd", "derivative of the iterate"),
    Case("nu_2", attained.linear, "aid-fp", "aid-fp-local", "derivative that FP implies"),
    Case("nu_2", attained.linear, "aid-cg", "aid-cg", "Lipschitz derivatives"),
    Case("eta_1", attained.square, "itd", "itd-local", "Lipschitz gradients of E"),
    Case("eta_1", attained.square, "aid-cg", "aid", "Lipschitz derivatives"),
    Case("eta_2", attained.product, "itd", "itd", "Lipschitz gradients of E"),
    Case("eta_2", attained.product, "aid-fp", "aid-posteriori", "Lipschitz derivatives"),
    Case("chi", attained.above, "aid-fp:200", "aid-fp-directional", "directions at w*"),
    Case("omega", attained.above, "aid-fp:200", "aid-fp-directional", "directions at w*"),
    Case("D", attained.product, "itd", "itd", "start"),
    Case("D", attained.linear, "aid-cg", "aid-contraction", "start"),
    Case("L_E", attained.linear, "itd", "itd", "∇₁E on the ball"),
    Case("L_E", attained.shifted, "aid-fp", "aid", "ball"),
    Case("L_Phi", attained.shifted, "itd", "itd", "∂₂Φ on the ball"),
    Case("L_Phi", attained.shifted, "aid-fp", "aid", "ball"),
    Case("L_Phi_star", attained.shifted, "aid-fp", "aid-local", "solve_error a priori"),
    Case("mu_inv", attained.shifted, "aid-fp", "aid", "inverses"),
    Case("mu_inv", attained.shifted, "aid-fp", "aid-local", "v_t a priori"),
    Case("kappa", attained.two_eigenvalues, "aid-cg:1", "aid-cg-energy", "CG in the energy norm"),
    Case("kappa", attained.two_eigenvalues, "aid-cg:1", "aid-cg", "linear solver"),
    Case("kappa", attained.two_eigenvalues, "aid-cg:1", "aid-local", "solve_error a priori"),
    Case("kappa", attained.two_eigenvalues, "aid-cgn:1", "aid-cgn", "CG on the normal equations"),
    Case("mu", attained.slow, "itd", "itd-gd", "derivative of the iterate"),
    Case("L", attained.alternating, "itd", "itd-gd", "derivative of the iterate"),
    Case("grad_alpha", attained.step, "itd", "itd-gd", "derivative of the iterate"),
    Case("hat_rho_1", attained.kinked, "itd", "itd-gd", "derivative of the iterate"),
    Case("hat_rho_2", attained.curvature, "itd", "itd-gd", "derivative of the iterate"),
    Case("L_ell", attained.curvature, "aid-fp", "aid-fp-gd", "‖w'‖", given="L_Phi_star"),  # L_ℓ = L_Φ*/α
    Case("r_0", attained.square, "itd", "itd-local", "contraction"),
    Case("r_0", attained.square, "aid-fp", "aid-fp-local", "r_t a priori"),
    Case("W", attained.square, "itd", "itd-local", "norms of products"),
    Case("W", attained.linear, "aid-fp", "aid-fp-local", "derivative that FP implies"),
    Case("W", attained.kinked, "aid-cg", "aid-local", "triangle inequality and norms of products"),
    Case("g_star", attained.linear, "itd", "itd-local", "∇₁E near w*"),
    Case("g_star", attained.shifted, "aid-fp", "aid-local", "v_t a priori"),
)
each = pytest.mark.parametrize("case", CASES, ids=str)


def found_with_right(case: Case) -> BoundCurve:
    return _report(case.make, None, None).curve(case.method).bounds[case.bound]


def found_with_wrong(case: Case, side: Side | None = None) -> BoundCurve:
    """With the constant of the case wrong on both balls, and on the side it had unless one is given."""
    return _report(case.make, case.changed, side).curve(case.method).bounds[case.bound]


@cache
def _report(make: Callable[[], Instance], name: str | None, side: Side | None) -> bc.Report:
    """One check for all cases that have the problem and the wrong constant in common."""
    problem, constants = constants_of(make)
    cases = [case for case in CASES if case.make == make and name in (None, case.changed)]
    if name is not None:
        constants = {ball: _wrong(those, name, side) for ball, those in constants.items()}
    methods, bounds = ({getattr(case, kind): None for case in cases} for kind in ("method", "bound"))
    return bc.check(problem, list(methods), t=T, bounds=list(bounds), constants=constants)


def _wrong(constants: Constants, name: str, side: Side | None) -> Constants:
    right = constants[name]
    assert right.value > 0, f"{name} = 0 is as good as half of it"
    factor = 2.0 if QUANTITIES[name].direction < 0 else 0.5
    return constants.replace(replace(right, value=factor * right.value, side=side or right.side))


WITHOUT = {
    "alpha": "chosen, not bounded: it has no wrong side",
    "eps_g": "no bound of a run: see test_certify and test_enclosure",
    **{p.name: "made from the Euclidean constants, in a norm in which nothing is attained" for p in WEIGHTED},
}


def test_every_constant_of_a_bound_has_a_case() -> None:
    """Those of stochastic bounds are in tests/test_stochastic_sharpness.py."""
    run = [
        bound for bound in bc.bounds.values() if bound.methods and not bound.stochastic
    ]  # see test_stochastic_sharpness
    used = {name for bound in run for name in bound.symbols if QUANTITIES[name].kind == "constant"}
    used |= {c.name for c in CONSTANTS if any(bound.mentions(c.symbol) for bound in run)}  # those with defaults too
    assert {case.constant for case in CASES} == used - set(WITHOUT)
    assert set(WITHOUT) <= used


@each
def test_the_bound_holds_with_the_right_constants(case: Case) -> None:
    result = found_with_right(case)
    assert result.verdict is Verdict.HOLDS, result.reason
    assert result.trace is None or result.trace.first_broken is None


@each
def test_a_wrong_constant_violates_the_bound_and_the_proof_says_where(case: Case) -> None:
    result = found_with_wrong(case)
    assert result.verdict is Verdict.VIOLATED
    assert result.trace is not None
    assert result.trace.first_broken == case.link
    assert case.constant in result.trace.uses[result.trace.links.index(case.link)]
    assert f"breaks at {case.link!r}" in result.reason
    assert case.constant in result.reason.partition("which uses ")[2].split(", ")


@each
def test_no_bound_is_called_violated_for_a_constant_on_its_unsafe_side(case: Case) -> None:
    """The same numbers, known to be on that side: they refute nothing, and the reason says which they are."""
    result = found_with_wrong(case, case.unsafe)
    assert result.verdict is Verdict.INCONCLUSIVE
    side = "large" if case.unsafe is Side.UPPER else "small"
    assert result.reason.endswith(f"; {case.constant} may be too {side}")


SUPREMA = ("q", "L_E", "L_Phi", "nu_1", "nu_2", "eta_1", "eta_2")


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr", "eqm"])
def test_half_of_a_supremum_is_refuted_by_what_the_estimator_finds(name: str) -> None:
    """Claimed as an upper bound, of a problem that is stripped of its own closed forms: all of them are refuted."""
    problem = small(name)
    proved = bc.estimate_constants(problem, ball="local")
    halves = {x: proved[x].value / 2 for x in SUPREMA if proved[x].value > 0}
    assert len(halves) >= 4
    assert all(proved[x].side in (Side.EXACT, Side.UPPER) for x in halves)
    claimed = Constants.given(**halves, side="upper")
    result = bc.estimate_constants(replace(problem, known=None), ball="local", known=claimed, budget=200)
    for x in halves:
        assert "was found" in result[x].provenance.how, x
        assert result[x].value > halves[x], x


@pytest.mark.parametrize(("name", "constant"), [("lr", "nu_1"), ("hr", "L_E"), ("eqm", "nu_2")])
def test_a_claim_below_a_proved_bound_is_tried_by_sampling(name: str, constant: str) -> None:
    """The problem's own closed form is larger, which refutes nothing; kept if it is below by what sampling misses."""
    problem = small(name)
    ours = bc.estimate_constants(problem, ball="local")[constant]
    assert ours.side is Side.UPPER
    for part, refuted in ((0.5, True), (1 - 1e-6, False)):
        claimed = Constants.given(**{constant: part * ours.value}, side="upper")
        result = bc.estimate_constants(problem, ball="local", known=claimed, budget=200)[constant]
        assert result.value == pytest.approx(ours.value if refuted else part * ours.value, rel=1e-12)
        assert ("was found" in result.provenance.how) is refuted
