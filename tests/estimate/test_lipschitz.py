"""Suprema that were planted, or that brute force finds: never above the truth, and close to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from cases import make as tiny
from pieces import normal, quadratic, zeros
from pretend import OnlyDtype, pretending
from small import small
from torch import Tensor
from torch.func import grad, jacrev, vmap

from boundcheck.constants import Side
from boundcheck.errors import DivergenceError, InputError, UserCodeError
from boundcheck.estimate import lipschitz
from boundcheck.estimate.ball import Supremum
from boundcheck.estimate.lipschitz import Effort
from boundcheck.known import Known, Region
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.solvers import exact

FUNCTIONS = {
    "q": lipschitz.contraction,
    "L_E": lipschitz.gradient_bound,
    "L_Phi": lipschitz.sensitivity_bound,
    "nu_1": lipschitz.nu_1,
    "nu_2": lipschitz.nu_2,
    "eta_1": lipschitz.eta_1,
    "eta_2": lipschitz.eta_2,
}
SLACK = 1e-9  # relative, for rounding: no value is above the truth by more


def measure(
    name: str,
    problem: Problem,
    radius: float,
    w_star: Tensor | None = None,
    centre: Tensor | None = None,
    **effort: int,
) -> Supremum:
    """Around the centre, or else w*, or else 0."""
    w_star = torch.zeros_like(problem.w0) if w_star is None else w_star
    region = Region("w_star" if centre is None else "0", w_star if centre is None else centre, radius)
    found = FUNCTIONS[name](problem, Prepared(problem, problem.lam[None]), region, w_star, Effort(**effort))
    assert found.products <= effort.get("budget", Effort().budget)
    return found


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
        lambda w, lam: w / 2,
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


@pytest.mark.parametrize(("case", "name"), CASES)
def test_planted(case: str, name: str) -> None:
    planted = PLANTED[case]
    found, truth = measure(name, planted.problem, R), planted.truth[name]
    assert found.value <= truth * (1 + SLACK) + 1e-14
    assert found.value >= 0.999 * truth
    assert 0 <= found.spread <= 1
    assert found.starts == 32


@pytest.mark.parametrize(
    ("case", "name"), [c for c in CASES if c[0] in ("tanh", "outer", "non-normal", "decomposable")]
)
def test_radius_zero(case: str, name: str) -> None:
    """One point; ν and η are the derivative at it."""
    at_centre = {
        "tanh": {"q": 0.9, "nu_1": 0.0, "L_E": 0.0, "eta_1": 2.0, "L_Phi": 1.0},
        "outer": {**PLANTED["outer"].truth, "L_E": 0.7},
        "non-normal": {**PLANTED["non-normal"].truth, "L_E": 0.0},
        "decomposable": {"q": 0.0, "nu_1": 0.4, "nu_2": 0.0},
    }
    truth = at_centre[case][name]
    found = measure(name, PLANTED[case].problem, 0.0)
    assert 0.9999 * truth <= found.value <= truth * (1 + SLACK)


@pytest.mark.parametrize("radius", [1e-12, 1e-6, 1e3])
def test_any_radius(radius: float) -> None:
    """Differences very near w* would be rounding; there the derivative speaks."""
    planted, w_star = PLANTED["decomposable"], normal(12, seed=9)
    assert measure("nu_1", planted.problem, radius, w_star).value == pytest.approx(0.4, rel=1e-6)
    assert measure("nu_2", planted.problem, radius, w_star).value == 0


def test_region_that_is_not_around_w_star() -> None:
    """sup |w² − w*²|/|w − w*| = |w + w*| on [−R, R] for J = w², w* = 1."""
    problem = Problem.from_map(lambda w, lam: w**3 / 3 + lam, quadratic, zeros(1), zeros(1))
    one = torch.ones(1, dtype=torch.float64)
    assert measure("nu_1", problem, R, one, centre=zeros(1)).value == pytest.approx(R + 1, rel=1e-9)
    assert measure("q", problem, R, one, centre=zeros(1)).value == pytest.approx(R**2, rel=1e-9)
    with pytest.raises(InputError, match=r"w\* is at distance 1 .* radius is 0.5; give a region that holds w\*"):
        measure("nu_1", problem, 0.5, one, centre=zeros(1))


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
    w_star = exact.reference(problem, problem.lam[None]).w[0]
    region = Region("w_star", w_star, float((w_star - problem.w0).norm()))
    draws = torch.cat([normal(1000, problem.d, seed=seed) for seed in range(3)])
    draws = draws / draws.norm(dim=1, keepdim=True) * torch.linspace(0.001, 1, 3000, dtype=torch.float64)[:, None]
    w = w_star + region.radius * draws
    proved = {}
    if isinstance(problem.known, Known):
        constants = [*problem.known.everywhere(problem.lam), *problem.known.on(problem.lam, region)]
        proved = {c.name: c.value for c in constants if c.side in (Side.EXACT, Side.UPPER)}
    functions = dense(problem)
    for constant, of in OF.items():
        found = measure(constant, problem, region.radius, w_star)
        F = functions[of](w)
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
    w_star = exact.reference(problem, problem.lam[None]).w[0]
    first, again = (measure(constant, problem, 1.0, w_star, seed=1) for _ in range(2))
    assert first == again
    assert measure(constant, problem, 1.0, w_star, seed=2).value == pytest.approx(first.value, rel=0.02)


def test_budget() -> None:
    planted = PLANTED["cubic"]
    few = measure("nu_1", planted.problem, R, budget=1000)
    assert (few.starts, few.products <= 1000, few.converged) == (1000 // lipschitz.NEEDED, True, False)
    for budget in range(lipschitz.LEAST, lipschitz.NEEDED, 7):
        for name in ("q", "L_E", "nu_1", "eta_1"):
            assert measure(name, planted.problem, R, budget=budget).starts == 1  # and no more products than that
    with pytest.raises(InputError, match=r"budget = 10 is less than one start needs; give \d+ products or more"):
        Effort(budget=10)
    with pytest.raises(InputError, match="starts = 0 leaves nothing to climb"):
        Effort(starts=0)
    assert measure("q", planted.problem, R, starts=1).starts == 1


def test_long_vectors_have_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lipschitz, "CELLS", 30)
    found = measure("nu_1", PLANTED["decomposable"].problem, R)
    assert found.starts == 2
    assert found.value >= 0.5 * 0.4  # T has 12 local maxima, and two starts find two of them


def test_one_lam_or_a_row_of_it() -> None:
    problem, region = PLANTED["tanh"].problem, Region("w_star", zeros(1), R)
    alone = lipschitz.contraction(problem, Prepared(problem, problem.lam), region)
    assert alone.value == pytest.approx(0.9, rel=1e-9)
    with pytest.raises(InputError, match=r"radius = -1.0 of the region is no radius"):
        lipschitz.contraction(problem, Prepared(problem, problem.lam), Region("0", zeros(1), -1.0))


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
    problem = Problem.from_map(lambda w, lam: w / 2, lambda w, lam: (w.abs() ** 1.5).sum(), zeros(4) + 1, zeros(1))
    assert measure("L_E", problem, R).value == pytest.approx(1.5 * (2 * R) ** 0.5, rel=1e-4)
    with pytest.raises(DivergenceError, match=r"difference of ∇₁E from that at w\* is not finite .*‖w‖ = 0, at"):
        measure("eta_1", problem, R)


def test_code_that_cannot_be_batched() -> None:
    def phi(w: Tensor, lam: Tensor) -> Tensor:
        return w / 2 if w[0] > 5 else w / 3

    problem = Problem.from_map(phi, quadratic, zeros(2), zeros(2))
    with pytest.raises(UserCodeError, match="fp_map raised RuntimeError"):
        measure("q", problem, R)


@pytest.mark.parametrize("constant", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_precision(constant: str, dtype: torch.dtype) -> None:
    problem, double = tiny("lr", dtype, "cpu"), tiny("lr", torch.float64, "cpu")
    w_star = exact.reference(double, double.lam[None]).w[0]
    expected = measure(constant, double, 1.0, w_star)
    with OnlyDtype(dtype):
        found = measure(constant, problem, 1.0, w_star.to(dtype))
    assert found.value == pytest.approx(expected.value, rel=1e-3)


@pytest.mark.parametrize("constant", FUNCTIONS)
@pytest.mark.parametrize("name", ["lr", "krr", "eqm"])
def test_on_a_device(name: str, constant: str) -> None:
    """As on the CPU but for rounding, amplified by refusals; waiting for the device a few times, not in every step."""
    problem, same = tiny(name, torch.float64, "pretend"), tiny(name, torch.float64, "cpu")
    w_star = exact.reference(same, same.lam[None]).w[0]
    expected = measure(constant, same, 1.0, w_star, budget=4000)
    with pretending():
        there = w_star.to(problem.device)
        prepared: Any = Prepared(problem, problem.lam[None])
    with pretending() as waits:
        found = FUNCTIONS[constant](problem, prepared, Region("w_star", there, 1.0), there, Effort(budget=4000))
    assert found.value == pytest.approx(expected.value, rel=1e-3, abs=1e-12)
    assert 0 < waits.total() <= 20, waits
