"""The cards of constants: the value of each, and how it is known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from boundcheck.card import Card
from boundcheck.side import Side, in_words, standing

if TYPE_CHECKING:
    from boundcheck.constants import Constant, Constants


def known(constant: Constant) -> str:
    """Return how a constant is known, as in "proved upper bound"."""
    words, delta = in_words(constant.side, constant.name), constant.provenance.delta
    if constant.side is not Side.HIGH_PROBABILITY or delta is None:
        return words
    return f"{words} (probability {1 - delta:g})"


def card_of_one(constant: Constant) -> Card:
    """Return a card with the name, the value and how it is known, and how it was obtained."""
    provenance = constant.provenance
    refuted = (f"not used: {provenance.refuted}",) if provenance.refuted else ()
    no_proof = (f"not proved: {provenance.no_proof}",) if provenance.no_proof else ()
    title = f"{constant.name} = {constant.value:.6g}, {known(constant)}"
    return Card(title, (provenance.how, *refuted, *no_proof))


def card(constants: Constants) -> Card:
    """Return a card with the number of proved constants, and a row for each constant."""
    counts = Counter(standing(c.side, c.name) for c in constants.values())
    words = ", ".join(f"{counts[word]} {word}" for word in ("proved", "probable", "estimated") if counts[word])
    title = f"{len(constants)} constant{'s' * (len(constants) != 1)}{f': {words}' if words else ''}"
    rows = tuple((c.name, f"{c.value:.6g}", known(c)) for c in constants.values())
    return Card(title, (), ("name", "value", "known"), rows, frozenset({"value"}))


def columns(constants: Constants) -> dict[str, list[Any]]:
    """Return the columns of `Constants.to_frame`."""
    rows = list(constants.values())
    return {
        "name": [c.name for c in rows],
        "value": [c.value for c in rows],
        "known": [standing(c.side, c.name) for c in rows],
        "side": [c.side.value for c in rows],
        "delta": [c.provenance.delta for c in rows],
        "how": [c.provenance.how for c in rows],
        "products": [c.provenance.products for c in rows],
    }
