"""Which step size to take: one recommendation, where it contracts, how that is known, and a sentence that says so.

A gradient step Φ = w − α∇₁ℓ has ‖∂₁Φ‖ = max(1 − αμ, αL − 1) where the Hessian of ℓ has eigenvalues between μ and L. So
2/(μ+L) is the best α where μ and L are known on the ball. A q ≥ 1 that was measured for some α says that L may be as
large as (1 + q)/α there.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from boundcheck.ball import BallKind
from boundcheck.constants import Constants
from boundcheck.side import Side, standing

DIGITS = 4  # of a recommended step, which is rounded down, so that what is printed still contracts
WORTH_A_CHANGE = 1.25  # how many times larger 1 − q of another step must be to recommend it
PLACES = {BallKind.LOCAL: "on the ball of the iterates", BallKind.PAPER: "on the ball ‖w‖ ≤ 2D"}
AT_SOLUTION = "at w* only"


@dataclass(frozen=True)
class StepAdvice:
    """The step size to take, and what the one in use does.

    Attributes
    ----------
    alpha : float or None
        The step to take; None where none contracts.
    q : float or None
        Its contraction constant; None where that is not known, or there is no step to take.
    where : str
        Where it contracts: "on the ball of the iterates", "on the ball ‖w‖ ≤ 2D" or "at w* only"; empty if nowhere.
    standing : {"proved", "probable", "estimated"}
        How that is known.
    in_use : float or None
        The step of the problem; None if the constants have none.
    in_use_where : str
        Where the step in use contracts, as far as is known, in the words of `where`.
    chosen : str
        "default" if boundcheck chose the step in use, "given" if the user did; empty if that is not known.
    keep : bool
        Whether the step to take is the one in use.
    sentence : str
        All of this in a sentence, without a full stop.
    """

    alpha: float | None
    q: float | None
    where: str
    standing: str
    in_use: float | None
    in_use_where: str
    chosen: str
    keep: bool
    sentence: str

    def as_json(self) -> dict[str, Any]:
        """The advice as plain data, for a JSON file.

        Returns
        -------
        dict
            The attributes by their names.
        """
        return asdict(self)


@dataclass(frozen=True)
class _Step:
    """A step with its contraction constant, the side of that, and where it is the constant of."""

    alpha: float
    q: float | None
    side: Side
    where: str
    condition: str = ""

    @property
    def standing(self) -> str:
        return standing(self.side, "q")

    @property
    def clause(self) -> str:
        """As in "(q ≤ 0.98, proved)"."""
        value = "" if self.q is None else f"{contraction(self.q, self.side)}, "
        return f"({value}{self.standing}{self.condition})"


def advise(
    local_constants: Constants,
    paper_constants: Constants | None = None,
    chosen: str | None = "default",
    *,
    ball: str = BallKind.LOCAL.value,
) -> StepAdvice | None:
    """Recommend one step size from the constants of a problem.

    Parameters
    ----------
    local_constants : Constants
        On the ball that contains all iterates: μ and L, and where the problem has a step size also alpha and q.
    paper_constants : Constants, optional
        On the ball ‖w‖ ≤ 2D. If the recommended step is known not to contract there, the sentence says so.
    chosen : str or None
        Who chose the step in use, as ``problem.about()["step"]`` says: "default", "given", or None.
    ball : {"local", "paper"}
        Which ball the first constants are of; "local" by default.

    Returns
    -------
    StepAdvice or None
        None where Φ is not a gradient step, or nothing is known of its curvature.

    Examples
    --------
    >>> import boundcheck as bc
    >>> known = bc.Constants.given(mu=1.0, L=4.0, alpha=0.6, q=1.4, q_star=0.9)
    >>> bc.step_sizes.advise(known).sentence
    'step α = 0.6 (default) contracts at w*, but not on the whole ball; use α = 0.4, which does (q = 0.6, proved)'
    """
    place = PLACES[BallKind(ball)]
    in_use, best = _in_use(local_constants, place), _best(local_constants, place)
    mu = local_constants.get("mu")
    if mu is not None and mu.value <= 0 and mu.side in (Side.EXACT, Side.UPPER):
        why = f"the loss is not strongly convex (μ = {mu.value:.4g} ≤ 0), so no step size contracts"
        alpha = None if in_use is None else in_use.alpha
        return StepAdvice(None, None, "", standing(Side.EXACT), alpha, "", chosen or "", False, why)
    if in_use is not None and in_use.where == place and not _better(best, in_use):
        step, start = in_use, f"{_named(in_use.alpha, chosen)} contracts {place} {in_use.clause}; keep it"
    elif best is None:
        return None
    else:
        step, start = best, _change(local_constants, in_use, best, chosen, place)
    return StepAdvice(
        alpha=step.alpha, q=step.q, where=step.where, standing=step.standing,
        in_use=None if in_use is None else in_use.alpha, in_use_where="" if in_use is None else in_use.where,
        chosen=chosen or "", keep=step is in_use, sentence=start + _on_paper_ball(step, paper_constants),
    )  # fmt: skip


def _in_use(constants: Constants, place: str) -> _Step | None:
    """The step of the problem where it contracts: on the ball, or at w* only, or nowhere (an empty place)."""
    alpha, q, at_solution = (constants.get(name) for name in ("alpha", "q", "q_star"))
    if alpha is None or q is None:
        return None
    if q.value < 1:
        return _Step(alpha.value, q.value, q.side, place)
    if at_solution is not None:
        where = AT_SOLUTION if at_solution.value < 1 else ""
        return _Step(alpha.value, at_solution.value, at_solution.side, where)
    return _Step(alpha.value, q.value, q.side, "")


def _best(constants: Constants, place: str) -> _Step | None:
    """2/(μ+L) with μ and L of the ball if they are known there, or else with the L that a measured q stands for."""
    mu, L, alpha, q = (constants.get(name) for name in ("mu", "L", "alpha", "q"))
    if mu is None or L is None or not mu.value <= L.value or L.value <= 0:
        return None
    if mu.value > 0 and mu.is_safe and L.is_safe:
        sides = {mu.side, L.side}
        likely = Side.HIGH_PROBABILITY in sides
        return _of_spectrum(mu.value, L.value, Side.HIGH_PROBABILITY if likely else _upper(sides), place)
    fails = alpha is not None and q is not None and q.value >= 1
    largest = max(L.value, (1 + q.value) / alpha.value) if fails and alpha and q else L.value
    where = AT_SOLUTION if alpha is None or q is None else place
    if mu.value <= 0:  # a lower bound, so the loss may be strongly convex
        return _Step(rounded_down(1 / largest), None, Side.LOWER, where, ", if the loss is strongly convex there")
    return _of_spectrum(mu.value, largest, Side.LOWER, where, ", if the loss is convex there" if fails else "")


def _upper(sides: set[Side]) -> Side:
    return Side.EXACT if sides == {Side.EXACT} else Side.UPPER


def _of_spectrum(mu: float, L: float, side: Side, place: str, condition: str = "") -> _Step:
    alpha = rounded_down(2 / (mu + L))
    return _Step(alpha, max(1 - alpha * mu, alpha * L - 1), side, place, condition)


def _better(best: _Step | None, in_use: _Step) -> bool:
    """Whether another step is worth a change: it is proved and the one in use is not, or it contracts clearly more."""
    if best is None or best.q is None or in_use.q is None or best.standing == "estimated":
        return False
    return in_use.standing == "estimated" or 1 - best.q > WORTH_A_CHANGE * (1 - in_use.q)


def _change(constants: Constants, in_use: _Step | None, best: _Step, chosen: str | None, place: str) -> str:
    if in_use is None:
        return f"use α = {best.alpha:g}, which contracts {best.where} {best.clause}"
    name, known = _named(in_use.alpha, chosen), constants["q"].side in (Side.EXACT, Side.LOWER)
    if in_use.where == place:
        return f"{name} contracts {place} {in_use.clause}; α = {best.alpha:g} contracts more {best.clause}"
    if in_use.where == AT_SOLUTION:
        doubt = "but not on the whole ball" if known else "but is not known to on the whole ball"
        return f"{name} contracts at w*, {doubt}; use α = {best.alpha:g}, which does {best.clause}"
    even = "q_star" in constants and in_use.q is not None
    at_solution = f", not even at w* ({contraction(in_use.q or 0, in_use.side)})" if even else ""
    fails = f"does not contract{at_solution}" if known else "is not known to contract"
    return f"{name} {fails}; use α = {best.alpha:g}, which contracts {best.where} {best.clause}"


def _on_paper_ball(step: _Step, constants: Constants | None) -> str:
    """What to add where the step is known not to contract on ‖w‖ ≤ 2D."""
    alpha, q = (None, None) if constants is None else (constants.get("alpha"), constants.get("q"))
    if alpha is None or q is None or q.side not in (Side.EXACT, Side.LOWER):
        return ""
    ratio = step.alpha / alpha.value  # an eigenvalue of α times the Hessian is 1 + q or 1 − q somewhere on that ball
    there = min(ratio * (1 + q.value) - 1, 1 + ratio * (q.value - 1))
    return f"; on the paper's ball ‖w‖ ≤ 2D it does not (q ≥ {there:.3g})" if q.value >= 1 and there >= 1 else ""


def _named(alpha: float, chosen: str | None) -> str:
    return f"step α = {alpha:.4g}{' (default)' if chosen == 'default' else ''}"


def rounded_down(x: float, digits: int = DIGITS) -> float:
    """A positive number with a few digits, at most itself."""
    unit = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    return min(float(f"{math.floor(x / unit * (1 + 1e-12)) * unit:.{digits}g}"), x)


def contraction(q: float, side: Side) -> str:
    """As in "q ≤ 0.988": rounded to its safe side; 1 − q where q is next to 1."""
    relation = {Side.EXACT: "=", Side.LOWER: "≥"}.get(side, "≤")
    if 0.999 < q < 1:
        return f"q {relation} 1 − {rounded_down(1 - q, 2) if relation == '≤' else 1 - q:.1e}"
    scaled = q * 10**DIGITS if q < 1 else q * 100
    whole = math.ceil(scaled - 1e-9) if relation == "≤" else math.floor(scaled + 1e-9) if relation == "≥" else None
    shown = q if whole is None else whole / (10**DIGITS if q < 1 else 100)
    return f"q {relation} {shown:.4g}"
