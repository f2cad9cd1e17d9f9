"""An enclosure of the error itself, by a reference hypergradient g̃ with a proved error of at most ε_g.

    ‖g−g̃‖ − ε_g ≤ ‖g−∇f‖ ≤ ‖g−g̃‖ + ε_g

for any g, from any method. The enclosure has width 2ε_g, so for small ε_g it is as sharp as a bound can be. It does not
explain the error. `aid-certificate` at a w̃ from Newton's method gives such an ε_g.
"""

from boundcheck.theory.assumptions import CERTIFIED
from boundcheck.theory.bound import Bound
from boundcheck.theory.chain import Chain
from boundcheck.theory.citation import BOUNDCHECK, Citation
from boundcheck.theory.symbols import eps_g, error, gap_t

BOUND = Bound(
    name="enclosure",
    title="Enclosure by a certified hypergradient",
    reference=Citation(BOUNDCHECK, "enclosure", "enclosure"),
    assumptions=(CERTIFIED,),
    formula=gap_t + eps_g,
    methods=("itd", "itd-truncated", "aid-fp", "aid-cg", "aid-cgn"),
    chain=Chain.from_measured(error).to("triangle inequality", gap_t + eps_g, "g−∇f = (g−g̃) + (g̃−∇f)", ("eps_g",)),
)
