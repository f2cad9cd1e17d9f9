"""Constants that a problem knows in closed form, and the ball on which suprema over w are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.constants import Ball, Constant, Provenance, Side


@dataclass(frozen=True, eq=False)
class Region:
    """The w with ‖w − point‖ ≤ radius; `centre` says in words what the point is: "0" or "w_star"."""

    centre: str
    point: Tensor
    radius: float

    @property
    def reach(self) -> float:
        """sup ‖w‖ over it."""
        return float(self.point.norm()) + self.radius

    @property
    def ball(self) -> Ball:
        return Ball(self.centre, self.radius)


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """Closed forms, proved where they are written: `everywhere` those of λ alone, `on` those of λ and a region.

    `everywhere` gives what there is of mu, L, kappa, alpha, grad_alpha, q and D; `on` of L_E, L_Phi, nu_1, nu_2, eta_1,
    eta_2, hat_rho_1 and hat_rho_2, where a ball constant need hold only between a w of the region and w*; and of q, if
    none serves for all w.
    """

    everywhere: Callable[[Tensor], Sequence[Constant]]
    on: Callable[[Tensor, Region], Sequence[Constant]]


ROUNDING = 1e3  # how many ε of its dtype an upper bound is raised by, so that rounding does not put it below the truth


def closed_form(
    name: str, value: Tensor | float, how: str, region: Region | None = None, *, exact: bool = False
) -> Constant:
    """A constant from a formula, `how`, that is proved to be an upper bound, or to be exact.

    Upper bounds are multiplied by 1 + 1000ε; exact values are left as they are: exact up to rounding.
    """
    ball = None if region is None else region.ball
    dtype = value.dtype if isinstance(value, Tensor) else torch.float64
    number = float(value.detach() if isinstance(value, Tensor) else value)
    raised = number if exact else number * (1 + ROUNDING * torch.finfo(dtype).eps)
    return Constant(name, raised, Side.EXACT if exact else Side.UPPER, Provenance(how, "closed form", ball=ball))
