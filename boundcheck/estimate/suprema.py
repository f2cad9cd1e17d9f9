"""A supremum over a region as a `Constant`: what ascent found, from below."""

from __future__ import annotations

from torch import Tensor

from boundcheck.constants import Constant, Provenance, Side
from boundcheck.estimate import ball, lipschitz
from boundcheck.estimate.point import Spend, where
from boundcheck.known import Region
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem

ASCENTS = {
    "q": ("sup ‖∂₁Φ‖", ball.contraction),
    "L_E": ("sup ‖∇₁E‖", ball.gradient_bound),
    "L_Phi": ("sup ‖∂₂Φ‖", ball.sensitivity_bound),
    "nu_1": ("sup ‖∂₁Φ(w) − ∂₁Φ(w*)‖/‖w − w*‖", lipschitz.nu_1),
    "nu_2": ("sup ‖∂₂Φ(w) − ∂₂Φ(w*)‖/‖w − w*‖", lipschitz.nu_2),
    "eta_1": ("sup ‖∇₁E(w) − ∇₁E(w*)‖/‖w − w*‖", lipschitz.eta_1),
    "eta_2": ("sup ‖∇₂E(w) − ∇₂E(w*)‖/‖w − w*‖", lipschitz.eta_2),
}
NAMES = tuple(ASCENTS)


def measure(name: str, problem: Problem, prepared: Prepared, region: Region, w_star: Tensor, spend: Spend) -> Constant:
    """The best value that projected ascent from many starts finds."""
    says, ascend = ASCENTS[name]
    found = ascend(problem, prepared, region, w_star, seed=spend.seed, budget=spend.budget)
    how = f"{says} by ascent from {found.starts} starts, which agree to {100 * found.spread:.2g} %"
    return Constant(
        name,
        found.value,
        Side.LOWER,
        Provenance(
            how, products=found.products, samples=found.starts, seed=spend.seed, ball=region.ball, **where(problem)
        ),
    )
