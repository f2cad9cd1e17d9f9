"""D and r_0, the distances of w* from 0 and from the start, and the q that their proof uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.bilevel.closed_forms import ClosedForms
from boundcheck.numerics.estimate import counterexamples, derived_constants, user_claims
from boundcheck.numerics.estimate.fixed_point_certificate import FixedPoint
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.side import Side

OF_STEPS = ("mu", "L", "alpha")


def distances_to_w_star(
    setting: Setting, shared: Mapping[str, Constant], claimed: Constants, balls: Sequence[str], peak: float,
    closed: ClosedForms | None,
) -> Iterator[Constant]:  # fmt: skip
    """Yield D and r_0, from a proof of a fixed point near the computed w*, or from the residual of w* and q."""
    if closed is None:
        setting.tell("proving that w* exists", 0, 1)
        if isinstance(setting.fixed_point, FixedPoint):
            proof = setting.fixed_point
            yield from derived_constants.distances_of(setting.problem, setting.w_star, proof.distance, proof.how)
            if "q" not in shared or shared["q"].side is Side.LOWER:
                return
    q = _near(setting, shared, claimed, balls, peak)
    yield from derived_constants.distances(setting.problem, setting.solution, q, shared, setting.least)


def steps_or_claims(setting: Setting, constants: Mapping[str, Constant], claimed: Constants) -> Constants:
    """Return μ, L and α, which are the same on every ball, or the user's values for them."""
    steps = {name: constants[name] for name in OF_STEPS if name in constants}
    claims = Constants({name: claimed[name] for name in OF_STEPS if name in claimed})
    if not claims:
        return Constants(steps)
    evidence = counterexamples.evidence(setting.problem, setting.prepared, setting.solution, constants, claims)
    return Constants(user_claims.settle(steps, claims, evidence, counterexamples.tolerance(setting.problem)))


def _near(
    setting: Setting, constants: Mapping[str, Constant], claimed: Constants, balls: Sequence[str], peak: float
) -> Constant:
    """Return q for the bound on the distance from w*: a known q, a claimed q that is not refuted, or ‖∂₁Φ(w*)‖."""
    if "q" in constants:
        return constants["q"]
    claim = claimed.get("q")
    at_w_star = Constant("q", constants["q_star"].value, Side.LOWER, Provenance("‖∂₁Φ(w*)‖"))
    if claim is None or claim.side is Side.LOWER:
        return at_w_star
    w, w_0 = setting.w_star, setting.problem.w0
    for ball in balls:
        region = setting.region(ball, peak, D=float(w.norm()), r_0=float((w_0 - w).norm()))
        if user_claims.refuted(claim, setting.supremum("q", region)):
            return at_w_star
    return claim
