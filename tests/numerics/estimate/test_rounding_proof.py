"""What is proved of rounding: exact residuals and hypergradients, in 50 digits, are where it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from mpmath import mpf
from pieces import normal
from small import NAMES, small
from torch import Tensor
from torch.nn import functional as F

from boundcheck.numerics.bilevel import derivative_check
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.rounding_proof import EnclosedNorms, NoProof, balls, proved
from boundcheck.numerics.solvers.reference import reference


def test_a_module_is_followed_like_a_tensor() -> None:
    """Its weights are tensors of a class of their own while it runs."""
    X, y = normal(9, 3, seed=1), normal(9, seed=2)
    layer = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)

    def loss(module: Any, lam: Tensor) -> Tensor:
        return ((module(X)[:, 0] - y) ** 2).mean() + lam.exp() * sum((p**2).sum() for p in module.parameters())

    def plain(w: Tensor, lam: Tensor) -> Tensor:
        return ((X @ w - y) ** 2).mean() + lam.exp() * (w**2).sum()

    lam = torch.zeros((), dtype=torch.float64)
    found = []
    for function, start in ((loss, layer), (plain, torch.zeros(3, dtype=torch.float64))):
        problem = Problem.from_loss(function, function, start, lam, 0.2)
        at = reference(problem, problem.lam[None])
        proof = proved(problem, at.w[0], at.v[0], at.value[0])
        assert isinstance(proof, EnclosedNorms), proof
        found.append(proof)
    assert found[0].residual_w <= 100 * found[1].residual_w


@pytest.fixture(autouse=True)
def any_problem_may_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding is followed here, whatever finite differences say of a program that cancels or detaches."""
    monkeypatch.setattr(derivative_check, "on_arrival", lambda problem: None)


mpmath.mp.dps = 50
A = normal(2, 2, seed=1).float().double()  # the same in both dtypes
EXACT = [[mpf(x) for x in row] for row in A.tolist()]
Vector = list[Any]


def times_A(x: Vector) -> Vector:
    return [sum(a * b for a, b in zip(row, x, strict=True)) for row in EXACT]


def pairs(f: Callable[[Any, Any], Any], x: Vector, y: Vector) -> Vector:
    return [f(a, b) for a, b in zip(x, y, strict=True)]


def entries(f: Callable[..., Any]) -> Callable[..., Vector]:
    return lambda *xs: [f(*x) for x in zip(*xs, strict=True)]


def softplus(x: Any) -> Any:
    return mpmath.log(1 + mpmath.exp(x))


def log_softmax(x: Vector) -> Vector:
    top = mpmath.log(sum(map(mpmath.exp, x)))
    return [a - top for a in x]


def solved(lam: Vector, w: Vector) -> Vector:
    """(4I + A∘λ)⁻¹w, with λ along the columns."""
    M = mpmath.matrix([[EXACT[i][j] * lam[j] + (4 if i == j else 0) for j in range(2)] for i in range(2)])
    return list(mpmath.lu_solve(M, mpmath.matrix(w)))


# Φ in PyTorch and in mpmath, of two numbers each
MAPS: dict[str, tuple[Callable[..., Tensor], Callable[..., Vector]]] = {
    "affine": (
        lambda w, lam: 0.3 * (A.to(w) @ w) + lam,
        lambda w, lam: pairs(lambda a, b: mpf(0.3) * a + b, times_A(w), lam),
    ),
    "tanh": (
        lambda w, lam: torch.tanh(A.to(w) @ w + lam),
        lambda w, lam: pairs(lambda a, b: mpmath.tanh(a + b), times_A(w), lam),
    ),
    "exp": (lambda w, lam: torch.exp(-w * w) * lam, entries(lambda w, lam: mpmath.exp(-w * w) * lam)),
    "cancels": (lambda w, lam: 0.5 * w + ((1e8 + lam) - 1e8), entries(lambda w, lam: w / 2 + lam)),
    "softplus": (
        lambda w, lam: F.softplus(A.to(w) @ w) * lam,
        lambda w, lam: pairs(lambda a, b: softplus(a) * b, times_A(w), lam),
    ),
    "sine": (lambda w, lam: torch.sin(3 * w + lam), entries(lambda w, lam: mpmath.sin(3 * w + lam))),
    "quotient": (lambda w, lam: w / (3 + lam * lam + w * w), entries(lambda w, lam: w / (3 + lam * lam + w * w))),
    "softmax": (
        lambda w, lam: F.log_softmax(w * lam, 0),
        lambda w, lam: log_softmax(pairs(lambda a, b: a * b, w, lam)),
    ),
    "power": (lambda w, lam: (1 + w * w) ** 1.3 * lam, entries(lambda w, lam: (1 + w * w) ** mpf(1.3) * lam)),
    "gelu": (lambda w, lam: F.gelu(w) + lam**3, entries(lambda w, lam: w * mpmath.ncdf(w) + lam**3)),
    "norm": (
        lambda w, lam: lam * (w - 2 * lam).norm(),
        lambda w, lam: [x * mpmath.norm(pairs(lambda a, b: a - 2 * b, w, lam)) for x in lam],
    ),
    "solve": (
        lambda w, lam: torch.linalg.solve(4 * torch.eye(2).to(w) + A.to(w) * lam, w),
        lambda w, lam: solved(lam, w),
    ),
    "in place": (lambda w, lam: w.clone().add_(1e8).sub_(1e8).mul_(lam), entries(lambda w, lam: w * lam)),
    "log": (
        lambda w, lam: torch.log(1 + w * w).sqrt() * lam,
        entries(lambda w, lam: mpmath.sqrt(mpmath.log(1 + w * w)) * lam),
    ),
}


def as_mpf(x: Tensor) -> Vector:
    return [mpf(t) for t in x.tolist()]


def truth(phi: Callable[..., Vector], w: Vector, v: Vector, lam: Vector) -> tuple[Vector, Vector, Vector]:
    """w − Φ, v − ∇₁(E + vᵀΦ) and ∇₂(E + vᵀΦ) for E = Σw²/2 + w₀λ₁, with derivatives from differences in 50 digits."""

    def total(*x: Any) -> Any:
        w, lam = list(x[:2]), list(x[2:])
        return sum(a * a for a in w) / 2 + w[0] * lam[1] + sum(a * b for a, b in zip(v, phi(w, lam), strict=True))

    slopes = [mpmath.diff(total, (*w, *lam), tuple(int(i == j) for j in range(4))) for i in range(4)]
    residual = [a - b for a, b in zip(w, phi(w, lam), strict=True)]
    return residual, [a - b for a, b in zip(v, slopes[:2], strict=True)], slopes[2:]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", MAPS)
def test_the_exact_values_are_inside(name: str, dtype: torch.dtype) -> None:
    """Eight points each, of sizes from 0.01 to 10."""
    ours, theirs = MAPS[name]
    for seed in range(8):
        scale = 10 ** (seed % 4 - 2)
        w, v, lam = ((scale * normal(2, seed=10 * seed + i)).to(dtype) for i in range(3))
        problem = Problem.from_map(ours, lambda w, lam: (w * w).sum() / 2 + w[0] * lam[1], w, lam)
        exact = truth(theirs, *(as_mpf(x) for x in (w, v, lam)))
        for ball, part in zip(balls(problem, w, v), exact, strict=True):
            for mid, rad, x in zip(ball.mid.tolist(), ball.rad.tolist(), part, strict=True):
                assert abs(mpf(mid) - x) <= mpf(rad) + mpf(10) ** -22  # of the differences
    value = torch.tensor([float(x) for x in exact[2]], dtype=dtype) + 1e-3
    bound = proved(problem, w, v, value)
    assert isinstance(bound, EnclosedNorms)
    off = [mpf(a) - b for a, b in zip(value.tolist(), exact[2], strict=True)]
    for size, part in ((bound.residual_w, exact[0]), (bound.residual_v, exact[1]), (bound.error_g, off)):
        norm = mpmath.norm(part)
        assert norm <= mpf(size) <= norm * (1 + mpf(1e-8)) + mpf(1e-6)  # and hardly larger


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_the_problems_that_we_have(name: str, dtype: torch.dtype) -> None:
    """All that the residuals and the hypergradient lose is a few roundings of the numbers that occur."""
    problem = small(name, dtype=dtype)
    found = reference(problem, problem.lam[None])
    bound = proved(problem, found.w[0], found.v[0], found.value[0])
    assert isinstance(bound, EnclosedNorms), bound
    size = float(1 + found.w.norm() + found.v.norm() + found.value.norm())
    assert max(bound.residual_w, bound.residual_v, bound.error_g) <= 1e4 * torch.finfo(dtype).eps * size


@pytest.mark.parametrize("n", [6, 8, 10])
def test_a_system_that_cancels_inside(n: int) -> None:
    """Φ = w/2 + H⁻¹λ with Hilbert's matrix: g = H⁻ᵀv, which float64 has to few digits, or to none."""
    i = torch.arange(n, dtype=torch.float64)
    H = 1 / (i[:, None] + i + 1)
    problem = Problem.from_map(
        lambda w, lam: w / 2 + torch.linalg.solve(H, lam),
        lambda w, lam: (w * w).sum() / 2,
        0 * i,
        1 + i,
        symmetric=True,
    )
    v = normal(n, seed=n)
    value = torch.linalg.solve(H.T, v)
    bound = proved(problem, normal(n), v, value)
    if n == 10 and isinstance(bound, NoProof):
        assert "_linalg_solve_ex" in bound.reason
        return
    assert isinstance(bound, EnclosedNorms)
    exact = mpmath.lu_solve(mpmath.matrix(H.T.tolist()), mpmath.matrix(v.tolist()))
    off = mpmath.sqrt(sum((mpf(a) - b) ** 2 for a, b in zip(value.tolist(), exact, strict=True)))
    assert 0 < off <= mpf(bound.error_g)


def test_whichever_matrix_pytorch_factorised() -> None:
    """A and Aᵀ as they lie in memory: the same numbers by a solution and by an inverse."""
    M = normal(3, 3, seed=4) + 4 * torch.eye(3, dtype=torch.float64)
    for matrix in (M, M.T, M.T.contiguous().T, M @ M.T):
        both = []
        for apply in (torch.linalg.solve, lambda m, w: torch.linalg.inv(m) @ w):
            problem = Problem.from_map(
                lambda w, lam, f=apply, m=matrix: 0.1 * f(m * lam, w), lambda w, lam: w.sum(), normal(3), normal(3) + 4
            )
            both.append(balls(problem, normal(3), normal(3, seed=5)))
        for one, other in zip(*both, strict=True):
            assert bool(((one.mid - other.mid).abs() <= one.rad + other.rad).all())
            assert float(one.rad.norm()) < 1e-12
