"""Constants that the user vouches for: taken in the place of ours, unless what was found contradicts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from boundcheck.constants import Constant, Constants, Side

SAFE_BELOW = ("mu", "mu_inv")  # for all other constants the safe side is above


def settle(made: Mapping[str, Constant], claimed: Constants, sampled: Mapping[str, Constant]) -> dict[str, Constant]:
    """`made` with every claim that neither it nor what was `sampled` refutes."""
    settled = dict(made)
    for name, claim in claimed.items():
        ours = made.get(name)
        seen = sampled.get(name, ours)
        if ours is not None and seen is not None and refuted(claim, seen):
            words = {Side.UPPER: "at most ", Side.LOWER: "at least "}.get(_at(claim), "")
            how = f"given as {words}{claim.value:.6g}, but {seen.value:.6g} was found: {seen.provenance.how}"
            how += f"; taken in its place: {ours.provenance.how}" if seen is not ours else ""
            settled[name] = replace(ours, provenance=replace(ours.provenance, how=how))
        else:
            settled[name] = claim
    return settled


def is_below(claim: Constant, ours: Constant) -> bool:
    """Is an upper bound claimed that is better than ours? What refutes it can only be sampled."""
    above = _at(claim) in (Side.UPPER, Side.EXACT) and _at(ours) is Side.UPPER
    return above and claim.value < ours.value


def refuted(claim: Constant, ours: Constant) -> bool:
    """Is the truth, which is on our side of `ours`, on the wrong side of the claim?"""
    said, found = _at(claim), _at(ours)
    above = said in (Side.UPPER, Side.EXACT) and found in (Side.LOWER, Side.EXACT)
    below = said in (Side.LOWER, Side.EXACT) and found in (Side.UPPER, Side.EXACT)
    slack = 1e-9 * abs(claim.value)
    return (above and ours.value > claim.value + slack) or (below and ours.value < claim.value - slack)


def _at(constant: Constant) -> Side:
    """Its side, with that of high probability as the one it stands for."""
    if constant.side is not Side.HIGH_PROBABILITY:
        return constant.side
    return Side.LOWER if constant.name in SAFE_BELOW else Side.UPPER
