"""The smallest problems on which a constant is attained: there a bound leaves no room for a wrong one.

Nearly all are scalar, with fixed point 2 or 1. What the estimator cannot prove of them is typed in and checked by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

import boundcheck as bc
from boundcheck.ball import BALLS
from boundcheck.constants import Constants
from boundcheck.numerics.bilevel.problem import Problem

Loss = Callable[[Tensor, Tensor], Tensor]
Q, NU = 0.5, 0.05
BUDGET = 100  # products for each supremum: one dimension needs no more


def vector(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem and what has to be said of it, with what differs on the ball of the paper."""

    problem: Problem
    exact: Mapping[str, float] = field(default_factory=dict)
    on_paper: Mapping[str, float] = field(default_factory=dict)

    def constants(self) -> dict[str, Constants]:
        """On both balls; an error if the estimator finds that a constant typed in is wrong."""
        result = {}
        for ball in BALLS:
            typed = {**self.exact, **(self.on_paper if ball == "paper" else {})}
            result[ball] = bc.estimate_constants(self.problem, ball=ball, known=Constants.given(**typed), budget=BUDGET)
            for constant in result[ball].values():
                assert "was found" not in constant.provenance.how, (ball, constant)
        return result


def linear() -> Instance:
    """Φ = λw + 1 at λ = q, E = w: the local bounds are equalities."""
    return Instance(bc.load_problem("scalar", kind="linear", q=Q))


def _shifted(outer: Loss, **exact: float) -> Instance:
    """Φ = qw + λ at λ = 1: w* = 2, w' = 1/(1 − q) = 2."""
    problem = bc.Problem.from_map(lambda w, lam: Q * w + lam, outer, vector(0.0), vector(1.0), symmetric=True)
    return Instance(problem, exact)


def shifted() -> Instance:
    """E = w: what is left of every bound is c₃ q^t, an equality."""
    return _shifted(lambda w, lam: w.sum())


def square() -> Instance:
    """E = ½w², so η₁ = 1: w_t and w_t' are both too small, and their errors add up."""
    return _shifted(lambda w, lam: (w * w).sum() / 2)


def product() -> Instance:
    """E = λw, so η₂ = 1: the bound is an equality."""
    return _shifted(lambda w, lam: lam @ w, eta_2=1.0)


def above() -> Instance:
    """Φ = λw + 1 at λ = q, E = ½w², from 3w*: with e = w − w*, the error of an exact solve is (2w*e + e²)/(1 − q)."""
    w_star = 1 / (1 - Q)
    problem = bc.Problem.from_map(
        lambda w, lam: lam * w + 1, lambda w, lam: (w * w).sum() / 2, vector(3 * w_star), vector(Q), symmetric=True
    )
    return Instance(problem, {"chi": 2 * w_star / (1 - Q), "omega": 1 / (1 - Q)})


def kinked() -> Instance:
    """∂₁Φ = q − ν|w − 1| is largest at w* = 1, and ν₁ = ν is attained all over the ball; a gradient step with α = 1.

    ℓ = ½(1 − q)x² + (ν/6)|x|³ − λw, x = w − 1, at λ = 0: ℓ'' = 1 − q + ν|x|, where |x| ≤ 3 on ‖w‖ ≤ 2D and |x| ≤ 1 on
    the local ball.
    """

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        x = w - 1
        return ((1 - Q) / 2 * x * x + NU / 6 * x * x * x.abs() - lam * w).sum()

    problem = bc.Problem.from_loss(inner, lambda w, lam: w.sum(), vector(0.0), vector(0.0), 1.0)
    exact = {
        "q": Q,
        "nu_1": NU,
        "nu_2": 0.0,
        "L_Phi": 1.0,
        "D": 1.0,
        "r_0": 1.0,
        "mu_inv": 1 - Q,
        "mu": 1 - Q,
        "hat_rho_1": NU,
        "hat_rho_2": 0.0,
    }
    local, paper = ({"L": L, "kappa": L / (1 - Q)} for L in (1 - Q + NU, 1 - Q + 3 * NU))
    return Instance(problem, {**exact, **local}, paper)


def curvature() -> Instance:
    """ℓ = ½λw² − w, α = ½, at λ = 1, E = w: ∂₁∂₂ℓ = w, so ρ̂₂ = 1; the bound for gradient descent is an equality."""
    problem = bc.Problem.from_loss(
        lambda w, lam: (lam * w * w / 2 - w).sum(), lambda w, lam: w.sum(), vector(0.0), vector(1.0), 0.5
    )
    return Instance(problem, {"hat_rho_1": 0.0, "hat_rho_2": 1.0, "nu_2": 0.5, "L_Phi": 1.0})


def step() -> Instance:
    """ℓ = ½(w − 1)² with the step α = λ, differentiated, at λ = ½: ∂₂Φ = 1 − w, so ν₂ = L‖∇α‖ and w' = 0."""
    problem = bc.Problem.from_loss(
        lambda w, lam: ((w - 1) ** 2).sum() / 2, lambda w, lam: w.sum(), vector(0.0), vector(0.5),
        lambda lam: lam[0], differentiate_step=True,
    )  # fmt: skip
    exact = {"grad_alpha": 1.0, "hat_rho_1": 0.0, "hat_rho_2": 0.0, "nu_2": 1.0, "L_Phi": 1.0}
    return Instance(problem, exact, {"L_Phi": 3.0})


def _two_curvatures(mu: float, L: float, seen: int) -> Instance:
    """ℓ = ½(μw₁² + Lw₂²) − λw_i and a step of 1, E = w_i: one of the two entries is seen."""
    diagonal = vector(mu, L)
    problem = bc.Problem.from_loss(
        lambda w, lam: (diagonal * w * w).sum() / 2 - lam[0] * w[seen], lambda w, lam: w[seen], vector(0.0, 0.0),
        vector(1.0), 1.0,
    )  # fmt: skip
    return Instance(problem, {"hat_rho_1": 0.0, "hat_rho_2": 0.0})


def slow() -> Instance:
    """1 − αμ = 0.8 > αL − 1: the error (1 − αμ)^t/μ is the bound."""
    return _two_curvatures(0.2, 0.8, seen=0)


def alternating() -> Instance:
    """αL − 1 = 0.6 > 1 − αμ = 0.4: the error shrinks by αL − 1 a step."""
    return _two_curvatures(0.6, 1.6, seen=1)


def two_eigenvalues() -> Instance:
    """A = I − ∂₁Φ = diag(0.3, 0.9), κ = 3, and the b and Z for which one step of CG does badly.

    E = bᵀw and Φ = (I − A)w + Zλ, so that all of the error is that of the linear solver. b = (1, 1/√κ) makes the step
    as short as the mean of both inverse eigenvalues, and Z points along the error that it leaves.
    """
    A, b, Z = vector(0.3, 0.9), vector(1.0, 3**-0.5), vector(3**0.5, -1.0)
    problem = bc.Problem.from_map(
        lambda w, lam: w - A * w + Z * lam, lambda w, lam: b @ w, vector(0.0, 0.0), vector(1.0), symmetric=True
    )
    return Instance(problem, {"kappa": 3.0})


@cache
def constants_of(make: Callable[[], Instance]) -> tuple[Problem, dict[str, Constants]]:
    """The problem with its constants, estimated once."""
    instance = make()
    return instance.problem, instance.constants()
