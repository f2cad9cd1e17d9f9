"""`estimate_constants`: every constant that the bounds need, each from the best source there is.

In this order: what the user gave (checked against what is found), closed forms of the problem, structure (a derivative
that is the same for all w), norms at the fixed point, and suprema over the region from below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.constants import BALLS, BallKind, Constant, Constants, Provenance, Side
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.estimate import (
    at_solution,
    constant_derivatives,
    counterexamples,
    hessians,
    residual_bounds,
    rounding_proof_matrices,
    shift_to_solution,
    suprema_table,
    user_claims,
    validate,
)
from boundcheck.numerics.estimate.at_solution import Spend
from boundcheck.numerics.estimate.constant_derivatives import Structure
from boundcheck.numerics.estimate.rounding_proof import Declined
from boundcheck.numerics.estimate.rounding_proof_matrices import OfPhi
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import Progress, no_progress

AT_W_STAR = {"q": "q_star", "L_E": "g_star", "L_Phi": "L_Phi_star"}
FROM_Q = {"mu_inv", "kappa"}  # which follow from a q that may itself be claimed


@dataclass(frozen=True, eq=False)
class Setting:
    """What the estimators share."""

    problem: Problem
    prepared: Prepared  # for λ as the only row
    found: ReferenceSolution
    spend: Spend
    tell: Progress

    @cached_property
    def shape(self) -> Structure:
        """Looked for when first needed: closed forms need none."""
        return constant_derivatives.find(self.problem)

    @cached_property
    def of_phi(self) -> OfPhi | Declined | None:
        """Balls of ∂₁Φ and ∂₂Φ at w*; None where they would take too long."""
        small = at_solution.forms_matrices(self.problem) and rounding_proof_matrices.are_small(self.problem)
        return rounding_proof_matrices.of_phi(self.problem, self.w_star) if small else None

    @property
    def w_star(self) -> Tensor:
        return self.found.w[0]

    def supremum(self, name: str, region: Region) -> Constant:
        """What ascent finds of it, from below."""
        self.tell(f"measuring {name}", 0, 1)
        return suprema_table.measure(name, self.problem, self.prepared, region, self.w_star, self.spend)


def estimate_constants(
    problem: Problem,
    *,
    ball: str = BallKind.PAPER.value,
    known: Constants | None = None,
    peak: float = 1.0,
    delta: float = 1e-3,
    seed: int = 0,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Constants:
    """Estimate the constants of the theory for a problem, at its λ.

    Each constant has a side, which says whether it is exact, an upper bound, right with high probability or an
    estimate, and a provenance, which says how it was obtained.

    Parameters
    ----------
    problem : Problem
        The problem, as `Problem.from_loss` or `load_problem` returns it.
    ball : {"paper", "local"}
        Where suprema are taken: "paper", the default, is ‖w‖ ≤ 2D; "local" is ‖w − w*‖ ≤ peak·r_0.
    known : Constants, optional
        Constants that you vouch for, in place of those of the problem. Those that the estimator refutes are not used.
    peak : float
        How many times r_0 the iterates may be away from w*, at least 1; 1 by default, which is right without momentum.
    delta : float
        The probability with which each certificate by random starts may fail; 1e-3 by default.
    seed : int
        The seed of certificates by random starts; 0 by default.
    budget : int, optional
        How many products with derivatives each estimated constant may take; by default the limit of each estimator.
    progress : callable (what, done, of) -> None, optional
        Called with what is being done, how much of it is done, and of how much.

    Returns
    -------
    Constants
        By name: q, nu_1, nu_2, eta_1, eta_2, L_E, L_Phi (suprema over the ball), q_star, L_Phi_star, g_star, W (at
        w*), D, r_0, mu_inv, kappa, and for a problem with a loss mu, L and alpha; those that there are.

    Raises
    ------
    UnknownNameError
        If there is no such ball.
    InputError
        If an argument cannot be used.
    DivergenceError
        If w(λ) cannot be found.
    UserCodeError
        If a function of the user raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import boundcheck as bc
    >>> constants = bc.estimate_constants(bc.problems.scalar(q=0.5))
    >>> constants["q"].value, constants["q"].side.value
    (0.5, 'exact')
    >>> constants["q"].provenance.how
    '|λ|'
    """
    require_problem(problem)
    if ball not in BALLS:
        raise UnknownNameError.among("ball", ball, BALLS)
    if not peak >= 1:
        raise InputError(f"peak = {peak} < 1; the iterates start on the ball, so give a number >= 1")
    if known is not None and not isinstance(known, Constants):
        raise InputError(f"known is a {type(known).__name__}; give Constants.given(q=0.9, side='upper') or the like")
    spend = Spend(delta, seed, budget)
    tell = progress or no_progress
    lam = problem.checked(problem.lam, "lam")
    tell("checking the problem", 0, 1)
    confirmation = validate.check(problem, lam)
    tell("solving for w*", 0, 1)
    found = reference(problem, lam[None])
    doubts = confirmation.unconfirmed
    return on_balls(problem, found, (ball,), known=known, peak=peak, spend=spend, tell=tell, doubts=doubts)[ball]


def on_balls(
    problem: Problem,
    found: ReferenceSolution,
    balls: Sequence[str],
    *,
    known: Constants | None = None,
    peak: float = 1.0,
    spend: Spend,
    tell: Progress,
    doubts: tuple[str, ...] = (),
) -> dict[str, Constants]:
    """The constants on each of several balls around the reference, what does not depend on the ball measured once.

    `doubts` are the derivatives that finite differences could not confirm. With any, every constant is an estimate.
    """
    lam = problem.lam
    doubts += derivative_check.at_solution(problem, lam, found.w[0]).unconfirmed
    prepared = Prepared(problem, lam[None])
    at = Setting(problem, prepared, found, spend, tell)

    shared: dict[str, Constant] = {}
    closed = problem.known if isinstance(problem.known, ClosedForms) else None
    if closed is not None:
        _add(shared, closed.everywhere(lam))
    tell("measuring norms at w*", 0, 1)
    _add(shared, at_solution.at_solution(problem, prepared, found, spend, at.of_phi))
    if not {"mu", "L"} <= set(shared) and problem.inner_at is not None:
        tell("measuring mu and L", 0, 1)
        _add(shared, hessians.of_inner_loss(problem, prepared, at.w_star, at.shape, spend, at.of_phi))
    if closed is None:
        _add(shared, _from_structure(at.shape, shared))
    claimed = known if known is not None else problem.known if isinstance(problem.known, Constants) else Constants()
    for found_here in _distances(at, _near(at, shared, claimed, balls, peak), shared):
        shared[found_here.name] = _better(found_here, shared.get(found_here.name))
    off = replace(shared["r_0"], value=shared["r_0"].value - float((problem.w0 - at.w_star).norm()))
    if not bool(problem.w0.any()):  # then both are ‖w*‖
        shared["r_0"] = _better(replace(shared["D"], name="r_0"), shared["r_0"])
    for W in _sensitivity(shared):
        if "W" not in shared or shared["W"].side is Side.UPPER:  # with rounding in it, the norms may say less
            shared["W"] = _better(W, shared.get("W"))
    on_each = {ball: _on_ball(at, closed, claimed, _region(at, ball, peak, shared), shared, off) for ball in balls}
    return {ball: _doubted(constants, doubts) if doubts else constants for ball, constants in on_each.items()}


def _doubted(constants: Constants, doubts: Sequence[str]) -> Constants:
    """The same as estimates, since a derivative that they come from could not be confirmed."""
    why = f"; an estimate, as autograd's derivatives were not confirmed ({doubts[0]})"
    return Constants(
        {
            name: replace(
                c,
                side=Side.UPPER if name in user_claims.SAFE_BELOW else Side.LOWER,
                provenance=replace(c.provenance, how=c.provenance.how + why),
            )
            for name, c in constants.items()
        }
    )


def _on_ball(
    at: Setting, closed: ClosedForms | None, claimed: Constants, region: Region, shared: dict[str, Constant],
    off: Constant,
) -> Constants:  # fmt: skip
    made = dict(shared)
    if closed is not None:
        on_region = {constant.name: constant for constant in closed.on(at.problem.lam, region)}
        made |= {name: constant for name, constant in on_region.items() if name not in made or name == "q"}
    if any(name not in made for name in suprema_table.NAMES):
        _add(made, _from_structure(at.shape, made))
        _add(made, _on_structure(at, region, made))
    for name in suprema_table.NAMES:
        if name not in made:
            _add(made, [_no_less(at.supremum(name, region), made.get(AT_W_STAR.get(name, "")))])
    doubtful = [n for n, claim in claimed.items() if n in suprema_table.NAMES and user_claims.is_below(claim, made[n])]
    evidence = [at.supremum(name, region) for name in doubtful]
    evidence += counterexamples.evidence(at.problem, at.prepared, at.found, made, claimed)
    for names in (set(claimed) - FROM_Q, set(claimed) & FROM_Q):
        some = Constants({name: claimed[name] for name in claimed if name in names})
        made = user_claims.settle(made, some, evidence, counterexamples.tolerance(at.problem))
        _add(made, _inverse(made))
    return Constants(shift_to_solution.moved(made, claimed, off.value, off.side is Side.UPPER))


def _add(made: dict[str, Constant], constants: Iterable[Constant]) -> None:
    """The first to give a name keeps it."""
    for constant in constants:
        made.setdefault(constant.name, constant)


def _better(new: Constant, old: Constant | None) -> Constant:
    """The smaller of two proved bounds; a proved one rather than one that is not."""
    if old is None:
        return new
    proved = (Side.EXACT, Side.UPPER)
    return new if new.side in proved and (old.side not in proved or new.value < old.value) else old


def _no_less(supremum: Constant, there: Constant | None) -> Constant:
    """w* is in the region, so what is found of a supremum from below is no less than the value there."""
    if there is None or there.side is not Side.EXACT or there.value <= (1 + 1e-9) * supremum.value:
        return supremum
    how = f"{there.provenance.how}, above {supremum.value:.6g}: {supremum.provenance.how}"
    return replace(supremum, value=there.value, provenance=replace(supremum.provenance, how=how))


def _near(at: Setting, made: Mapping[str, Constant], claimed: Constants, balls: Sequence[str], peak: float) -> Constant:
    """q as the distance from w* needs it: known, or vouched for and not refuted, or else that of w* alone."""
    if "q" in made:
        return made["q"]
    claim, here = claimed.get("q"), Constant("q", made["q_star"].value, Side.LOWER, Provenance("‖∂₁Φ(w*)‖"))
    if claim is None or claim.side is Side.LOWER:
        return here
    D, r_0 = (Constant(n, float(x.norm())) for n, x in (("D", at.w_star), ("r_0", at.problem.w0 - at.w_star)))
    for ball in balls:
        region = _region(at, ball, peak, {"D": D, "r_0": r_0})
        if user_claims.refuted(claim, at.supremum("q", region)):
            return here
    return claim


def _from_structure(shape: Structure, made: dict[str, Constant]) -> Iterator[Constant]:
    """What follows from derivatives that are the same for all w."""
    if shape.d1phi:
        yield Constant("nu_1", 0.0, Side.EXACT, Provenance("Φ is affine in w, by its operations"))
        if "q_star" in made:
            yield replace(made["q_star"], name="q")
    if shape.d2phi:
        yield Constant("nu_2", 0.0, Side.EXACT, Provenance("∂₂Φ does not depend on w, by the operations of Φ"))
        if "L_Phi_star" in made:
            yield replace(made["L_Phi_star"], name="L_Phi")
    if shape.d2E:
        yield Constant("eta_2", 0.0, Side.EXACT, Provenance("∇₂E does not depend on w, by the operations of E"))


def _distances(at: Setting, q: Constant, made: Mapping[str, Constant]) -> Iterator[Constant]:
    """D and r_0 a posteriori: w* is within ‖w − Φ(w)‖/(1 − q) of the w that was found.

    Where Φ is a gradient step, ‖w − Φ(w)‖ = α‖∇₁ℓ(w)‖ ≥ αμ‖w − w*‖, which never is worse and needs no contraction.
    """
    w, proof = at.w_star, residual_bounds.of(at.problem, at.found)
    residual = proof.w
    gap, side, delta = 1 - q.value, q.side, q.provenance.delta
    name = "1 − ‖∂₁Φ(w*)‖" if side is Side.LOWER else "1 − q"
    if {"alpha", "mu"} <= set(made) and made["alpha"].side is Side.EXACT:
        mu, own = made["mu"], made["alpha"].value * made["mu"].value
        if own > gap and mu.side is not Side.UPPER:
            gap, name, side, delta = own, "αμ", mu.side, mu.provenance.delta
            side = Side.UPPER if side is Side.LOWER else side  # a minorant of μ is the safe side
    if gap <= 0:
        side, off, how = Side.LOWER, 0.0, "at the computed w*, with no contraction to certify it"
    else:
        side, off, how = Side.UPPER if side is Side.EXACT else side, residual / gap, f"to ‖w − Φ(w)‖/({name})"
        if proof.doubt:
            side, how = Side.LOWER, f"{how}; {proof.doubt}"
    yield Constant("D", float(w.norm()) + off, side, Provenance(f"‖w*‖ {how}", residual=residual, delta=delta))
    start = Provenance(f"‖w_0 − w*‖ {how}", residual=residual, delta=delta)
    yield Constant("r_0", float((at.problem.w0 - w).norm()) + off, side, start)


def _sensitivity(made: dict[str, Constant]) -> Iterator[Constant]:
    """W ≤ L_Φ*/(1 − q*), where the matrix is too large to form; with q where that is known and no larger."""
    z, there, q = made.get("L_Phi_star"), made["q_star"], made.get("q")
    q = there if q is None or q.side is Side.LOWER or q.value > there.value else q
    if z is None or q.value >= 1:
        return
    sides = {q.side, z.side}
    side = next(side for side in (Side.LOWER, Side.HIGH_PROBABILITY, Side.UPPER) if side in (*sides, Side.UPPER))
    delta = sum(c.provenance.delta or 0.0 for c in (q, z)) or None
    yield Constant("W", z.value / (1 - q.value), side, Provenance("L_Φ*/(1 − ‖∂₁Φ(w*)‖)", delta=delta))


def _inverse(made: Mapping[str, Constant]) -> Iterator[Constant]:
    """μ_λ and κ of I − ∂₁Φ on the ball: 1 − q and (1 + q)/(1 − q), or αμ, as I − ∂₁Φ = α∇²₁ℓ for a gradient step."""
    q, delta = made["q"], made["q"].provenance.delta
    below = {Side.EXACT: Side.LOWER, Side.UPPER: Side.LOWER, Side.LOWER: Side.UPPER}  # as 1 − q falls with q
    candidates = [(1 - q.value, below.get(q.side, q.side), Provenance("1 − q", delta=delta))]
    if {"alpha", "mu"} <= set(made):
        alpha, mu = made["alpha"], made["mu"]
        of_mu = Side.LOWER if mu.side is Side.EXACT else mu.side
        candidates.append((alpha.value * mu.value, of_mu, Provenance("αμ", delta=mu.provenance.delta)))
    safe = [c for c in candidates if c[0] > 0 and c[1] is not Side.UPPER] or [c for c in candidates if c[0] > 0]
    if safe:
        value, side, how = max(safe, key=lambda c: c[0])
        yield Constant("mu_inv", value, side, how)
    if q.value < 1:
        above = Side.UPPER if q.side is Side.EXACT else q.side
        yield Constant("kappa", (1 + q.value) / (1 - q.value), above, Provenance("(1 + q)/(1 − q)", delta=delta))


def _region(at: Setting, ball: str, peak: float, made: dict[str, Constant]) -> Region:
    if ball == BallKind.PAPER:
        return Region("0", torch.zeros_like(at.w_star), 2 * made["D"].value)
    return Region("w_star", at.w_star, peak * made["r_0"].value)


def _on_structure(at: Setting, region: Region, made: dict[str, Constant]) -> Iterator[Constant]:
    """With a constant Hessian of E: η₁ is its norm, and ‖∇₁E‖ grows from the centre by at most η₁ a unit."""
    if {"eta_1", "L_E"} <= set(made) or not at.shape.hessian_of_E:
        return
    eta_1 = hessians.of_outer_loss(at.problem, at.prepared, at.w_star, at.spend)
    yield eta_1
    centre = at_solution.gradient_norm("L_E", at.problem, region.point, at.prepared.leaves.at(0), "‖∇₁E(centre)‖")
    how = "‖∇₁E(centre)‖ + η₁·radius, E being quadratic in w"
    sides = {centre.side, eta_1.side} - {Side.EXACT} or {Side.UPPER}
    side = next(side for side in (Side.LOWER, Side.HIGH_PROBABILITY, Side.UPPER) if side in sides)
    provenance = Provenance(how, products=1, delta=eta_1.provenance.delta, ball=region.ball)
    yield Constant("L_E", (centre.value + eta_1.value * region.radius) * (1 + 1e-12), side, provenance)
