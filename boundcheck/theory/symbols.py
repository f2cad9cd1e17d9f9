"""Every symbol of the theory: its sympy assumptions, LaTeX, domain and one-line meaning.

λ is fixed throughout, so the paper's subscript λ is dropped. Four kinds:

* constant: a property of the problem (q, D, L_E, …), bounded or estimated once;
* observable: measured on a run (r_t, ‖∇₁E(w_t)‖, …); proofs replace observables by constants;
* index: a number of iterations (t, k, K);
* coefficient: shorthand that a bound defines in its `where` (c₁, c₂, c₃ are in `coefficients.py`).

`direction` says how a bound moves with the symbol: +1 up, −1 down (then a lower bound is the safe value, as for μ),
0 if the quantity is chosen rather than measured. A contract test checks it for every bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import sympy as sp

from boundcheck.errors import AssumptionError, InputError
from boundcheck.side import Side


@dataclass(frozen=True)
class Quantity:
    """One symbol with its names, domain and meaning."""

    name: str
    latex: str
    meaning: str
    kind: str = "constant"
    direction: int = +1
    low: float = 0.0
    low_open: bool = False
    high: float = math.inf  # always excluded
    assumption: str = ""  # the assumption that fails outside the domain
    remedy: str = ""
    text: str = ""  # the name in the terminal; empty to use sympy's rendering

    @cached_property
    def symbol(self) -> sp.Symbol:
        if self.kind == "index":
            return sp.Symbol(self.name, integer=True, nonnegative=True)
        return sp.Symbol(self.name, positive=True) if self.low_open else sp.Symbol(self.name, nonnegative=True)

    def check(self, value: float, side: Side = Side.EXACT) -> None:
        """Raise InputError or AssumptionError unless `value` is in the domain.

        If the true constant may be smaller than `value`, the message says "not known to hold" instead of "fails".
        """
        if math.isnan(value) or math.isinf(value):
            raise InputError(f"{self.name} = {value} is not finite; give a finite number ({self.meaning})")
        too_low = value <= self.low if self.low_open else value < self.low
        if too_low:
            sign = "≤" if self.low_open else "<"
            raise InputError(
                f"{self.name} = {value:g} {sign} {self.low:g}; {self.meaning} must be "
                f"{'above' if self.low_open else 'at least'} {self.low:g}"
            )
        if value >= self.high and side in (Side.UPPER, Side.HIGH_PROBABILITY):
            known = "proved" if side is Side.UPPER else "probable"
            raise AssumptionError(
                f"only {self.name} ≤ {value:g} is {known}, so {self.assumption} is not known to hold; {self.remedy}"
            )
        if value >= self.high:
            raise AssumptionError(f"{self.name} = {value:g} ≥ {self.high:g}, so {self.assumption} fails; {self.remedy}")


def _symbols(table: tuple[Quantity, ...]) -> Iterator[sp.Symbol]:
    return (quantity.symbol for quantity in table)


CONTRACTION_REMEDY = "take a smaller step size, if Φ is a gradient step"

CONSTANTS = (
    Quantity(
        "q",
        "q",
        "contraction constant sup ‖∂₁Φ(·,λ)‖, a spectral norm",
        high=1.0,
        assumption="Assumption 2 (the map is a contraction)",
        remedy=CONTRACTION_REMEDY,
    ),
    Quantity(
        "q_star",
        r"q_\star",
        "‖∂₁Φ(w*,λ)‖, the contraction constant at the fixed point only",
        high=1.0,
        assumption="contraction at the fixed point",
        remedy=CONTRACTION_REMEDY,
        text="q*",
    ),
    Quantity("nu_1", r"\nu_1", "Lipschitz constant of ∂₁Φ(·,λ)"),
    Quantity("nu_2", r"\nu_2", "Lipschitz constant of ∂₂Φ(·,λ)"),
    Quantity("eta_1", r"\eta_1", "Lipschitz constant of ∇₁E(·,λ)"),
    Quantity("eta_2", r"\eta_2", "Lipschitz constant of ∇₂E(·,λ)"),
    Quantity("D", "D", "bound on ‖w(λ)‖"),
    Quantity("L_E", "L_E", "sup of ‖∇₁E(w,λ)‖ over the ball"),
    Quantity("L_Phi", r"L_\Phi", "sup of ‖∂₂Φ(w,λ)‖ over the ball"),
    Quantity("L_Phi_star", r"L_\Phi^\star", "‖∂₂Φ(w*,λ)‖", text="L_Φ*"),
    Quantity(
        "mu_inv",
        r"\mu_\lambda",
        "μ_λ with ‖(I−∂₁Φ)⁻¹‖ ≤ 1/μ_λ on the ball; 1−q under contraction",
        direction=-1,
        low_open=True,
        text="μ_λ",
    ),
    Quantity("kappa", r"\kappa", "condition number: L/μ of ℓ(·,λ), and of I−∂₁Φ", low=1.0),
    Quantity("m", "m", "number of distinct eigenvalues of I−∂₁Φ(w_t,λ)", low=1.0),
    Quantity("mu", r"\mu", "strong convexity constant of ℓ(·,λ)", direction=-1, low_open=True),
    Quantity("L", "L", "smoothness constant of ℓ(·,λ)", low_open=True),
    Quantity("alpha", r"\alpha", "step size", direction=0, low_open=True),
    Quantity("grad_alpha", r"\|\nabla\alpha\|", "‖∇α(λ)‖; 0 when the step size is frozen", text="‖∇α‖"),
    Quantity("hat_rho_1", r"\hat\rho_1", "Lipschitz constant of ∇²₁ℓ(·,λ)", text="ρ̂₁"),
    Quantity("hat_rho_2", r"\hat\rho_2", "Lipschitz constant of ∇²₂₁ℓ(·,λ)", text="ρ̂₂"),
    Quantity(
        "L_ell", r"L_\ell", "bound on ‖∇²₂₁ℓ‖: at w(λ) in appendix B, over the ball for the weighted norm", text="L_ℓ"
    ),
    Quantity("r_0", "r_0", "‖w_0−w*‖, the distance from the start to the solution"),
    Quantity("W", "W", "‖w'(λ)‖"),
    Quantity("g_star", r"g_\star", "‖∇₁E(w*,λ)‖", text="g*"),
    Quantity(
        "chi", r"\chi", "Lipschitz constant from w* of w ↦ ∇₂E + ∂₂Φᵀv* + w'ᵀ(∇₁E + ∂₁Φᵀv*), with v* and w' at w*"
    ),
    Quantity(
        "omega",
        r"\omega",
        "ω with ‖(w'(w)−w')ᵀ(∇₁E − (I−∂₁Φᵀ)v*)‖ ≤ ω‖w−w*‖² on the ball, w'(w) = (I−∂₁Φ)⁻¹∂₂Φ, v* at w*",
    ),
    Quantity("eps_g", r"\varepsilon_g", "proved bound on ‖g̃−∇f‖, the error of a reference hypergradient g̃", text="ε_g"),
)
(
    q, q_star, nu_1, nu_2, eta_1, eta_2, D, L_E, L_Phi, L_Phi_star, mu_inv, kappa, m, mu, L, alpha, grad_alpha,
    hat_rho_1, hat_rho_2, L_ell, r_0, W, g_star, chi, omega, eps_g
) = _symbols(CONSTANTS)  # fmt: skip

# The same constants in the norm ‖z‖_P = ‖P^½ z‖ of a momentum method's state z; λ-space stays Euclidean.
WEIGHTED = tuple(
    Quantity(
        f"{name}_P",
        latex,
        f"{meaning}, in the P-norm",
        high=1.0 if name == "q" else math.inf,
        assumption="contraction in the P-norm" if name == "q" else "",
        remedy="take theta in (0, 1), so that q_P = s + theta(1−s) < 1" if name == "q" else "",
    )
    for name, latex, meaning in (
        ("q", "q_P", "contraction constant"),
        ("nu_1", r"\nu_{1,P}", "Lipschitz constant of ∂₁Φ"),
        ("nu_2", r"\nu_{2,P}", "Lipschitz constant of ∂₂Φ"),
        ("eta_1", r"\eta_{1,P}", "Lipschitz constant of ∇₁E"),
        ("eta_2", r"\eta_{2,P}", "Lipschitz constant of ∇₂E"),
        ("D", "D_P", "bound on ‖z_0−z*‖"),
        ("L_E", "L_{E,P}", "sup of ‖P^{−½}∇₁E‖"),
        ("L_Phi", r"L_{\Phi,P}", "sup of ‖P^½∂₂Φ‖"),
    )
)
(q_P, nu_1_P, nu_2_P, eta_1_P, eta_2_P, D_P, L_E_P, L_Phi_P) = _symbols(WEIGHTED)

# Minibatches: Φ = E Φ̂, with Ŷ = ∂₁Φ̂ and Ẑ = ∂₂Φ̂ of one draw, Y and Z their means; suprema over a ball with every w_i.
STOCHASTIC = (
    Quantity("m_1", "m_1", "sup of ‖E(Ŷ−Y)ᵀ(Ŷ−Y)‖ and of ‖E(Ŷ−Y)(Ŷ−Y)ᵀ‖, whichever is larger; Y = ∂₁Φ", text="m₁"),
    Quantity("m_2", "m_2", "sup of ‖E(Ẑ−Z)(Ẑ−Z)ᵀ‖, at most that of the variance E‖Ẑ−Z‖²; Z = ∂₂Φ", text="m₂"),
    Quantity("L_Phi_hat", r"L_{\hat\Phi}", "sup of ‖∂₁Φ̂(w,λ,ζ)‖ over the ball and over every draw ζ", text="L_Φ̂"),
    Quantity("V_star", r"V_\star", "V[Φ̂(w*)], the variance of the map at the solution", text="V*"),
    Quantity("sigma_1", r"\sigma_1", "σ₁ with V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖²", text="σ₁"),
    Quantity("sigma_2", r"\sigma_2", "σ₂ with V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖²", text="σ₂"),
    Quantity("sigma_1_grad", r"\sigma'_1", "σ'₁ with V[∇₁ℓ̂(w)] ≤ σ'₁ + σ'₂‖∇₁ℓ(w)‖²", text="σ'₁"),
    Quantity("sigma_2_grad", r"\sigma'_2", "σ'₂ with V[∇₁ℓ̂(w)] ≤ σ'₁ + σ'₂‖∇₁ℓ(w)‖²", text="σ'₂"),
    Quantity(
        "mu_ell_hat",
        r"\hat\mu_\ell",
        "μ̂ with V[∇₁ℓ̂(w)−∇₁ℓ̂(w')] ≤ L̂⟨∇₁ℓ(w)−∇₁ℓ(w'), w−w'⟩ − L̂μ̂‖w−w'‖²; the least eigenvalue of every ∇²₁ℓ_i will do",
        direction=-1,
        text="μ̂",
    ),
    Quantity(
        "L_ell_hat",
        r"\hat L_\ell",
        "L̂ with V[∇₁ℓ̂(w)−∇₁ℓ̂(w')] ≤ L̂⟨∇₁ℓ(w)−∇₁ℓ(w'), w−w'⟩ − L̂μ̂‖w−w'‖²; with one example sup ‖∇²₁ℓ_i‖ − μ̂ will do",
        text="L̂",
    ),
    Quantity("mse_0", r"\mathrm{MSE}_0", "E‖w_0−w*‖²; r_0² from a fixed start", text="MSE_0"),
    Quantity("eta", r"\eta", "constant step of a stochastic iteration", direction=0, low_open=True, text="η"),
    Quantity("beta", r"\beta", "β of the decreasing steps η_i = β/(γ+i)", direction=0, low_open=True, text="β"),
    Quantity("gamma", r"\gamma", "γ of the decreasing steps η_i = β/(γ+i)", direction=0, low_open=True, text="γ"),
)
(
    m_1, m_2, L_Phi_hat, V_star, sigma_1, sigma_2, sigma_1_grad, sigma_2_grad, mu_ell_hat, L_ell_hat, mse_0, eta, beta,
    gamma
) = _symbols(STOCHASTIC)  # fmt: skip

# names in the terminal: the left-hand sides of bounds, and the states of recursions
TERMINAL_NAMES = {
    "error": "‖g − ∇f‖", "dw": "‖w_t' − w'‖", "du": "‖u_{t,k} − w'‖", "r_t": "r", "Delta_t": "Δ'", "R_t": "R",
    "U_t": "U", "eps_0": "ε_0", "lam_step": "‖λ − λ_prev‖", "bias": "‖E g − ∇f‖", "mse": "E‖g − ∇f‖²",
    "mse_w": "E‖w_t − w*‖²", "mse_v": "E‖v_k − v(w_t)‖²", "M_t": "M", "variance_given_w": "E V[g | w_t]",
    "variance_of_mean": "V E[g | w_t]", "noise_w": "V[Φ̂(w)]",
}  # fmt: skip

OBSERVABLES = tuple(
    Quantity(name, latex, meaning, "observable", text=TERMINAL_NAMES.get(name, ""))
    for name, latex, meaning in (
        ("error", r"\|g(\lambda)-\nabla f(\lambda)\|", "hypergradient error; g is ∇f_t for ITD, ∇̂f for AID"),
        ("r_t", "r_t", "‖w_t−w*‖"),
        ("rho", r"\rho(t)", "rate of the lower-level solver: ‖w_t−w*‖ ≤ ρ(t)‖w_0−w*‖"),
        ("sigma", r"\sigma(k)", "rate of the linear solver: ‖v_{t,k}−v_t‖ ≤ σ(k)‖v_t‖"),
        ("dw", r"\|w_t'-w'\|", "‖w_t'(λ)−w'(λ)‖"),
        ("du", r"\|u_{t,k}-w'\|", "‖u_{t,k}−w'(λ)‖, the derivative that AID-FP implies"),
        ("g_t", r"\|\nabla_1E(w_t)\|", "‖∇₁E(w_t,λ)‖"),
        ("Z_t", r"\|\partial_2\Phi(w_t)\|", "‖∂₂Φ(w_t,λ)‖"),
        ("W_t", "W_t", "‖(I−∂₁Φ(w_t))⁻¹∂₂Φ(w_t)‖"),
        ("newton_t", "s_t", "‖(I−∂₁Φ(w_t))⁻¹(w_t−Φ(w_t))‖, the length of a Newton step"),
        ("v_t", r"\|v_t\|", "‖v_t‖, v_t = (I−∂₁Φ(w_t)ᵀ)⁻¹∇₁E(w_t)"),
        ("v_star", r"\|v\|", "‖v(λ)‖, v = (I−∂₁Φ(w*)ᵀ)⁻¹∇₁E(w*)"),
        ("v_k", r"\|v_{t,k}\|", "‖v_{t,k}‖, the norm of the linear solver's result"),
        ("solve_error", r"\|\partial_2\Phi(w_t)^\top(v_{t,k}-v_t)\|", "‖∂₂Φ(w_t)ᵀ(v_{t,k}−v_t)‖"),
        ("eps_w", r"\varepsilon_w", "‖w−Φ(w,λ)‖, the residual of the fixed point"),
        ("eps_v", r"\varepsilon_v", "‖(I−∂₁Φ(w)ᵀ)v−∇₁E(w)‖, the residual of the linear system"),
        ("dE_1", r"\|\nabla_1E(w_t)-\nabla_1E(w)\|", "‖∇₁E(w_t)−∇₁E(w*)‖"),
        ("dE_2", r"\|\nabla_2E(w_t)-\nabla_2E(w)\|", "‖∇₂E(w_t)−∇₂E(w*)‖"),
        ("wT_dE_1", r"\|w'^\top(\nabla_1E(w_t)-\nabla_1E(w))\|", "‖w'ᵀ(∇₁E(w_t)−∇₁E(w*))‖"),
        ("dwT_g", r"\|(w_t'-w')^\top\nabla_1E(w_t)\|", "‖(w_t'−w')ᵀ∇₁E(w_t)‖"),
        ("duT_g", r"\|(u_{t,k}-w')^\top\nabla_1E(w_t)\|", "‖(u_{t,k}−w')ᵀ∇₁E(w_t)‖ = ‖∂₂Φ(w_t)ᵀv_{t,k}−w'ᵀ∇₁E(w_t)‖"),
        ("ZT_dv", r"\|\partial_2\Phi(w_t)^\top(v_{t,k}-v)\|", "‖∂₂Φ(w_t)ᵀ(v_{t,k}−v)‖"),
        ("dZT_v", r"\|(\partial_2\Phi(w_t)-\partial_2\Phi(w))^\top v\|", "‖(∂₂Φ(w_t)−∂₂Φ(w*))ᵀv‖"),
        ("dv_k", r"\|v_{t,k}-v\|", "‖v_{t,k}−v‖"),
        ("dv_kt", r"\|v_{t,k}-v_t\|", "‖v_{t,k}−v_t‖"),
        ("dv_t", r"\|v_t-v\|", "‖v_t−v‖"),
        ("dY", r"\|\partial_1\Phi(w_t)-\partial_1\Phi(w)\|", "‖∂₁Φ(w_t)−∂₁Φ(w*)‖"),
        ("dZ", r"\|\partial_2\Phi(w_t)-\partial_2\Phi(w)\|", "‖∂₂Φ(w_t)−∂₂Φ(w*)‖"),
        ("A_t_inv", r"\|A_t^{-1}\|", "‖(I−∂₁Φ(w_t)ᵀ)⁻¹‖"),
        ("A_inv", r"\|A^{-1}\|", "‖(I−∂₁Φ(w*)ᵀ)⁻¹‖"),
        ("path_t", "P_t", "Σ_{1≤j<t} q^(t−1−j)‖w_j−w*‖, the distances along the path, weighted as in ITD"),
        ("gap_t", r"\|g-\tilde g\|", "‖g−g̃‖, the distance from the hypergradient to the reference"),
        ("eps_0", r"\varepsilon_0", "‖w_0−Φ(w_0,λ)‖, the residual of the start"),
        ("r_prev", r"r_{\mathrm{prev}}", "‖w_0−w(λ_prev)‖, the distance from the start to the previous solution"),
        ("W_path", r"W_{\mathrm{path}}", "sup of ‖w'‖ over the segment from λ_prev to λ"),
        ("lam_step", r"\|\lambda-\lambda_{\mathrm{prev}}\|", "‖λ−λ_prev‖, the length of the upper-level step"),
        ("Delta_t", r"\Delta'_t", "bound on ‖w_t'−w'‖ carried by a recursion"),
        ("R_t", "R_t", "bound on ‖w_t−w*‖ carried by a recursion"),
        ("U_t", "U_t", "bound on ‖w_t'‖ carried by a recursion"),
        ("bias", r"\|\mathbb E\hat\nabla f-\nabla f\|", "‖E∇̂f−∇f‖, the bias of a stochastic hypergradient"),
        ("mse", r"\mathbb E\|\hat\nabla f-\nabla f\|^2", "E‖∇̂f−∇f‖², the mean square error of a hypergradient"),
        ("variance_given_w", r"\mathbb E\,\mathbb V[\hat\nabla f\mid w_t]", "E V[∇̂f|w_t], the mean variance given w_t"),
        (
            "variance_of_mean",
            r"\mathbb V\,\mathbb E[\hat\nabla f\mid w_t]",
            "V E[∇̂f|w_t], the variance of the mean given w_t",
        ),
        ("noise_w", r"\mathbb V[\hat\Phi(w)]", "V[Φ̂(w)], the variance of the map at a point w of the ball"),
        ("mse_w", r"\rho_t", "ρ_t ≥ E‖w_t−w*‖², the mean square distance of the lower level"),
        ("mse_v", r"\sigma_k", "σ_k ≥ E‖v_k−v(w)‖² for every w of the ball; v(w) = (I−∂₁Φ(w)ᵀ)⁻¹∇₁E(w)"),
        ("M_t", "M_t", "bound on E‖w_t−w*‖² carried by a recursion"),
        # Sums over the steps i < t of a run, each term times Π_{i<j<t} r_j. In the proof, step j multiplies E‖w_j−w*‖²
        # by r_j, which is 1−η_j(1−q²), (1−η_j(1−q))² or (1−η_jαμ)².
        (
            "start_t",
            r"\Pi_t\,\mathrm{MSE}_0",
            "Π_{j<t} r_j E‖w_0−w*‖², the start times the factors r_j of all steps",
        ),
        ("noise_t", "N_t", "Σ_{i<t} η_i² E V[Φ̂(w_i)|w_i], each term times the factors r_j of later steps"),
        ("moves_t", "Q_t", "Σ_{i<t} η_i² E‖Φ(w_i)−w_i‖², each term times the factors r_j of later steps"),
        ("averaged_t", "H_t", "Σ_{i<t} η_i(1−η_i) E‖Φ(w_i)−w_i‖², each term times the factors r_j of later steps"),
        ("squares_t", "S_t^{(2)}", "Σ_{i<t} η_i² E‖w_i−w*‖², each term times the factors r_j of later steps"),
        ("roots_t", "S_t^{(1)}", "Σ_{i<t} η_i² (E‖w_i−w*‖²)^½, each term times the factors r_j of later steps"),
        ("curved_t", "C_t", "Σ_{i<t} α E⟨∇₁ℓ(w_i)−μ(w_i−w*), w_i−w*⟩, each term times the factors r_j of later steps"),
        (
            "curved_roots_t",
            "C_t^{(1)}",
            "Σ_{i<t} (α E⟨∇₁ℓ(w_i)−μ̂(w_i−w*), w_i−w*⟩)^½, each term times the factors r_j of later steps",
        ),
    )
)
(
    error, r_t, rho, sigma, dw, du, g_t, Z_t, W_t, newton_t, v_t, v_star, v_k, solve_error, eps_w, eps_v, dE_1, dE_2,
    wT_dE_1, dwT_g, duT_g, ZT_dv, dZT_v, dv_k, dv_kt, dv_t, dY, dZ, A_t_inv, A_inv, path_t, gap_t, eps_0,
    r_prev, W_path, lam_step, Delta_t, R_t, U_t, bias, mse, variance_given_w, variance_of_mean, noise_w, mse_w, mse_v,
    M_t, start_t, noise_t, moves_t, averaged_t, squares_t, roots_t, curved_t, curved_roots_t
) = _symbols(OBSERVABLES)  # fmt: skip

INDICES = (
    Quantity("t", "t", "number of lower-level iterations", "index", direction=0),
    Quantity("k", "k", "number of linear-solver iterations", "index", direction=0),
    Quantity("K", "K", "number of last steps that truncated ITD differentiates through", "index", direction=0),
)
t, k, K = _symbols(INDICES)
INDEX_NAMES = frozenset(quantity.name for quantity in INDICES)

COEFFICIENTS = (
    Quantity("c_1", "c_1", "weight of ‖w_t−w*‖ through E", "coefficient"),
    Quantity("c_2", "c_2", "weight of ‖w_t−w*‖ through the derivatives of Φ", "coefficient"),
    Quantity("c_3", "c_3", "weight of the unfinished differentiation", "coefficient"),
    Quantity("gap", "(1-q)", "1−q, written so that nothing cancels", "coefficient", low_open=True, text="(1 - q)"),
    Quantity("s", "s", "rate of a method with square-root dependence on κ", "coefficient"),
    Quantity("shrink", "r", "1−η(1−q²), the factor of the mean square error in a step", "coefficient"),
    Quantity(
        "shrink_gap", "(1-r)", "η(1−q²), written so that nothing cancels", "coefficient", low_open=True, text="(1 - r)"
    ),
    Quantity("S_t", "S_t", "sup |P_t| over the spectrum, where w_t−w* = P_t(H)(w_0−w*)", "coefficient"),
    Quantity("dS_t", "S'_t", "sup ‖DP_t‖ over the spectrum", "coefficient", text="S'_t"),
    Quantity("r_inner", r"\varrho", "radius of the next smaller ball of constants; 0 if none", "coefficient", text="ϱ"),
    Quantity("R_inner", r"R_\varrho", "bound on ‖Φ(w)−w*‖ over ‖w−w*‖ ≤ ϱ", "coefficient", text="R_ϱ"),
    Quantity("q_mean", r"\bar q", "‖Φ(w)−w*‖ ≤ q̄‖w−w*‖ for ‖w−w*‖ ≤ R_t; q if not known", "coefficient", text="q̄"),
)
c_1, c_2, c_3, gap, s, shrink, shrink_gap, S_t, dS_t, r_inner, R_inner, q_mean = _symbols(COEFFICIENTS)

# left-hand sides of bounds on stochastic methods: means over the draws, which cannot be measured from one run
MEANS = frozenset((bias, mse, variance_given_w, variance_of_mean, noise_w, mse_w, mse_v))

QUANTITIES = MappingProxyType(
    {
        quantity.name: quantity
        for quantity in (*CONSTANTS, *WEIGHTED, *STOCHASTIC, *OBSERVABLES, *INDICES, *COEFFICIENTS)
    }
)

LATEX_NAMES = MappingProxyType({quantity.symbol: quantity.latex for quantity in QUANTITIES.values()})
