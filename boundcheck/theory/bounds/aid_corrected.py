"""The error of a hypergradient from a better point: the first-order correction with a certificate.

Let g be the AID hypergradient at any (w, v), and g̃ the AID hypergradient at (w̃, ṽ), where w̃ is close to the Newton
iterate w − (I−∂₁Φ(w))⁻¹(w−Φ(w)). With W_t, ε_w, ε_v and ‖v‖ at the better point (w̃, ṽ), and δ = ε_w/μ_λ, if 2ν₁δ ≤ μ_λ:

    ‖g−g̃‖ − ε_g ≤ ‖g−∇f‖ ≤ ‖g−g̃‖ + ε_g,   ε_g = (η₂ + η₁W_t + (ν₂ + ν₁W_t) V) δ + W_t ε_v   of `aid-certificate`

g − g̃ is the error to first order, and ε_g bounds the rest. With a Newton step ε_g is of second order, so both ends tend
to the error. `hypergradient(problem, rtol=…)` uses this bound to stop. Proof: docs/proofs.md.
"""

from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import aid_certificate, enclosure
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import eps_g

BOUND = Bound(
    name="aid-corrected",
    title="Error of AID from a better point",
    reference=Citation(BOUNDCHECK, "correction", "aid-corrected"),
    assumptions=aid_certificate.BOUND.assumptions,
    formula=enclosure.BOUND.formula.subs(eps_g, aid_certificate.BOUND.formula),
    methods=aid_certificate.BOUND.methods,
    conditions=aid_certificate.BOUND.conditions,
    not_run="it needs a better point beside each iterate; `hypergradient(problem, rtol=…)` computes one",
)
