"""Constants that the user claims: they replace our estimates unless the evidence contradicts them.

A constant of one point, such as r_0 or W, is computed there and proved up to rounding. If a claim is better than this
proof, it depends on digits that rounding hides. It cannot be confirmed, so it is not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from boundcheck.constants import Constant, Constants
from boundcheck.side import Side, safe_side


def settle(
    estimates: Mapping[str, Constant], claimed: Constants, evidence: Iterable[Constant], tolerance: float,
    at_one_point: Collection[str] = (),
) -> dict[str, Constant]:  # fmt: skip
    """Replace our estimates by the user's claims, except for claims that are refuted, weaker or impossible to confirm.

    Parameters
    ----------
    estimates : Mapping[str, Constant]
        Our constants by name.
    claimed : Constants
        The user's claims.
    evidence : Iterable of Constant
        Other bounds on the true constants: from below (side lower) or from above (side upper).
    tolerance : float
        The relative difference that rounding can explain.
    at_one_point : Collection of str
        The constants that are computed at one point.

    Returns
    -------
    dict of Constant by name
        If a claim is refuted or cannot be confirmed, `provenance.refuted` gives the reason.
    """
    result = dict(estimates)
    against: dict[str, list[Constant]] = {}
    for constant in (*evidence, *estimates.values()):
        against.setdefault(constant.name, []).append(constant)
    for name, claim in claimed.items():
        ours = estimates.get(name)
        refutation = next((c for c in against.get(name, ()) if refuted(claim, c, tolerance)), None)
        if refutation is not None:
            result[name] = _overruled(claim, refutation, ours)
        elif ours is not None and name in at_one_point and _is_hidden(claim, ours, tolerance):
            result[name] = _unconfirmed(claim, ours)
        elif ours is None or not ours.is_safe or claim.is_safe:
            result[name] = _larger(claim, ours) if not claim.is_safe and ours is not None else claim
    return result


def _overruled(claim: Constant, refutation: Constant, ours: Constant | None) -> Constant:
    why = f"{_claim_text(claim)}, but {refutation.value:.6g} was found: {refutation.provenance.how}"
    replacement = refutation if ours is None else ours
    how = why if replacement is refutation else f"{why}; taken in its place: {replacement.provenance.how}"
    return replace(replacement, provenance=replace(replacement.provenance, how=how, refuted=why))


def _is_hidden(claim: Constant, ours: Constant, tolerance: float) -> bool:
    """Return whether a claim is below our proved bound on a value at one point, where rounding hides the truth."""
    better = claim.stated_side is not Side.LOWER and claim.value < ours.value * (1 - tolerance)
    return ours.side is Side.UPPER and better


def _unconfirmed(claim: Constant, ours: Constant) -> Constant:
    why = f"{_claim_text(claim)}, which cannot be confirmed: rounding leaves at most {ours.value:.6g}"
    how = f"{why}; taken in its place: {ours.provenance.how}"
    return replace(ours, provenance=replace(ours.provenance, how=how, refuted=why))


def _claim_text(claim: Constant) -> str:
    words = {Side.UPPER: "at most ", Side.LOWER: "at least "}.get(claim.stated_side, "")
    return f"given as {words}{claim.value:.6g}"


def _larger(claim: Constant, ours: Constant) -> Constant:
    """Return the larger of two lower estimates; if the safe side of the constant is below, the smaller one."""
    less = claim.value < ours.value
    return ours if less != (safe_side(claim.name) is Side.LOWER) else claim


def is_below(claim: Constant, ours: Constant) -> bool:
    """Return whether a claimed upper bound is better than ours. Only sampled values can refute such a claim."""
    above = claim.stated_side in (Side.UPPER, Side.EXACT) and ours.stated_side is Side.UPPER
    return above and claim.value < ours.value


def refuted(claim: Constant, ours: Constant, tolerance: float = 1e-9) -> bool:
    """Return whether `ours` contradicts the claim: whether the true value is on the wrong side of the claim."""
    claimed_side, measured = claim.stated_side, ours.stated_side
    above = claimed_side in (Side.UPPER, Side.EXACT) and measured in (Side.LOWER, Side.EXACT)
    below = claimed_side in (Side.LOWER, Side.EXACT) and measured in (Side.UPPER, Side.EXACT)
    slack = tolerance * max(abs(claim.value), abs(ours.value))
    return (above and ours.value > claim.value + slack) or (below and ours.value < claim.value - slack)
