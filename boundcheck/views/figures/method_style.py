"""The styles of methods and bounds in all figures, examples and pages.

The colour shows the method, the marker the role of a bound, and the dashes how well the bound is known. The colours are
those of Okabe and Ito, which colour-blind people can distinguish. This module does not import matplotlib.
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
    """The style of one method.

    Attributes
    ----------
    label : str
        The label of the method in figures.
    colour : str
        The colour on a white background, as "#rrggbb".
    dark : str
        The colour on a dark background.
    marker : str
        The marker of matplotlib.
    dashes : str or tuple
        The line style of matplotlib: solid, or dashed for a fixed k.
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
OTHER = MethodStyle("", "#8C6D1F", "#D9B44A", "X")  # the style of all other methods


def style_of(method: str) -> MethodStyle:
    """Return the style of a method, the same in every figure.

    Parameters
    ----------
    method : str
        A method as in `check`, such as "itd" or "aid-cg:10".

    Returns
    -------
    MethodStyle
        The colour, marker and line style. A fixed k changes only the label and the line style.

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


# The markers of the roles of bounds; `drawn_bounds.roles` gives each bound its role.
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
    """Return the marker and the dashes of a bound, as keywords for `Axes.plot`.

    Parameters
    ----------
    role : str
        A key of `ROLE_MARKERS`.
    side : Side
        The side of the values of the bound.

    Returns
    -------
    dict
        The keywords "marker" and "ls", and for the hollow marker of an estimated bound "mfc".
    """
    known = standing(side)
    style: dict[str, Any] = {"marker": ROLE_MARKERS[role], "ls": STANDING_DASHES[known]}
    return style | {"mfc": "white"} if known == "estimated" else style
