"""The reference without matrices: Newton where neither its full steps nor those of Φ arrive, and v to rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pieces import normal, zeros
from small import small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import DENSE
from boundcheck.numerics.solvers import normal_equations, reference


def test_newton_arrives_where_full_steps_and_steps_of_phi_do_not() -> None:
    """w − Φ(w) = 4R atan(R(w − λ)), R a reflection: the steps of Φ end in a cycle, from which Newton overshoots.

    In y = R(w − λ), entry by entry: y ↦ y − 4 atan(y) goes to and fro between ±2.33, the roots of y = 2 atan(y), and
    the Newton step y − (1 + y²)atan(y) leads farther away from |y| > 1.39 on.
    """
    d = DENSE + 500
    u = normal(d)
    u = u / u.norm()
    lam = normal(d, seed=1)

    def reflected(x: Tensor) -> Tensor:
        return x - 2 * (u @ x) * u

    def excess(w: Tensor) -> Tensor:
        return 4 * reflected(torch.atan(reflected(w - lam)))

    w = zeros(d)
    for _ in range(reference.START):
        w = w - excess(w)
    start = float(excess(w).norm())
    y = reflected(w - lam)
    assert float(y.abs().min()) > 2.3
    full = lam + reflected(y - (1 + y**2) * torch.atan(y))
    assert float(excess(full).norm()) > 1.1 * start
    for _ in range(reference.PLAIN):
        w = w - excess(w)
    assert float(excess(w).norm()) > (1 - 1e-9) * start

    def phi(w: Tensor, lam: Tensor) -> Tensor:
        return w - 4 * reflected(torch.atan(reflected(w - lam)))

    problem = bc.Problem.from_map(phi, lambda w, lam: (w**2).sum() / 2, zeros(d), lam)
    found = reference.reference(problem, lam[None])
    assert float((found.w[0] - lam).norm()) <= 1e-14 * float(lam.norm())  # w(λ) = λ, and the derivative there is 4I
    assert float((found.value[0] - lam).norm()) <= 1e-14 * float(lam.norm())


def test_what_the_first_solve_for_v_leaves_over_a_second_takes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding of a long solve, here a part 10⁻¹⁰ of v, leaves as much of b; then LEFT_OVER = 10⁻³ of that is left."""
    solve = reference.krylov

    def rounded(*arguments: Any, transposed: bool) -> Tensor:
        v = solve(*arguments, transposed=transposed)
        return v * (1 + 1e-10) if transposed else v

    monkeypatch.setattr(reference, "krylov", rounded)
    monkeypatch.setattr(reference, "DENSE", 0)
    problem = small("lr")
    found = reference.reference(problem, problem.lam[None])
    b = torch.func.grad(problem.outer)(found.w[0], problem.lam)
    assert float(found.residual_v[0]) <= 1.1e-13 * float(b.norm())


def test_the_normal_equations_stop_where_rounding_ends_them() -> None:
    """κ = 10⁵: ‖r‖ cannot come below 4ε‖b‖, and steps that change nothing are not taken 20 000 times."""
    Q, R = (torch.linalg.qr(normal(20, 20, seed=seed)).Q for seed in (0, 1))
    A = (Q * torch.logspace(-5, 0, 20, dtype=torch.float64)) @ R.T
    b = normal(20, seed=2)
    found = normal_equations.solve(
        lambda v: v - A @ v, lambda v: v - A.T @ v, b, 20_000, None, 4 * torch.finfo(torch.float64).eps
    )
    assert found.k < 2000
    assert "rounding" in found.stopped
    assert float((A @ found.v - b).norm()) <= 1e-10 * float(b.norm())
