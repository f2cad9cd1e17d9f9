"""The constants of the noise of a problem, and the steps that the theory derives from them."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

from boundcheck.compare import certificate
from boundcheck.compare.certificate import Distance
from boundcheck.compare.stochastic_bounds import StochasticCase
from boundcheck.compare.stochastic_moments import NoiseSizes
from boundcheck.constants import Constant, Constants
from boundcheck.errors import AssumptionError, InputError, MissingConstantError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.noise_constants import Noise, noise_constants
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.convex_steps import advise_convex
from boundcheck.theory.stochastic_rates import RHO, SIGMA, Make, descent_at_linear_system, descent_of, smaller
from boundcheck.theory.stochastic_steps import advise, advise_recursive

FULL = StepSchedule.constant(1.0)
PAPER = "paper"
CALMER = 2  # attempts with smaller steps, because examples are steeper on the ball than at w*
SAFE_STEP = 1.5  # the largest step times α‖∇²₁ℓ̂‖; a gradient step is stable below 2


@dataclass(frozen=True, eq=False)
class NoiseSetting:
    """The case of a check, and the bounds that its intervals use.

    Attributes
    ----------
    case : StochasticCase
        The problem with its constants and steps.
    radius : float or None
        Every possible iterate is within this distance of w*; None if no radius is proved.
    largest_error : float or None
        An upper bound on ‖g − ∇f‖ for every draw; None if no bound is proved.
    eps_g : Constant or None
        The bound on the error of the reference.
    away : Distance
        The bound on the distance of the computed w from w*.
    steps_how : str
        The source of the steps, in words.
    sizes : NoiseSizes
        The sizes of single draws.
    """

    case: StochasticCase
    radius: float | None
    largest_error: float | None
    eps_g: Constant | None
    away: Distance
    steps_how: str
    sizes: NoiseSizes

    def largest_error_of_neumann(self, K: int) -> float | None:
        """An upper bound on ‖g − ∇f‖ for every draw of a Neumann series of length up to K; None if not proved."""
        constants, spread = self.case.constants, self.sizes.spread
        needed = [constants.get(name) for name in ("eta_2", "L_Phi", "L_E", "L_Phi_hat", "W", "g_star")]
        if self.radius is None or spread is None:
            return None
        values = [c.value for c in needed if c is not None and c.side in (Side.EXACT, Side.UPPER)]
        if len(values) < len(needed):
            return None
        eta_2, L_Phi, L_E, slope, W, g_star = values
        try:
            largest_v = K * L_E * max(1.0, slope) ** max(0, K - 1)
        except OverflowError:
            return None
        return (eta_2 * self.radius + (L_Phi + spread) * largest_v + W * g_star) * (1 + 1e-12)


def noise_setting(
    problem: Problem, solution: ReferenceSolution, t: int, k: int, steps: StepSchedule | str | None,
    steps_v: StepSchedule | None, known: Constants | None, spend: Spend, tell: Progress, doubts: tuple[str, ...] = (),
) -> NoiseSetting:  # fmt: skip
    """Estimate the constants on a ball that contains every iterate, and choose the steps that are not given.

    Parameters
    ----------
    problem : Problem
        The problem, with a finite sum.
    solution : ReferenceSolution
        The solution of the problem.
    t, k : int
        The largest numbers of steps.
    steps : StepSchedule, "paper" or None
        The steps of the lower level; with "paper" or None the theory derives them.
    steps_v : StepSchedule or None
        The steps of the linear solver; with None they are chosen like the steps of the lower level.
    known : Constants or None
        Constants that the user has proved.
    spend : Spend
        The budget of the estimates.
    tell : callable
        The function that reports progress.
    doubts : tuple of str
        The derivatives that finite differences could not confirm.

    Returns
    -------
    NoiseSetting
        The constants, the steps, and the bounds that the intervals use.
    """
    given = steps if isinstance(steps, StepSchedule) else None
    if given is None and steps not in (None, PAPER):
        raise InputError(f"steps = {steps!r} are not steps; give a StepSchedule, 'paper', or leave it out")
    if steps_v is not None and not isinstance(steps_v, StepSchedule):
        raise InputError(f"steps_v = {steps_v!r} are not steps; give a StepSchedule, or leave it out")

    def noise(w: StepSchedule, v: StepSchedule) -> Noise:
        of_steps = noise_constants(
            problem, solution, t=t, steps=w, k=k, steps_v=v, known=known, spend=spend, tell=tell, doubts=doubts
        )
        return replace(of_steps, constants=of_steps.constants.replace(_mse_0(of_steps.constants["r_0"])))

    chosen = BothSteps(given, steps_v or given, "given") if given is not None else None
    if chosen is None:
        of_noise = noise(FULL, steps_v or FULL)  # smaller steps stay in the ball of full steps, if there is one
        chosen = advised(of_noise.constants, t, k, paper=steps == PAPER, steps_v=steps_v)
        if (of_noise.doubt or _may_expand(of_noise.constants)) and chosen.w != FULL:
            of_noise = noise(chosen.w, chosen.v)
            for _ in range(CALMER):
                if steps == PAPER or chosen.w.largest <= largest_step(of_noise.constants):
                    break
                chosen = advised(of_noise.constants, t, k, steps_v=steps_v)
                of_noise = noise(chosen.w, chosen.v)
    else:
        of_noise = noise(chosen.w, chosen.v)
    case = StochasticCase(problem, of_noise.constants, chosen.w, chosen.v, of_noise.doubt)
    radius = None if of_noise.doubt else of_noise.radius
    return NoiseSetting(
        case,
        radius,
        _proved(of_noise.largest_error),
        certificate.certify(problem, solution, of_noise.constants),
        certificate.distance(problem, solution, of_noise.constants),
        chosen.how,
        NoiseSizes(_proved(of_noise.largest_noise), _proved(of_noise.largest_spread), radius),
    )


def _proved(constant: Constant) -> float | None:
    """The value of a constant if it is proved and finite; else None."""
    proved = constant.side in (Side.EXACT, Side.UPPER) and math.isfinite(constant.value)
    return constant.value if proved else None


def _mse_0(r_0: Constant) -> Constant:
    """E‖w_0 − w*‖² = r_0² for a start that is not random."""
    value = r_0.value**2 * (1 + 1e-15)
    side = Side.UPPER if r_0.side is Side.EXACT else r_0.side
    return replace(r_0, name="mse_0", value=value, side=side, provenance=replace(r_0.provenance, how="r_0²"))


@dataclass(frozen=True)
class BothSteps:
    """The steps of both iterations, and their source."""

    w: StepSchedule
    v: StepSchedule
    how: str


def advised(
    constants: Constants, t: int, k: int, *, paper: bool = False, steps_v: StepSchedule | None = None
) -> BothSteps:
    """Derive the steps from the constants; the steps of the linear solver only if none are given.

    The linear solver has the same recursion as the lower level. The noise at v(w), at most m₁‖v(w)‖², replaces V*, and
    ‖v(w)‖ ≤ L_E/(1 − q) replaces ‖w_0 − w*‖.
    """
    names = ("q", "m_1", "V_star", "mse_0", "L_E", *(("sigma_1", "sigma_2", "L_Phi_hat") if paper else ()))
    value = {name: constants[name].value for name in names if name in constants}
    if len(value) < len(names) or not value["q"] < 1:
        return BothSteps(FULL, steps_v or FULL, "full steps, as no contraction is known from which to derive others")
    q, mse_0, size = value["q"], value["mse_0"], (value["L_E"] / (1 - value["q"])) ** 2
    if paper:
        w = advise(q=q, sigma_1=value["sigma_1"], sigma_2=value["sigma_2"], mse_0=mse_0, t=t)
        noise_v = 2 * value["L_Phi_hat"] ** 2 * size
        v = steps_v or advise(q=q, sigma_1=noise_v, sigma_2=value["sigma_2"], mse_0=size, t=k)
        return BothSteps(w, v, "the advice of Grazzi, Pontil, Salzo (2021), section 4")
    m_1, most = value["m_1"], largest_step(constants)
    for_w = [advise_recursive(q=q, m_1=m_1, V_star=value["V_star"], mse_0=mse_0, t=t)]
    for_v = [] if steps_v else [advise_recursive(q=q, m_1=m_1, V_star=m_1 * size, mse_0=size, t=k)]
    with suppress(MissingConstantError, AssumptionError):
        for_w.append(advise_convex(descent_of(constants), t))
        for_v += [] if steps_v else [advise_convex(descent_at_linear_system(constants), k)]
    w = _with_least(RHO, constants, [capped(steps, most) for steps in for_w], t)
    v = steps_v or _with_least(SIGMA, constants, [capped(steps, most) for steps in for_v], k)
    return BothSteps(w, v, "chosen to make the bounds stochastic-recursive and sgd-convex small")


def _with_least(ways: tuple[Make, ...], constants: Constants, candidates: list[StepSchedule], n: int) -> StepSchedule:
    """The candidate with the smallest bound after n steps."""
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda steps: float(smaller(ways, constants, steps, n).values[-1]))


def _may_expand(constants: Constants) -> bool:
    """Whether a full step may lead away from w*. Then their ball is far larger than what smaller steps need."""
    slope = constants.get("L_Phi_hat")
    return slope is not None and slope.value > 1


def largest_step(constants: Constants) -> float:
    """The largest η with which a gradient step on any minibatch contracts; the noise at w* is not counted.

    ‖I − ηα∇²₁ℓ̂‖ < 1 needs ηα‖∇²₁ℓ̂‖ < 2, and L_Φ̂ ≥ α‖∇²₁ℓ̂‖ − 1. Then the iterates stay in a ball for every draw.
    """
    slope = constants.get("L_Phi_hat")
    if slope is None or "alpha" not in constants or slope.value <= 1:
        return 1.0
    return SAFE_STEP / (1 + slope.value)


def capped(steps: StepSchedule, most: float) -> StepSchedule:
    """The same steps, reduced so that none is above `most`."""
    eta = min(steps.eta, most)
    return StepSchedule(eta, steps.switch, steps.beta, max(steps.gamma, steps.beta / most))
