"""The distance of w_t from w* after a warm start, from the previous λ and the length of the upper-level step.

With r_prev = ‖w_0−w(λ_prev)‖ and W_path = sup ‖w'‖ over the segment from λ_prev to λ:

    ‖w_t−w*‖ ≤ q^t (r_prev + W_path ‖λ−λ_prev‖)

Everything except W_path is known before any computation at λ. ‖w'‖ at one λ, or at both ends, does not bound W_path:
w(λ) = λ²(3−2λ) has w' = 0 at 0 and at 1, and moves by 1. So with ‖w'‖ at an end this is an estimate. `warm-start` is
proved without the segment. Proof: docs/proofs.md.
"""

from boundcheck.theory.assumptions import LOCAL, SEGMENT
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import warm_start
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import W_path, lam_step, q, r_0, r_prev, r_t, t

START = r_prev + W_path * lam_step

BOUND = Bound(
    name="warm-drift",
    title="Distance to w* after a warm start, from the upper-level step",
    reference=Citation(BOUNDCHECK, "warm start, drift of w*", "warm-drift"),
    assumptions=(LOCAL, SEGMENT),
    formula=q**t * START,
    bounds=r_t,
    methods=warm_start.BOUND.methods,
    chain=warm_start.STEPS.replacing(
        "drift of w*", {r_0: START}, "w(λ)−w(λ_prev) is the integral of w'(·)(λ−λ_prev) over the segment", ("W_path",)
    ),
    not_run=warm_start.BOUND.not_run,
)
