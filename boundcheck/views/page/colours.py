"""The colours of methods and bounds on a page, for light and dark backgrounds."""

from __future__ import annotations

from collections.abc import Iterable

from boundcheck.views.figures.method_style import style_of

Pair = tuple[str, str]  # on a light background, on a dark background

BOUNDS: tuple[Pair, ...] = (  # different from the colours of methods
    ("#6A3FC2", "#B79CF5"),
    ("#B07A00", "#F0C04A"),
    ("#B0103F", "#FF7C9C"),
    ("#5F7300", "#C3D84E"),
    ("#00787F", "#5FD6DC"),
    ("#7A4E2B", "#D0A27C"),
    ("#3D4654", "#D5DBE4"),
)


def of_methods(names: Iterable[str]) -> dict[str, Pair]:
    """Return the colours of methods, the same as in figures. "aid-cg:10" and "aid-cg" have the same colour."""
    return {name: (style_of(name).colour, style_of(name).dark) for name in names}
