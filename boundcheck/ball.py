"""The balls on which suprema are taken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class BallKind(str, Enum):
    """Which ball suprema are taken over.

    Attributes
    ----------
    PAPER : str
        "paper": ‖w‖ ≤ 2D, for the theorems that start at w_0 = 0.
    LOCAL : str
        "local": around w*, as wide as the iterates may leave it.
    """

    PAPER = "paper"
    LOCAL = "local"

    __str__ = str.__str__


BALLS = tuple(BallKind)


@dataclass(frozen=True)
class Ball:
    """The ball on which a supremum was taken.

    Attributes
    ----------
    centre : str
        Its centre in words: "0" or "w_star".
    radius : float
        Its radius, in the Euclidean norm of w.
    """

    centre: str
    radius: float
