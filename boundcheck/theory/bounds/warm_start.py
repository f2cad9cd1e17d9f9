"""How far w_t is from w* after t steps from a warm start, from the residual of the start.

With ε_0 = ‖w_0−Φ(w_0,λ)‖, where w_0 is anything, such as the last iterate at another λ:

    ‖w_t−w*‖ ≤ q^t ε_0/(1−q)

Constants on B(w*, r_0), or on B(w_0, ε_0/(1−q)). It says nothing of the λ before and needs nothing from there. It is at
most (1+q)/(1−q) times q^t r_0. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import LOCAL
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.lemmas import INVERSE
from boundcheck.theory.symbols import eps_0, q, r_0, r_t, t

STEPS = Chain.from_measured(r_t).to("lower-level rate", q**t * r_0, "w_{j+1}−w* = Φ(w_j)−Φ(w*), t times", ("q", "r_0"))

BOUND = Bound(
    name="warm-start",
    title="Distance to w* after a warm start, from its residual",
    reference=Citation(BOUNDCHECK, "warm start", "warm-start"),
    assumptions=(LOCAL,),
    formula=q**t * eps_0 * INVERSE,
    bounds=r_t,
    methods=("itd", "itd-truncated", "aid-fp", "aid-cg", "aid-cgn"),
    chain=STEPS.replacing("residual of the start", {r_0: eps_0 * INVERSE}, "‖w_0−w*‖ ≤ ε_0 + q‖w_0−w*‖", ("q",)),
    not_run="it bounds ‖w_t−w*‖ along a run over several λ; see follow",
)
