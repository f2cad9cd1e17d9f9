"""The balls on which suprema are taken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class BallKind(str, Enum):
    """The kind of ball on which suprema are taken.

    Attributes
    ----------
    PAPER : str
        "paper": ‖w‖ ≤ 2D, for the theorems that start at w_0 = 0.
    LOCAL : str
        "local": the ball around w* that contains the iterates.
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
        The centre: "0" or "w_star".
    radius : float
        The radius, in the Euclidean norm of w.
    """

    centre: str
    radius: float
