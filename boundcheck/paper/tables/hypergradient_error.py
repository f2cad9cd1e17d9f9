"""How good the hypergradient at the last λ is: its relative error, proved where that is affordable, else estimated."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from boundcheck.compare.enclose import enclose
from boundcheck.errors import AssumptionError, DivergenceError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.paper.tables.data import Table
from boundcheck.paper.tables.outer_loop import hypergradients
from boundcheck.side import standing

LONGER = 4  # times the steps of the table, for an estimate
TOO_LARGE = "no proof was tried at this size"


def hypergradient_error(problem: Problem, table: Table, method: str, lam: Tensor, w0: Tensor, t: int) -> dict[str, Any]:
    """The relative error of g at λ from w_0, how it is known, and why it is not proved if it is not."""
    g = hypergradients(problem, method, lam[None], w0[None], t).value[0]
    why = "" if table.certify else TOO_LARGE
    if table.certify:
        try:
            enclosure = enclose(problem, g, lam=lam)
            upper, size = float(enclosure.upper), float(g.norm())
            known, least = standing(enclosure.side), max(size - upper, float(enclosure.lower) - size)  # of ‖∇f‖
            if least > 0:
                return {"relative": upper / least, "known": known, "why": ""}
            why = f"‖g − ∇f‖ ≤ {upper:.2g} is {known}, and ‖g‖ = {size:.2g}"
        except (AssumptionError, DivergenceError) as reason:
            contracts = "does not contract" not in str(reason)
            why = "nothing is proved here" if contracts else "not contracting at this step"
    longer = hypergradients(problem, "aid-cg", lam[None], w0[None], LONGER * t).value[0]
    distance, size = float((g - longer).norm()), float(longer.norm())
    relative = distance / size if size > 0 and distance < float("inf") else None
    return {"relative": relative, "known": "estimated", "why": why}
