"""A supremum of a problem over a ball, measured within its budget."""

from __future__ import annotations

import torch
from torch import Tensor

from boundcheck.estimate import lipschitz
from boundcheck.estimate.ball import Supremum
from boundcheck.estimate.lipschitz import Effort
from boundcheck.known import Region
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem

FUNCTIONS = {
    "q": lipschitz.contraction,
    "L_E": lipschitz.gradient_bound,
    "L_Phi": lipschitz.sensitivity_bound,
    "nu_1": lipschitz.nu_1,
    "nu_2": lipschitz.nu_2,
    "eta_1": lipschitz.eta_1,
    "eta_2": lipschitz.eta_2,
}


SLACK = 1e-9  # relative, for rounding: no value is above the truth by more


def measure(
    name: str,
    problem: Problem,
    radius: float,
    w_star: Tensor | None = None,
    centre: Tensor | None = None,
    **effort: int,
) -> Supremum:
    """Around the centre, or else w*, or else 0."""
    w_star = torch.zeros_like(problem.w0) if w_star is None else w_star
    region = Region("w_star" if centre is None else "0", w_star if centre is None else centre, radius)
    found = FUNCTIONS[name](problem, Prepared(problem, problem.lam[None]), region, w_star, Effort(**effort))
    assert found.products <= effort.get("budget", Effort().budget)
    return found
