"""ITD with gradient descent on a quadratic lower level: Theorem 2.1 at ν₁ = 0.

This is the setting of Scieur et al. 2022. Because of the term t q^(t−1), unrolling gets worse before it gets better; if
this term dominates, the peak is at t = −1/ln q.
"""

from sympy import Integer

from boundcheck.theory.assumptions import QUADRATIC
from boundcheck.theory.bound import Bound
from boundcheck.theory.bounds import itd
from boundcheck.theory.citation import SCIEUR, Citation
from boundcheck.theory.coefficients import coefficients_with
from boundcheck.theory.symbols import nu_1

BOUND = Bound(
    name="itd-quadratic",
    title="ITD bound on quadratics",
    reference=Citation(SCIEUR, "unrolling on quadratics", "boundSolver at nu_1 = 0"),
    assumptions=(*itd.BOUND.assumptions, QUADRATIC),
    formula=itd.BOUND.formula,
    where=coefficients_with({nu_1: Integer(0)}),
    methods=("itd",),
    shape=itd.BOUND.shape,
    chain=itd.CHAIN.specialised({nu_1: Integer(0)}),
)
