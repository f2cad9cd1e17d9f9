"""Problems whose suprema were planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from pieces import normal, quadratic, zeros
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem


def orthogonal(d: int, seed: int) -> Tensor:
    return torch.linalg.qr(normal(d, d, seed=seed)).Q


def norm(A: Tensor) -> float:
    return float(torch.linalg.matrix_norm(A, 2))


@dataclass(frozen=True)
class Planted:
    """A problem with fixed point 0, and what its suprema over the ball of radius 2 around 0 are."""

    phi: Callable[[Tensor, Tensor], Tensor]
    outer: Callable[[Tensor, Tensor], Tensor]
    d: int
    n: int
    truth: dict[str, float]
    lam: float = 0.0

    @property
    def problem(self) -> Problem:
        lam = torch.full((self.n,), self.lam, dtype=torch.float64)
        return Problem.from_map(self.phi, self.outer, zeros(self.d), lam, name="planted")


R = 2.0


def affine(A: Tensor) -> Planted:
    truth = {"q": norm(A), "nu_1": 0.0, "L_Phi": 1.0, "nu_2": 0.0, "eta_1": 2.0, "L_E": 2 * R, "eta_2": 2.0}
    return Planted(lambda w, lam: A @ w + lam, quadratic, len(A), len(A), truth)


def rotation() -> Planted:
    """Norm 0.9 with xᵀAx = 0 for every x, so that no Rayleigh quotient of A itself would see it."""
    Q = orthogonal(8, 1)
    turn = torch.block_diag(*[torch.tensor([[0.0, 0.9], [-0.9, 0.0]], dtype=torch.float64)] * 4)
    return affine(Q @ turn @ Q.T)


def decomposable(d: int, rank: int) -> Planted:
    """Φ = ½ Σ_k s_k b_k (q_kᵀw)² + λ with orthonormal b_k and q_k: the norm of T is the largest |s_k|."""
    B, Q = orthogonal(d, 2)[:rank], orthogonal(d, 3)[:rank]
    s = torch.linspace(-0.4, 0.3, rank, dtype=torch.float64)
    return Planted(
        lambda w, lam: (s * (Q @ w) ** 2 / 2) @ B + lam, quadratic, d, d, {"nu_1": 0.4, "q": 0.4 * R, "nu_2": 0.0}
    )


def cubic(d: int) -> Planted:
    """J = ½ Σ_k s_k b_k (q_kᵀw)² q_kᵀ vanishes at w* together with its derivative: ν₁ is attained on the sphere."""
    B, Q = orthogonal(d, 2), orthogonal(d, 3)
    s = torch.linspace(0.1, 0.3, d, dtype=torch.float64)
    return Planted(
        lambda w, lam: (s * (Q @ w) ** 3 / 6) @ B + lam, quadratic, d, d, {"q": 0.15 * R**2, "nu_1": 0.15 * R}
    )


def tanh() -> Planted:
    """d = 1, Φ = 0.9 tanh(w), E = tanh(w)²: Φ'' and E''' vanish at w* = 0, the best quotients are away from it."""
    x = torch.linspace(1e-3, R, 2_000_001, dtype=torch.float64)
    t, slope = x.tanh(), 1 - x.tanh() ** 2
    truth = {
        "q": 0.9,
        "nu_1": float((0.9 * t**2 / x).max()),
        "L_E": float((2 * t * slope).max()),
        "eta_1": 2.0,
        "L_Phi": 1.0,
    }
    return Planted(lambda w, lam: 0.9 * w.tanh() + lam, lambda w, lam: (w.tanh() ** 2).sum(), 1, 1, truth)


def curved_outer(d: int) -> Planted:
    """E = ½wᵀHw + λᵀMw + bᵀw with b along the top eigenvector of H, the sign of whose eigenvalue is negative."""
    U, M = orthogonal(d, 4), normal(7, d, seed=5)
    h = torch.linspace(-3, 2, d, dtype=torch.float64)
    H, b = U @ torch.diag(h) @ U.T, 0.7 * U[:, 0]
    return Planted(
        lambda w, lam: w / 2 + 0 * lam.sum(),
        lambda w, lam: w @ H @ w / 2 + lam @ (M @ w) + b @ w,
        d,
        7,
        {"eta_1": 3.0, "L_E": 3 * R + 0.7, "eta_2": norm(M), "L_Phi": 0.0, "nu_2": 0.0, "q": 0.5, "nu_1": 0.0},
    )


def scaled(n: int, d: int = 3) -> Planted:
    """Φ = ½w + diag(w)Pλ with orthogonal rows of P: ‖∂₂Φ‖ = max |w_i|‖p_i‖."""
    P = (
        torch.linalg.qr(normal(n, min(n, d), seed=6)).Q.T
        * torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)[: min(n, d), None]
    )
    rows = zeros(d, n)
    rows[: len(P)] = P
    largest = float(P.norm(dim=1).max())
    return Planted(
        lambda w, lam: w / 2 + w * (rows @ lam),
        lambda w, lam: w.sum(),
        d,
        n,
        {"L_Phi": largest * R, "nu_2": largest, "nu_1": 0.0},
    )


PLANTED = {
    "rotation": rotation(),
    "non-normal": affine(torch.tensor([[0.1, 5.0], [0.0, 0.1]], dtype=torch.float64)),
    "large-affine": affine(0.5 * normal(150, 150, seed=7) / 12),
    "rank-one": decomposable(6, 1),
    "decomposable": decomposable(12, 12),
    "cubic": cubic(9),
    "tanh": tanh(),
    "outer": curved_outer(10),
    "n=1": scaled(1),
    "n=100000": scaled(100_000),
}


CASES = [(case, name) for case, planted in PLANTED.items() for name in planted.truth]
