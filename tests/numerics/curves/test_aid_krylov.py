"""FP and CG from one Krylov basis against their own recursions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from pieces import normal
from small import small
from torch import Tensor

import boundcheck as bc
from boundcheck.errors import AssumptionError
from boundcheck.methods import Method, parse
from boundcheck.numerics.bilevel.derivatives import rows_outer
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.curves import aid, aid_krylov
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves.jacobian import as_columns
from boundcheck.numerics.solvers import conjugate_gradient

EPS = torch.finfo(torch.float64).eps
FP, CG = parse("aid-fp"), parse("aid-cg")


@dataclass(frozen=True)
class Matrices:
    """Products with a symmetric matrix for each row."""

    J: Tensor  # (λ, rows, d, d)

    def d1_T(self, v: Tensor) -> Tensor:
        return (self.J @ v[..., None])[..., 0]

    d1 = d1_T


def symmetric(values: Tensor, *shape: int) -> Tensor:
    """With these eigenvalues, in other eigenvectors for each row."""
    U = torch.linalg.qr(normal(*shape, len(values), len(values))).Q
    return U * values @ U.mT


def fixed_point(J: Tensor, b: Tensor, ks: Sequence[int]) -> Tensor:
    v, result = torch.zeros_like(b), torch.zeros_like(b)
    for k in range(1, max(ks) + 1):
        v = Matrices(J).d1_T(v) + b
        for i, asked in enumerate(ks):
            if asked == k:
                result[:, i] = v[:, i]
    return result


def solved(J: Tensor, b: Tensor, asked: Mapping[Method, Sequence[int]]) -> dict[Method, Tensor]:
    """By a basis, and from its end by CG itself."""
    result = aid_krylov.solve(Matrices(J), b, {FP: [0] * b.shape[1]} | asked, aid_krylov.Room())
    if (rest := result.continuation) is not None:
        rows = slice(rest.first, b.shape[1])
        by_cg = {m: ks for m, ks in asked.items() if m.name == "aid-cg"}
        aid.go_on(rest.state, result.steps, lambda rows: Matrices(J[:, rows]), by_cg, result.v, rows)
    return result.v


def close(found: Tensor, expected: Tensor, steps: int) -> bool:
    """Up to ε a step, in which ‖v‖ ≤ steps·‖b‖ or what it has grown to."""
    return bool(((found - expected).norm(dim=-1) <= 8 * steps * EPS * (1 + expected.norm(dim=-1))).all())


@pytest.mark.parametrize("low", [0.0, -0.95])
@pytest.mark.parametrize("d", [3, 40, 150])
def test_fixed_point_iterations_to_rounding(d: int, low: float) -> None:
    """Also long after the space is exhausted, and with negative eigenvalues."""
    J, b = symmetric(torch.linspace(low, 0.995, d).double(), 2, 5), normal(2, 5, d, seed=1)
    for ks in ([1, 2, 30, 199, 240], [0, 0, 7, 7, 250], [40] * 5, [15] * 5):
        assert close(solved(J, b, {FP: ks})[FP], fixed_point(J, b, ks), ks[-1])
        assert close(solved(J, as_columns(b), {FP: ks})[FP], fixed_point(J, b, ks), ks[-1])


def test_a_basis_is_shorter_than_the_run() -> None:
    """500 steps of FP need about √500 times a logarithm of vectors, and fewer do not pass for enough."""
    J, b = symmetric(torch.linspace(0, 0.99, 300).double(), 1, 1), normal(1, 1, 300)
    asked = {FP: [500]}
    result = aid_krylov.solve(Matrices(J), b, asked, aid_krylov.Room())
    used = result.steps
    assert 60 < used < 180
    expected = fixed_point(J, b, [500])
    assert close(result.v[FP], expected, 500)
    basis = aid_krylov.Basis(b, aid_krylov.Room())
    for size in range(1, used + 1):
        basis.grow(Matrices(J))
        short = aid_krylov.fixed_point(basis, asked)
        if short.enough:
            assert close(basis.combined(short.coefficients)[FP], expected, 500), size
    assert short.enough


@pytest.mark.parametrize("basis", [0, 1, 7, 30, 60])
def test_conjugate_gradient_by_its_invariants(basis: int) -> None:
    """Errors fall in the energy norm, and the end is the solution, wherever CG goes on from the end of the basis."""
    J, b = symmetric(torch.linspace(0.1, 0.98, 60).double(), 1, 60), normal(1, 60, 60)
    J, b = J[:, :1].expand(-1, 60, -1, -1), b[:, :1].expand(-1, 60, -1)
    asked = {FP: [min(basis, k) for k in range(1, 61)], CG: range(1, 61), parse("aid-cg:20"): [20] * 60}
    result = solved(J, b.contiguous(), asked)
    v = result[CG]
    A = torch.eye(60).double() - J[0, 0]
    exact = torch.linalg.solve(A, b[0, 0])
    energy = ((v[0] - exact) * ((v[0] - exact) @ A)).sum(-1).sqrt()
    assert bool((energy[1:] <= energy[:-1] * (1 + 1e-12) + EPS * energy[0]).all())
    assert torch.allclose(result[parse("aid-cg:20")], v[:, 19:20], rtol=1e-9, atol=1e-12)
    assert float((v[0, -1] - exact).norm()) <= 1e-12 * float(exact.norm())
    for k in range(1, 13):
        step = conjugate_gradient.solve(lambda v: v - A @ v, b[0, 0], k, None, None).v
        assert float((v[0, k - 1] - step).norm()) <= 1e-10 * float(step.norm())


def test_after_it_rests_nothing_changes() -> None:
    """Rows that rest when the basis ends, and rows that come to rest after it."""
    J, b = symmetric(torch.linspace(0, 0.6, 50).double(), 2, 3), normal(2, 3, 50)
    J[1] *= 0.1  # where few vectors are enough
    exact = torch.linalg.solve(torch.eye(50).double() - J, b)
    for basis in (0, 12, 16, 50):
        v = solved(J, b, {FP: [basis] * 3, CG: [100, 150, 200]})[CG]
        assert float((v - exact).norm()) <= 1e-14 * float(exact.norm()), basis


def test_a_space_that_is_exhausted_at_once() -> None:
    """b = 0, or an eigenvector: the second vector of the basis is none, or rounding."""
    J = symmetric(torch.linspace(0.2, 0.8, 6).double(), 1, 2)
    b = torch.zeros(1, 2, 6).double()
    b[0, 1] = torch.linalg.eigh(J[0, 1]).eigenvectors[:, 2]
    result = solved(J, b, {FP: [30, 30], CG: [30, 30]})
    assert close(result[FP], fixed_point(J, b, [30, 30]), 30)
    assert close(result[CG], torch.linalg.solve(torch.eye(6).double() - J, b), 30)
    assert not result[CG][0, 0].any()


@pytest.mark.parametrize("small_part", [1e-170, 1e-30, 1e-17])
def test_squares_of_what_is_left_of_the_space_may_underflow(small_part: float) -> None:
    """β = 0 then, of a vector that is not 0: it counts for nothing, and must not become more by division."""
    J = torch.diag(torch.linspace(0.3, 0.8, 6).double()).expand(1, 2, 6, 6)
    b = torch.full((1, 2, 6), small_part, dtype=torch.float64)
    b[..., 0] = 1
    result = solved(J, b, {FP: [3, 20], CG: [3, 20]})
    assert close(result[FP], fixed_point(J, b, [3, 20]), 20)
    assert torch.allclose(result[CG], torch.linalg.solve(torch.eye(6).double() - J, b), rtol=1e-13, atol=1e-15)


def test_what_diverges_and_what_is_not_finite() -> None:
    """Eigenvalues up to 3, and a row of NaN beside rows that are not touched by it."""
    J, b = symmetric(torch.linspace(0, 3, 20).double(), 1, 3), normal(1, 3, 20)
    result, expected = solved(J, b, {FP: [5, 20, 40]})[FP], fixed_point(J, b, [5, 20, 40])
    assert float(((result - expected).norm(dim=-1) / expected.norm(dim=-1)).max()) <= 1e-13
    broken = J.clone()
    broken[0, 1] = torch.nan
    again = solved(broken, b, {FP: [5, 20, 40]})[FP]
    assert bool(torch.isnan(again[0, 1]).all())
    assert torch.equal(again[0, [0, 2]], result[0, [0, 2]])
    with pytest.raises(AssumptionError, match="I − ∂₁Φᵀ is not positive definite and CG does not apply; use aid-cgn"):
        solved(J, b, {CG: [5, 20, 40]})


def test_a_matrix_that_is_definite_as_far_as_cg_goes() -> None:
    """One step of CG looks along b only."""
    J = torch.diag(torch.tensor([0.5, 3.0]).double()).expand(1, 1, 2, 2)
    b = torch.tensor([[[1.0, 0.01]]]).double()
    assert bool(torch.isfinite(solved(J, b, {CG: [1]})[CG]).all())
    for basis in (0, 1, 2):
        with pytest.raises(AssumptionError, match="not positive definite"):
            solved(J, b, {FP: [basis], CG: [2]})
    longer = solved(J, b, {FP: [2], CG: [1]})  # the basis knows, but CG does not go as far
    assert torch.allclose(longer[CG], solved(J, b, {CG: [1]})[CG], rtol=1e-13)
    at_rest = torch.tensor([[[1.0, 1e-18]]]).double()  # nor does it where it has come to rest
    assert float(solved(J, at_rest, {FP: [2], CG: [2]})[CG][0, 0, 0]) == pytest.approx(2, rel=1e-15)


def test_rows_that_are_done_with_the_basis_go_no_further() -> None:
    """The first would find out in its second step that its matrix is not definite, but is asked for one."""
    J = torch.diag_embed(torch.tensor([[[0.5, 3.0], [0.5, 0.9]]], dtype=torch.float64))
    b = torch.tensor([[[1.0, 0.01], [1.0, 1.0]]], dtype=torch.float64)
    v = solved(J, b, {FP: [1, 1], CG: [1, 2]})[CG]
    assert torch.allclose(v[0, 1], b[0, 1] / torch.tensor([0.5, 0.1], dtype=torch.float64), rtol=1e-12)
    assert torch.allclose(v[0, 0], b[0, 0] * 1.0001 / 0.4998, rtol=1e-12)  # bᵀb/bᵀ(I − J)b


@pytest.mark.parametrize("deep", [4, 24])
def test_what_needs_a_longer_basis_is_left_to_the_solvers(deep: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small("lr")
    methods = ["aid-fp", "aid-cg", "aid-fp:7", "aid-cg:7"]
    whole = bc.error_curves(problem, methods, t=60, samples=2, seed=1)
    monkeypatch.setattr(aid_krylov, "DEEP", deep)
    short = bc.error_curves(problem, methods, t=60, samples=2, seed=1)
    for method in methods:
        assert np.allclose(short[method], whole[method], rtol=1e-7 if "cg" in method else 1e-11, atol=1e-13)


@torch.no_grad()
def test_with_and_without_a_basis() -> None:
    """In blocks of any size, by the formula of the problem or by autograd, with k that rise in steps."""
    problem, T = small("lr"), 30
    steps = {FP: [k // 3 for k in range(T)], parse("aid-fp:9"): [9] * T, parse("aid-cg:3"): [3] * T}
    made = []
    for p in (problem, replace(problem, d1phi_T_at=None)):
        batch = batches.run(p, Prepared(p, p.sample(2, seed=1)), T, constant=False)
        b = rows_outer(p, batch.w, batch.prepared.leaves.none()).w
        made += [aid.iterates(batch, b, steps, block, basis) for block, basis in ((30, 0), (7, 0), (7, 4), (1, 30))]
    for other in made[1:]:
        for m in steps:
            assert torch.allclose(other[m], made[0][m], rtol=1e-10, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("basis", [60, 48, 30])
def test_where_cg_goes_on_for_some_rows_of_a_piece(basis: int) -> None:
    """The first rows of 60 are done with the basis: whole tiles of columns go on, a part of these rows with them."""
    problem, T = bc.problems.logistic_regression(size=20, features=40, low=0.5), 60
    batch = batches.run(problem, Prepared(problem, problem.sample(1, seed=1)), T, constant=False)
    b = rows_outer(problem, batch.w, batch.prepared.leaves.none()).w
    asked = {CG: range(1, T + 1), parse("aid-fp:15"): [15] * T}
    result, plain = (aid.iterates(batch, b, asked, T, by)[CG] for by in (basis, 0))
    assert bool(((result - plain).norm(dim=-1) <= 1e-7 * plain.norm(dim=-1)).all())
    assert float((plain[:, 20] - plain[:, 19]).norm()) > 1e-4 * float(plain.norm())  # not at rest when the basis ends


@torch.no_grad()
@pytest.mark.parametrize("basis", [0, 20])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_may_leave_the_range_of_numbers(scale: float, basis: int) -> None:
    problem, T = small("lr"), 20
    batch = batches.run(problem, Prepared(problem, problem.sample(2, seed=1)), T, constant=False)
    b = rows_outer(problem, batch.w, batch.prepared.leaves.none()).w
    b[0, 0], b[0, 1, 0] = 0, 1e-30  # scales of their own
    asked = {m: range(1, T + 1) for m in (FP, CG, parse("aid-cgn"))}
    small_or_large, usual = (aid.iterates(batch, by * b, asked, T, basis) for by in (scale, 1.0))
    for m in asked:
        assert torch.allclose(small_or_large[m] / scale, usual[m], rtol=1e-9, atol=1e-12)
        assert float(usual[m].norm()) > 0
