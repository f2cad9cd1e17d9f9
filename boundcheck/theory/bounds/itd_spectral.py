"""ITD on a quadratic with a known spectrum: the triangle inequality, with the norm of each term from the spectrum.

    ‖∇f_t−∇f‖ ≤ ‖∇₂E(w_t)−∇₂E(w*)‖ + ‖w'ᵀ(∇₁E(w_t)−∇₁E(w*))‖ + ‖(w_t'−w')ᵀ∇₁E(w_t)‖

If ∂₁Φ = U diag(j) Uᵀ is the same for all w and step sizes are frozen, all three terms are known before any run:
w_t = w* + P_t(∂₁Φ)(w_0−w*) with the polynomial P_t of the method, and w_t'−w' is a sum over pairs of eigenvalues. The
bound needs no constants and no matrix norms. The method may be gradient descent or any momentum method. Proof:
docs/proofs.md.
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
