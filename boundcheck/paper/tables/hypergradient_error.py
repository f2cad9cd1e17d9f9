"""The relative error of the hypergradient at the last λ: proved if this is affordable, otherwise estimated."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from boundcheck.compare.enclose import enclose
from boundcheck.errors import AssumptionError, DivergenceError
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.paper.tables.data import Table
from boundcheck.paper.tables.outer_loop import hypergradients
from boundcheck.side import standing

LONGER = 4  # an estimate takes so many times the steps of the table
TOO_LARGE = "no proof was tried at this size"


def hypergradient_error(problem: Problem, table: Table, method: str, lam: Tensor, w0: Tensor, t: int) -> dict[str, Any]:
    """Return the relative error of g at λ from w_0, how it is known, and if it is not proved, the reason."""
    g = hypergradients(problem, method, lam[None], w0[None], t).value[0]
    why = "" if table.certify else TOO_LARGE
    if table.certify:
        try:
            enclosure = enclose(problem, g, lam=lam)
            upper, size = float(enclosure.upper), float(g.norm())
            known, least = standing(enclosure.side), max(size - upper, float(enclosure.lower) - size)  # least ≤ ‖∇f‖
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
