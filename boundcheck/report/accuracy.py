"""The accuracy of a hypergradient, from a certified reference: relative error, angle, descent direction."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from boundcheck.constants import Constant
from boundcheck.report.enclosure import Enclosure, enclosed
from boundcheck.side import Side

UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The error of a hypergradient g as an approximation of ∇f(λ).

    Attributes
    ----------
    error : Enclosure
        Lower and upper bounds on ‖g − ∇f(λ)‖. The `side` of this enclosure applies to the other attributes too.
    gradient_norm : Enclosure
        Lower and upper bounds on ‖∇f(λ)‖.
    relative_error : float
        An upper bound on ‖g − ∇f(λ)‖/‖∇f(λ)‖; infinite if ∇f(λ) may be 0.
    angle : float
        An upper bound on the angle between g and ∇f(λ), in degrees; 180 if no bound is known.
    descent : bool or None
        Whether −g is a descent direction of f, ⟨g, ∇f(λ)⟩ > 0; None if unknown.
    """

    error: Enclosure
    gradient_norm: Enclosure
    relative_error: float
    angle: float
    descent: bool | None

    @property
    def proved(self) -> bool:
        """Whether the numbers are proved; False if they are estimates or hold only with some probability."""
        return self.error.side in (Side.UPPER, Side.EXACT)


def accuracy(g: np.ndarray, reference: np.ndarray, eps_g: Constant) -> Accuracy:
    """Compute the accuracy of g from a reference with ‖reference − ∇f(λ)‖ ≤ ε_g.

    The gradient ∇f is in the ball of radius ε_g around the reference. So, with G = ‖reference‖: ‖∇f‖ ≥ G − ε_g; the
    angle between the reference and ∇f is at most arcsin(ε_g/G); and ⟨g, ∇f⟩ differs from ⟨g, reference⟩ by at most
    ‖g‖ε_g. The rounding of the n products and sums in this function is added to ε_g.

    Parameters
    ----------
    g : ndarray of shape (n,)
        The hypergradient.
    reference : ndarray of shape (n,)
        A more accurate hypergradient.
    eps_g : Constant
        A bound on the error of the reference. The result has the side of this bound.

    Returns
    -------
    Accuracy
        The error of g, absolute and relative, its angle to ∇f, and whether −g is a descent direction.
    """
    g, reference = np.asarray(g, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    length, size = _norm(g), _norm(reference)
    rounding = UNIT * (len(g) + 4)
    widened = replace(eps_g, value=eps_g.value + rounding * (length + size))
    eps = widened.value
    pair = enclosed(np.array([[_norm(g - reference)]]), [widened])
    error = Enclosure(pair.lower[0, 0], pair.upper[0, 0], pair.side, pair.delta)
    least = max(size - eps, 0.0)
    most = np.float64(size + eps)
    unit = max(length, size) or 1.0
    inner = float((g / unit) @ (reference / unit))  # scaled: the products do not underflow
    return Accuracy(
        error=error,
        gradient_norm=Enclosure(np.float64(least), most, pair.side, pair.delta),
        relative_error=_quotient(float(error.upper), least),
        angle=min(180.0, _angle(g, reference, length, size) + _widest(eps, size) + math.degrees(rounding)),
        descent=_descent(inner, (eps / unit + rounding * size / unit) * (length / unit)),
    )


def _norm(x: np.ndarray) -> float:
    """‖x‖ without overflow or underflow of the squares."""
    largest = float(np.abs(x).max(initial=0.0))
    if not 0 < largest < math.inf:
        return largest
    scale = math.ldexp(1.0, math.frexp(largest)[1])  # a power of 2, so scaling does not round
    return scale * float(np.linalg.norm(x / scale)) if scale < math.inf else float(np.linalg.norm(x))


def _quotient(upper: float, least: float) -> float:
    if not least > 0:
        return 0.0 if upper == 0 else math.inf
    return upper / least * (1 + 2 * UNIT)


def _angle(g: np.ndarray, reference: np.ndarray, length: float, size: float) -> float:
    """The angle between two vectors in degrees, by Kahan's formula, which is accurate for small angles too."""
    if not (length > 0 and size > 0):
        return 180.0
    a, b = g / length, reference / size
    return math.degrees(2 * math.atan2(_norm(a - b), _norm(a + b)))


def _widest(eps: float, size: float) -> float:
    """The largest angle between a vector of length `size` and any vector within `eps` of it, in degrees."""
    return math.degrees(math.asin(eps / size)) * (1 + 4 * UNIT) if eps < size else 180.0


def _descent(inner: float, slack: float) -> bool | None:
    if inner > slack:
        return True
    return False if inner <= -slack and slack < math.inf else None
