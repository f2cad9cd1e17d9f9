"""What constants show of themselves: the value of each, and how it is known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from boundcheck.card import Card
from boundcheck.side import Side, in_words, standing

if TYPE_CHECKING:
    from boundcheck.constants import Constant, Constants


def known(constant: Constant) -> str:
    """How a constant is known, as in "proved upper bound"."""
    words, delta = in_words(constant.side, constant.name), constant.provenance.delta
    if constant.side is not Side.HIGH_PROBABILITY or delta is None:
        return words
    return f"{words} (probability {1 - delta:g})"


def card_of_one(constant: Constant) -> Card:
    """Name, value and standing; then how it was obtained."""
    provenance = constant.provenance
    refuted = (f"not used: {provenance.refuted}",) if provenance.refuted else ()
    no_proof = (f"not proved: {provenance.no_proof}",) if provenance.no_proof else ()
    title = f"{constant.name} = {constant.value:.6g}, {known(constant)}"
    return Card(title, (provenance.how, *refuted, *no_proof))


def card(constants: Constants) -> Card:
    """How many are proved, and a row for each."""
    counts = Counter(standing(c.side, c.name) for c in constants.values())
    words = ", ".join(f"{counts[word]} {word}" for word in ("proved", "probable", "estimated") if counts[word])
    title = f"{len(constants)} constant{'s' * (len(constants) != 1)}{f': {words}' if words else ''}"
    rows = tuple((c.name, f"{c.value:.6g}", known(c)) for c in constants.values())
    return Card(title, (), ("name", "value", "known"), rows, frozenset({"value"}))


def columns(constants: Constants) -> dict[str, list[Any]]:
    """The columns of `Constants.to_frame`."""
    every = list(constants.values())
    return {
        "name": [c.name for c in every],
        "value": [c.value for c in every],
        "known": [standing(c.side, c.name) for c in every],
        "side": [c.side.value for c in every],
        "delta": [c.provenance.delta for c in every],
        "how": [c.provenance.how for c in every],
        "products": [c.provenance.products for c in every],
    }
