"""The card of a plan: the cheapest t and k, and a row for each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boundcheck.card import Card
from boundcheck.side import Side, standing

if TYPE_CHECKING:
    from boundcheck.compare.guarantees import Guarantee, Plan

HEADER = ("method", "t", "k", "cost", "known", "bound", "a run needed")


def card(plan: Plan) -> Card:
    """The cheapest choice in a sentence, and for each method the guaranteed steps and the steps that a run needed."""
    rows = [_row(guarantee) for guarantee in plan.guarantees]
    rows += [
        (method, "–", "–", "–", "no guarantee", "–", "–" if need is None else _steps(need.t, need.k))
        for method, need in plan.needs.items()
        if method in plan.silent
    ]
    reasons = {method: why.removeprefix(f"{method}: ").partition("; take ")[0] for method, why in plan.silent.items()}
    notes = tuple(f"{method}: {why}" for method, why in reasons.items())
    notes += () if plan.advice is None else (plan.advice.sentence,)
    title = f"plan for {plan.problem.name}: error ≤ {plan.eps:g}"
    return Card(title, (sentence(plan),), HEADER, tuple(rows), frozenset({"t", "k", "cost"}), notes)


def sentence(plan: Plan) -> str:
    """The cheapest method with its t and k, and how this is known, in a sentence."""
    best = plan.cheapest
    if best is None:
        need = plan.cheapest_run
        if need is None:
            return "no bound gives a guarantee, and no run reached this error"
        return f"no bound gives a guarantee; a run of {need.method} needed {_steps(need.t, need.k)} (estimated)"
    steps = f"{best.method} with {_steps(best.t, best.k)}"
    if best.side is Side.LOWER:
        return f"cheapest: {steps} by {best.bound}, whose constants are estimated, so nothing is guaranteed"
    return f"cheapest: {steps} is enough, {standing(best.side)} by {best.bound}"


def _steps(t: int, k: int | None) -> str:
    return f"t = {t}" if k is None else f"t = {t}, k = {k}"


def _row(g: Guarantee) -> tuple[str, ...]:
    needed = "–" if g.needed is None else _steps(*g.needed)
    missed = " (a run missed it)" if g.met is False else ""
    k = "–" if g.k is None else str(g.k)
    return (g.method, str(g.t), k, f"{g.cost:.0f}", f"{standing(g.side)}{missed}", g.bound, needed)


def line(plan: Plan) -> str:
    """The problem, the accuracy and the cheapest choice in one line."""
    return f"Plan({plan.problem.name}, error ≤ {plan.eps:g}, {sentence(plan)})"


def columns(plan: Plan) -> dict[str, list[Any]]:
    """The columns of `Plan.to_frame`, a row for each bound that applies to a method."""
    best = {(g.method, g.bound): g for g in plan.guarantees}
    offers = plan.offers
    return {
        "method": [o.method for o in offers],
        "bound": [o.bound for o in offers],
        "t": [o.t for o in offers],
        "k": [o.k for o in offers],
        "value": [o.value for o in offers],
        "known": [standing(o.side) for o in offers],
        "side": [o.side.value for o in offers],
        "cost": [o.cost for o in offers],
        "best": [(o.method, o.bound) in best for o in offers],
        "error": [best[o.method, o.bound].error if (o.method, o.bound) in best else None for o in offers],
    }
