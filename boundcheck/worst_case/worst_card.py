"""The card of the worst instance of a bound: the ratio, and the terms of the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boundcheck.card import Card

if TYPE_CHECKING:
    from boundcheck.worst_case.worst import Worst

ATTAINED = 1 - 1e-3  # a bound with a larger ratio counts as attained


def card(worst: Worst) -> Card:
    """Return the card: whether the bound is refuted, and how much of each term is attained."""
    ratio = worst.exact.digits("ratio")
    if worst.refuted:
        sentence = f"refuted: error/bound = {ratio} > 1, in 50 digits"
    else:
        word = "attained" if worst.ratio > ATTAINED else "not refuted"
        sentence = f"{word}: the largest error/bound found is {ratio}"
    k = "" if worst.k is None else f", k = {worst.k}"
    title = f"worst instance for {worst.bound}: q = {worst.found.family.q:g}, t = {worst.t}{k}, d = {worst.dim}"
    rows = tuple(
        (term.name, f"{100 * term.share:.1f}%", "–" if term.attained is None else f"{100 * term.attained:.1f}%")
        for term in worst.exact.terms
    )
    header = ("term of the bound", "share of it", "attained")
    stopped = ("interrupted: this is the best so far",) if worst.found.interrupted else ()
    tried = f"{worst.starts} random starts, {worst.evaluations} instances, seed {worst.seed}"
    return Card(title, (sentence, *stopped), header, rows, frozenset(header[1:]), (tried,))
