"""The equilibrium models contract with the constant they say, inside the domain they say."""

from __future__ import annotations

import pytest
import torch
from equilibria import EPS, Make, fixed_point, linear, without_drive
from pieces import normal
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.derivatives import jacobian
from boundcheck.problems import conv_equilibrium
from boundcheck.problems.conv_equilibrium import projection as conv_projection
from boundcheck.problems.equilibrium import projection


@pytest.mark.parametrize("norm", [0.3, 0.95])
def test_contraction(make: Make, case: str, norm: float) -> None:
    problem = make(norm=norm)
    for lam in (problem.lam, without_drive(problem)):
        ready = problem.prepare(lam)
        assert float(problem.contraction(ready)) == pytest.approx(norm, rel=EPS)
        for seed in range(20):
            u, v = (10 ** (1 - seed / 5)) * normal(2, problem.d, seed=seed)
            gap = (problem.phi_at(u, ready) - problem.phi_at(v, ready)).norm()
            assert gap <= norm * (u - v).norm() * (1 + EPS)


@pytest.mark.parametrize("seed", range(3))
def test_the_constant_is_met(make: Make, case: str, seed: int) -> None:
    """Near w = 0 without drive, Φ is A w (or K ⋆ w): along its top singular vector it shrinks by exactly q.

    tanh z = z − z³/3 + …, so states of size 1e-4 lose a fraction below 1e-8. Zero padding makes the norm smaller.
    """
    problem = make(seed=seed, size=2)
    ready = problem.prepare(without_drive(problem))
    J = jacobian(lambda w: problem.phi_at(w, ready), problem.w0)
    _, S, Vh = torch.linalg.svd(J)
    ratio = float(problem.phi_at(1e-4 * Vh[0], ready).norm() / 1e-4)
    assert ratio == pytest.approx(float(S[0]), rel=1e-8)
    assert ratio == pytest.approx(0.95, rel=1e-8) if case != "zeros" else 0.7 * 0.95 < ratio <= 0.95


def test_fixed_point(make: Make) -> None:
    problem = make(norm=0.9)
    ready, w = problem.prepare(problem.lam), problem.w0
    w_star = fixed_point(problem, problem.lam)
    for _ in range(20):
        after = problem.phi_at(w, ready)
        assert (after - w_star).norm() <= 0.9 * (w - w_star).norm() + 1e-12
        w = after
    assert w_star.norm() > 1
    assert (problem.phi_at(w_star, ready) - w_star).norm() < 1e-13


def test_jacobian_is_block_diagonal_and_not_symmetric(make: Make) -> None:
    problem = make(size=3)
    ready = problem.prepare(problem.lam)
    J = jacobian(lambda w: problem.phi_at(w, ready), normal(problem.d))
    blocks = J.reshape(3, problem.d // 3, 3, problem.d // 3)
    for i in range(3):
        for j in range(3):
            assert blocks[i, :, j].any() == (i == j)
    assert problem.symmetric is False
    assert (J - J.T).norm() > 0.1 * J.norm()


def test_domain(make: Make, case: str) -> None:
    problem = make()
    with pytest.raises(InputError, match=r"lam is outside its domain: .*(is|has norm) below 1; choose lam inside it"):
        problem.at(1.06 * problem.lam)  # 1.06 · 0.95 > 1
    project = projection(10, 0.9) if case == "eqm" else conv_projection(2, 8, 0.9, case)
    lam = project(3 * problem.lam)
    inside = problem.at(lam)
    assert float(inside.contraction(inside.prepare(lam))) == pytest.approx(0.9, rel=EPS)
    assert torch.equal(lam[linear(problem) :], 3 * problem.lam[linear(problem) :])
    torch.testing.assert_close(project(lam), lam, rtol=EPS, atol=EPS)
    small = 0.5 * problem.lam
    assert torch.equal(project(small), small)


def test_zero_padding_needs_the_larger_torus() -> None:
    """On states of side 6 the taps −0.6, 0, 1 have norm 0.98 with circular padding and 1.02 with zeros."""
    circular, zeros = (
        conv_equilibrium(padding=padding, size=1, hidden=1, side=12) for padding in ("circular", "zeros")
    )
    lam = without_drive(zeros)
    lam[:9] = 0
    lam[3:6] = torch.tensor([-0.6, 0.0, 1.0])
    lam[:9] *= 0.98 / circular.contraction(circular.prepare(lam))

    def norm(lam: Tensor) -> float:
        ready = zeros.prepare(lam)
        return float(torch.linalg.matrix_norm(jacobian(lambda w: zeros.phi_at(w, ready), zeros.w0), ord=2))

    circular.at(lam)
    assert norm(lam) == pytest.approx(1.0237, abs=1e-4)
    with pytest.raises(InputError, match="on a torus of side 7 has norm below 1"):
        zeros.at(lam)
    assert norm(conv_projection(1, 12, 0.999, "zeros")(lam)) <= 0.999
    assert norm(conv_projection(1, 12, 0.999, "circular")(lam)) > 1
