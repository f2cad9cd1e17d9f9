"""Lower-level iterations that produce w_t, as maps on a state.

All of them use only Φ. For Φ = w − α∇₁ℓ, a gradient step of size a is w + ω(Φ(w) − w) with ω = a/α, so momentum methods
need no separate gradient. The state of a method with momentum is one vector, z_t = (w_t, w_{t−1}).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.errors import InputError, UnknownNameError

Map = Callable[[Tensor], Tensor]
Coefficients = Callable[[Any], tuple[Any, Any]]  # from the prepared values of a problem to (ω, β)


@dataclass(frozen=True)
class Dynamics:
    """An iteration that produces w_t from Φ: z⁺ = step(Φ(·, λ), z, ready).

    Only the newest iterate may depend on λ directly. The older iterates are copied from z. Use
    `boundcheck.dynamics.constant`, `heavy_ball` or `nesterov` to make one.

    Attributes
    ----------
    name : str
        The name in reports, such as "gradient-descent".
    step : callable (phi, z, ready) -> Tensor
        The next state, where `phi(w)` is Φ(w, λ) and `ready` is the result of `prepare(lam)`.
    adjoint : callable (d1phi_T, v, ready) -> Tensor
        The product ∂₁Ψᵀv with the derivative of a step, where `d1phi_T(v)` is ∂₁Φᵀv at the point where Φ is evaluated.
    copies : int
        The number of iterates in the state z, the newest first; 1 by default, 2 with momentum.
    coefficients : callable (ready) -> (ω, β), optional
        The step ω and the momentum β of a method with momentum.
    sees_iterates : bool
        Whether a step evaluates Φ at w_t itself; True by default.
    """

    name: str
    step: Callable[[Map, Tensor, Any], Tensor]
    adjoint: Callable[[Map, Tensor, Any], Tensor]
    copies: int = 1
    coefficients: Coefficients | None = None
    sees_iterates: bool = True

    def __repr__(self) -> str:
        return f"Dynamics({self.name!r})"

    def start(self, w0: Tensor) -> Tensor:
        """Return the state z_0, in which every iterate is w_0.

        Parameters
        ----------
        w0 : Tensor of shape (…, d)
            The start of the lower level.

        Returns
        -------
        Tensor of shape (…, copies·d)
            The first state.
        """
        return w0 if self.copies == 1 else torch.cat([w0] * self.copies, dim=-1)

    def iterate(self, z: Tensor) -> Tensor:
        """Return the iterate w_t of the state z_t.

        Parameters
        ----------
        z : Tensor of shape (…, copies·d)
            A state.

        Returns
        -------
        Tensor of shape (…, d)
            The newest iterate.
        """
        return z if self.copies == 1 else z[..., : z.shape[-1] // self.copies]

    def point(self, z: Tensor, ready: Any) -> Tensor:
        """Return the point at which a step from z evaluates Φ.

        Parameters
        ----------
        z : Tensor of shape (…, copies·d)
            A state.
        ready : object
            The result of `prepare(lam)`.

        Returns
        -------
        Tensor of shape (…, d)
            The argument of Φ.
        """
        arguments: list[Tensor] = []

        def phi(w: Tensor) -> Tensor:
            arguments.append(w)
            return w

        self.step(phi, z, ready)
        return arguments[0]

    def lift(self, v: Tensor) -> Tensor:
        """Apply the transpose of `iterate`: turn a cotangent of w_t into a cotangent of z_t.

        Parameters
        ----------
        v : Tensor of shape (…, d)
            A cotangent of w_t.

        Returns
        -------
        Tensor of shape (…, copies·d)
            The cotangent with zeros for the older iterates.
        """
        return v if self.copies == 1 else torch.cat([v] + [torch.zeros_like(v)] * (self.copies - 1), dim=-1)


def _fixed_point(phi: Map, z: Tensor, ready: Any) -> Tensor:
    """Return Φ(z). The same function is the adjoint step, if `phi` is the product with ∂₁Φᵀ."""
    return phi(z)


FIXED_POINT = Dynamics("fixed-point", _fixed_point, _fixed_point)
GRADIENT_DESCENT = Dynamics("gradient-descent", _fixed_point, _fixed_point)  # the name if Φ is a gradient step


def heavy_ball(coefficients: Coefficients) -> Dynamics:
    """Make the heavy ball method w⁺ = w + ω(Φ(w) − w) + β(w − w₋), Polyak 1964.

    Parameters
    ----------
    coefficients : callable (ready) -> (ω, β)
        Returns the step ω and the momentum β. `ready` is the result of `prepare(lam)`.

    Returns
    -------
    Dynamics
        An argument for `Problem.from_loss` or `Problem.from_map`.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.dynamics.heavy_ball(lambda ready: (1.0, 0.5))
    Dynamics('heavy-ball')
    """

    def step(phi: Map, z: Tensor, ready: Any) -> Tensor:
        omega, beta = coefficients(ready)
        w, w_before = z.chunk(2, dim=-1)
        return torch.cat((w + omega * (phi(w) - w) + beta * (w - w_before), w), dim=-1)

    def adjoint(d1phi_T: Map, v: Tensor, ready: Any) -> Tensor:
        omega, beta = coefficients(ready)
        v, v_before = v.chunk(2, dim=-1)
        return torch.cat(((1 - omega + beta) * v + omega * d1phi_T(v) + v_before, -beta * v), dim=-1)

    return Dynamics("heavy-ball", step, adjoint, 2, coefficients)


def nesterov(coefficients: Coefficients) -> Dynamics:
    """Make Nesterov's method y = w + β(w − w₋), w⁺ = y + ω(Φ(y) − y), 1983, with constant momentum.

    Parameters
    ----------
    coefficients : callable (ready) -> (ω, β)
        Returns the step ω and the momentum β. `ready` is the result of `prepare(lam)`.

    Returns
    -------
    Dynamics
        An argument for `Problem.from_loss` or `Problem.from_map`.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.dynamics.nesterov(lambda ready: (1.0, 0.5))
    Dynamics('nesterov')
    """

    def step(phi: Map, z: Tensor, ready: Any) -> Tensor:
        omega, beta = coefficients(ready)
        w, w_before = z.chunk(2, dim=-1)
        y = w + beta * (w - w_before)
        return torch.cat((y + omega * (phi(y) - y), w), dim=-1)

    def adjoint(d1phi_T: Map, v: Tensor, ready: Any) -> Tensor:
        omega, beta = coefficients(ready)
        v, v_before = v.chunk(2, dim=-1)
        at_y = (1 - omega) * v + omega * d1phi_T(v)
        return torch.cat(((1 + beta) * at_y + v_before, -beta * at_y), dim=-1)

    return Dynamics("nesterov", step, adjoint, 2, coefficients, sees_iterates=False)


NAMES = ("gradient-descent", "heavy-ball", "nesterov")


@dataclass(frozen=True)
class Steps:
    """The steps of a method over the map Φ = w − α∇₁ℓ.

    Attributes
    ----------
    alpha : Tensor
        The step α of the map.
    omega : Tensor
        The step ω of the method, in units of α.
    beta : Tensor
        The momentum β.
    """

    alpha: Tensor
    omega: Tensor
    beta: Tensor


def optimal_steps(name: str, mu: Tensor, L: Tensor) -> Steps:
    """Return the best steps for a loss with curvature between μ and L.

    The step of Φ is α = 2/(μ+L). Heavy ball uses the step 4/(√L+√μ)² and Nesterov's method the step 1/L, each with its
    optimal momentum.

    Parameters
    ----------
    name : str
        The method: "gradient-descent", "heavy-ball" or "nesterov".
    mu : Tensor
        The smallest curvature μ.
    L : Tensor
        The largest curvature L.

    Returns
    -------
    Steps
        α, ω and β.

    Raises
    ------
    UnknownNameError
        If there is no method of that name.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> steps = bc.dynamics.optimal_steps("heavy-ball", torch.tensor(1.0), torch.tensor(9.0))
    >>> steps.alpha, steps.omega, steps.beta
    (tensor(0.2000), tensor(1.2500), tensor(0.2500))
    """
    alpha = 2 / (mu + L)
    s = (L.sqrt() - mu.sqrt()) / (L.sqrt() + mu.sqrt())
    if name == "gradient-descent":
        return Steps(alpha, torch.ones_like(alpha), torch.zeros_like(alpha))
    if name == "heavy-ball":
        return Steps(alpha, 4 / (L.sqrt() + mu.sqrt()) ** 2 / alpha, s**2)
    if name == "nesterov":
        return Steps(alpha, 1 / L / alpha, s)
    raise UnknownNameError.among("dynamics", name, NAMES)


def by_name(name: str, coefficients: Coefficients) -> Dynamics:
    """Return the dynamics with a given name.

    Parameters
    ----------
    name : str
        The method: "gradient-descent", "heavy-ball" or "nesterov".
    coefficients : callable (ready) -> (ω, β)
        Returns the step ω and the momentum β. `ready` is the result of `prepare(lam)`. Gradient descent ignores it.

    Returns
    -------
    Dynamics
        An argument for `Problem.from_loss` or `Problem.from_map`.

    Raises
    ------
    UnknownNameError
        If there is no method of that name.

    Examples
    --------
    >>> import boundcheck as bc
    >>> bc.dynamics.by_name("nesterov", lambda ready: (1.0, 0.5))
    Dynamics('nesterov')
    """
    if name == "gradient-descent":
        return GRADIENT_DESCENT
    if name == "heavy-ball":
        return heavy_ball(coefficients)
    if name == "nesterov":
        return nesterov(coefficients)
    raise UnknownNameError.among("dynamics", name, NAMES)


def constant(name: str, alpha: float, step_size: float, beta: float) -> Dynamics:
    """Make a method with a fixed step and a fixed momentum β for a map Φ = w − α∇₁ℓ.

    Parameters
    ----------
    name : str
        The method: "gradient-descent", "heavy-ball" or "nesterov".
    alpha : float
        The step α of the map Φ, positive.
    step_size : float
        The step of the method, positive.
    beta : float
        The momentum, 0 ≤ β < 1.

    Returns
    -------
    Dynamics
        An argument for `Problem.from_loss` or `Problem.from_map`.

    Raises
    ------
    InputError
        If a step is not positive, or β is not in [0, 1).
    UnknownNameError
        If there is no method of that name.

    Examples
    --------
    >>> import torch
    >>> import boundcheck as bc
    >>> inner = lambda w, lam: ((w - lam) ** 2).sum() / 2
    >>> outer = lambda w, lam: (w**2).sum() / 2
    >>> momentum = bc.dynamics.constant("heavy-ball", alpha=0.5, step_size=0.8, beta=0.1)
    >>> bc.Problem.from_loss(inner, outer, torch.zeros(2), torch.ones(2), step_size=0.5, dynamics=momentum)
    Problem(user, d=2, n=2, heavy-ball, float32 on cpu)
    """
    if not (alpha > 0 and step_size > 0):
        raise InputError(f"step_size = {step_size} over alpha = {alpha}; both must be positive")
    if not 0 <= beta < 1:
        raise InputError(f"beta = {beta} is not momentum; give 0 <= beta < 1")
    return by_name(name, lambda ready: (step_size / alpha, beta))
