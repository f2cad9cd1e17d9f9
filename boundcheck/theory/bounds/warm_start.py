"""The distance of w_t from w* after t steps from any start, such as the last iterate at another λ.

    ‖w_t−w*‖ ≤ q^t r_0,   r_0 ≤ ε_0/(1−q) with ε_0 = ‖w_0−Φ(w_0,λ)‖

Unless given, r_0 is replaced by its bound ε_0/(1−q), which is at most (1+q)/(1−q) times too large. Constants on
B(w*, r_0), or on B(w_0, ε_0/(1−q)). Nothing is needed about the previous λ. Proof: docs/proofs.md.
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
    title="Distance to w* after a warm start",
    reference=Citation(BOUNDCHECK, "warm start", "warm-start"),
    assumptions=(LOCAL,),
    formula=q**t * r_0,
    bounds=r_t,
    methods=("itd", "itd-truncated", "aid-fp", "aid-cg", "aid-cgn"),
    defaults={r_0: eps_0 * INVERSE},
    chain=STEPS,
    not_run="it bounds ‖w_t−w*‖ along a run over several λ; see follow",
)
