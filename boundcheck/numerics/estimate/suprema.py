"""Lower estimates of the suprema q, L_E, L_Φ, ν₁, ν₂, η₁ and η₂, from the functions of a problem alone."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.derivative_pairings import Derivative
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.ascent import Supremum
from boundcheck.numerics.estimate.effort import Spend, provenance_of
from boundcheck.numerics.estimate.supremum_search import Effort, Search
from boundcheck.side import Side

# Without a budget, the number of products is NUMBERS/(d + n), within these limits.
FEWEST_PRODUCTS, MOST_PRODUCTS, NUMBERS = 200, 20_000, 400_000_000
EFFORT = Effort()


@dataclass(frozen=True)
class SupremumOf:
    """The supremum sup ‖F(w)‖ over a region, or with `calm` sup ‖F(w) − F(w*)‖/‖w − w*‖."""

    derivative: Derivative
    calm: bool = False

    @property
    def formula(self) -> str:
        F = self.derivative.value
        return f"sup ‖{F}(w) − {F}(w*)‖/‖w − w*‖" if self.calm else f"sup ‖{F}‖"


SUPREMA = {
    "q": SupremumOf(Derivative.D1_PHI),
    "L_E": SupremumOf(Derivative.D1_E),
    "L_Phi": SupremumOf(Derivative.D2_PHI),
    "nu_1": SupremumOf(Derivative.D1_PHI, calm=True),
    "nu_2": SupremumOf(Derivative.D2_PHI, calm=True),
    "eta_1": SupremumOf(Derivative.D1_E, calm=True),
    "eta_2": SupremumOf(Derivative.D2_E, calm=True),
}
NAMES = tuple(SUPREMA)


def supremum(
    name: str, problem: Problem, prepared: Prepared, region: Region, w_star: Tensor | None = None,
    effort: Effort = EFFORT,
) -> Supremum:  # fmt: skip
    """Return the largest value of a constant that projected ascent from many starts finds.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    problem : Problem
        The problem.
    prepared : Prepared
        The prepared λ: one vector, or one row.
    region : Region
        The region over which the supremum is taken.
    w_star : Tensor, optional
        w(λ). It is required for ν and η; for the others it is a start.
    effort : Effort
        The number of starts, the budget and the seed.

    Returns
    -------
    Supremum
        A value that is attained, so a lower estimate.

    Raises
    ------
    InputError
        If the radius of the region is not finite, or if the region must contain w* and does not.
    DivergenceError
        If the derivative is not finite at a point of the region.
    """
    spec = SUPREMA[name]
    return Search(spec.derivative, problem, prepared, region, w_star, effort, calm=spec.calm).run()


def measure(name: str, problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, spend: Spend) -> Constant:
    """Return the lower estimate of a constant by ascent, as a `Constant`."""
    budget = spend.budget or max(FEWEST_PRODUCTS, min(MOST_PRODUCTS, NUMBERS // (problem.d + problem.n)))
    best = supremum(name, problem, prepared, region, w_star, Effort(seed=spend.seed, budget=budget))
    many = f"{best.starts} starts (spread {100 * best.spread:.2g} %)"
    how = f"{SUPREMA[name].formula}: largest value found by ascent from {many if best.starts > 1 else 'one start'}"
    how += "" if best.converged else ", stopped by the budget"
    provenance = provenance_of(
        how, problem, products=best.products, samples=best.starts, seed=spend.seed, ball=region.ball
    )
    return Constant(name, best.value, Side.LOWER, provenance)
