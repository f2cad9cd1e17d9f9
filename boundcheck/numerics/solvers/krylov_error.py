"""The error of a conjugate gradient iterate, estimated from the run itself.

The coefficients of the steps are those of the Lanczos process: the tridiagonal matrix with 1/αᵢ + βᵢ₋₁/αᵢ₋₁ on the
diagonal and √βᵢ/αᵢ beside the diagonal has the Ritz values as eigenvalues. The smallest, θ, is an estimate of the
smallest eigenvalue of A from above. If μ is below all eigenvalues, ‖e‖²_A ≤ ‖r‖²·‖r‖²/(μ‖p‖²) (Meurant and Tichý 2013,
from the Gauss-Radau rule) and ‖e‖² ≤ ‖e‖²_A/μ. With θ in place of μ this is only an estimate: before the run has found
the small eigenvalues, θ is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

SAFETY = 2.0  # times |zᵀe| estimates ‖e‖; this is below ‖e‖ for two random z in five, and below ‖e‖/10 for one in 25


@dataclass(eq=False)
class Spectrum:
    """The information about A from all runs so far.

    Attributes
    ----------
    least : float
        The smallest singular value that a run has found; infinite before the first run.
    probe : Tensor or None
        x = A⁻¹z for a normal random z and a symmetric A. For any residual r, xᵀr = zᵀA⁻¹r is normal, and its standard
        deviation is the length of the error A⁻¹r. So it shows errors along small eigenvalues that no run has found.
    unknown : bool
        Whether the computation of a probe failed, so that nothing is known about the small eigenvalues.
    """

    least: float = math.inf
    probe: Tensor | None = None
    unknown: bool = False

    def seen(self, r: Tensor) -> float:
        """Return the probe's estimate of the error that belongs to a residual; 0 without a probe."""
        return 0.0 if self.probe is None else SAFETY * abs(float(self.probe @ r))

    def meet(self, value: float) -> None:
        """Add a singular value that a run has found."""
        if value > 0:
            self.least = min(self.least, value)


@dataclass(eq=False)
class KrylovError:
    """The error estimate of one run of conjugate gradient.

    Attributes
    ----------
    spectrum : Spectrum
        The information about A from all runs. θ of this run is added to it.
    most : callable (v) -> float
        The largest error that is allowed for an iterate v.
    normal : bool
        Whether the run is on the normal equations. Then the Ritz values are squares, and ‖e‖ ≤ ‖r‖/σ.
    error : float
        The estimate of the error of the last iterate.
    residual : float
        The residual of the last iterate.
    """

    spectrum: Spectrum
    most: Callable[[Tensor], float]
    normal: bool = False
    error: float = math.inf
    residual: float = math.inf
    _alphas: list[float] = field(default_factory=list)
    _betas: list[float] = field(default_factory=list)

    def step(self, alpha: float, beta: float) -> None:
        """Record a step of the run: its length α, and the β of the next direction."""
        if 0 < alpha < math.inf and 0 < beta < math.inf:  # otherwise the residual is only rounding
            self._alphas.append(alpha)
            self._betas.append(beta)

    def allows(self, v: Tensor, r: Tensor, p: Tensor) -> bool:
        """Return whether the error of v is small enough, from its residual and the next direction."""
        most = self.most(v)
        if self._of(r, p) <= most:  # the θ that `end` adds can only make the estimate larger
            self.end(r, p)
        return self.error <= most

    def end(self, r: Tensor, p: Tensor) -> None:
        """Compute θ and the error estimate from the steps so far."""
        if self._alphas:
            theta = least_ritz_value(self._alphas, self._betas)
            self.spectrum.meet(math.sqrt(theta) if self.normal and theta > 0 else theta)
        self.residual = float(r.norm())
        is_known = self.residual == 0 or self.spectrum.least < math.inf
        self.error = self._of(r, p) if is_known else math.inf

    def _of(self, r: Tensor, p: Tensor) -> float:
        residual = float(r.norm())
        if residual == 0:
            return 0.0
        if self.normal:
            return residual / self.spectrum.least
        return max(residual * min(residual / float(p.norm()), 1.0) / self.spectrum.least, self.spectrum.seen(r))


def least_ritz_value(alphas: list[float], betas: list[float]) -> float:
    """Return the smallest eigenvalue of the Lanczos matrix of a run; infinite if rounding makes it not finite."""
    a, b = np.array(alphas), np.array(betas[: len(alphas) - 1])
    diagonal = 1 / a
    diagonal[1:] += b / a[:-1]
    if not np.isfinite(diagonal).all():
        return math.inf
    beside = np.sqrt(b) / a[:-1]
    values = eigh_tridiagonal(diagonal, beside, eigvals_only=True, select="i", select_range=(0, 0))
    return float(values[0])
