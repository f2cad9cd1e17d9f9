"""Stochastic gradient descent with a constant step, if noise is large only along directions in which ℓ is curved.

    M_{t+1} = (1−ηαμ)² M_t − η(2−ηα(μ+L)) e + η²(√(αL̂(α(μ−μ̂)M_t + e)) + √V*)²,   M_0 = MSE_0,   E‖w_t−w*‖² ≤ M_t
    e = min{α(L−μ)M_t, max{0, η²αL̂V*/(2−ηα(μ+L+L̂))² − α(μ−μ̂)M_t}}

for ηα(μ+L+L̂) < 2. This is `stochastic-recursive` with α²L̂(μ−μ̂) instead of m₁, and with e for the additional noise in
directions other than the flattest; e is 0 far from w* if μ̂ < μ. For convex examples in minibatches of b, drawn with
replacement, take L̂ = max ‖∇²₁ℓ_i‖/b and μ̂ = 0; for μ̂-strongly convex examples take L̂ = (max ‖∇²₁ℓ_i‖ − μ̂)/b.
`convex_recursion.convex_distance` computes the bound for any steps. Proof: docs/proofs.md.
"""

from sympy import Integer, Max, Min, sqrt

from boundcheck.theory.assumptions import CONVEX_EXAMPLES, STOCHASTIC_MAP
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd_gd
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.condition import Condition
from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.recursion import Recursion
from boundcheck.theory.symbols import (
    L,
    L_ell_hat,
    M_t,
    V_star,
    alpha,
    curved_roots_t,
    curved_t,
    eta,
    mse_0,
    mse_w,
    mu,
    mu_ell_hat,
    noise_t,
    squares_t,
    t,
)

NOISY = alpha * L_ell_hat
STEEP = eta * alpha * (mu + L + L_ell_hat)
LEAST = alpha * (mu - mu_ell_hat) * M_t  # the least mean of α⟨∇₁ℓ(w)−μ̂(w−w*), w−w*⟩
WORST = eta**2 * NOISY * V_star / (2 - STEEP) ** 2  # the mean at which the right-hand side is largest
ABOVE = Min(alpha * (L - mu) * M_t, Max(0, WORST - LEAST))
STEP = (
    (1 - eta * alpha * mu) ** 2 * M_t
    - eta * (2 - eta * alpha * (mu + L)) * ABOVE
    + eta**2 * (sqrt(NOISY * (LEAST + ABOVE)) + sqrt(V_star)) ** 2
)
KEPT = (1 - eta * alpha * mu) ** 2
EACH_STEP = eta**2 * GeometricSum(eta * alpha * mu * (2 - eta * alpha * mu), t)

CHAIN = (
    Chain.from_measured(mse_w)
    .to(
        "cocoercivity",
        KEPT**t * mse_0 - eta * (2 - eta * alpha * (mu + L)) * curved_t + noise_t,
        "‖∇₁ℓ(w)‖² ≤ (μ+L)⟨∇₁ℓ(w), w−w*⟩ − μL‖w−w*‖², and the noise of a draw has mean 0 given w_i",
        ("mu", "L", "mse_0"),
    )
    .replacing(
        "noise",
        {
            noise_t: V_star * EACH_STEP
            + 2 * eta**2 * sqrt(NOISY) * sqrt(V_star) * curved_roots_t
            + NOISY * (alpha * (mu - mu_ell_hat) * squares_t + eta**2 * curved_t)
        },
        "α²V[∇₁ℓ̂(w)−∇₁ℓ̂(w*)] ≤ α²L̂⟨∇₁ℓ(w)−μ̂(w−w*), w−w*⟩, and Minkowski's inequality for the mean over w_i",
        ("L_ell_hat", "mu_ell_hat", "mu", "V_star"),
    )
    .to(
        "recursion",
        M_t,
        "a step is largest at α E⟨∇₁ℓ(w_i)−μ(w_i−w*), w_i−w*⟩ = e, and grows with E‖w_i−w*‖² ≤ M_i",
        ("mse_0", "mu", "L", "L_ell_hat", "mu_ell_hat", "V_star"),
    )
)

BOUND = Bound(
    name="sgd-convex",
    title="Stochastic gradient descent on convex examples",
    reference=Citation(BOUNDCHECK, "gradient descent on convex examples", "sgd-convex"),
    assumptions=(STOCHASTIC_MAP, CONVEX_EXAMPLES),
    formula=M_t,
    bounds=mse_w,
    methods=("sid", "neumann"),
    conditions=(
        Condition(STEEP, Integer(2), "a single draw may take w too far; take η below 2/(α(μ+L+L̂))", strict=True),
        itd_gd.ORDERED,
        Condition(mu_ell_hat, mu, "ℓ is at least as strongly convex as every example; take μ at least μ̂"),
    ),
    recursion=Recursion(state=(M_t,), start=(mse_0,), first=(STEP,), step=(STEP,)),
    chain=CHAIN,
)
