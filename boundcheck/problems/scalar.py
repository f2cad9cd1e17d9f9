"""The smallest bilevel problems, on which bounds are attained: d = n = 1, E = w.

"linear":  Φ = λw + b at λ = q: the local bounds of ITD and AID-FP are equalities for every t and k.
"curved":  Φ = qw − (ν/2)w|w| + λ: Φ' has the Lipschitz constant ν, so the bounds have a term with ν.

All constants are exact. For "linear", ∂₁Φ = λ and ∂₂Φ = w, so q = |λ|, nu_1 = 0, nu_2 = 1 and L_Phi = sup |w|. For
"curved", ∂₁Φ = q − ν|w| and ∂₂Φ = 1, so nu_1 = ν, nu_2 = 0 and L_Phi = 1. Then no q holds for all w; on a ball it is
max{q − ν inf |w|, ν sup |w| − q}. It is given with the other constants on a ball, and for the ball of radius 2D as a
constant that depends only on λ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region, closed_form
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Domain
from boundcheck.problems.parts.synthetic_data import uniform

NAME = "scalar"
TITLE = "one number: the instances on which bounds are attained"


def make(
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    kind: str = "linear",
    q: float = 0.9,
    b: float = 1.0,
    nu: float = 0.1,
    lam: float | None = None,
) -> Problem:
    """The smallest bilevel problems, d = n = 1, on which bounds are attained.

    "linear" is Φ = λw + b at λ = q; "curved" is Φ = qw − (ν/2)w|w| + λ. In both E = w.

    Parameters
    ----------
    seed : int
        The seed of sampled λ; 0 by default.
    dtype : torch.dtype
        The precision, `torch.float64` (the default) or `torch.float32`.
    device : torch.device or str
        The device; "cpu" by default.
    kind : str
        "linear" (the default) or "curved".
    q : float
        The contraction constant, at least 0 and below 1; 0.9 by default.
    b : float
        The offset of the linear map; 1 by default.
    nu : float
        The Lipschitz constant ν of Φ' of the curved map, at least 0; 0.1 by default.
    lam : float, optional
        λ of the curved map; 0.1 by default.

    Returns
    -------
    Problem
        The problem.

    Raises
    ------
    InputError
        If `q` or `nu` is out of its range, or `lam` cannot be used.
    UnknownNameError
        If there is no such kind.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.problems.scalar(q=0.5)
    Problem(scalar, d=1, n=1, fixed-point, float64 on cpu)
    """
    if not 0 <= q < 1:
        raise InputError(f"q = {q} is not a contraction constant; give 0 <= q < 1")
    if kind not in ("linear", "curved"):
        raise UnknownNameError.among("kind of scalar problem", kind, ("linear", "curved"))
    if nu < 0:
        raise InputError(f"nu = {nu} is not a Lipschitz constant; give nu >= 0")
    linear = kind == "linear"

    def phi_at(w: Tensor, lam: Tensor) -> Tensor:
        return lam * w + b if linear else q * w - nu / 2 * w * w.abs() + lam

    def solution(lam: Tensor) -> Tensor:
        """b/(1 − λ), or the root of (1 − q)|w| + (ν/2)w² = |λ| with the sign of λ, without cancellation."""
        if linear:
            return b / (1 - lam)
        return 2 * lam / ((1 - q) + torch.sqrt((1 - q) ** 2 + 2 * nu * lam.abs()))

    def contraction(lam: Tensor, region: Region) -> Constant:
        if linear:
            return closed_form("q", lam.abs()[0], "|λ|", exact=True)
        nearest = max(0.0, float(region.point.abs()) - region.radius)
        slopes = (q - nu * nearest, nu * region.reach - q)
        return closed_form("q", max(slopes), "max{q − ν inf |w|, ν sup |w| − q}", region, exact=True)

    def everywhere(lam: Tensor) -> Sequence[Constant]:
        D = solution(lam).abs()[0]
        zero = torch.zeros_like(lam)
        return [contraction(lam, Region("0", zero, 2 * float(D))), closed_form("D", D, "|w(λ)|", exact=True)]

    def on(lam: Tensor, region: Region) -> Sequence[Constant]:
        nus = ((0.0, "∂₁Φ = λ"), (1.0, "∂₂Φ = w")) if linear else ((nu, "∂₁Φ = q − ν|w|"), (0.0, "∂₂Φ = 1"))
        values = {
            "nu_1": nus[0],
            "nu_2": nus[1],
            "L_Phi": (region.reach, "sup |w|") if linear else (1.0, "∂₂Φ = 1"),
            "L_E": (1.0, "E = w"),
            "eta_1": (0.0, "E = w"),
            "eta_2": (0.0, "E = w"),
        }
        constants = [closed_form(name, value, how, region, exact=True) for name, (value, how) in values.items()]
        return constants if linear else [*constants, contraction(lam, region)]

    return Problem(
        name=NAME,
        w0=torch.zeros(1, dtype=dtype, device=device),
        lam=torch.full((1,), (q if linear else 0.1) if lam is None else lam, dtype=dtype, device=device),
        phi_at=phi_at,
        outer_at=lambda w, lam: w[0],
        symmetric=True,
        affine=linear,
        contraction=(lambda lam: lam.abs()[0]) if linear else None,
        solution=solution,
        known=ClosedForms(everywhere, on),
        domain=Domain("|lam| < 1", lambda lam: (lam.abs() < 1).all()) if linear else None,
        sampler=uniform(0.0, 1.0 if linear else 0.1, 1),
        seed=seed,
    )
