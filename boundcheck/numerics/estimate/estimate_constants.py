"""`estimate_constants`: every constant that the bounds need, each from the best available source.

The sources are constants given by the user (compared with computed values), closed forms of the problem, structure
(derivatives that are the same for all w), norms at the fixed point, proofs from the user's program, and lower estimates
of suprema over the region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from boundcheck.ball import BALLS, BallKind
from boundcheck.constants import Constant, Constants
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.estimate import (
    at_solution,
    counterexamples,
    data_arithmetic,
    derived_constants,
    hessians,
    shift_to_solution,
    suprema,
    user_claims,
    validate,
)
from boundcheck.numerics.estimate.anchor import Anchor
from boundcheck.numerics.estimate.distance_constants import distances_to_w_star, steps_or_claims
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.fixed_point_certificate import FixedPoint
from boundcheck.numerics.estimate.program_at_point import AtPoint
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.estimate.smaller_balls import with_smaller_balls
from boundcheck.numerics.estimate.why_not_proved import WhyNot
from boundcheck.numerics.program.enclosure.kept_norms import norms_kept
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import Progress, no_progress
from boundcheck.side import Side, estimate_side

AT_W_STAR = {"q": "q_star", "L_E": "g_star", "L_Phi": "L_Phi_star"}
FROM_Q = {"mu_inv", "kappa"}  # these follow from q, which the user may have claimed


@on_few_threads
def estimate_constants(
    problem: Problem | str,
    *,
    ball: str = BallKind.PAPER.value,
    known: Constants | None = None,
    peak: float = 1.0,
    delta: float = 1e-3,
    seed: int = 0,
    budget: int | None = None,
    smaller_balls: bool = False,
    progress: Progress | None = None,
) -> Constants:
    """Estimate the constants of the theory for a problem, at its λ.

    Each constant has a side and a provenance. The side says whether it is exact, an upper bound, a bound with high
    probability or an estimate. The provenance says how it was obtained.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name that `load_problem` accepts.
    ball : {"paper", "local"}
        The ball over which suprema are taken: "paper", the default, is ‖w‖ ≤ 2D; "local" is ‖w − w*‖ ≤ peak·r_0.
    known : Constants, optional
        Constants that you have proved. They replace those of the problem. Constants that are refuted are not used.
    peak : float
        The largest ‖w_t − w*‖/r_0 of the iterates, at least 1; 1 by default, which is right without momentum.
    delta : float
        The probability that a certificate with a random start fails; 1e-3 by default.
    seed : int
        The seed of the random starts; 0 by default.
    budget : int, optional
        The most products with derivatives for each estimated constant; by default the limit of each estimator.
    smaller_balls : bool
        Whether the constants of the local ball also have their values on smaller balls around w*, where these can be
        proved: `Constant.on_smaller`. False by default.
    progress : callable (what, done, of) -> None, optional
        Called with a description of the current stage, the amount done and the total.

    Returns
    -------
    Constants
        By name: q, nu_1, nu_2, eta_1, eta_2, L_E, L_Phi (suprema over the ball), q_star, L_Phi_star, g_star, W (at
        w*), D, r_0, mu_inv, kappa, and for a problem with a loss mu, L and alpha. Constants that cannot be computed
        are missing.

    Raises
    ------
    UnknownNameError
        If `ball` is not the name of a ball.
    InputError
        If an argument is not valid.
    DivergenceError
        If w(λ) cannot be found.
    UserCodeError
        If a function of the user raises an error, or autograd's derivatives of it are wrong.

    Examples
    --------
    >>> import boundcheck as bc
    >>> constants = bc.estimate_constants(bc.problems.scalar(q=0.5))
    >>> constants["q"].value, constants["q"].side.value
    (0.5, 'exact')
    >>> constants["q"].provenance.how
    '|λ|'
    """
    problem = require_problem(problem)
    if ball not in BALLS:
        raise UnknownNameError.among("ball", ball, BALLS)
    if not peak >= 1:
        raise InputError(f"peak = {peak} < 1; the iterates start on the ball, so give a number >= 1")
    if known is not None and not isinstance(known, Constants):
        raise InputError(f"known is a {type(known).__name__}; give Constants.given(q=0.9, side='upper') or the like")
    spend = Spend(delta, seed, budget)
    tell = progress or no_progress
    lam = problem.checked(problem.lam, "lam")
    tell("checking the problem", 0, 1)
    doubts = validate.check(problem, lam).unconfirmed
    tell("solving for w*", 0, 1)
    solution = reference(quick(problem), lam[None])
    by_ball = on_balls(
        problem, solution, (ball,), known=known, peak=peak, spend=spend, tell=tell, doubts=doubts,
        smaller_balls=smaller_balls,
    )  # fmt: skip
    return by_ball[ball]


@norms_kept()
def on_balls(
    problem: Problem,
    solution: ReferenceSolution,
    balls: Sequence[str],
    *,
    known: Constants | None = None,
    peak: float | Callable[[Constants], float] = 1.0,
    radius: float | None = None,
    spend: Spend,
    tell: Progress,
    doubts: tuple[str, ...] = (),
    smaller_balls: bool = False,
) -> dict[str, Constants]:
    """Return the constants on each of several balls. Constants that do not depend on the ball are computed once.

    `peak` is the largest ‖w_t − w*‖/r_0 of the iterates, or a function of μ, L and α that returns it. `radius`, if
    given, replaces peak·r_0. `doubts` lists derivatives that finite differences could not confirm; if there are any,
    every constant is an estimate. With `smaller_balls`, the constants of the local ball also have values on smaller
    balls.
    """
    doubts += validate.at_reference(problem, solution).unconfirmed
    doubts = tuple(f"autograd's derivatives were not confirmed ({doubt})" for doubt in doubts)
    if rounded := data_arithmetic.doubt(problem):
        doubts += (rounded,)
    setting = Setting(problem, Prepared(problem, problem.lam[None]), solution, spend, tell)
    closed = problem.known if isinstance(problem.known, ClosedForms) else None
    claimed = known if known is not None else problem.known if isinstance(problem.known, Constants) else Constants()

    validate.unchanged(problem)
    shared = _without_ball(setting, closed)
    validate.unchanged(problem)
    if callable(peak):
        peak = peak(steps_or_claims(setting, shared, claimed))
    for distance in distances_to_w_star(setting, shared, claimed, balls, peak, closed):
        shared[distance.name] = derived_constants.better(distance, shared.get(distance.name))
    validate.unchanged(problem)
    r_0, D = shared["r_0"], shared["D"]
    off = replace(r_0, value=r_0.value - float((problem.w0.cpu().double() - setting.w_star.cpu().double()).norm()))
    if closed is None and isinstance(setting.fixed_point, FixedPoint):
        off = replace(r_0, value=setting.fixed_point.distance)
    if not bool(problem.w0.any()):  # w_0 = 0, so r_0 and D are both ‖w*‖
        shared["r_0"] = derived_constants.better(replace(D, name="r_0"), r_0)
    for W in derived_constants.sensitivity(shared):
        if "W" not in shared or shared["W"].side is Side.UPPER:  # its rounding may make it larger than the formula
            shared["W"] = derived_constants.better(W, shared.get("W"))

    regions = {ball: setting.region(ball, peak, D.value, shared["r_0"].value) for ball in balls}
    if radius is not None and BallKind.LOCAL in regions:
        regions[BallKind.LOCAL] = replace(regions[BallKind.LOCAL], radius=radius)
    on_each = {ball: _on_ball(setting, closed, claimed, region, shared, off) for ball, region in regions.items()}
    if smaller_balls and off.is_safe and not doubts and BallKind.LOCAL in on_each:
        reach, outer = regions[BallKind.LOCAL].radius, on_each[BallKind.LOCAL]
        on_each[BallKind.LOCAL] = with_smaller_balls(setting, closed, outer, reach, off.value)
    validate.unchanged(problem)
    return {ball: _doubted(constants, doubts) if doubts else constants for ball, constants in on_each.items()}


def _without_ball(setting: Setting, closed: ClosedForms | None) -> dict[str, Constant]:
    """Return the constants that are the same on every ball: closed forms, norms at w*, μ, L, zeros from structure."""
    problem, prepared, spend = setting.problem, setting.prepared, setting.spend
    constants: dict[str, Constant] = {}
    if closed is not None:
        _add(constants, closed.everywhere(problem.lam))
    setting.tell("measuring norms at w*", 0, 1)
    if closed is None and isinstance(setting.point, AtPoint):
        _add(constants, at_solution.from_program(problem, setting.point))
    else:
        _add(constants, at_solution.at_solution(problem, prepared, setting.solution, spend, setting.of_phi))
    if not {"mu", "L"} <= set(constants) and problem.inner_at is not None:
        setting.tell("measuring mu and L", 0, 1)
        w_star, shape = setting.w_star, setting.shape
        _add(constants, hessians.of_inner_loss(problem, prepared, w_star, shape, spend, setting.encloses))
    if closed is None:
        _add(constants, derived_constants.from_structure(setting.shape, constants))
    return constants


def _on_ball(
    setting: Setting, closed: ClosedForms | None, claimed: Constants, region: Region, shared: dict[str, Constant],
    off: Constant,
) -> Constants:  # fmt: skip
    """Return all constants on one ball. `off` is a bound on the distance between the computed w and w*."""
    problem, constants = setting.problem, dict(shared)
    within = shift_to_solution.wider(region, off)
    if closed is not None:
        on_region = {constant.name: constant for constant in closed.on(problem.lam, region)}
        constants |= {name: constant for name, constant in on_region.items() if name not in constants or name == "q"}
    if any(name not in constants for name in suprema.NAMES):
        _add(constants, derived_constants.from_structure(setting.shape, constants))
        of_quadratic = _of_quadratic_outer_loss(setting, within, constants)
        _add(constants, shift_to_solution.on_ball_of_solution(of_quadratic, region, off))
    why_not: WhyNot | None = None
    if closed is None:
        setting.tell("proving constants from the program", 0, 1)
        anchor = Anchor(setting.w_star, off.value) if off.side is Side.UPPER else None
        over_wider = setting.program.on(within, constants.get("alpha"), anchor)
        proved = list(shift_to_solution.on_ball_of_solution(over_wider, region, off))
        constants = derived_constants.with_proved(constants, proved)
        lost = region.centre == "w_star" and off.side is Side.LOWER and isinstance(setting.fixed_point, str)
        no_centre = str(setting.fixed_point) if lost else ""
        why_not = WhyNot(setting.program, within, constants.get("alpha"), proved, no_centre)
    unknown = [name for name in suprema.NAMES if name not in constants]
    for number, name in enumerate(unknown):
        at_w_star = constants.get(AT_W_STAR.get(name, ""))
        measured = setting.supremum(name, region, number, len(unknown))
        constants[name] = derived_constants.no_less(measured, at_w_star)
    doubtful = [n for n in claimed if n in suprema.NAMES and user_claims.is_below(claimed[n], constants[n])]
    evidence = [setting.supremum(name, region) for name in doubtful]
    evidence += counterexamples.evidence(problem, setting.prepared, setting.solution, constants, claimed)
    for names in (set(claimed) - FROM_Q, set(claimed) & FROM_Q):
        claims = Constants({name: claimed[name] for name in claimed if name in names})
        near, points = counterexamples.tolerance(problem), counterexamples.at_one_point(problem)
        constants = user_claims.settle(constants, claims, evidence, near, points)
        _add(constants, derived_constants.inverse(constants))
    if why_not is not None:
        constants = {name: why_not.with_reason(constant) for name, constant in constants.items()}
    rounding = shift_to_solution.by_rounding(setting.w_star, shared["q_star"].value, setting.least)
    return Constants(shift_to_solution.moved(constants, claimed, off, setting.least, rounding))


def _of_quadratic_outer_loss(setting: Setting, region: Region, constants: Mapping[str, Constant]) -> Iterator[Constant]:
    """Yield η₁ and L_E if the Hessian of E is constant."""
    if {"eta_1", "L_E"} <= set(constants) or not setting.shape.hessian_of_E:
        return
    problem, prepared = setting.problem, setting.prepared
    eta_1 = hessians.of_outer_loss(problem, prepared, setting.w_star, setting.spend)
    yield eta_1
    at_centre = at_solution.gradient_norm("L_E", problem, region.point, prepared.leaves.at(0), "‖∇₁E(centre)‖")
    yield derived_constants.gradient_bound(at_centre, eta_1, region)


def _add(constants: dict[str, Constant], others: Iterable[Constant]) -> None:
    """Add constants whose names are not in the dict yet."""
    for constant in others:
        constants.setdefault(constant.name, constant)


def _doubted(constants: Constants, doubts: Sequence[str]) -> Constants:
    """Return the constants as estimates, because a derivative could not be confirmed or data are rounded."""
    why = f"; an estimate, as {doubts[0]}"
    return Constants(
        {
            name: replace(
                constant,
                side=estimate_side(name),
                provenance=replace(constant.provenance, how=constant.provenance.how + why),
            )
            for name, constant in constants.items()
        }
    )
