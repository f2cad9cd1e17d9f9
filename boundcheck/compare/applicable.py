"""Which bounds say something about a run: every assumption of a theorem looked up here, on the problem at hand.

An assumption that is not in `CHECKS` is one that every run of `check` meets (v_0 = 0, a start that does not depend on
λ) or that shows in the constants themselves (q < 1, ρ(t) ≤ 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from boundcheck.compare.certify import residual_is_enough
from boundcheck.constants import Constant, Constants, Side
from boundcheck.dynamics import FIXED_POINT, Dynamics
from boundcheck.errors import InputError
from boundcheck.estimate.structure import normal
from boundcheck.methods import Method
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.products import DENSE, jacobian, rows_outer
from boundcheck.theory import step_sizes
from boundcheck.theory.bound import Bound
from boundcheck.theory.step_sizes import Momentum

SAME = 1e-10  # to which step sizes must agree with the optimal ones: by δ off, rates grow by √δ a step


@dataclass(frozen=True, eq=False)
class Case:
    """A problem at one λ with its constants by ball; what the theorems ask about it."""

    problem: Problem
    constants: Mapping[str, Constants]
    momentum: Momentum | None  # what the dynamics are, where they are an optimal momentum method
    radius: float  # of the local ball around w*
    certificate: Constant | None  # ε_g of the reference

    @property
    def plain(self) -> bool:
        """Are the iterates w_{t+1} = Φ(w_t)?"""
        return self.problem.dynamics.step is FIXED_POINT.step

    @property
    def constant_hessian(self) -> bool:
        """A gradient step on a quadratic."""
        some = self.constants["local"]
        exact = all(name in some and some[name].side is Side.EXACT for name in ("nu_1", "alpha"))
        return exact and some["nu_1"].value == 0

    @cached_property
    def quadratic(self) -> bool:
        """A gradient step on a quadratic, with frozen step sizes."""
        slope = self.constants["local"].get("grad_alpha")
        return self.constant_hessian and slope is not None and slope.value == 0 and _frozen(self.problem)

    @cached_property
    def value_function(self) -> bool:
        """Is E the lower-level loss? By their gradients in w and λ at random points."""
        problem = self.problem
        if problem.inner_at is None:
            return False
        prepared = Prepared(problem, problem.lam[None])
        w = problem.w0 + normal(torch.Generator(device="cpu").manual_seed(0), problem.w0, 1, 2, problem.d)
        E, ell = (rows_outer(p, w, prepared.leaves) for p in (problem, replace(problem, outer_at=problem.inner_at)))
        pairs = [(E.w, ell.w), *zip(E.lam, ell.lam, strict=True)]
        near = 1e4 * torch.finfo(problem.dtype).eps
        return all(bool((a - b).norm() <= near * b.norm()) for a, b in pairs)

    @property
    def gradient_step(self) -> bool:
        return all(name in self.constants["local"] for name in ("alpha", "mu", "L"))


def ball_of(bound: Bound) -> str:
    """Where the suprema of a theorem are taken: ‖w‖ ≤ 2D for those that start at 0, around w* for the others."""
    return "paper" if any(a.key == "w_0 = 0" for a in bound.assumptions) else "local"


def momentum_of(problem: Problem, constants: Constants) -> Momentum | None:
    """The optimal heavy ball or Nesterov method, if that is what the dynamics are."""
    dynamics: Dynamics = problem.dynamics
    makers = {"heavy-ball": step_sizes.heavy_ball, "nesterov": step_sizes.nesterov}
    if dynamics.coefficients is None or dynamics.name not in makers or not {"mu", "L", "alpha"} <= set(constants):
        return None
    try:
        best = makers[dynamics.name](constants["mu"].value, constants["L"].value)
    except InputError:  # a μ of 0, or ends that are no spectrum
        return None
    omega, beta = (float(x) for x in dynamics.coefficients(problem.prepare(problem.lam)))
    step = omega * constants["alpha"].value
    near = max(SAME, 16 * torch.finfo(problem.dtype).eps)
    return best if abs(step - best.alpha) <= near * best.alpha and abs(beta - best.beta) <= near else None


def _frozen(problem: Problem) -> bool:
    """Are ω and β of the momentum held fixed under differentiation? By their derivatives at λ."""
    coefficients = problem.dynamics.coefficients
    if coefficients is None:
        return True

    def both(lam: Tensor) -> Tensor:
        return torch.stack([torch.as_tensor(x, dtype=lam.dtype) for x in coefficients(problem.prepare(lam))])

    return not bool(jacobian(both, problem.lam).any())


def _at_zero(case: Case) -> str | None:
    start = float(case.problem.w0.norm())
    return f"w_0 is not 0 (‖w_0‖ = {start:.3g}); its local form applies" if start > 0 else None


def _plain(case: Case) -> str | None:
    name = case.problem.dynamics.name
    return None if case.plain else f"it is about w_{{t+1}} = Φ(w_t), and the iterates are those of {name}"


def _lower_rate(case: Case) -> str | None:
    """A rate ρ(t) of the lower-level iterates is needed."""
    if case.plain or (case.momentum is not None and case.constant_hessian):
        return None
    return (
        f"no rate ρ(t) is proved for {case.problem.dynamics.name} on this problem (optimal steps on a quadratic have)"
    )


def _quadratic(case: Case) -> str | None:
    return None if case.quadratic else "ℓ(·, λ) is not known to be quadratic with a frozen step size"


def _gradient_step(case: Case) -> str | None:
    if not case.gradient_step:
        return "Φ is no gradient step on a loss that was given"
    known = "grad_alpha" in case.constants["local"]
    return None if known else "the step size α(λ) is differentiated, and ‖∇α‖ is not known; give grad_alpha"


def _symmetric(case: Case) -> str | None:
    return "∂₁Φ is not symmetric" if case.problem.symmetric is False else None


def _steps(name: str) -> Callable[[Case], str | None]:
    def check(case: Case) -> str | None:
        if case.momentum is not None and case.momentum.name == name:
            return None
        return f"the iterates are not those of {name} with optimal steps, but of {case.problem.dynamics.name}"

    return check


def _value_function(case: Case) -> str | None:
    return None if case.value_function else "E is not the lower-level loss"


def _weighted(case: Case) -> str | None:
    if case.momentum is not None and case.quadratic:
        return None
    return "it is about optimal momentum on a quadratic"


def _residual(case: Case) -> str | None:
    if residual_is_enough(case.problem, case.constants["local"]):
        return None
    return "‖w − w*‖ ≤ ε_w/μ_λ is not known: Φ is neither a contraction with μ_λ ≤ 1 − q, nor a gradient step"


def _spectrum(case: Case) -> str | None:
    if case.problem.d > DENSE:
        return f"d = {case.problem.d} > {DENSE}, and it needs all eigenvectors of ∂₁Φ"
    nu_1 = case.constants["local"].get("nu_1")
    flat = nu_1 is not None and nu_1.value == 0 and nu_1.side is Side.EXACT
    if not (flat and case.problem.symmetric and _frozen(case.problem)):
        return "∂₁Φ is not known to be one symmetric matrix, with frozen step sizes"
    return None if case.problem.affine else "the problem does not say that Φ is affine in w; affine=True does"


def _never(why: str) -> Callable[[Case], str | None]:
    return lambda case: why


CHECKS: Mapping[str, Callable[[Case], str | None]] = {
    "w_0 = 0": _at_zero,
    "local": _plain,
    "local-peak": _lower_rate,
    "3(ii)": _lower_rate,
    "quadratic": _quadratic,
    "gradient step": _gradient_step,
    "symmetric": _symmetric,
    "heavy ball": _steps("heavy-ball"),
    "Nesterov": _steps("nesterov"),
    "E = ℓ": _value_function,
    "P-norm": _weighted,
    "residual": _residual,
    "spectrum": _spectrum,
    "smooth": _never("it needs one L for all second derivatives of ℓ and E on the whole space, which is not measured"),
}
OF_THE_PAIR = "it is about the map of the pair (w_t, w_{t−1}), and aid-fp here solves with Φ"


def refusal(bound: Bound, method: Method, case: Case) -> str | None:
    """Why the bound says nothing about this method on this problem, or None if it may."""
    if bound.name == "aid-fp-weighted":
        return OF_THE_PAIR
    if bound.name == "itd-one-step" and method.k != 1:
        return f"it is about one step, and {method} differentiates through {method.k}"
    unrolled = any(m.startswith("itd") for m in bound.methods)
    contracts = any(a.key == "2" for a in bound.assumptions)
    if unrolled and contracts and not case.plain:
        return _plain(case)
    for assumption in bound.assumptions:
        if assumption.key in CHECKS and (why := CHECKS[assumption.key](case)):
            return why
    return None
