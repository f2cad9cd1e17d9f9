"""What problems share whose Φ = w − α∇₁ℓ takes the best step for the μ and L of ℓ(·, λ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import closed_form
from boundcheck.numerics.bilevel.dynamics import Dynamics, by_name, optimal_steps
from boundcheck.numerics.bilevel.problem_types import Curvature


class Tuned(NamedTuple):
    """μ and L, the step α of Φ, and the ω and the momentum β with which the dynamics use it."""

    mu: Tensor
    L: Tensor
    alpha: Tensor
    omega: Tensor
    beta: Tensor


def for_steps(x: Tensor, differentiate_step: bool) -> Tensor:
    """What μ and L come from: held fixed under differentiation unless asked, as in the paper's experiments.

    Eigenvalues that no derivative is asked of are found without their eigenvectors, in half of the time.
    """
    return x if differentiate_step else x.detach()


def tuned(dynamics: str, mu: Tensor, L: Tensor) -> Tuned:
    """The best steps for μ and L."""
    best = optimal_steps(dynamics, mu, L)
    return Tuned(mu, L, best.alpha, best.omega, best.beta)


class ProblemFields(TypedDict):
    """The fields of a `Problem` that follow from its steps."""

    dynamics: Dynamics
    symmetric: bool
    curvature: Callable[[Any], Curvature]
    contraction: Callable[[Any], Tensor]


def problem_fields(dynamics: str, steps: Callable[[Any], Tuned] = lambda ready: ready.steps) -> ProblemFields:
    """For `Problem(…, **problem_fields(dynamics))`; `steps` finds them in what was prepared."""

    def coefficients(ready: Any) -> tuple[Tensor, Tensor]:
        return steps(ready).omega, steps(ready).beta

    def curvature(ready: Any) -> Curvature:
        return Curvature(steps(ready).mu, steps(ready).L)

    def contraction(ready: Any) -> Tensor:
        return curvature(ready).contraction(steps(ready).alpha)

    return ProblemFields(
        dynamics=by_name(dynamics, coefficients), symmetric=True, curvature=curvature, contraction=contraction
    )


def step_constants(steps: Tuned, grad_alpha: Tensor | None) -> tuple[Constant, ...]:
    """μ, L, κ, α, ‖∇α‖ and q of Φ = w − α∇₁ℓ with the exact μ and L of ℓ(·, λ); no ∇α for a step that is held fixed.

    q = max(1 − αμ, αL − 1), which α = 2/(μ+L) makes equal: the supremum of ‖I − α∇²₁ℓ‖ over all w.
    """
    mu, L, alpha = steps.mu, steps.L, steps.alpha
    slope = 0.0 if grad_alpha is None else grad_alpha.norm()
    how = "the step is held fixed" if grad_alpha is None else "(α²/2)‖∇(μ+L)‖"
    return (
        closed_form("mu", mu, "the least eigenvalue of ∇²₁ℓ(w, λ) over all w", exact=True),
        closed_form("L", L, "the largest eigenvalue of ∇²₁ℓ(w, λ) over all w", exact=True),
        closed_form("kappa", L / mu, "L/μ", exact=True),
        closed_form("alpha", alpha, "2/(μ+L)", exact=True),
        closed_form("grad_alpha", slope, how, exact=grad_alpha is None),
        closed_form("q", Curvature(mu, L).contraction(alpha), "max(1 − αμ, αL − 1) = (κ−1)/(κ+1)", exact=True),
    )
