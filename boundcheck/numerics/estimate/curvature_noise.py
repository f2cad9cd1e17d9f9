"""L̂ and μ̂ of a gradient step on examples: how much the gradients of minibatches differ where the loss is curved.

V[∇₁ℓ̂(w)−∇₁ℓ̂(w')] ≤ L̂⟨∇₁ℓ(w)−∇₁ℓ(w'), w−w'⟩ − L̂μ̂‖w−w'‖². docs/proofs.md derives both from a ≤ ∇²₁ℓ_i ≤ b for all i.
"""

from __future__ import annotations

from boundcheck.ball import Ball
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.noise_ball import IterateBall
from boundcheck.side import Side, estimate_side

ROUNDED = 1e-14  # relative, of a few operations


def curvature_noise(
    problem: Problem, finite_sum: FiniteSum, ball: IterateBall, constants: Constants, doubt: str
) -> list[Constant]:
    """L_ell_hat and mu_ell_hat from the bounds of all examples.

    Parameters
    ----------
    problem : Problem
        The problem.
    finite_sum : FiniteSum
        Its minibatches.
    ball : IterateBall
        The ball of all iterates, with the bounds of the examples.
    constants : Constants
        With α and μ on that ball.
    doubt : str
        Why what is of the ball is not proved; empty if it is.

    Returns
    -------
    list of Constant
        Both, or none where Φ is not a gradient step on a strongly convex loss.
    """
    bounds, f = ball.bounds, finite_sum.variance_factor
    if problem.inner_at is None or not {"alpha", "mu"} <= set(constants) or not bounds.is_symmetric:
        return []
    alpha, mu = constants["alpha"], constants["mu"]
    if not (alpha.value > 0 and mu.value > 0):
        return []
    if f == 0:
        whole = Provenance("every minibatch is all examples", "examples")
        return [Constant(name, 0.0, Side.EXACT, whole) for name in ("L_ell_hat", "mu_ell_hat")]
    most, least = (1 - float(bounds.low.min())) / alpha.value, (1 - float(bounds.high.max())) / alpha.value
    most, least = most * (1 + ROUNDED), least - ROUNDED * abs(least)
    unsafe = doubt or ("" if alpha.side is Side.EXACT else "α is an estimate")
    if least >= 0:
        apart, how = min(least, mu.value), f"{f:.4g} times the largest ‖∇²₁ℓ_i‖ of an example, less μ̂"
        noise = f * max(most - apart, 0.0)
    else:  # (x + ε)(b − x) ≤ b(1 + ε/μ)x for x ≥ μ
        apart, how = 0.0, f"{f:.4g} times the largest ‖∇²₁ℓ_i‖ of an example, times 1 + ε/μ as ∇²₁ℓ_i ≥ −ε"
        noise = f * most * (1 - least / mu.value)
        unsafe = unsafe or ("" if mu.is_safe else "μ is an estimate")
    region = Ball("w_star", ball.radius)

    def of(name: str, value: float, how: str, side: Side) -> Constant:
        provenance = Provenance(how, "examples", ball=region, no_proof=unsafe)
        return Constant(name, value, estimate_side(name) if unsafe else side, provenance)

    return [
        of("L_ell_hat", noise * (1 + ROUNDED), how, Side.UPPER),
        of("mu_ell_hat", apart, "at most every eigenvalue of every ∇²₁ℓ_i, and μ", Side.LOWER),
    ]
