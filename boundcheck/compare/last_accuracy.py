"""The accuracy of a method's hypergradient at the last t: relative error, angle to ∇f, and descent direction."""

from __future__ import annotations

from boundcheck.compare.case import Case
from boundcheck.constants import Constant
from boundcheck.errors import AssumptionError, DivergenceError
from boundcheck.methods import Method
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.report.accuracy import Accuracy, accuracy
from boundcheck.side import Side


def last_accuracy(case: Case, reference: ReferenceSolution, method: Method, t: int) -> Accuracy | None:
    """Run the solver itself and compare its result with the reference; None if the run is not finite.

    Without a certificate the reference counts as exact, and the result is an estimate.
    """
    try:
        g = hypergradient(case.problem, str(method), t).value
    except (AssumptionError, DivergenceError):  # CG may be refused at this w, though not at the w of the curves
        return None
    eps_g = case.certificate or Constant("eps_g", 0.0, Side.LOWER)
    return accuracy(g.cpu().numpy(), reference.value[0].cpu().numpy(), eps_g)
