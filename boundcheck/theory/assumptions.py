"""The assumptions of the theorems as data: statement, LaTeX label, constants, and how to check them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """An assumption; `key` is its number in the paper, such as "1(iii)", or a word for assumptions of our own."""

    key: str
    statement: str
    label: str = ""
    constants: tuple[str, ...] = ()
    check: str = ""  # how a program can tell whether it holds


A1_I = Assumption(
    "1(i)",
    "w(λ) is the unique fixed point of Φ(·,λ)",
    "ass:fixedpoint",
    check="follows from q < 1; otherwise the residual ‖w−Φ(w)‖ at the computed solution, and uniqueness is assumed",
)
A1_II = Assumption(
    "1(ii)",
    "I−∂₁Φ(w(λ),λ) is invertible",
    "ass:invert",
    check="follows from q < 1; otherwise the smallest singular value at w*",
)
A1_III = Assumption(
    "1(iii)",
    "∂₁Φ(·,λ) and ∂₂Φ(·,λ) are Lipschitz; calmness at w* on the ball is enough (errata 2)",
    "ass:philip",
    ("nu_1", "nu_2"),
    "closed form, or a sampled estimate from below",
)
A1_IV = Assumption(
    "1(iv)",
    "∇₁E(·,λ) and ∇₂E(·,λ) are Lipschitz; calmness at w* on the ball is enough (errata 2)",
    "ass:foLip",
    ("eta_1", "eta_2"),
    "closed form, or a sampled estimate from below",
)
A2 = Assumption("2", "Φ(·,λ) is a contraction with constant q in [0,1)", "ass:contraction", ("q",), "q < 1")
A3_I = Assumption(
    "3(i)",
    "I−∂₁Φ(w,λ) is invertible for every w",
    "ass:invertall",
    ("mu_inv",),
    "follows from q < 1; otherwise μ_λ > 0 on the ball",
)
A3_II = Assumption(
    "3(ii)",
    "‖w_t−w*‖ ≤ ρ(t)‖w*‖ with ρ(t) ≤ 1, ρ(t) → 0",
    "ass:innerconv",
    ("rho",),
    "ρ(t) ≤ 1 at every requested t (fails for heavy ball, errata 3)",
)
A3_III = Assumption(
    "3(iii)",
    "‖v_{t,k}−v_t‖ ≤ σ(k)‖v_t‖ with σ(k) → 0",
    "ass:linapprox",
    ("sigma",),
    "v_{t,0} = 0 and the solver's rate",
)

START_AT_ZERO = Assumption(
    "w_0 = 0",
    "the lower-level iteration starts at 0, and constants are suprema over ‖w‖ ≤ 2D",
    "algo1",
    ("D", "L_E", "L_Phi"),
    "w_0 = 0; otherwise use a local bound (errata 5)",
)
LOCAL = Assumption(
    "local",
    "Φ is a contraction on B(w*, r_0) and every constant is a supremum over that ball",
    "",
    ("q", "r_0"),
    "q < 1 on the ball; the ball on which the constants were taken",
)
LOCAL_PEAK = Assumption(
    "local-peak",
    "every constant is a supremum over B(w*, r_0·max ρ), the ball that the iterates visit; q < 1 if the bound uses it",
    "",
    ("r_0",),
    "the ball on which the constants were taken (errata 3)",
)
SHRINKING = Assumption(
    "shrinking",
    "w_{t+1} = Φ(w_t), Φ is a contraction on B(w*, r_0), and each constant at radius r is a supremum over a ball "
    "around w* that contains B(w*, r)",
    "",
    ("q", "r_0"),
    "q < 1 on B(w*, r_0); the balls on which the constants were taken",
)
CONSTANT_START = Assumption("w_0' = 0", "the start does not depend on λ", "", (), "w_0 is a constant (errata 5)")
ZERO_SOLVE = Assumption(
    "v_0 = 0", "the linear solver starts at 0", "ass:fixedpointmethod", (), "v_{t,0} = 0 (errata 4)"
)
SYMMETRIC = Assumption(
    "symmetric",
    "∂₁Φ(w_t,λ) is symmetric and I−∂₁Φ(w_t,λ) positive definite",
    "eq:minquadraticsym",
    ("kappa",),
    "a randomised symmetry test",
)
QUADRATIC = Assumption(
    "quadratic",
    "ℓ(·,λ) is a strongly convex quadratic with spectrum in [μ, L]; step sizes frozen",
    "",
    ("kappa", "alpha"),
    "a constant Hessian, so ν₁ = 0",
)
SPECTRUM = Assumption(
    "spectrum",
    "∂₁Φ(·,λ) is one symmetric matrix, I−∂₁Φ definite, its eigenvectors and eigenvalues known; step sizes frozen",
    "",
    (),
    "a constant Hessian of at most 2000 unknowns, whose eigenvectors can be computed",
)
GRADIENT_STEP = Assumption(
    "gradient step",
    "Φ = w − α(λ)∇₁ℓ with ℓ(·,λ) μ-strongly convex and L-smooth, 0 < α < 2/L",
    "appB",
    ("alpha", "mu", "L"),
    "α·L < 2",
)
VALUE_FUNCTION = Assumption("E = ℓ", "the upper objective is the lower one, so that ∇₁E(w*) = 0", "", (), "E is ℓ")
P_NORM = Assumption(
    "P-norm",
    "Φ acts on the state z = (w_t, w_{t−1}) and contracts in ‖z‖_P = ‖P^½z‖; constants on the P-ball B(z*, D_P)",
    "caseb",
    ("q_P",),
    "the Lyapunov inequality MᵀPM ≼ q_P²P",
)

BALL_AROUND_ITERATE = Assumption(
    "ball",
    "every constant is a supremum over a ball around w that contains w*, such as B(w, ε_w/(1−q))",
    "",
    ("eps_w",),
    "the ball on which the constants were taken",
)
RESIDUAL = Assumption(
    "residual",
    "‖w−w*‖ ≤ ε_w/μ_λ on the ball: Φ contracts and μ_λ ≤ 1−q, or I−∂₁Φ is symmetric and definite, or ∂₁Φ is constant",
    "",
    ("mu_inv",),
    "q < 1 with μ_λ ≤ 1−q, a gradient step with μ, or ν₁ = 0",
)
CERTIFIED = Assumption(
    "certified",
    "g̃ is a hypergradient at the same λ whose error is proved to be at most ε_g",
    "",
    ("eps_g",),
    "the certificate of the reference, from its residuals",
)
SEGMENT = Assumption(
    "segment",
    "Φ is C¹, and for every λ' of the segment from λ_prev to λ the map Φ(·,λ') contracts on one convex set, which it "
    "maps into itself; W_path is the supremum of ‖w'‖ over the segment, not its value at an end",
    "",
    ("W_path",),
    "cannot be checked at one λ; with W at an end the bound is an estimate",
)
OPTIMAL_HEAVY_BALL = Assumption(
    "heavy ball",
    "α = 4/(√L+√μ)², β = ((√κ−1)/(√κ+1))², w_{−1} = w_0, both frozen",
    "",
    ("alpha", "kappa"),
    "the step sizes that were used (`step_sizes.heavy_ball`)",
)
NESTEROV_STEPS = Assumption(
    "Nesterov",
    "α = 1/L, β = (√κ−1)/(√κ+1), w_{−1} = w_0, both frozen",
    "",
    ("alpha", "kappa"),
    "the step sizes that were used (`step_sizes.nesterov`)",
)
JI_SMOOTH = Assumption(
    "smooth",
    "L bounds every second derivative of ℓ and E, and L_E bounds ‖∇₁E‖, on B(w*, r_0); α ≤ 1/L, held fixed",
    "",
    ("L", "L_E"),
    "closed form",
)

# Grazzi, Pontil, Salzo 2021. Keys of this paper begin with the year; "1(iii)" etc. are numbers of the paper of 2020.
STOCHASTIC_A = Assumption(
    "2021 A",
    "Φ(·,λ) is a contraction with constant q, ∂₁Φ, ∂₂Φ, ∇₁E, ∇₂E are Lipschitz, and ‖∇₁E‖ ≤ L_E, on a ball around w* "
    "that contains every w_i",
    "",
    ("q", "nu_1", "nu_2", "eta_1", "eta_2", "L_E"),
    "q < 1 on the ball; the ball on which the constants were taken, and a bound on how far a draw can go",
)
STOCHASTIC_B = Assumption(
    "2021 B",
    "E Φ̂ = Φ and E ∂₂Φ̂ = ∂₂Φ, for draws that do not depend on the point; E‖(∂₂Φ̂−∂₂Φ)ᵀv‖² ≤ m₂‖v‖² on the ball",
    "",
    ("m_2",),
    "a finite sum with uniform minibatches is unbiased; m₂ from all examples, or a sampled estimate from below",
)
STOCHASTIC_C = Assumption(
    "2021 C",
    "E‖w_t−w*‖² ≤ ρ_t, and E‖v_k−v(w)‖² ≤ σ_k for the linear system at every w of the ball",
    "",
    ("mse_w", "mse_v"),
    "ρ_t and σ_k are bounds of this catalogue with the steps that were used; measured values are estimates",
)
INDEPENDENT = Assumption(
    "independent",
    "the draws for w, the draws for v and the last draw are independent",
    "",
    (),
    "the solver's draws: a new draw at each step and one more for the last product",
)
STOCHASTIC_MAP = Assumption(
    "stochastic map",
    "w_{i+1} = w_i + η_i(Φ̂(w_i,ζ_i)−w_i) with independent ζ_i, E Φ̂ = Φ, and ‖Φ(w)−w*‖ ≤ q‖w−w*‖ at every w_i",
    "",
    ("q",),
    "q < 1 on a ball around w* that contains every w_i; the steps that were used",
)
NOISE = Assumption(
    "noise",
    "V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖² at every w_i",
    "",
    ("sigma_1", "sigma_2"),
    "σ₁ = 2V[Φ̂(w*)] and σ₂ = 2m₁/(1−q)² always do; from all examples, or a sampled estimate from below",
)
NOISE_AROUND_SOLUTION = Assumption(
    "noise around w*",
    "√V[Φ̂(w)] ≤ √V* + √m₁‖w−w*‖ at every w_i, which follows from the m₁ of a ball that contains them",
    "",
    ("V_star", "m_1"),
    "V* and m₁ from all examples, or a sampled estimate from below",
)
GRADIENT_NOISE = Assumption(
    "gradient noise",
    "Φ̂ = w − α∇₁ℓ̂ with E∇₁ℓ̂ = ∇₁ℓ, ℓ(·,λ) μ-strongly convex and L-smooth, V[∇₁ℓ̂(w)] ≤ σ'₁ + σ'₂‖∇₁ℓ(w)‖² at every w_i",
    "",
    ("sigma_1_grad", "sigma_2_grad", "mu", "L", "alpha"),
    "α·L < 2; σ'₁ and σ'₂ from all examples, or a sampled estimate from below",
)
CONVEX_EXAMPLES = Assumption(
    "convex examples",
    "Φ̂ = w − α∇₁ℓ̂ with E∇₁ℓ̂ = ∇₁ℓ, ℓ(·,λ) μ-strongly convex and L-smooth, and V[∇₁ℓ̂(w)−∇₁ℓ̂(w')] ≤ "
    "L̂⟨∇₁ℓ(w)−∇₁ℓ(w'), w−w'⟩ − L̂μ̂‖w−w'‖²: convex examples are noisy only where ℓ is curved",
    "",
    ("alpha", "mu", "L", "mu_ell_hat", "L_ell_hat", "V_star"),
    "L̂ and μ̂ from the least and the largest eigenvalues of all ∇²₁ℓ_i, or a sampled estimate",
)
LIPSCHITZ_DRAWS = Assumption(
    "Lipschitz draws",
    "‖∂₁Φ̂(w,λ,ζ)‖ ≤ L_Φ̂ for every draw ζ and every w of the ball",
    "",
    ("L_Phi_hat",),
    "the largest over all examples, or a sampled estimate from below",
)
BOTH_DECREASE = Assumption(
    "decreasing steps",
    "both iterations take η_i = β/(γ+i), that for v from 0",
    "",
    ("beta", "gamma"),
    "the steps that were used",
)

PAPER = (A1_I, A1_II, A1_III, A1_IV, A2, A3_I, A3_II, A3_III)
