"""Constants that follow from others by a formula. The side of each follows from the sides of its terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from torch import Tensor

from boundcheck.constants import Constant, Provenance
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import residual_bounds
from boundcheck.numerics.estimate.constant_derivatives import Structure
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.side import Side
from boundcheck.side_arithmetic import SidedValue, sided

ROUNDED_UP = 1 + 1e-12  # more than the rounding of a few operations


def from_structure(shape: Structure, constants: Mapping[str, Constant]) -> Iterator[Constant]:
    """Yield the constants that follow from derivatives that are the same for all w."""
    if shape.d1phi:
        yield Constant("nu_1", 0.0, Side.EXACT, Provenance("Φ is affine in w, by its operations"))
        if "q_star" in constants:
            yield replace(constants["q_star"], name="q")
    if shape.d2phi:
        yield Constant("nu_2", 0.0, Side.EXACT, Provenance("∂₂Φ does not depend on w, by the operations of Φ"))
        if "L_Phi_star" in constants:
            yield replace(constants["L_Phi_star"], name="L_Phi")
    if shape.d2E:
        yield Constant("eta_2", 0.0, Side.EXACT, Provenance("∇₂E does not depend on w, by the operations of E"))


def distances(
    problem: Problem,
    solution: ReferenceSolution,
    q: Constant,
    constants: Mapping[str, Constant],
    least: float | None = None,
) -> Iterator[Constant]:
    """Yield D and r_0 from an a posteriori bound: ‖w − w*‖ ≤ ‖w − Φ(w)‖/(1 − q) for the computed w.

    If Φ is a gradient step, ‖w − Φ(w)‖ = α‖∇₁ℓ(w)‖ ≥ αμ‖w − w*‖, which is never worse and needs no contraction.
    Without a contraction, ‖w − w*‖ is about ‖w − Φ(w)‖/least, where `least` is the smallest singular value of
    I − ∂₁Φ(w*).
    """
    w, proof = solution.w[0], residual_bounds.of(problem, solution)
    residual = SidedValue(proof.w, None if proof.doubt else Side.UPPER)
    gap, gap_name = 1 - sided(q), "1 − ‖∂₁Φ(w*)‖" if q.side is Side.LOWER else "1 − q"
    alpha_mu = _alpha_mu(constants)
    if alpha_mu is not None and alpha_mu.value > gap.value and all(source.is_safe for source in alpha_mu.sources):
        gap, gap_name = alpha_mu, "αμ"
    if gap.value > 0:
        off, how = residual / gap, f"with error at most ‖w − Φ(w)‖/({gap_name})"
        how += f"; {proof.doubt}" if proof.doubt else f", by {proof.how}"
    else:
        off, how = replace(gap, value=0.0, side=None), "at the computed w*, not certified (no proved contraction)"
        if least:
            off = replace(off, value=residual.value / least)
    for name, norm, length in _lengths(problem, w):
        yield (length + off).named(name, Provenance(f"{norm}, {how}", residual=proof.w))


def _lengths(problem: Problem, w: Tensor) -> Iterator[tuple[str, str, float]]:
    """Yield the name, the formula and the value of D and r_0 at the computed w.

    The norms are computed in float64. In float32, rounding could make a norm too small by a factor of 1 − 6·10⁻⁸.
    """
    yield "D", "‖w*‖", float(w.cpu().double().norm())
    yield "r_0", "‖w_0 − w*‖", float((problem.w0.cpu().double() - w.cpu().double()).norm())


def distances_of(problem: Problem, w: Tensor, distance: float, proof: str) -> Iterator[Constant]:
    """Yield D and r_0 from a proof that w* is within `distance` of the computed w."""
    how = f"plus how far w* may be from the computed point, by {proof}"
    for name, norm, length in _lengths(problem, w):
        value = (length * (1 + (problem.d + 4) * 2.0**-53) + distance) * (1 + 2.0**-51)
        yield Constant(name, value, Side.UPPER, Provenance(f"{norm}, {how}"))


OF_LOWER = frozenset(("q", "mu", "L", "nu_1", "hat_rho_1"))  # proofs of these say little without a contraction


def with_proved(constants: Mapping[str, Constant], proved: Iterable[Constant]) -> dict[str, Constant]:
    """Replace constants by those proved from a program, if the proved ones say more.

    If the proved q is 1 or more, no contraction is proved, and the estimates of the lower level say more, so they stay.
    μ and L are an exception: if μ > 0, they are replaced, because they give a step for which Φ contracts.
    """
    by_name = {constant.name: constant for constant in proved}
    q, mu = by_name.get("q"), by_name.get("mu")
    if q is not None and q.value >= 1:
        not_replaced = OF_LOWER - {"mu", "L"} if mu is not None and mu.value > 0 and "L" in by_name else OF_LOWER
        by_name = {name: constant for name, constant in by_name.items() if name not in not_replaced}
    merged = dict(constants)
    for name, constant in by_name.items():
        old = merged.get(name)
        if old is None or not old.is_safe or (old.side is Side.UPPER and constant.value < old.value):
            merged[name] = constant
    if "mu" in by_name and merged["mu"] is by_name["mu"] and merged["mu"].value > 0:
        merged["kappa"] = condition_number(merged)
    return merged


def condition_number(constants: Mapping[str, Constant]) -> Constant:
    """Return κ = L/μ."""
    return (sided(constants["L"]) / sided(constants["mu"])).named("kappa", Provenance("L/μ"))


def _alpha_mu(constants: Mapping[str, Constant]) -> SidedValue | None:
    """Return αμ of a gradient step; None unless both are known and positive."""
    alpha, mu = constants.get("alpha"), constants.get("mu")
    return sided(alpha) * sided(mu) if alpha and mu and alpha.value > 0 and mu.value > 0 else None


def sensitivity(constants: Mapping[str, Constant]) -> Iterator[Constant]:
    """Yield the bound W ≤ L_Φ*/(1 − q*), which needs no matrix. If a bound q ≤ q* is known, use it in place of q*."""
    L_Phi_star, q_star, q = constants.get("L_Phi_star"), constants["q_star"], constants.get("q")
    q = q_star if q is None or q.side is Side.LOWER or q.value > q_star.value else q
    if L_Phi_star is None or q.value >= 1:
        return
    W = sided(L_Phi_star) / (1 - sided(q))
    yield W.bounds_above().named("W", Provenance("L_Φ*/(1 − ‖∂₁Φ(w*)‖)"))


def inverse(constants: Mapping[str, Constant]) -> Iterator[Constant]:
    """Yield μ_λ and κ of I − ∂₁Φ on the ball: 1 − q and (1 + q)/(1 − q).

    For a gradient step, I − ∂₁Φ = α∇²₁ℓ, so μ_λ may also be αμ.
    """
    q, alpha_mu = sided(constants["q"]), _alpha_mu(constants)
    candidates = [(1 - q).bounds_below().named("mu_inv", Provenance("1 − q"))]
    if alpha_mu is not None:
        candidates.append(alpha_mu.bounds_below().named("mu_inv", Provenance("αμ")))
    positive = [candidate for candidate in candidates if candidate.value > 0]
    if positive:
        safe = [candidate for candidate in positive if candidate.is_safe]
        yield max(safe or positive, key=lambda candidate: candidate.value)
    if q.value < 1:
        yield ((1 + q) / (1 - q)).bounds_above().named("kappa", Provenance("(1 + q)/(1 − q)"))


def gradient_bound(at_centre: Constant, eta_1: Constant, region: Region) -> Constant:
    """Return L_E for an E that is quadratic in w: ‖∇₁E‖ changes by at most η₁ per unit of distance from the centre."""
    L_E = (sided(at_centre) + sided(eta_1) * region.radius) * ROUNDED_UP
    how = "‖∇₁E(centre)‖ + η₁·radius, E being quadratic in w"
    return L_E.bounds_above().named("L_E", Provenance(how, products=1, ball=region.ball))


def better(new: Constant, old: Constant | None) -> Constant:
    """Return the smaller of two proved bounds, or the one that is proved; `old` if neither is proved."""
    if old is None:
        return new
    proved = (Side.EXACT, Side.UPPER)
    return new if new.side in proved and (old.side not in proved or new.value < old.value) else old


def no_less(supremum: Constant, at_w_star: Constant | None) -> Constant:
    """Raise a lower estimate of a supremum to the value at w*, which is in the region."""
    if at_w_star is None or at_w_star.side is not Side.EXACT or at_w_star.value <= (1 + 1e-9) * supremum.value:
        return supremum
    how = f"{at_w_star.provenance.how}, above {supremum.value:.6g}: {supremum.provenance.how}"
    return replace(supremum, value=at_w_star.value, provenance=replace(supremum.provenance, how=how))
