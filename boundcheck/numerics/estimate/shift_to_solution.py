"""From the computed point to w*: constants of w* were measured beside it, by as much as its residual allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from boundcheck.constants import Constant, Constants, Side
from boundcheck.numerics.estimate.at_solution import NOTHING

# by how much each moves with w, from constants of the ball; ‖w'‖ as (I − ∂₁Φ)⁻¹∂₂Φ
SLOPES: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], float]]] = {
    "q_star": (("nu_1",), lambda c: c["nu_1"]),
    "L_Phi_star": (("nu_2",), lambda c: c["nu_2"]),
    "g_star": (("eta_1",), lambda c: c["eta_1"]),
    "W": (("nu_1", "nu_2", "mu_inv"), lambda c: (c["nu_2"] + c["nu_1"] * c["W"]) / c["mu_inv"]),
}


def moved(made: Mapping[str, Constant], claimed: Constants, off: float, proved: bool) -> dict[str, Constant]:
    """The constants with those of w* as they are there.

    Parameters
    ----------
    made : Mapping[str, Constant]
        All constants of a ball; those of w* as they were measured at the computed point.
    claimed : Constants
        What the user vouches for, which is of w* already.
    off : float
        How far the computed point is from w*.
    proved : bool
        Is `off` a bound, or only an estimate?

    Returns
    -------
    dict of Constant by name
        A constant that hardly moves stays. One that does becomes an upper bound if all that it takes is proved, and
        an estimate if not.
    """
    values = {name: constant.value for name, constant in made.items()}
    settled = dict(made)
    for name, (needed, slope) in SLOPES.items():
        constant = made.get(name)
        if constant is None or constant.side is Side.LOWER or not set(needed) <= set(made):
            continue
        if name in claimed and not constant.provenance.refuted:
            continue
        shift = slope(values) * off
        if shift <= NOTHING * constant.value:
            continue
        safe = proved and all(made[n].is_safe for n in needed)
        likely = [made[n].provenance.delta for n in needed if made[n].side is Side.HIGH_PROBABILITY]
        side = Side.LOWER if not safe or likely else constant.side if constant.side is not Side.EXACT else Side.UPPER
        how = f"{constant.provenance.how}, and how far it may move to w*"
        provenance = replace(constant.provenance, how=how)
        settled[name] = replace(constant, value=constant.value + shift, side=side, provenance=provenance)
    return settled
