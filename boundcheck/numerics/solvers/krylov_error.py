"""The error of a conjugate gradient iterate, estimated from the run itself.

The coefficients of the steps are those of the Lanczos process: the tridiagonal matrix with 1/αᵢ + βᵢ₋₁/αᵢ₋₁ on the
diagonal and √βᵢ/αᵢ beside it has the Ritz values as eigenvalues, and the least, θ, is an estimate of the least
eigenvalue of A from above. With a μ below all eigenvalues, ‖e‖²_A ≤ ‖r‖²·‖r‖²/(μ‖p‖²) (Meurant and Tichý 2013, from the
Gauss-Radau rule) and ‖e‖² ≤ ‖e‖²_A/μ. With θ for μ this is an estimate: where the run has not yet met the small
eigenvalues, θ is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

SAFETY = 2.0  # times |zᵀe| for ‖e‖: it is below for two random z in five, and below a tenth for one in 25


@dataclass(eq=False)
class Spectrum:
    """What is known of A so far.

    Attributes
    ----------
    least : float
        The least singular value that a run has met; infinite before any run.
    probe : Tensor or None
        x = A⁻¹z for a normal random z, A symmetric. For any residual r, xᵀr = zᵀA⁻¹r is normal, with the length of the
        error A⁻¹r as standard deviation. So it sees errors along small eigenvalues that no run has met.
    unknown : bool
        Whether a probe was tried and not found, so that nothing is known of the small eigenvalues.
    """

    least: float = math.inf
    probe: Tensor | None = None
    unknown: bool = False

    def seen(self, r: Tensor) -> float:
        """The error that belongs to a residual, as the probe sees it; 0 without a probe."""
        return 0.0 if self.probe is None else SAFETY * abs(float(self.probe @ r))

    def meet(self, value: float) -> None:
        """One more."""
        if value > 0:
            self.least = min(self.least, value)


@dataclass(eq=False)
class KrylovError:
    """Follows one run of conjugate gradient, and says whether the error of an iterate is small enough.

    Attributes
    ----------
    spectrum : Spectrum
        What is known of A from all runs; θ of this run is added.
    most : function of the iterate
        The error that is allowed.
    normal : bool
        Whether the run is one on the normal equations. Then the Ritz values are squares, and ‖e‖ ≤ ‖r‖/σ.
    error : float
        The estimate of the error of the last iterate.
    residual : float
        Its residual.
    """

    spectrum: Spectrum
    most: Callable[[Tensor], float]
    normal: bool = False
    error: float = math.inf
    residual: float = math.inf
    _alphas: list[float] = field(default_factory=list)
    _betas: list[float] = field(default_factory=list)

    def step(self, alpha: float, beta: float) -> None:
        """A step of the run: its length α, and β that makes the next direction."""
        if 0 < alpha < math.inf and 0 < beta < math.inf:  # else nothing but rounding is left
            self._alphas.append(alpha)
            self._betas.append(beta)

    def allows(self, v: Tensor, r: Tensor, p: Tensor) -> bool:
        """Is the error of v small enough? By its residual and the next direction."""
        most = self.most(v)
        if self._of(r, p) <= most:  # θ from here can only be smaller
            self.end(r, p)
        return self.error <= most

    def end(self, r: Tensor, p: Tensor) -> None:
        """Take θ and the error from the steps so far."""
        if self._alphas:
            theta = least_ritz_value(self._alphas, self._betas)
            self.spectrum.meet(math.sqrt(theta) if self.normal and theta > 0 else theta)
        self.residual = float(r.norm())
        known = self.residual == 0 or self.spectrum.least < math.inf
        self.error = self._of(r, p) if known else math.inf

    def _of(self, r: Tensor, p: Tensor) -> float:
        residual = float(r.norm())
        if residual == 0:
            return 0.0
        if self.normal:
            return residual / self.spectrum.least
        return max(residual * min(residual / float(p.norm()), 1.0) / self.spectrum.least, self.spectrum.seen(r))


def least_ritz_value(alphas: list[float], betas: list[float]) -> float:
    """The least eigenvalue of the Lanczos matrix of a run; infinite where rounding leaves none."""
    a, b = np.array(alphas), np.array(betas[: len(alphas) - 1])
    diagonal = 1 / a
    diagonal[1:] += b / a[:-1]
    if not np.isfinite(diagonal).all():
        return math.inf
    beside = np.sqrt(b) / a[:-1]
    values = eigh_tridiagonal(diagonal, beside, eigvals_only=True, select="i", select_range=(0, 0))
    return float(values[0])
