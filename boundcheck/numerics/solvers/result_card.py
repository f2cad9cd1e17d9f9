"""The short text form of a hypergradient: its first numbers and the residuals of both levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from boundcheck.card import Card

if TYPE_CHECKING:
    from boundcheck.numerics.solvers.result import Hypergradient

FIRST = 4  # number of entries of a vector that are shown


def vector(name: str, value: Tensor) -> str:
    """Return the norm and the first entries of a vector as text."""
    first = ", ".join(f"{x:.4g}" for x in value[:FIRST].tolist())
    more = ", …" if len(value) > FIRST else ""
    count = "1 number" if len(value) == 1 else f"{len(value)} numbers"
    return f"‖{name}‖ = {float(value.norm()):.6g}, {name} = [{first}{more}] ({count})"


def card(g: Hypergradient) -> Card:
    """Return the card of a hypergradient: the method with its steps, the vector and the residuals."""
    k = "" if g.k is None else f", k = {g.k}"
    residual = f"residual of the lower level {g.residual.w:.2e}"
    if g.residual.v is not None:
        residual += f", of the linear system {g.residual.v:.2e}"
    ended = () if g.status == "completed" else (f"it ended early: {g.status}",)
    note = "its error was not computed; bc.enclose(problem, g) bounds it"
    return Card(f"hypergradient by {g.method}, t = {g.t}{k}", (vector("g", g.value), residual, *ended), notes=(note,))
