"""Which constants stayed estimates, and which operation or line of the user's functions is why."""

from __future__ import annotations

from collections.abc import Iterable

from boundcheck.constants import Constants


def sentences(groups: Iterable[Constants]) -> list[str]:
    """A sentence for each reason, with the constants that it is the reason of."""
    reasons: dict[str, dict[str, None]] = {}
    for constants in groups:
        for constant in constants.values():
            if constant.provenance.no_proof:
                reasons.setdefault(constant.provenance.no_proof, {})[constant.name] = None
    return [f"not proved: {', '.join(names)}, because {reason}" for reason, names in reasons.items()]
