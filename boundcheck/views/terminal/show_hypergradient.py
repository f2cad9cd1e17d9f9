"""Output of `boundcheck hypergradient`, as text or JSON: a hypergradient and its error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Console

from boundcheck import __version__
from boundcheck.json_numbers import SCHEMA, finite
from boundcheck.number_text import percent_at_most, upward
from boundcheck.report import cards
from boundcheck.views.terminal.console import Screen, number

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem
    from boundcheck.trust.result import AccurateHypergradient

PARTS = {"t": ("lower level", "t, the steps of the lower level"), "k": ("linear solver", "k, its steps")}


def as_json(problem: Problem, g: AccurateHypergradient) -> dict[str, Any]:
    """Return the result as JSON, without NaN or infinity."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "problem": problem.about(),
        "value": g.value.tolist(),
        "corrected": g.corrected.tolist(),
        "relative_error": finite(g.relative_error),
        "error": {"lower": float(g.error.lower), "upper": finite(float(g.error.upper)), "side": g.error.side.value},
        "corrected_error": finite(g.corrected_error),
        "angle": g.angle,
        "descent": g.descent,
        "how": g.how,
        "why_not_proved": g.why_not_proved,
        "method": g.method,
        "t": g.t,
        "k": g.k,
        "products": g.products,
        "proof_products": g.proof_products,
        "lower_level_part": g.lower_level_part,
        "linear_part": g.linear_part,
        "spend": g.spend,
    }


def show(problem: Problem, g: AccurateHypergradient, console: Console | None = None) -> None:
    """Print the relative error first, and then the cost."""
    console = console or Screen(highlight=False)
    console.print(
        f"[bold]{problem.name}[/bold]  d = {problem.d}, n = {problem.n}, ‖g‖ = {number(float(g.value.norm()))}"
    )
    console.print(
        f"g is within {_share(g.relative_error)} of ∇f and at an angle of at most {upward(g.angle)}° to it "
        f"([bold]{g.how}[/bold]). {cards.DESCENT_SENTENCES[g.descent]}"
    )
    console.print(f"‖g − ∇f‖ is {cards.between(float(g.error.lower), float(g.error.upper))}.")
    if g.why_not_proved:
        console.print(f"Not proved: {g.why_not_proved}.")
    proof = f" The proof took {g.proof_products} more." if g.proof_products else ""
    console.print(
        f"t = {g.t} lower-level steps with Newton corrections, k = {g.k} steps of {g.method}; {g.products} products "
        f"with the estimate of the error.{proof}"
    )
    if g.spend is not None:
        name, steps = PARTS[g.spend]
        both = g.lower_level_part + g.linear_part
        share = (g.lower_level_part if g.spend == "t" else g.linear_part) / both
        console.print(f"The {name} makes {share:.0%} of the error: for a smaller one, spend on {steps}.")


def _share(x: float) -> str:
    return percent_at_most(x) if math.isfinite(x) else "an unknown share"
