"""Constants on smaller balls around w*: near w* a map often contracts better, and bends less, than where it starts.

Closed forms give ν and η on any ball; the program of the problem gives these, and μ, L and q. What holds on a ball
holds on every ball inside, so values never get worse. An entry is kept only if it is proved. For a gradient step the
program also gives how much closer to w* every point of a ball comes, which is less than q allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.estimate import derived_constants
from boundcheck.numerics.estimate.anchor import Anchor
from boundcheck.numerics.estimate.calm_hessian import NEAR
from boundcheck.numerics.estimate.directional_balls import directional_balls, falling
from boundcheck.numerics.estimate.mean_contraction import NearbyStep, OnBall, towards
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.estimate.step_constant import step_rounding
from boundcheck.numerics.program.enclosure.curvature_form import ends_of, weighted_sum
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.enclosure.value import W
from boundcheck.side import Side, direction

SHRINKING = ("q", "nu_1", "nu_2", "eta_1", "eta_2", "mu_inv", "kappa")
BALLS = 11  # smaller ones, each half as wide as the one before
MANY, SOME = 3, 6  # of them, the widest, before which there are three and one other balls, for q, μ and L alone
SLOW = 0.005  # 1 − q below which so many steps are slow that the means have more balls
FINE = tuple(2.0**-x for x in (*(n / 16 for n in range(1, 64)), *(4 + n / 8 for n in range(16)), 6.25, 6.5, 6.75))
NARROW = 0.25  # of the widest ball, from which some of the finer balls count for χ and ω
SPARSER = 4  # one of so many: these need third derivatives
CHEAP = 20_000_000  # d²(d + n) up to which there are these
FITS = 1 + 1e-8  # times the radius at which iterates start, of a ball that certainly contains them
AFFORDABLE = 200_000_000  # d²(d + n) up to which the program is enclosed on every ball
CLOSE = 0.01  # of itself, by which a constant may differ from that of the smallest ball when the balls end


def with_smaller_balls(
    setting: Setting, closed: ClosedForms | None, constants: Constants, radius: float, off: float
) -> Constants:
    """The constants with their values on smaller balls, `on_smaller`, where these are proved and better.

    For a gradient step q also gets `towards`.

    Parameters
    ----------
    setting : Setting
        The problem and its solution.
    closed : ClosedForms or None
        What the problem knows in closed form.
    constants : Constants
        The constants on the ball around w* of `radius`.
    radius : float
        Of that ball.
    off : float
        How far the computed point may be from w*; every ball is taken wider by it.

    Returns
    -------
    Constants
        The same names, values and sides.
    """
    with_step = cache(partial(_with_step, setting, constants))
    program = _program(setting, closed, constants, with_step)
    known = {name: constants[name] for name in SHRINKING if name in constants and constants[name].is_safe}
    widths = [width for n in range(1, BALLS + 1) if (width := radius * 2.0**-n) > NEAR * off]
    if (closed is None and program is None) or not widths:
        return constants
    step = _step(setting, program, constants)
    cheap = setting.problem.d**2 * (setting.problem.d + setting.problem.n) <= CHEAP
    slow = step is not None and cheap and 0 < 1 - constants["q"].value < SLOW
    fine = [radius * share for share in FINE] if slow else []
    hessians = _hessians(setting, program, off) if step is not None else None

    def region(width: float) -> Region:
        return Region("w_star", setting.w_star, (width + off) * derived_constants.ROUNDED_UP)

    def values(width: float, before: Mapping[str, float]) -> dict[str, float]:
        if width in widths:
            setting.tell("proving constants on smaller balls", widths.index(width), len(widths))
            on_ball = _on(setting, closed, program, constants, region(width), off, (*SHRINKING, "mu", "L"))
        else:
            assert hessians is not None
            assert step is not None
            on_ball = _of_hessian(hessians(width), step, constants)
        return {name: _better(name, value, on_ball.get(name)) for name, value in before.items()}

    near = [width for width in fine if width <= radius * NARROW][::SPARSER]
    directional = directional_balls(setting, constants, with_step, off) if cheap else None

    def asked_at_once(width: float) -> None:
        """What else is asked about a ball, while its bounds are at hand."""
        if hessians is not None and "q" in known:
            hessians(width)
        if directional is not None and (width in widths[::2] or width in near):
            directional.enclose(width)

    last = {name: constant.value for name, constant in known.items()}
    smallest = values(widths[-1], last)
    asked_at_once(widths[-1])
    tables: dict[str, list[tuple[float, float]]] = {name: [] for name in known}
    reached: list[float] = []
    between = _with_between(widths) if step is not None and cheap and not slow else widths
    for width in falling([*between, *fine]):
        if _close(last, smallest):
            break
        reached.append(width)
        last = _best(last, smallest) if width == widths[-1] else values(width, last)
        asked_at_once(width)
        for name, value in last.items():
            tables[name].append((width, value))
    with_tables = {name: replace(c, on_smaller=_shortened(c, tables[name])) for name, c in known.items()}
    if hessians is not None and step is not None and "q" in with_tables:
        factors = towards([hessians(width) for width in falling([radius * FITS, *reached, widths[-1]])], step)
        with_tables["q"] = replace(
            with_tables["q"], towards=tuple(pair for pair in factors if pair[1] < with_tables["q"].value)
        )
    if directional is not None:
        asked = [width for width in reached if width in widths[::2] or width in near]
        of_balls = directional.constants([radius * FITS, *near, *asked], asked)
        with_tables |= {constant.name: constant for constant in of_balls}
    return constants.replace(*with_tables.values())


def _hessians(setting: Setting, program: ProgramProof | None, off: float) -> Callable[[float], OnBall]:
    """Where ∇²₁ℓ is on a ball around w*, each ball once."""
    assert program is not None

    @cache
    def on_ball(width: float) -> OnBall:
        bounds = program.lower_bounds(setting.w_star, (width + off) * derived_constants.ROUNDED_UP)
        assert isinstance(bounds, ScalarBounds)
        return OnBall(width, weighted_sum(bounds.over.curvature((W, W))))

    return on_ball


def _of_hessian(ball: OnBall, step: NearbyStep, constants: Constants) -> dict[str, Constant]:
    """q, μ, L and what follows, by the ends of ∇²₁ℓ alone."""
    smallest, largest = ends_of([ball.hessian])
    how = Provenance("the ends of ∇²₁ℓ over the ball, from the program", "program")
    on_ball = {name: constants[name] for name in ("alpha", "mu", "L") if name in constants}
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        return _with_inverse(on_ball)
    from_ends = [
        Constant("q", step.slope(smallest, largest), Side.UPPER, how),
        Constant("mu", smallest, Side.LOWER, how),
        Constant("L", largest, Side.UPPER, how),
    ]
    for constant in from_ends:
        old = on_ball.get(constant.name)
        if old is None or not old.is_safe or _better(constant.name, old.value, constant) != old.value:
            on_ball[constant.name] = constant
    return _with_inverse(on_ball)


def _with_between(widths: Sequence[float]) -> Iterator[float]:
    """The widths with others between them, more between the widest."""
    for number, width in enumerate(widths):
        octave = 2 * width  # from the width before
        shares = (0.875, 0.75, 0.625) if number < MANY else (0.75,) if number < SOME else ()
        yield from (share * octave for share in shares)
        yield width


def _step(setting: Setting, program: ProgramProof | None, constants: Constants) -> NearbyStep | None:
    """The gradient step of Φ, where its loss is enclosed with matrices and bends; None otherwise."""
    alpha, nu_1, w_star = constants.get("alpha"), constants.get("nu_1"), setting.w_star
    if program is None or not program.has_loss or alpha is None or alpha.side is not Side.EXACT:
        return None
    if nu_1 is None or nu_1.value == 0 or program.lower is None or program.separable("lower", w_star, 1.0) is not None:
        return None
    return NearbyStep(alpha.value, step_rounding(program.problem))


def _with_step(setting: Setting, constants: Constants) -> ProgramProof | None:
    """A proof for a gradient step on the loss with the step that is known; None where there is no loss, or no step."""
    problem, alpha = setting.problem, constants.get("alpha")
    if alpha is None or problem.inner_at is None:
        return None
    step = alpha.value
    return ProgramProof.of(replace(problem, step_at=lambda ready: step, frozen_step=None))


def _program(
    setting: Setting, closed: ClosedForms | None, constants: Constants, with_step: Callable[[], ProgramProof | None]
) -> ProgramProof | None:
    """What proves q and μ on any ball; None where it would take too long or where ∂₁Φ is the same for all w.

    A problem with closed forms has its step in them, and its loss is recorded for μ and L alone.
    """
    problem = setting.problem
    d, n = problem.d, problem.n
    if d * d * (d + n) > AFFORDABLE:
        return None
    if closed is None:
        return setting.program
    nu_1 = constants.get("nu_1")
    if nu_1 is not None and nu_1.value == 0:
        return None
    program = (None if problem.curvature is None else with_step()) or setting.program
    return None if program.lower is None else _lower_level_of(program)


def _lower_level_of(program: ProgramProof) -> ProgramProof:
    """A proof that is asked about the lower level alone."""
    return replace(program, outer=None, declined={**program.declined, "outer": "not asked for"})


def _on(
    setting: Setting, closed: ClosedForms | None, program: ProgramProof | None, constants: Constants, region: Region,
    off: float, names: Collection[str],
) -> Mapping[str, Constant]:  # fmt: skip
    """What is proved on one ball, by name; `names` are asked of the program."""
    on_ball = {name: constants[name] for name in ("alpha", "mu", "L") if name in constants}
    if closed is not None:
        on_ball |= {constant.name: constant for constant in closed.on(setting.problem.lam, region)}
    near = Anchor(setting.w_star, off)
    for constant in program.on(region, constants.get("alpha"), near, names) if program is not None else ():
        old = on_ball.get(constant.name)
        if old is None or not old.is_safe or _better(constant.name, old.value, constant) != old.value:
            on_ball[constant.name] = constant
    return _with_inverse(on_ball)


def _with_inverse(on_ball: dict[str, Constant]) -> dict[str, Constant]:
    """With what follows from q, μ and L."""
    if "q" in on_ball:
        on_ball |= {constant.name: constant for constant in derived_constants.inverse(on_ball)}
    if "mu" in on_ball and "L" in on_ball and on_ball["mu"].value > 0:
        on_ball["kappa"] = derived_constants.condition_number(on_ball)
    return on_ball


def _better(name: str, value: float, other: Constant | None) -> float:
    """The better of a value and a constant that is proved; larger is better for those with which bounds fall."""
    if other is None or not other.is_safe or other.side is Side.HIGH_PROBABILITY:
        return value
    return max(value, other.value) if direction(name) < 0 else min(value, other.value)


def _best(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float]:
    """The better of both: what is proved on a smaller ball may be the worse one, by rounding."""
    return {name: (max if direction(name) < 0 else min)(value, two[name]) for name, value in one.items()}


def _close(constants: Mapping[str, float], smallest: Mapping[str, float]) -> bool:
    """Are all constants about what they are on the smallest ball? Of q that is 1 − q."""
    pairs = (
        (1 - value, 1 - smallest[name]) if name == "q" else (value, smallest[name]) for name, value in constants.items()
    )
    return all(abs(value - least) <= CLOSE * abs(least) for value, least in pairs)


def _shortened(constant: Constant, table: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Without balls on which the value is that of the ball around them."""
    before, kept = constant.value, []
    for radius, value in table:
        if value != before:
            kept.append((radius, value))
        before = value
    return tuple(kept)
