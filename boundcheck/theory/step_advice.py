"""Recommend a step size: its value, where it contracts, whether that is proved, and a sentence for the user.

A gradient step Φ = w − α∇₁ℓ has ‖∂₁Φ‖ = max(1 − αμ, αL − 1) if the eigenvalues of the Hessian of ℓ are between μ and L.
So 2/(μ+L) is the best α if μ and L are known on the ball. If q ≥ 1 was measured for some α, then either q = αL − 1, and
no step above 2α/(1+q) contracts on the ball; or q = 1 − αμ with μ ≤ 0, and no step contracts.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from boundcheck.ball import BallKind
from boundcheck.constants import Constants
from boundcheck.side import Side, standing

DIGITS = 4  # digits of a recommended step; it is rounded down, and the printed step still contracts
WORTH_A_CHANGE = 1.25  # recommend another step only if its 1 − q is this many times larger
PLACES = {BallKind.LOCAL: "on the ball of the iterates", BallKind.PAPER: "on the ball ‖w‖ ≤ 2D"}
AT_SOLUTION = "at w* only"


@dataclass(frozen=True)
class StepAdvice:
    """A recommended step size, compared with the step in use.

    Attributes
    ----------
    alpha : float or None
        The recommended step; None if no step contracts.
    q : float or None
        The contraction constant of `alpha`; None if `alpha` is None.
    where : str
        Where it contracts: "on the ball of the iterates", "on the ball ‖w‖ ≤ 2D" or "at w* only"; empty if nowhere.
    standing : {"proved", "probable", "estimated"}
        The evidence that it contracts.
    in_use : float or None
        The step of the problem; None if the constants contain no step.
    in_use_where : str
        Where the step in use is known to contract, in the words of `where`.
    chosen : str
        "default" if boundcheck chose the step in use, "given" if the user did; empty if unknown.
    keep : bool
        Whether the recommended step is the step in use.
    limit : float or None
        No larger step contracts on the whole ball; None if the recommended step contracts there.
    sentence : str
        The advice as a sentence without a full stop.
    """

    alpha: float | None
    q: float | None
    where: str
    standing: str
    in_use: float | None
    in_use_where: str
    chosen: str
    keep: bool
    limit: float | None
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
class _Candidate:
    """A step with its contraction constant, the side of that constant, and where the step contracts."""

    alpha: float
    q: float
    side: Side
    where: str

    @property
    def standing(self) -> str:
        return standing(self.side, "q")

    @property
    def clause(self) -> str:
        """The contraction constant in brackets, such as "(q ≤ 0.98, proved)"."""
        return f"({contraction(self.q, self.side)}, {self.standing})"


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
        The constants on the ball that contains all iterates: μ and L, and alpha and q if the problem has a step size.
    paper_constants : Constants, optional
        The constants on the ball ‖w‖ ≤ 2D. If the recommended step does not contract there, the sentence says so.
    chosen : str or None
        Who chose the step in use, from ``problem.about()["step"]``: "default", "given", or None.
    ball : {"local", "paper"}
        The ball of `local_constants`; "local" by default.

    Returns
    -------
    StepAdvice or None
        None if Φ is not a gradient step, or if its curvature is unknown.

    Examples
    --------
    >>> import boundcheck as bc
    >>> known = bc.Constants.given(mu=1.0, L=4.0, alpha=0.6, q=1.4, q_star=0.9)
    >>> bc.step_sizes.advise(known, chosen="given").sentence
    'step α = 0.6 contracts at w* (q = 0.9), but not on the whole ball; use α = 0.4, which does (q = 0.6, proved)'
    """
    place, chosen = PLACES[BallKind(ball)], chosen or ""
    in_use, best = _in_use(local_constants, place), _best(local_constants, place)
    mu = local_constants.get("mu")
    if mu is not None and mu.value <= 0 and mu.side in (Side.EXACT, Side.UPPER):
        why = f"the loss is not strongly convex (μ = {mu.value:.4g} ≤ 0), so no step size contracts"
        alpha = None if in_use is None else in_use.alpha
        return StepAdvice(None, None, "", standing(Side.EXACT), alpha, "", chosen, False, None, why)
    step = _to_take(in_use, best, place)
    if step is None:
        return None
    limit = _limit(local_constants) if step.where == AT_SOLUTION else None
    sentence = _sentence(local_constants, in_use, step, chosen, place)
    sentence += _on_ball(local_constants, limit, step is in_use) or _on_paper_ball(step, paper_constants)
    return StepAdvice(
        alpha=step.alpha, q=step.q, where=step.where, standing=step.standing,
        in_use=None if in_use is None else in_use.alpha, in_use_where="" if in_use is None else in_use.where,
        chosen=chosen, keep=step is in_use, limit=limit, sentence=sentence,
    )  # fmt: skip


def _to_take(in_use: _Candidate | None, best: _Candidate | None, place: str) -> _Candidate | None:
    """The step in use if it contracts on the ball; else a step that does; else a step that contracts at w*."""
    if in_use is None:
        return best
    if in_use.where == place:
        return best if _better(best, in_use) else in_use
    return best if best is not None and (best.where == place or not in_use.where) else in_use if in_use.where else None


def _in_use(constants: Constants, place: str) -> _Candidate | None:
    """The step of the problem, and where it contracts: on the ball, at w* only, or nowhere (an empty string)."""
    alpha, q, at_solution = (constants.get(name) for name in ("alpha", "q", "q_star"))
    if alpha is None or q is None:
        return None
    if q.value < 1:
        return _Candidate(alpha.value, q.value, q.side, place)
    if at_solution is not None:
        where = AT_SOLUTION if at_solution.value < 1 else ""
        return _Candidate(alpha.value, at_solution.value, at_solution.side, where)
    return _Candidate(alpha.value, q.value, q.side, "")


def _best(constants: Constants, place: str) -> _Candidate | None:
    """The step 2/(μ+L): on the ball if μ is known there, and L is known or follows from q; else at w* only."""
    mu, L = constants.get("mu"), constants.get("L")
    if mu is None or L is None or not 0 < mu.value <= L.value:
        return None
    if mu.is_safe and L.is_safe:
        sides = {mu.side, L.side}
        likely = Side.HIGH_PROBABILITY in sides
        return _of_spectrum(mu.value, L.value, Side.HIGH_PROBABILITY if likely else _upper(sides), place)
    limit = _limit(constants)
    if mu.is_safe and limit is not None:  # the loss is strongly convex on the ball
        return _of_spectrum(mu.value, max(L.value, 2 / limit), Side.LOWER, place)
    return _of_spectrum(mu.value, L.value, Side.LOWER, AT_SOLUTION)


def _limit(constants: Constants) -> float | None:
    """2α/(1+q) if q ≥ 1, else None. No larger step contracts on the ball, provided that q is attained."""
    alpha, q = constants.get("alpha"), constants.get("q")
    return None if alpha is None or q is None or q.value < 1 else 2 * alpha.value / (1 + q.value)


def _upper(sides: set[Side]) -> Side:
    return Side.EXACT if sides == {Side.EXACT} else Side.UPPER


def _of_spectrum(mu: float, L: float, side: Side, place: str) -> _Candidate:
    alpha = rounded_down(2 / (mu + L))
    return _Candidate(alpha, max(1 - alpha * mu, alpha * L - 1), side, place)


def _better(best: _Candidate | None, in_use: _Candidate) -> bool:
    """Whether to recommend another step: only the other one is proved, or the other one contracts clearly more."""
    if best is None or best.standing == "estimated":
        return False
    return in_use.standing == "estimated" or 1 - best.q > WORTH_A_CHANGE * (1 - in_use.q)


def _sentence(constants: Constants, in_use: _Candidate | None, step: _Candidate, chosen: str, place: str) -> str:
    """The sentence about the step in use and the recommended step."""
    where = "at w*" if step.where == AT_SOLUTION else step.where
    if in_use is None:
        return f"use α = {step.alpha:g}, which contracts {where} {step.clause}"
    name, known = _named(in_use.alpha, chosen), constants["q"].side in (Side.EXACT, Side.LOWER)
    if in_use.where == place:
        comparison = "keep it" if step is in_use else f"α = {step.alpha:g} contracts more {step.clause}"
        return f"{name} contracts {place} {in_use.clause}; {comparison}"
    if in_use.where == AT_SOLUTION:
        doubt = "but not on the whole ball" if known else "but is not known to on the whole ball"
        start = f"{name} contracts at w* ({contraction(in_use.q, in_use.side)}), {doubt}"
        return start if step is in_use else f"{start}; use α = {step.alpha:g}, which does {step.clause}"
    at_solution = f", not even at w* ({contraction(in_use.q, in_use.side)})" if "q_star" in constants else ""
    fails = f"does not contract{at_solution}" if known else "is not known to contract"
    return f"{name} {fails}; use α = {step.alpha:g}, which contracts {where} {step.clause}"


def _on_ball(constants: Constants, limit: float | None, keeps: bool) -> str:
    """The clause that is added if the recommended step contracts at w* only; else empty."""
    if limit is None:
        return ""
    if constants["q"].side in (Side.EXACT, Side.LOWER):
        least = rounded_down(limit * (1 + 10.0 ** (1 - DIGITS)))
        clause = (
            f"keep it, as no step is known to contract there (none above {least:g} does)"
            if keeps
            else f"on the whole ball no step above {least:g} does"
        )
    else:
        clause = f"steps below {rounded_down(limit):g} do if the loss is strongly convex there"
    return f"; {clause}"


def _on_paper_ball(step: _Candidate, constants: Constants | None) -> str:
    """The clause that is added if the step is known not to contract on ‖w‖ ≤ 2D; else empty."""
    alpha, q = (None, None) if constants is None else (constants.get("alpha"), constants.get("q"))
    if alpha is None or q is None or q.side not in (Side.EXACT, Side.LOWER):
        return ""
    ratio = step.alpha / alpha.value  # an eigenvalue of α times the Hessian is 1 + q or 1 − q somewhere on that ball
    q_there = min(ratio * (1 + q.value) - 1, 1 + ratio * (q.value - 1))
    return f"; on the paper's ball ‖w‖ ≤ 2D it does not (q ≥ {q_there:.3g})" if q.value >= 1 and q_there >= 1 else ""


def _named(alpha: float, chosen: str | None) -> str:
    return f"step α = {alpha:.4g}{' (default)' if chosen == 'default' else ''}"


def rounded_down(x: float, digits: int = DIGITS) -> float:
    """Round a positive number down to a few digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    return min(float(f"{math.floor(x / unit * (1 + 1e-12)) * unit:.{digits}g}"), x)


def contraction(q: float, side: Side) -> str:
    """q as text, rounded to its safe side, such as "q ≤ 0.988"; written as 1 − … if q is close to 1."""
    relation = {Side.EXACT: "=", Side.LOWER: "≥"}.get(side, "≤")
    if 0.999 < q < 1:
        return f"q {relation} 1 − {rounded_down(1 - q, 2) if relation == '≤' else 1 - q:.1e}"
    scaled = q * 10**DIGITS if q < 1 else q * 100
    whole = math.ceil(scaled - 1e-9) if relation == "≤" else math.floor(scaled + 1e-9) if relation == "≥" else None
    rounded = q if whole is None else whole / (10**DIGITS if q < 1 else 100)
    return f"q {relation} {rounded:.4g}"
