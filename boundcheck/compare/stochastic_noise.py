"""The constants of the noise of a problem, and the steps that the theory derives from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from boundcheck.compare import certificate
from boundcheck.compare.certificate import Distance
from boundcheck.compare.stochastic_bounds import StochasticCase
from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.noise_constants import Noise, noise_constants
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress
from boundcheck.side import Side, estimate_side
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.stochastic_steps import advise, advise_recursive

FULL = StepSchedule.constant(1.0)
PAPER = "paper"


@dataclass(frozen=True, eq=False)
class NoiseSetting:
    """The case of a check, and what its intervals rest on.

    Attributes
    ----------
    case : StochasticCase
        The problem with its constants and steps.
    radius : float or None
        Every possible iterate is within this distance of w*; None if that is not proved.
    largest_error : float or None
        At least ‖g − ∇f‖ for every draw; None if that is not proved.
    eps_g : Constant or None
        The error of the reference.
    away : Distance
        How far the computed w is from w*.
    steps_how : str
        Where the steps are from.
    """

    case: StochasticCase
    radius: float | None
    largest_error: float | None
    eps_g: Constant | None
    away: Distance
    steps_how: str


def noise_setting(
    problem: Problem, solution: ReferenceSolution, t: int, k: int, steps: StepSchedule | str | None,
    steps_v: StepSchedule | None, known: Constants | None, spend: Spend, tell: Progress, doubts: tuple[str, ...] = (),
) -> NoiseSetting:  # fmt: skip
    """The constants on a ball that holds every iterate, and the steps where none are given.

    Parameters
    ----------
    problem : Problem
        The problem, with a finite sum.
    solution : ReferenceSolution
        Its solution.
    t, k : int
        The largest numbers of steps.
    steps : StepSchedule, "paper" or None
        The steps of the lower level; "paper" or None for those that the theory derives.
    steps_v : StepSchedule or None
        The steps of the linear solver; None for those of the lower level.
    known : Constants or None
        What the user has proved.
    spend : Spend
        What estimates may cost.
    tell : callable
        Told of the progress.
    doubts : tuple of str
        The derivatives that finite differences could not confirm.

    Returns
    -------
    NoiseSetting
        All of it.
    """
    given = steps if isinstance(steps, StepSchedule) else None
    if given is None and steps not in (None, PAPER):
        raise InputError(f"steps = {steps!r} are no steps; give a StepSchedule, 'paper', or leave it out")

    def noise(w: StepSchedule, v: StepSchedule) -> Noise:
        return noise_constants(problem, solution, t=t, steps=w, k=k, steps_v=v, known=known, spend=spend, tell=tell)

    how = "given"
    if given is not None:
        of_noise = noise(given, steps_v or given)
    else:
        of_noise = noise(FULL, steps_v or FULL)  # smaller steps stay in the ball of full steps, if there is one
        given, how = advised(of_noise.constants, t, paper=steps == PAPER)
        if of_noise.radius is None and given != FULL:
            of_noise = noise(given, steps_v or given)
    constants = of_noise.constants if not doubts else _doubted(of_noise.constants, doubts[0])
    case = StochasticCase(problem, constants, given, steps_v or given, of_noise.ball_doubt)
    eps_g = certificate.certify(problem, solution, constants)
    largest = of_noise.largest_error
    proved_range = largest is not None and largest.side in (Side.EXACT, Side.UPPER) and not doubts
    radius = of_noise.radius if not doubts else None
    return NoiseSetting(
        case, radius, largest.value if proved_range and largest is not None else None, eps_g,
        certificate.distance(problem, solution, constants), how,
    )  # fmt: skip


def advised(constants: Constants, t: int, *, paper: bool = False) -> tuple[StepSchedule, str]:
    """The steps that the theory derives from the constants, and how."""
    names = ("q", "sigma_1", "sigma_2", "mse_0") if paper else ("q", "m_1", "V_star", "mse_0")
    value = {name: constants[name].value for name in names if name in constants}
    if len(value) < len(names) or not value["q"] < 1:
        return FULL, "full steps, as no contraction is known from which to derive others"
    if paper:
        return advise(**value, t=t), "the advice of Grazzi, Pontil, Salzo (2021), section 4"
    return advise_recursive(**value, t=t), "the smallest bound by stochastic-recursive"


def _doubted(constants: Constants, why: str) -> Constants:
    """The same as estimates."""
    text = f"; an estimate, as autograd's derivatives were not confirmed ({why})"
    return Constants(
        {
            name: replace(c, side=estimate_side(name), provenance=replace(c.provenance, how=c.provenance.how + text))
            for name, c in constants.items()
        }
    )
