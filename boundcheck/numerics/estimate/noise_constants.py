"""`noise_constants`: how much the map on a minibatch differs from the map on all examples, as constants with sides.

docs/estimating.md derives them ("Constants of the noise").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from boundcheck.ball import Ball, BallKind
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import noise_estimates, user_claims
from boundcheck.numerics.estimate.curvature_noise import curvature_noise
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.estimate.noise_ball import IterateBall, ball_of_iterates, distance_to_solution
from boundcheck.numerics.estimate.noise_ranges import first_reason, ranges_of_draws, ranges_of_run
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.estimate.step_constant import NOTHING
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress, no_progress
from boundcheck.side import Side, estimate_side
from boundcheck.side_arithmetic import SidedValue, sided
from boundcheck.step_schedule import StepSchedule

NAMES = ("V_star", "m_1", "m_2", "L_Phi_hat", "sigma_1", "sigma_2", "sigma_1_grad", "sigma_2_grad")
OF_CURVATURE = ("L_ell_hat", "mu_ell_hat")  # always ours: no value at one point refutes a claim
PRIMARY = NAMES[:4]  # of which the others are formulas


@dataclass(frozen=True)
class Noise:
    """The constants of a problem with minibatches, all on one ball around w*.

    Attributes
    ----------
    constants : Constants
        V_star, m_1, m_2, L_Phi_hat, sigma_1, sigma_2, for a gradient step sigma_1_grad, sigma_2_grad, L_ell_hat
        and mu_ell_hat, and all that `estimate_constants` has, on the ball of this radius.
    radius : float
        Of the ball B(w*, R).
    doubt : str
        Why it is not proved that every possible w_i is in the ball; empty if it is.
    largest_v : Constant
        At least ‖v_i‖, whatever is drawn.
    largest_error : Constant
        At least ‖g − ∇f‖, whatever is drawn: the range of a bounded confidence interval.
    largest_noise : Constant
        At least ‖Φ̂(w*) − w*‖, whatever is drawn.
    largest_spread : Constant
        At least ‖∂₂Φ̂ − ∂₂Φ‖ on the ball, whatever is drawn.
    """

    constants: Constants
    radius: float
    doubt: str
    largest_v: Constant
    largest_error: Constant
    largest_noise: Constant
    largest_spread: Constant


def noise_constants(
    problem: Problem,
    solution: ReferenceSolution,
    *,
    t: int,
    steps: StepSchedule,
    k: int,
    steps_v: StepSchedule,
    known: Constants | None = None,
    spend: Spend,
    tell: Progress = no_progress,
    doubts: tuple[str, ...] = (),
) -> Noise:
    """The constants of the noise of minibatches, on a ball that no iterate leaves.

    Parameters
    ----------
    problem : Problem
        With a finite sum.
    solution : ReferenceSolution
        w* and ∇f at the λ of the problem, one row.
    t : int
        The steps of w.
    steps : StepSchedule
        Their sizes.
    k : int
        The steps of v.
    steps_v : StepSchedule
        Their sizes.
    known : Constants, optional
        Constants that you have proved, instead of those of the problem. Those that are refuted are not used.
    spend : Spend
        What estimates may cost.
    tell : callable (what, done, of) -> None, optional
        Called with what is being done.
    doubts : tuple of str
        Derivatives that finite differences could not confirm; with any, every constant is an estimate.

    Returns
    -------
    Noise

    Raises
    ------
    InputError
        If the lower level of the problem is not a mean over examples.
    """
    finite_sum = problem.finite_sum
    if finite_sum is None:
        raise InputError(
            f"{problem.name}: the lower level is not a mean over examples, so nothing is known of its noise; "
            "give the data with Problem.from_loss(…, data=(X, y), batch=10)"
        )
    claimed = known if known is not None else problem.known if isinstance(problem.known, Constants) else Constants()
    setting = Setting(problem, Prepared(problem, problem.lam[None]), solution, spend, tell)
    away = distance_to_solution(setting)
    tell("bounding every example", 0, 1)
    ball = ball_of_iterates(setting, finite_sum, away, t, steps)
    tell("constants of the ball of all iterates", 0, 1)
    others = Constants({name: constant for name, constant in claimed.items() if name not in NAMES + OF_CURVATURE})

    def on_ball(radius: float) -> Constants:
        return on_balls(
            problem, solution, (BallKind.LOCAL,), known=others if known is not None or others else None, radius=radius,
            spend=spend, tell=tell, doubts=doubts,
        )[BallKind.LOCAL]  # fmt: skip

    try:
        constants = on_ball(ball.radius)
    except DivergenceError:  # a derivative is not finite there
        start = float((problem.w0 - setting.w_star).norm())
        if not (ball.escape or ball.bounds.doubt) or not start < ball.radius:
            raise
        ball = replace(ball, radius=start)  # nothing is proved of larger ones either
        constants = on_ball(start)
    at_w = first_reason(
        finite_sum.doubt, ball.bounds.doubt, "" if away.is_safe else "w* is not known with proof", *doubts
    )
    doubt = first_reason(at_w, ball.escape, _no_contraction(finite_sum, constants))
    if doubt:
        constants = Constants({name: _over_ball_unknown(constant, doubt) for name, constant in constants.items()})
    primary = _primary(setting, finite_sum, ball, away, constants, (at_w, doubt))
    primary = _settled(setting, finite_sum, primary, claimed, PRIMARY)
    constants = constants.replace(*primary.values(), *curvature_noise(problem, finite_sum, ball, constants, doubt))
    derived = {constant.name: constant for constant in _derived(problem, constants)}
    derived = _settled(setting, finite_sum, derived, claimed, NAMES[4:])
    constants = constants.replace(*derived.values())
    ranges = ranges_of_run(problem, finite_sum, ball, constants, doubt, k, steps_v)
    draws = ranges_of_draws(finite_sum, ball, away, constants, doubt)
    return Noise(constants, ball.radius, doubt, ranges.v, ranges.error, draws.noise, draws.spread)


def _no_contraction(finite_sum: FiniteSum, constants: Constants) -> str:
    """Why iterates without noise may leave the ball; empty if they do not, or if there is noise."""
    q = constants.get("q")
    if finite_sum.variance_factor > 0 or (q is not None and q.is_safe and q.value < 1):
        return ""
    return "it is not proved that Φ is a contraction, so that iterates may leave every ball"


def _over_ball_unknown(constant: Constant, why: str) -> Constant:
    """A supremum over a ball that iterates may leave is an estimate."""
    if constant.provenance.ball is None:
        return constant
    provenance = replace(constant.provenance, no_proof=constant.provenance.no_proof or why)
    return replace(constant, side=estimate_side(constant.name), provenance=provenance)


def _primary(
    setting: Setting, finite_sum: FiniteSum, ball: IterateBall, away: Constant, constants: Constants,
    doubts: tuple[str, str],
) -> dict[str, Constant]:  # fmt: skip
    """V[Φ̂(w*)], m₁, m₂ and L_Φ̂; `doubts` say why what is at w*, and what is over the ball, is not proved."""
    f, bounds, region = finite_sum.variance_factor, ball.bounds, Ball("w_star", ball.radius)

    def of(name: str, value: float, how: str, side: Side = Side.UPPER, over: Ball | None = region) -> Constant:
        doubt = doubts[0 if over is None else 1]
        provenance = Provenance(how, "examples", ball=over, no_proof=doubt)
        return Constant(name, value, Side.LOWER if doubt else side, provenance)

    if f == 0:
        return {
            name: of(name, 0.0, "every minibatch is all examples", Side.EXACT, None) for name in PRIMARY[:3]
        } | {"L_Phi_hat": replace(constants["q"], name="L_Phi_hat")}  # fmt: skip
    above = bounds.variance_above
    if not doubts[0]:  # of w* in place of the computed one
        above = (math.sqrt(above) + math.sqrt(bounds.m_1) * away.value) ** 2 * (1 + 1e-14)
    exact = Side.EXACT if above <= bounds.variance * (1 + NOTHING) else Side.UPPER
    slope = bounds.slope_of_batch(finite_sum)
    primary = {
        "V_star": of("V_star", f * above, f"{f:.4g} times the variance of Φ_i(w*)", exact, None),
        "m_1": of("m_1", f * bounds.m_1, f"{f:.4g} times {bounds.how_1}"),
        "L_Phi_hat": of("L_Phi_hat", slope, "the largest ‖∂₁Φ̂‖ of all minibatches, by the bounds of every example"),
    }  # fmt: skip
    if finite_sum.lam_apart:
        provenance = Provenance("λ and the examples enter Φ in separate terms", "examples", no_proof=finite_sum.doubt)
        primary["m_2"] = Constant("m_2", 0.0, Side.LOWER if finite_sum.doubt else Side.EXACT, provenance)
    elif math.isfinite(bounds.m_2):
        zero, how = bounds.m_2 == 0, bounds.how_2 if bounds.m_2 == 0 else f"{f:.4g} times {bounds.how_2}"
        primary["m_2"] = of("m_2", f * bounds.m_2, how, Side.EXACT if zero else Side.UPPER)
    else:
        estimate = noise_estimates.measured(setting, ball.radius, "the step depends on λ")
        primary["m_2"] = replace(of("m_2", f * estimate.m_2, f"{f:.4g} times {estimate.how_2}"), side=Side.LOWER)
    return primary


def _derived(problem: Problem, constants: Constants) -> list[Constant]:
    """σ₁ and σ₂ of Φ̂, and of the gradient."""
    V, m_1, slope, q = (sided(constants[name]) for name in ("V_star", "m_1", "L_Phi_hat", "q"))
    gap, gap_name = 1 - q, "(1 − q)²"
    if {"mu", "alpha"} <= set(constants):
        alpha_mu = sided(constants["alpha"]) * sided(constants["mu"]) if constants["mu"].value > 0 else gap
        if constants["mu"].is_safe and alpha_mu.value > gap.value:
            gap, gap_name = alpha_mu, "(αμ)²"
    sigma_1 = (V * 2).bounds_above().named("sigma_1", Provenance("2V[Φ̂(w*)]", "theorem 4.3"))
    answer = [sigma_1]
    if not gap.value > 0:
        return answer
    square = gap * gap
    choices: list[tuple[SidedValue, str]] = [
        (m_1 * 2 / square, f"2m₁/{gap_name}"),
        ((slope * slope + q * q) * 2 / square, f"2(L_Φ̂² + q²)/{gap_name}, theorem 4.3"),
    ]
    value, how = min(choices, key=lambda choice: (not _is_safe(choice[0]), choice[0].value))
    ball = constants["m_1"].provenance.ball
    sigma_2 = value.bounds_above().named("sigma_2", Provenance(how, ball=ball))
    answer.append(sigma_2)
    if problem.inner_at is not None and "alpha" in constants and constants["alpha"].value > 0:
        alpha = sided(constants["alpha"])
        square = alpha * alpha
        answer.append((V * 2 / square).bounds_above().named("sigma_1_grad", Provenance("2V[Φ̂(w*)]/α²")))
        answer.append(replace(sigma_2, name="sigma_2_grad"))
    return answer


def _is_safe(value: SidedValue) -> bool:
    return value.side in (Side.EXACT, Side.UPPER) and all(source.is_safe for source in value.sources)


def _settled(
    setting: Setting, finite_sum: FiniteSum, ours: dict[str, Constant], claimed: Constants, names: tuple[str, ...]
) -> dict[str, Constant]:  # fmt: skip
    """Ours, or what the user vouches for where nothing contradicts it."""
    claims = Constants({name: claimed[name] for name in names if name in claimed})
    if not claims:
        return ours
    evidence = noise_estimates.evidence(setting, finite_sum)
    return user_claims.settle(ours, claims, evidence, 1e-9)
