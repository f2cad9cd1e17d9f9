"""The card of a hypergradient to a tolerance; the error comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boundcheck.card import Card
from boundcheck.number_text import percent_at_most, upward
from boundcheck.numerics.solvers.result_card import vector
from boundcheck.report import cards

if TYPE_CHECKING:
    from boundcheck.trust.result import AccurateHypergradient


def card(g: AccurateHypergradient) -> Card:
    """The error in words, the vector, and the reason if the error is not proved."""
    known = cards.known(g.error)
    sentences = (
        f"g is within {percent_at_most(g.relative_error)} of ∇f, at an angle of at most {upward(g.angle)}° ({known}).",
        cards.DESCENT_SENTENCES[g.descent],
        vector("g", g.value),
        *((f"not proved: {g.why_not_proved}",) if g.why_not_proved else ()),
    )
    products = f"{g.products} products" + (f", and {g.proof_products} for the proof" if g.proof_products else "")
    return Card(f"hypergradient by {g.method}, t = {g.t}, k = {g.k}", sentences, notes=(products,))
