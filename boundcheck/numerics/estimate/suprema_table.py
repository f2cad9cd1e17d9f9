"""A supremum over a region as a `Constant`: what ascent found, from below."""

from __future__ import annotations

from torch import Tensor

from boundcheck.constants import Constant, Side
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import suprema
from boundcheck.numerics.estimate.at_solution import Spend, made
from boundcheck.numerics.estimate.suprema import Effort

ASCENTS = {
    "q": ("sup ‖∂₁Φ‖", suprema.contraction),
    "L_E": ("sup ‖∇₁E‖", suprema.gradient_bound),
    "L_Phi": ("sup ‖∂₂Φ‖", suprema.sensitivity_bound),
    "nu_1": ("sup ‖∂₁Φ(w) − ∂₁Φ(w*)‖/‖w − w*‖", suprema.nu_1),
    "nu_2": ("sup ‖∂₂Φ(w) − ∂₂Φ(w*)‖/‖w − w*‖", suprema.nu_2),
    "eta_1": ("sup ‖∇₁E(w) − ∇₁E(w*)‖/‖w − w*‖", suprema.eta_1),
    "eta_2": ("sup ‖∇₂E(w) − ∇₂E(w*)‖/‖w − w*‖", suprema.eta_2),
}
NAMES = tuple(ASCENTS)
LEAST, MOST, NUMBERS = 200, 20_000, 400_000_000  # products without a budget: so many numbers, but not few or endless


def measure(name: str, problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, spend: Spend) -> Constant:
    """The best value that projected ascent from many starts finds."""
    says, ascend = ASCENTS[name]
    budget = spend.budget or max(LEAST, min(MOST, NUMBERS // (problem.d + problem.n)))
    effort = Effort(seed=spend.seed, budget=budget)
    found = ascend(problem, prepared, region, w_star, effort)
    many = f"{found.starts} starts, which agree to {100 * found.spread:.2g} %"
    how = f"{says} by ascent from {many if found.starts > 1 else 'one start'}"
    how += "" if found.converged else ", stopped by the budget"
    provenance = made(how, problem, products=found.products, samples=found.starts, seed=spend.seed, ball=region.ball)
    return Constant(name, found.value, Side.LOWER, provenance)
