"""A supremum of a problem over a ball, measured within its budget."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import suprema
from boundcheck.numerics.estimate.ascent import Supremum
from boundcheck.numerics.estimate.supremum_search import Effort

FUNCTIONS = {name: partial(suprema.supremum, name) for name in suprema.NAMES}
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
