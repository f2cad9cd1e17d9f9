"""The hypergradient that a method returns at the last t: its relative error, its angle to ∇f, whether −g descends."""

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
    """One run of the solver itself, compared with the reference; None if the run is not finite.

    Without a certificate the reference is taken as exact, and the result is an estimate.
    """
    try:
        g = hypergradient(case.problem, str(method), t).value
    except (AssumptionError, DivergenceError):  # CG may be refused at another w than that of the curves
        return None
    eps_g = case.certificate or Constant("eps_g", 0.0, Side.LOWER)
    return accuracy(g.cpu().numpy(), reference.value[0].cpu().numpy(), eps_g)
