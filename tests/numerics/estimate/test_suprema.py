"""Suprema of problems: at least what brute force finds, reproducible, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from measuring import FUNCTIONS, SLACK, measure
from pieces import normal, quadratic, zeros
from planted import PLANTED, R
from small import small
from torch import Tensor
from torch.func import grad, jacrev, vmap

import boundcheck as bc
from boundcheck.errors import DivergenceError, InputError, UserCodeError
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import suprema
from boundcheck.numerics.solvers import reference
from boundcheck.side import Side


def dense(problem: Problem) -> dict[str, Callable[[Tensor], Tensor]]:
    """∂₁Φ, ∂₂Φ, ∇₁E and ∇₂E at many points, formed."""
    lam = problem.lam
    return {
        "∂₁Φ": vmap(lambda w: jacrev(problem.phi)(w, lam)),
        "∂₂Φ": vmap(lambda w: jacrev(lambda lam: problem.phi(w, lam))(lam)),
        "∇₁E": vmap(lambda w: grad(problem.outer)(w, lam)[:, None]),
        "∇₂E": vmap(lambda w: grad(lambda lam: problem.outer(w, lam))(lam)[:, None]),
    }


OF = {"q": "∂₁Φ", "L_E": "∇₁E", "L_Phi": "∂₂Φ", "nu_1": "∂₁Φ", "nu_2": "∂₂Φ", "eta_1": "∇₁E", "eta_2": "∇₂E"}


@pytest.mark.parametrize("name", ["lr", "krr", "hr", "eqm"])
def test_brute_force(name: str) -> None:
    """At least what dense matrices show at 3000 points; at most what is proved."""
    problem = small(name)
    w_star = reference.reference(problem, problem.lam[None]).w[0]
    region = Region("w_star", w_star, float((w_star - problem.w0).norm()))
    draws = torch.cat([normal(1000, problem.d, seed=seed) for seed in range(3)])
    draws = draws / draws.norm(dim=1, keepdim=True) * torch.linspace(0.001, 1, 3000, dtype=torch.float64)[:, None]
    w = w_star + region.radius * draws
    proved = {}
    if isinstance(problem.known, ClosedForms):
        constants = [*problem.known.everywhere(problem.lam), *problem.known.on(problem.lam, region)]
        proved = {c.name: c.value for c in constants if c.side in (Side.EXACT, Side.UPPER)}
    functions = dense(problem)
    values = {of: function(w) for of, function in functions.items()}
    for constant, of in OF.items():
        found = measure(constant, problem, region.radius, w_star, budget=5000)
        F = values[of]
        if constant in ("q", "L_E", "L_Phi"):
            best = torch.linalg.matrix_norm(F, 2).max()
        else:
            F = F - functions[of](w_star[None])
            best = (torch.linalg.matrix_norm(F, 2) / (w - w_star).norm(dim=1)).max()
        assert found.value >= float(best) * (1 - 1e-6) - 1e-12, constant
        if constant in proved:
            assert found.value <= proved[constant] * (1 + SLACK), constant


@pytest.mark.parametrize("constant", FUNCTIONS)
def test_seeds(constant: str) -> None:
    """Identical twice, and close to each other from other starts."""
    problem = small("eqm")
    w_star = reference.reference(problem, problem.lam[None]).w[0]
    first, again = (measure(constant, problem, 1.0, w_star, seed=1, budget=5000) for _ in range(2))
    assert first == again
    assert measure(constant, problem, 1.0, w_star, seed=2, budget=5000).value == pytest.approx(first.value, rel=0.02)


def test_one_lam_or_a_row_of_it() -> None:
    problem, region = PLANTED["tanh"].problem, Region("w_star", zeros(1), R)
    alone = suprema.supremum("q", problem, Prepared(problem, problem.lam), region)
    assert alone.value == pytest.approx(0.9, rel=1e-9)
    with pytest.raises(InputError, match=r"radius = -1.0 of the region is not a radius"):
        suprema.supremum("q", problem, Prepared(problem, problem.lam), Region("0", zeros(1), -1.0))


@pytest.mark.parametrize("constant", FUNCTIONS)
def test_not_finite(constant: str) -> None:
    """√(1 − w²) has no derivative from w = 1 on."""

    def root(w: Tensor, lam: Tensor) -> Tensor:
        return (1 + lam) * (1 - w**2).sqrt() / 4

    problem = Problem.from_map(root, lambda w, lam: root(w, lam).sum(), zeros(1), zeros(1))
    with pytest.raises(DivergenceError, match=r"user: .*[Φ|E].* not finite at a w with ‖w‖ = [1-3]\.?\d*, at distance"):
        measure(constant, problem, 3.0)


def test_no_second_derivative_at_the_centre() -> None:
    """E = Σ|w_i|^1.5: ‖∇₁E‖² = 2.25 Σ|w_i|, and at w* = 0 the gradient is not calm."""
    problem = Problem.from_map(
        lambda w, lam: w / 2 + 0 * lam, lambda w, lam: (w.abs() ** 1.5).sum(), zeros(4) + 1, zeros(1)
    )
    assert measure("L_E", problem, R).value == pytest.approx(1.5 * (2 * R) ** 0.5, rel=1e-4)
    with pytest.raises(DivergenceError, match=r"difference of ∇₁E from that at w\* is not finite .*‖w‖ = 0, at"):
        measure("eta_1", problem, R)


def test_code_that_cannot_be_batched() -> None:
    def phi(w: Tensor, lam: Tensor) -> Tensor:
        return w / 2 + lam if w[0] > 5 else w / 3 + lam

    problem = Problem.from_map(phi, quadratic, zeros(2), zeros(2))
    with pytest.raises(UserCodeError, match="fp_map raised RuntimeError"):
        measure("q", problem, R)


def test_a_derivative_that_pytorch_does_not_have_is_named() -> None:
    """A message said that ∂₂Φ is not finite and that a smaller ball would help: PyTorch's product with it is NaN."""
    X = torch.rand(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def inner(a: Tensor, h: Tensor) -> Tensor:
        K = torch.exp(-(torch.cdist(X * h.exp(), X * h.exp()) ** 2) / 2) + torch.eye(30, dtype=X.dtype)
        return a @ (K @ a) / 2 - a.sum()

    zero = torch.zeros(30, dtype=torch.float64)
    problem = bc.Problem.from_loss(inner, lambda a, h: (a**2).sum(), zero, zero[:2], 0.01)
    with pytest.raises(bc.DivergenceError, match=r"products with its transpose are.*torch.cdist.*write squared"):
        bc.estimate_constants(problem, ball="local")
