"""Find how many steps are enough, by running the method from the same start until its error is small."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from boundcheck.errors import DivergenceError
from boundcheck.methods import parse
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.report.run_step import Enough
from boundcheck.trust.certified_solution import CertifiedSolution

MOST = 1024  # the largest number of steps to try


@dataclass(frozen=True, eq=False)
class Attempt:
    """A method from one start: t steps of the lower level, then k = t, or the k in the method's name."""

    certified: CertifiedSolution
    method: str
    v0: Tensor | None
    rtol: float

    def does(self, t: int) -> Enough | None:
        """Run t steps; return them if the relative error is at most `rtol`, else None."""
        try:
            run = hypergradient(self.certified.problem, self.method, t=t, v0=self.v0)
        except DivergenceError:
            return None
        if self.certified.accuracy(run.value).relative_error <= self.rtol:
            return Enough(run.t, run.k)
        return None


def enough_steps(
    certified: CertifiedSolution, method: str, rtol: float, v0: Tensor | None = None, most: int = MOST
) -> Enough | None:
    """Find steps from the start of the problem that reach a relative error; None if no t up to `most` was enough.

    t is doubled until it is enough; bisection then reduces it. The error need not fall with every step, so a smaller t
    that was not tried may be enough too.
    """
    name = parse(method).name
    attempt = Attempt(certified, method, v0 if name.startswith("aid") else None, rtol)
    t, short = 1, 0
    while (best := attempt.does(t)) is None:
        if t >= most:
            return None
        t, short = min(2 * t, most), t
    while t - short > 1:
        middle = (t + short) // 2
        steps = attempt.does(middle)
        best, t, short = (best, t, middle) if steps is None else (steps, middle, short)
    return best
