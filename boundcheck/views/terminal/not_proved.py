"""Sentences on constants that are estimates, with the operation or line of the user's functions that has no proof."""

from __future__ import annotations

from collections.abc import Iterable

from boundcheck.constants import Constants


def sentences(groups: Iterable[Constants]) -> list[str]:
    """Return a sentence for each reason, with its constants."""
    reasons: dict[str, dict[str, None]] = {}
    for constants in groups:
        for constant in constants.values():
            if constant.provenance.no_proof:
                reasons.setdefault(constant.provenance.no_proof, {})[constant.name] = None
    return [f"not proved: {', '.join(names)}, because {reason}" for reason, names in reasons.items()]
