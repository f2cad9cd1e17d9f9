"""How each method and each kind of bound is drawn, in every figure, example and page.

Colour says which method, a marker says which role a bound has, and dashes say how well it is known. The colours are
those of Okabe and Ito, which people with colour-blindness can tell apart. This file loads no matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boundcheck.side import Side, standing

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, YELLOW, GREY = "#CC79A7", "#56B4E9", "#F0E442", "#666666"

Dashes = tuple[int, tuple[float, ...]] | str


@dataclass(frozen=True)
class MethodStyle:
    """How one method is drawn.

    Attributes
    ----------
    label : str
        The method as a figure writes it.
    colour : str
        Its colour on a white ground, as "#rrggbb".
    dark : str
        Its colour on a dark ground.
    marker : str
        Its marker, as matplotlib names it.
    dashes : str or tuple
        Its line style, as matplotlib takes it: solid, or dashed where k is fixed.
    """

    label: str
    colour: str
    dark: str
    marker: str
    dashes: Dashes = "-"


FIXED_K: Dashes = (0, (4, 1.5))
METHOD_STYLES = {
    "itd": MethodStyle("ITD", BLUE, "#3B9EDB", "o"),
    "itd-truncated": MethodStyle("ITD through the last steps", "#2E93D0", "#A6DAF5", "v"),
    "aid-fp": MethodStyle("AID-FP", VERMILLION, "#F07F2B", "s"),
    "aid-cg": MethodStyle("AID-CG", GREEN, "#1FC095", "^"),
    "aid-cgn": MethodStyle("AID-CGN", PURPLE, "#E29BC3", "D"),
    "sid": MethodStyle("SID", "#882255", "#E07BA8", "p"),
    "neumann": MethodStyle("NEUMANN", "#0F7B8A", "#4CC4D4", "h"),
    "exact": MethodStyle("EXACT", GREY, "#A0A0A0", "P"),
}
OTHER = MethodStyle("", "#8C6D1F", "#D9B44A", "X")  # a method that has no row above


def style_of(method: str) -> MethodStyle:
    """The style of a method, the same in every figure.

    Parameters
    ----------
    method : str
        A method as `check` takes it, such as "itd" or "aid-cg:10".

    Returns
    -------
    MethodStyle
        Its colour, marker and line style. A fixed k changes the line style only.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.plot.style_of("itd").colour
    '#0072B2'
    >>> bc.plot.style_of("aid-cg:10").colour == bc.plot.style_of("aid-cg").colour
    True
    """
    name, _, fixed = method.partition(":")
    style = METHOD_STYLES.get(name, OTHER)
    label = style.label or name.upper()
    if name == "itd-truncated":
        label = f"ITD through the last {fixed} steps" if fixed else label
    elif fixed:
        label = f"{label} $k={fixed}$"
    return MethodStyle(label, style.colour, style.dark, style.marker, FIXED_K if fixed else style.dashes)


# The role of a bound among those of a method; `drawn_bounds.chosen` says which bound gets which.
ROLE_MARKERS = {
    "violated": "X", "paper": "o", "paper ball": "s", "a priori": "^", "from the spectrum": "D", "a posteriori": "v",
}  # fmt: skip
STANDING_DASHES: dict[str, Dashes] = {
    "proved": (0, (5, 1.5)), "probable": (0, (5, 1.2, 1, 1.2)), "estimated": (0, (1, 1.3)),
}  # fmt: skip
STANDING_LABELS = {
    "proved": "bound, proved",
    "probable": "bound, probable (proved but for a small probability)",
    "estimated": "bound, estimated: a constant in it may be too small",
}


def bound_style(role: str, side: Side) -> dict[str, Any]:
    """The marker and the dashes of a bound, as keywords for `Axes.plot`.

    Parameters
    ----------
    role : str
        A key of `ROLE_MARKERS`.
    side : Side
        What the values of the bound are worth.

    Returns
    -------
    dict
        "marker" and "ls"; the marker of an estimated bound is hollow.
    """
    known = standing(side)
    style: dict[str, Any] = {"marker": ROLE_MARKERS[role], "ls": STANDING_DASHES[known]}
    return style | {"mfc": "white"} if known == "estimated" else style
