"""Constants of a problem in closed form, and the ball over which suprema are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.ball import Ball
from boundcheck.constants import Constant, Provenance
from boundcheck.side import Side


@dataclass(frozen=True, eq=False)
class Region:
    """The ball of all w with ‖w − point‖ ≤ radius. `centre` names the point: "0" or "w_star"."""

    centre: str
    point: Tensor
    radius: float

    @property
    def reach(self) -> float:
        """The supremum of ‖w‖ over the ball."""
        return float(self.point.norm()) + self.radius

    @property
    def ball(self) -> Ball:
        return Ball(self.centre, self.radius)


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """Constants of a problem in closed form. The proofs are next to the formulas.

    Attributes
    ----------
    everywhere : callable (lam) -> sequence of Constant
        The constants that depend on λ alone: any of mu, L, kappa, alpha, grad_alpha, q and D.
    on : callable (lam, region) -> sequence of Constant
        The constants that depend on λ and on a region of w: any of L_E, L_Phi, nu_1, nu_2, eta_1, eta_2, hat_rho_1 and
        hat_rho_2, and q if `everywhere` has none. They need to hold only between a w of the region and w*.
    """

    everywhere: Callable[[Tensor], Sequence[Constant]]
    on: Callable[[Tensor, Region], Sequence[Constant]]


RAISED_BY = 1e3  # upper bounds are multiplied by 1 + this many ε of their dtype, to stay upper bounds after rounding


def closed_form(
    name: str, value: Tensor | float, how: str, region: Region | None = None, *, exact: bool = False
) -> Constant:
    """Make a constant from a formula that is proved to be exact or an upper bound.

    Parameters
    ----------
    name : str
        The name of the constant in the theory.
    value : Tensor or float
        The value of the formula, a number or a tensor of one element.
    how : str
        The formula in words, for reports.
    region : Region, optional
        The region of w for which the value holds; all w by default.
    exact : bool
        Whether the value is exact up to rounding. If False, the default, it is an upper bound and is multiplied by
        1 + 1000ε with the ε of its dtype, so that it stays an upper bound after rounding.

    Returns
    -------
    Constant
        With the side "exact" or "upper".

    Raises
    ------
    InputError
        If the value is not finite.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.closed_form("L_E", 1.0, "E = w", exact=True).value
    1.0
    >>> bc.closed_form("L_E", 1.0, "E = w").side.value
    'upper'
    """
    ball = None if region is None else region.ball
    dtype = value.dtype if isinstance(value, Tensor) else torch.float64
    number = float(value.detach() if isinstance(value, Tensor) else value)
    raised = number if exact else number * (1 + RAISED_BY * torch.finfo(dtype).eps)
    return Constant(name, raised, Side.EXACT if exact else Side.UPPER, Provenance(how, "closed form", ball=ball))
