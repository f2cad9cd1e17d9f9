"""The colours of a page, on a light and on a dark ground: one for each method, and others for bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Pair = tuple[str, str]  # on a light ground, on a dark one

METHODS: Mapping[str, Pair] = {  # as in every figure
    "itd": ("#0072B2", "#3B9EDB"),
    "itd-truncated": ("#2E93D0", "#A6DAF5"),
    "aid-fp": ("#D55E00", "#F07F2B"),
    "aid-cg": ("#009E73", "#1FC095"),
    "aid-cgn": ("#CC79A7", "#E29BC3"),
    "exact": ("#666666", "#A0A0A0"),
}
OTHER: Pair = ("#8C6D1F", "#D9B44A")
BOUNDS: tuple[Pair, ...] = (  # none is the colour of a method
    ("#6A3FC2", "#B79CF5"),
    ("#B07A00", "#F0C04A"),
    ("#B0103F", "#FF7C9C"),
    ("#5F7300", "#C3D84E"),
    ("#00787F", "#5FD6DC"),
    ("#7A4E2B", "#D0A27C"),
    ("#3D4654", "#D5DBE4"),
)


def of_methods(names: Iterable[str]) -> dict[str, Pair]:
    """The colours of methods, as they are named: "aid-cg:10" has that of "aid-cg"."""
    return {name: METHODS.get(name.partition(":")[0], OTHER) for name in names}
