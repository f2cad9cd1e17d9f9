"""The constants L̂ and μ̂ of a gradient step on minibatches: the variance of the gradients, bounded by the curvature.

V[∇₁ℓ̂(w)−∇₁ℓ̂(w')] ≤ L̂⟨∇₁ℓ(w)−∇₁ℓ(w'), w−w'⟩ − L̂μ̂‖w−w'‖². docs/proofs.md derives both from a ≤ ∇²₁ℓ_i ≤ b for all i.
"""

from __future__ import annotations

from boundcheck.ball import Ball
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.noise_ball import IterateBall
from boundcheck.side import Side, estimate_side

ROUNDED = 1e-14  # more than the relative rounding of a few operations


def curvature_noise(
    problem: Problem, finite_sum: FiniteSum, ball: IterateBall, constants: Constants, doubt: str
) -> list[Constant]:
    """Return L_ell_hat and mu_ell_hat from the bounds of all examples.

    Parameters
    ----------
    problem : Problem
        The problem.
    finite_sum : FiniteSum
        The examples of the problem and how minibatches are drawn.
    ball : IterateBall
        The ball that contains all iterates, with the bounds of the examples on it.
    constants : Constants
        The constants on this ball; α and μ are used.
    doubt : str
        Why the bounds on the ball are not proved; empty if they are.

    Returns
    -------
    list of Constant
        Both constants. Empty if Φ is not a gradient step on a strongly convex loss.
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
        mu_hat, how = min(least, mu.value), f"{f:.4g} times the largest ‖∇²₁ℓ_i‖ of an example, less μ̂"
        noise = f * max(most - mu_hat, 0.0)
    else:  # (x + ε)(b − x) ≤ b(1 + ε/μ)x for x ≥ μ
        mu_hat, how = 0.0, f"{f:.4g} times the largest ‖∇²₁ℓ_i‖ of an example, times 1 + ε/μ as ∇²₁ℓ_i ≥ −ε"
        noise = f * most * (1 - least / mu.value)
        unsafe = unsafe or ("" if mu.is_safe else "μ is an estimate")
    region = Ball("w_star", ball.radius)

    def noise_constant(name: str, value: float, how: str, side: Side) -> Constant:
        provenance = Provenance(how, "examples", ball=region, no_proof=unsafe)
        return Constant(name, value, estimate_side(name) if unsafe else side, provenance)

    return [
        noise_constant("L_ell_hat", noise * (1 + ROUNDED), how, Side.UPPER),
        noise_constant("mu_ell_hat", mu_hat, "at most every eigenvalue of every ∇²₁ℓ_i, and μ", Side.LOWER),
    ]
