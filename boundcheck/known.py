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
class Known:
    """Closed forms, proved where they are written: `everywhere` those of λ alone, `on` those of λ and a region.

    `everywhere` gives what there is of mu, L, kappa, alpha, grad_alpha, q and D; `on` of L_E, L_Phi, nu_1, nu_2, eta_1,
    eta_2, hat_rho_1 and hat_rho_2, where a ball constant need hold only between a w of the region and w*.
    """

    everywhere: Callable[[Tensor], Sequence[Constant]]
    on: Callable[[Tensor, Region], Sequence[Constant]]


ROUNDING = 1e3  # in units of eps: what sums, eigenvalues and square roots of a formula may lose


def upper(name: str, value: Tensor | float, how: str, region: Region | None = None, *, exact: bool = False) -> Constant:
    """A constant from a formula, `how`, that is proved to be an upper bound, or to be exact.

    So that rounding does not take an upper bound below the truth, it is raised by the factor 1 + 1000 eps of the dtype
    in which it was computed: that of a tensor, double for a number. An exact value stays as it is.
    """
    eps = torch.finfo(value.dtype if isinstance(value, Tensor) else torch.float64).eps
    raised = float(value) * (1.0 if exact else 1 + ROUNDING * eps)
    ball = None if region is None else region.ball
    return Constant(name, raised, Side.EXACT if exact else Side.UPPER, Provenance(how, "closed form", ball=ball))
