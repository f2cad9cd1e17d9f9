"""AID on a quadratic with a known spectrum: the triangle inequality, with the norm of each term from the spectrum.

    ‖∇̂f−∇f‖ ≤ ‖∇₂E(w_t)−∇₂E(w*)‖ + min{‖(∂₂Φ(w_t)−∂₂Φ(w*))ᵀv‖ + ‖∂₂Φ(w_t)ᵀ(v_{t,k}−v)‖,
                                       ‖w'ᵀ(∇₁E(w_t)−∇₁E(w*))‖ + ‖∂₂Φ(w_t)ᵀv_{t,k}−w'ᵀ∇₁E(w_t)‖}

If ∂₁Φ = U diag(j) Uᵀ is the same for all w and step sizes are frozen, w_t is known before any run, and so is v_{t,k} of
fixed-point iterations: Σ_{i<k} ∂₁Φ^i ∇₁E(w_t). The v_{t,k} of conjugate gradient follows from the eigenvalues and the
parts of ∇₁E(w_t) along the eigenvectors. Where rounding would decide, v_{t,k} is replaced by v_t and

    ‖∂₂Φ(w_t)ᵀA^(−½)‖ ‖A^½ C_k(A)v_t‖ ≥ ‖∂₂Φ(w_t)ᵀ(v_{t,k}−v_t)‖,   A = I−∂₁Φ,

is added, C_k being the Chebyshev polynomial of the spectrum's interval with C_k(0) = 1. Proof: docs/proofs.md.
"""

from sympy import Min

from boundcheck.theory.assumptions import SPECTRUM, ZERO_SOLVE
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import ZT_dv, dE_2, duT_g, dZT_v, error, wT_dE_1

FORMULA = dE_2 + Min(dZT_v + ZT_dv, wT_dE_1 + duT_g)

BOUND = Bound(
    name="aid-spectral",
    title="AID bound from the spectrum of a quadratic",
    reference=Citation(BOUNDCHECK, "AID, spectrum", "spectral"),
    assumptions=(SPECTRUM, ZERO_SOLVE),
    formula=FORMULA,
    methods=("aid-fp", "aid-cg"),
    chain=Chain.from_measured(error).to(
        "triangle inequality",
        FORMULA,
        "∇̂f−∇f = (c_t−c) + (Z_t−Z)ᵀv + Z_tᵀ(v_{t,k}−v) = (c_t−c) + w'ᵀ(b_t−b) + (Z_tᵀv_{t,k}−w'ᵀb_t)",
    ),
)
