"""The colours of a page, on a light and on a dark ground: one for each method, and others for bounds."""

from __future__ import annotations

from collections.abc import Iterable

from boundcheck.views.figures.method_style import style_of

Pair = tuple[str, str]  # on a light ground, on a dark one

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
    """The colours of methods, as in every figure: "aid-cg:10" has that of "aid-cg"."""
    return {name: (style_of(name).colour, style_of(name).dark) for name in names}
