"""Norms in which a momentum method contracts. In the Euclidean norm its first steps may increase the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import InputError, MissingConstantError
from boundcheck.side import Side
from boundcheck.theory.arguments import count
from boundcheck.theory.symbols import QUANTITIES

if TYPE_CHECKING:
    from boundcheck.theory.bound import Bound
    from boundcheck.theory.gradient_methods import Momentum

SMALLEST_THETA = 1e-9


@dataclass(frozen=True)
class Lyapunov:
    """A norm ‖z‖ ≤ ‖z‖_P ≤ √`stretch`·‖z‖ in which a momentum method contracts by q_P, on all of [μ, L].

    For each eigenvalue h, P(h) = Σ_j (M^j)ᵀM^j/q_P^{2j} solves MᵀPM/q_P² − P + I = 0. P ≽ I, and ‖P(h)‖ is largest at
    h = μ (docs/proofs.md), so `stretch` = ‖P(μ)‖ holds for every spectrum in the interval.

    Attributes
    ----------
    method : Momentum
        The method.
    theta : float
        θ in q_P = s + θ(1−s), between 0 and 1.
    q_P : float
        The contraction constant in this norm.
    P : ndarray of shape (2, 2)
        P(μ).
    stretch : float
        ‖P(μ)‖, the square of the factor that the change of norm costs.
    """

    method: Momentum
    theta: float
    q_P: float
    P: np.ndarray
    stretch: float

    def factor(self, t: np.ndarray | int) -> np.ndarray:
        """A bound on ‖M^t‖ in the Euclidean norm.

        Parameters
        ----------
        t : int or ndarray of int
            The numbers of steps.

        Returns
        -------
        ndarray
            √stretch·q_P^t at each t.
        """
        return math.sqrt(self.stretch) * self.q_P ** count("t", t)

    def constants(self, constants: Mapping[str, Constant]) -> Constants:
        """Compute the P-norm constants of the weighted bounds from Euclidean constants, for a quadratic lower level.

        The state starts at (w_0, w_0). E and ∂₂Φ depend on the state only through w_t (heavy ball) or
        w_t + β(w_t−w_{t−1}) (Nesterov).

        Parameters
        ----------
        constants : mapping from str to Constant
            r_0, L_E, L_ell, eta_1, eta_2 and hat_rho_2 on the ball that the iterates visit.

        Returns
        -------
        Constants
            D_P, L_E_P, L_Phi_P, eta_1_P, eta_2_P, nu_1_P, nu_2_P and q_P.

        Raises
        ------
        MissingConstantError
            If one of these constants is missing.
        """
        names = ("r_0", "L_E", "L_ell", "eta_1", "eta_2", "hat_rho_2")
        if missing := [name for name in names if name not in constants]:
            raise MissingConstantError(
                f"the P-norm constants need {', '.join(missing)}; give {missing[0]} ({QUANTITIES[missing[0]].meaning})"
            )
        root, b = math.sqrt(self.stretch), self.method.beta
        reading = 1.0 if self.method.name == "heavy-ball" else math.hypot(1 + b, b)
        step = root * self.method.alpha
        from_euclidean = {
            "D_P": ("r_0", root * math.sqrt(2)),
            "L_E_P": ("L_E", 1.0),
            "L_Phi_P": ("L_ell", step),
            "eta_1_P": ("eta_1", 1.0),
            "eta_2_P": ("eta_2", 1.0),
            "nu_2_P": ("hat_rho_2", step * reading),
        }
        how = "P-norm of a momentum method"
        weighted = {
            name: Constant(
                name,
                factor * constants[source].value,
                constants[source].side,
                Provenance(f"{how}, from {source}", "docs/proofs.md", delta=constants[source].provenance.delta),
            )
            for name, (source, factor) in from_euclidean.items()
        }
        for name, value in (("q_P", self.q_P), ("nu_1_P", 0.0)):
            weighted[name] = Constant(name, value, Side.EXACT, Provenance(how, "docs/proofs.md"))
        return Constants(weighted)


def lyapunov(method: Momentum, *, theta: float | None = None, t: int | None = None) -> Lyapunov:
    """The Lyapunov norm with q_P = s + θ(1−s), or with the θ that minimises the factor √stretch·q_P^t at `t`.

    At the optimal parameters M(μ) is defective, so no norm has q_P = s, and θ = 0 is excluded.

    Parameters
    ----------
    method : Momentum
        The method, from `heavy_ball` or `nesterov`.
    theta : float, optional
        θ in (0, 1); give either `theta` or `t`.
    t : int, optional
        The number of steps for which to optimise the norm.

    Returns
    -------
    Lyapunov
        The norm: P, q_P, and the cost of the change of norm.

    Raises
    ------
    InputError
        Unless exactly one of `theta` and `t` is given, in its range.

    Examples
    --------
    >>> import boundcheck as bc
    >>> norm = bc.step_sizes.lyapunov(bc.step_sizes.heavy_ball(1.0, 4.0), theta=0.5)
    >>> round(norm.q_P, 6), norm.stretch > 1
    (0.666667, True)
    """
    if (theta is None) == (t is None):
        raise InputError(f"theta = {theta} and t = {t}: give exactly one of them")
    if theta is None:
        steps = float(count("t", t))
        return _best_norm(method, lambda norm: math.log(norm.stretch) / 2 + steps * math.log(norm.q_P))
    try:
        share = float(theta)
    except (TypeError, ValueError):
        raise InputError(f"theta = {theta!r} is not a number; give one in (0, 1)") from None
    if not SMALLEST_THETA <= share < 1:
        raise InputError(f"theta = {theta} is outside (0, 1); q_P = s + theta(1−s) has to lie between s and 1")
    q_P = method.rate + share * (1 - method.rate)
    P = _lyapunov_matrix(method.rate, q_P, gap=share * (1 - method.rate) / q_P)
    return Lyapunov(method, share, q_P, P, float(np.linalg.eigvalsh(P)[-1]))


def lyapunov_for(
    bound: Bound, method: Momentum, constants: Mapping[str, Constant], t: int, k: int | None = None
) -> Lyapunov:
    """The Lyapunov norm with the θ that minimises a weighted bound at t (and k).

    Parameters
    ----------
    bound : Bound
        A weighted bound: `bounds["itd-weighted"]` or `bounds["aid-fp-weighted"]`.
    method : Momentum
        The method, from `heavy_ball` or `nesterov`.
    constants : mapping from str to Constant
        The Euclidean constants that `Lyapunov.constants` takes.
    t : int
        The lower-level steps.
    k : int, optional
        The steps of the linear solver, if the bound has a k; `t` by default.

    Returns
    -------
    Lyapunov
        The norm.

    Raises
    ------
    MissingConstantError
        If a constant is missing.

    Examples
    --------
    >>> import boundcheck as bc
    >>> euclidean = dict(r_0=1.0, L_E=1.0, L_ell=1.0, eta_1=0.0, eta_2=0.0, hat_rho_2=1.0)
    >>> method, constants = bc.step_sizes.heavy_ball(1.0, 4.0), bc.Constants.given(**euclidean)
    >>> norm = bc.step_sizes.lyapunov_for(bc.bounds["itd-weighted"], method, constants, t=10)
    >>> round(norm.q_P, 2)
    0.46
    """
    return _best_norm(method, lambda norm: float(bound.evaluate(norm.constants(constants), t, k).values))


def _best_norm(method: Momentum, objective: Callable[[Lyapunov], float]) -> Lyapunov:
    optimum = minimize_scalar(
        lambda x: objective(lyapunov(method, theta=math.exp(x))),
        bounds=(math.log(SMALLEST_THETA), math.log(1 - 1e-9)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return lyapunov(method, theta=math.exp(float(optimum.x)))


def _lyapunov_matrix(s: float, q_P: float, gap: float) -> np.ndarray:
    """P(μ) = Σ_j (M^j)ᵀM^j/q_P^{2j} in closed form; the linear system for P(μ) is singular up to rounding.

    M(μ) has the double eigenvalue s, so M^j = [[(j+1)s^j, −js^{j+1}], [js^{j−1}, −(j−1)s^j]] for both methods; the sums
    of j^i y^j, y = (s/q_P)², are rational in y. `gap` = 1 − s/q_P is an argument to avoid cancellation.
    """
    y = (s / q_P) ** 2
    rest = gap * (1 + s / q_P)  # 1 − y
    sum_0, sum_1, sum_2 = 1 / rest, y / rest**2, y * (1 + y) / rest**3
    pairs = 2 * y / (q_P**2 * rest**3)  # Σ j(j−1)y^j / s²
    squares = (1 + y) / (q_P**2 * rest**3)  # Σ j²y^j / s²
    corner = -s * (sum_2 + sum_1 + pairs)
    return np.array(
        [
            [sum_2 + 2 * sum_1 + sum_0 + squares, corner],
            [corner, s**2 * sum_2 + sum_2 - 2 * sum_1 + sum_0],
        ]
    )
