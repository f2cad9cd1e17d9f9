"""Shifts of constants from the computed point to w*, whose distance the residual bounds.

Norms at w* are computed at the computed point, and bounds on a ball around w* on a wider ball around that point.
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

# How much each constant changes per unit of w, from constants of the ball. For W this uses w' = (I − ∂₁Φ)⁻¹∂₂Φ.
SLOPES: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], float]]] = {
    "q_star": (("nu_1",), lambda c: c["nu_1"]),
    "L_Phi_star": (("nu_2",), lambda c: c["nu_2"]),
    "g_star": (("eta_1",), lambda c: c["eta_1"]),
    "W": (("nu_1", "nu_2", "mu_inv"), lambda c: (c["nu_2"] + c["nu_1"] * c["W"]) / c["mu_inv"]),
}


def wider(region: Region, off: Constant) -> Region:
    """Return a ball around the computed point that contains the region.

    If the centre of the region is w*, the ball is wider by `off`, a bound on the distance of w* from this point.
    """
    return replace(region, radius=region.radius + off.value) if region.centre == "w_star" else region


def on_ball_of_solution(constants: Iterable[Constant], region: Region, off: Constant) -> Iterator[Constant]:
    """Turn constants that are proved on the wider ball into constants of the region.

    If the region is around w*, they are no better proved than `off`: if `off` is an estimate, they are dropped. A
    constant without a ball holds for all w and stays as it is.
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


ROUNDINGS = 16  # roundings of w by which a computed fixed point is off, before the condition of I − ∂₁Φ amplifies them


def by_rounding(w: Tensor, q_star: float, least: float | None) -> float:
    """Return how far rounding alone moves a computed fixed point, for numbers of the size of w."""
    gap = least or 1 - q_star
    return ROUNDINGS * torch.finfo(w.dtype).eps * (1 + q_star) * float(w.norm()) / gap if gap > 0 else 0.0


def moved(
    ours: Mapping[str, Constant], claimed: Constants, off: Constant, least: float | None, rounding: float
) -> dict[str, Constant]:
    """Return constants of a ball, with those of w* moved from the computed point to w*.

    Parameters
    ----------
    ours : Mapping[str, Constant]
        All constants of a ball. Those of w* were computed at the computed point.
    claimed : Constants
        The user's constants, which hold at w* itself.
    off : Constant
        A bound on the distance between the computed point and w*.
    least : float or None
        The smallest singular value of I − ∂₁Φ at the computed point. It replaces an unknown μ_λ.
    rounding : float
        How far rounding alone moves the computed point.

    Returns
    -------
    dict of Constant by name
        A constant with a negligible shift keeps its side: its value is raised by the shift if this is proved, and stays
        if only rounding moves the point. Any other constant becomes an upper bound if all terms of its shift are
        proved, and otherwise an estimate.
    """
    values = {name: constant.value for name, constant in ours.items()}
    if least:
        values.setdefault("mu_inv", least)
    result = dict(ours)
    for name, (names, slope) in SLOPES.items():
        constant = ours.get(name)
        if constant is None or constant.side is Side.LOWER or off.value <= 0:
            continue
        if name in claimed and not constant.provenance.refuted:
            continue
        is_known = set(names) <= set(values)
        shift = slope(values) * off.value if is_known else 0.0
        top = replace(constant, value=constant.value + shift)
        proved = off.side is Side.UPPER and all(n in ours and ours[n].is_safe for n in names)
        proved = proved and not any(ours[n].side is Side.HIGH_PROBABILITY for n in names)
        if is_known and shift <= NOTHING * constant.value and (proved or off.value <= rounding):
            result[name] = top if proved else constant
            continue
        side = Side.LOWER if not proved else constant.side if constant.side is not Side.EXACT else Side.UPPER
        how = f"{constant.provenance.how}, and how far it may move to w*"
        result[name] = replace(top, side=side, provenance=replace(constant.provenance, how=how))
    return result
