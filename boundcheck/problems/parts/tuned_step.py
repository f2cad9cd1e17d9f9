"""Shared parts of problems with Φ = w − α∇₁ℓ and the best step α for μ and L of ℓ(·, λ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import closed_form
from boundcheck.numerics.bilevel.dynamics import Dynamics, by_name, optimal_steps
from boundcheck.numerics.bilevel.problem_types import Curvature


class Tuned(NamedTuple):
    """μ and L, the step α of Φ, and ω and the momentum β of the dynamics."""

    mu: Tensor
    L: Tensor
    alpha: Tensor
    omega: Tensor
    beta: Tensor


def for_steps(x: Tensor, differentiate_step: bool) -> Tensor:
    """Return x for μ and L, detached unless `differentiate_step`, as in the paper's experiments.

    Without derivatives, eigenvalues need no eigenvectors and take half the time.
    """
    return x if differentiate_step else x.detach()


def tuned(dynamics: str, mu: Tensor, L: Tensor) -> Tuned:
    """Return the best steps for μ and L."""
    best = optimal_steps(dynamics, mu, L)
    return Tuned(mu, L, best.alpha, best.omega, best.beta)


class ProblemFields(TypedDict):
    """The fields of a `Problem` that follow from its steps."""

    dynamics: Dynamics
    symmetric: bool
    curvature: Callable[[Any], Curvature]
    contraction: Callable[[Any], Tensor]


def problem_fields(dynamics: str, steps: Callable[[Any], Tuned] = lambda ready: ready.steps) -> ProblemFields:
    """Return fields for `Problem(…, **problem_fields(dynamics))`; `steps` gets the steps from `ready`."""

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
    """Return μ, L, κ, α, ‖∇α‖ and q of Φ = w − α∇₁ℓ for exact μ and L; `grad_alpha` is None for a fixed step.

    q = max(1 − αμ, αL − 1) is the supremum of ‖I − α∇²₁ℓ‖ over all w; for α = 2/(μ+L) both terms are equal.
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
