"""Constants on smaller balls around w*: near w* a map often contracts better, and bends less, than where it starts.

Closed forms give ν and η on any ball; the program of the problem gives these, and μ, L and q. What holds on a ball
holds on every ball inside, so values never get worse. An entry is kept only if it is proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from boundcheck.constants import Constant, Constants
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.estimate import derived_constants
from boundcheck.numerics.estimate.anchor import Anchor
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.side import Side, direction

SHRINKING = ("q", "nu_1", "nu_2", "eta_1", "eta_2", "mu_inv", "kappa")
BALLS = 11  # smaller ones, each half as wide as the one before
AFFORDABLE = 200_000_000  # d²(d + n) up to which the program is enclosed on every ball
NEAR = 100  # times that a ball must be wider than the doubt about its centre
CLOSE = 0.01  # of itself, by which a constant may differ from that of the smallest ball when the balls end


def with_smaller_balls(
    setting: Setting, closed: ClosedForms | None, constants: Constants, radius: float, off: float
) -> Constants:
    """The constants with their values on smaller balls, `Constant.on_smaller`, where these are proved and better.

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
    program = _program(setting, closed, constants)
    known = {name: constants[name] for name in SHRINKING if name in constants and constants[name].is_safe}
    widths = [width for n in range(1, BALLS + 1) if (width := radius * 2.0**-n) > NEAR * off]
    if (closed is None and program is None) or not widths:
        return constants

    def values(number: int, before: Mapping[str, float]) -> dict[str, float]:
        setting.tell("proving constants on smaller balls", number, len(widths))
        region = Region("w_star", setting.w_star, (widths[number] + off) * derived_constants.ROUNDED_UP)
        here = _on(setting, closed, program, constants, region, off)
        return {name: _better(name, value, here.get(name)) for name, value in before.items()}

    last = {name: constant.value for name, constant in known.items()}
    smallest = values(len(widths) - 1, last)
    tables: dict[str, list[tuple[float, float]]] = {name: [] for name in known}
    for number, width in enumerate(widths):
        if _close(last, smallest):
            break
        last = _best(last, smallest) if number == len(widths) - 1 else values(number, last)
        for name, value in last.items():
            tables[name].append((width, value))
    return constants.replace(*(replace(c, on_smaller=_shortened(c, tables[name])) for name, c in known.items()))


def _program(setting: Setting, closed: ClosedForms | None, constants: Constants) -> ProgramProof | None:
    """What proves q and μ on any ball; None where it would take too long or where ∂₁Φ is the same for all w.

    A problem with closed forms has its step in them, and its loss is recorded for μ and L alone.
    """
    problem = setting.problem
    d, n = problem.d, problem.n
    if d * d * (d + n) > AFFORDABLE:
        return None
    if closed is None:
        return setting.program
    alpha, nu_1 = constants.get("alpha"), constants.get("nu_1")
    if nu_1 is not None and nu_1.value == 0:
        return None
    program = setting.program
    if alpha is not None and problem.inner_at is not None and problem.curvature is not None:
        step = alpha.value
        program = ProgramProof.of(replace(problem, step_at=lambda ready: step, frozen_step=None))
    return None if program.lower is None else replace(program, outer=None, declined={"outer": "known in closed form"})


def _on(
    setting: Setting, closed: ClosedForms | None, program: ProgramProof | None, constants: Constants, region: Region,
    off: float,
) -> Mapping[str, Constant]:  # fmt: skip
    """What is proved on one ball, by name."""
    here = {name: constants[name] for name in ("alpha", "mu", "L") if name in constants}
    if closed is not None:
        here |= {constant.name: constant for constant in closed.on(setting.problem.lam, region)}
    near = Anchor(setting.w_star, off)
    names = (*SHRINKING, "mu", "L")
    for constant in program.on(region, constants.get("alpha"), near, names) if program is not None else ():
        old = here.get(constant.name)
        if old is None or not old.is_safe or _better(constant.name, old.value, constant) != old.value:
            here[constant.name] = constant
    if "q" in here:
        here |= {constant.name: constant for constant in derived_constants.inverse(here)}
    if "mu" in here and "L" in here and here["mu"].value > 0:
        here["kappa"] = derived_constants.condition_number(here)
    return here


def _better(name: str, value: float, other: Constant | None) -> float:
    """The better of a value and a constant that is proved; larger is better for those with which bounds fall."""
    if other is None or not other.is_safe or other.side is Side.HIGH_PROBABILITY:
        return value
    return max(value, other.value) if direction(name) < 0 else min(value, other.value)


def _best(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float]:
    """The better of both: what is proved on a smaller ball may be the worse one, by rounding."""
    return {name: (max if direction(name) < 0 else min)(value, two[name]) for name, value in one.items()}


def _close(here: Mapping[str, float], smallest: Mapping[str, float]) -> bool:
    """Are all constants about what they are on the smallest ball? Of q that is 1 − q."""
    pairs = (
        (1 - value, 1 - smallest[name]) if name == "q" else (value, smallest[name]) for name, value in here.items()
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
