"""ITD on a quadratic whose spectrum is known: the triangle inequality alone, each term in the direction it has.

    ‖∇f_t−∇f‖ ≤ ‖∇₂E(w_t)−∇₂E(w*)‖ + ‖w'ᵀ(∇₁E(w_t)−∇₁E(w*))‖ + ‖(w_t'−w')ᵀ∇₁E(w_t)‖

With ∂₁Φ = U diag(j) Uᵀ the same for all w and frozen step sizes, all three are known before anything is run:
w_t = w* + P_t(∂₁Φ)(w_0−w*) with the polynomial P_t of the method, and w_t'−w' is a sum over pairs of eigenvalues. No
constant is involved and no norm of a matrix; the method may be gradient descent or any momentum. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import CONSTANT_START, SPECTRUM
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation

CHAIN = Chain(itd.PROOF.links[:2])

BOUND = Bound(
    name="itd-spectral",
    title="ITD bound from the spectrum of a quadratic",
    reference=Citation(BOUNDCHECK, "ITD, spectrum", "spectral"),
    assumptions=(SPECTRUM, CONSTANT_START),
    formula=CHAIN.links[-1].formula,
    methods=("itd",),
    chain=CHAIN,
)
