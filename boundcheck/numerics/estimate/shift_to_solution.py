"""From the computed point to w*: constants of w* were measured beside it, by as much as its residual allows.

Likewise a ball around w* is covered by one around the computed point that is wider by the distance between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from boundcheck.constants import Constant, Constants
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.estimate.step_constant import NOTHING
from boundcheck.side import Side

# by how much each moves with w, from constants of the ball; ‖w'‖ as (I − ∂₁Φ)⁻¹∂₂Φ
SLOPES: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], float]]] = {
    "q_star": (("nu_1",), lambda c: c["nu_1"]),
    "L_Phi_star": (("nu_2",), lambda c: c["nu_2"]),
    "g_star": (("eta_1",), lambda c: c["eta_1"]),
    "W": (("nu_1", "nu_2", "mu_inv"), lambda c: (c["nu_2"] + c["nu_1"] * c["W"]) / c["mu_inv"]),
}


def wider(region: Region, off: Constant) -> Region:
    """A ball around the computed point that covers the region, if its centre is w*; `off` is how far that may be."""
    return replace(region, radius=region.radius + off.value) if region.centre == "w_star" else region


def on_ball_of_solution(constants: Iterable[Constant], region: Region, off: Constant) -> Iterator[Constant]:
    """Constants that are proved on the wider ball, as constants of the region: worth no more than `off` is.

    Where `off` has no proof, a ball around w* has none of them. What has no ball holds for all w, and stays as it is.
    """
    around_solution = region.centre == "w_star"
    for constant in constants:
        if constant.provenance.ball is None:
            yield constant
            continue
        side, provenance = constant.side, replace(constant.provenance, ball=region.ball)
        if around_solution and off.side is Side.LOWER:
            continue
        if around_solution and off.side is Side.HIGH_PROBABILITY:
            side = Side.HIGH_PROBABILITY
            provenance = replace(provenance, delta=(provenance.delta or 0.0) + (off.provenance.delta or 0.0))
        yield replace(constant, side=side, provenance=provenance)


ROUNDINGS = 16  # units in the last place of w by which arithmetic moves it, before the condition of I − ∂₁Φ


def by_rounding(w: Tensor, q_star: float, least: float | None) -> float:
    """As far as a computed fixed point is off in any case, for the rounding of numbers of the size of w."""
    gap = least or 1 - q_star
    return ROUNDINGS * torch.finfo(w.dtype).eps * (1 + q_star) * float(w.norm()) / gap if gap > 0 else 0.0


def moved(
    ours: Mapping[str, Constant], claimed: Constants, off: Constant, least: float | None, rounding: float
) -> dict[str, Constant]:
    """The constants with those of w* as they are there.

    Parameters
    ----------
    ours : Mapping[str, Constant]
        All constants of a ball; those of w* as they were measured at the computed point.
    claimed : Constants
        What the user vouches for, which is of w* already.
    off : Constant
        How far the computed point is from w*.
    least : float or None
        The least singular value of I − ∂₁Φ at the computed point, which stands in for a μ_λ that is not known.
    rounding : float
        How far it is off in any case.

    Returns
    -------
    dict of Constant by name
        A constant that hardly moves stays: raised by as much if that is proved, and as it is if rounding alone moves w.
        Another becomes an upper bound if all that it takes is proved, and an estimate if not, or if nobody knows how
        far it moves.
    """
    values = {name: constant.value for name, constant in ours.items()}
    if least:
        values.setdefault("mu_inv", least)
    settled = dict(ours)
    for name, (needed, slope) in SLOPES.items():
        constant = ours.get(name)
        if constant is None or constant.side is Side.LOWER or off.value <= 0:
            continue
        if name in claimed and not constant.provenance.refuted:
            continue
        known = set(needed) <= set(values)
        shift = slope(values) * off.value if known else 0.0
        top = replace(constant, value=constant.value + shift)
        proved = off.side is Side.UPPER and all(n in ours and ours[n].is_safe for n in needed)
        proved = proved and not any(ours[n].side is Side.HIGH_PROBABILITY for n in needed)
        if known and shift <= NOTHING * constant.value and (proved or off.value <= rounding):
            settled[name] = top if proved else constant
            continue
        side = Side.LOWER if not proved else constant.side if constant.side is not Side.EXACT else Side.UPPER
        how = f"{constant.provenance.how}, and how far it may move to w*"
        settled[name] = replace(top, side=side, provenance=replace(constant.provenance, how=how))
    return settled
