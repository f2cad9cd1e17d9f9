"""How many steps would have done: the method is run from the same start until its error is known to be small."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from boundcheck.errors import DivergenceError
from boundcheck.methods import parse
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.report.run_step import Enough
from boundcheck.trust.certified_solution import CertifiedSolution

MOST = 1024  # steps that are tried


@dataclass(frozen=True, eq=False)
class Attempt:
    """A method from one start: t steps, then k = t, or the k that is part of its name."""

    certified: CertifiedSolution
    method: str
    v0: Tensor | None
    rtol: float

    def does(self, t: int) -> Enough | None:
        """The steps, if their relative error is at most `rtol`."""
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
    """Steps from the start of the problem that reach a relative error; None if up to `most` none that was tried did.

    t is doubled until it does, then halved towards the last one that did not. An error need not fall with every step,
    so fewer steps may do by luck.
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
        done = attempt.does(middle)
        best, t, short = (best, t, middle) if done is None else (done, middle, short)
    return best
