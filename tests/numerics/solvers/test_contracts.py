"""What every solver promises, run over every problem: it converges to `exact`, and t and k steps are t and k steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from small import NAMES, small
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import Linearisation, jacobian, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem

METHODS = ("itd", "aid-fp", "aid-cg", "aid-cgn")


@pytest.fixture(params=NAMES)
def problem(request: pytest.FixtureRequest) -> Problem:
    made = small(request.param)
    return made.at(made.sample(1, seed=11)[0])


def steps_to(problem: Problem, accuracy: float) -> int:
    """Enough steps of a contraction, from the spectral radius of ∂₁Φ at the solution (momentum is quicker still)."""
    w_star = bc.hypergradient(problem, "exact").w
    J = jacobian(lambda w: problem.phi(w, problem.lam), w_star)
    radius = float(torch.linalg.eigvals(J).abs().max())
    return 30 + math.ceil(1.3 * math.log(accuracy) / math.log(max(radius, 0.1)))


@pytest.mark.parametrize("method", METHODS)
def test_converges_to_exact(problem: Problem, method: str) -> None:
    if method == "aid-cg" and not problem.symmetric:
        pytest.skip("CG refuses; see test_linear_solvers")
    exact = bc.hypergradient(problem, "exact")
    t = min(steps_to(problem, 1e-11), 6000)
    k = min(3 * problem.d, t) if method in ("aid-cg", "aid-cgn") else t
    result = bc.hypergradient(problem, method, t=t, k=None if method == "itd" else k)
    assert (result.value - exact.value).norm() <= 1e-8 * (1 + exact.value.norm())
    assert result.status == "completed"


def test_exact_is_the_derivative_of_the_true_objective(problem: Problem) -> None:
    """Central differences of f(λ) = E(w(λ), λ) with w(λ) from the reference solver."""
    exact = bc.hypergradient(problem, "exact")
    generator = torch.Generator().manual_seed(2)
    direction = torch.randn(problem.n, generator=generator, dtype=torch.float64)
    direction /= direction.norm()

    def f(lam: Tensor) -> Tensor:
        return problem.outer(bc.hypergradient(problem.at(lam), "exact").w, lam)

    h = 1e-5 * max(float(problem.lam.norm()), 1e-2)
    numerical = (f(problem.lam + h * direction) - f(problem.lam - h * direction)) / (2 * h)
    # the cancellation in the difference is ε|f|/h; the truncation h² times a third derivative
    slack = 1e-4 * exact.value.norm() + 1e-15 * f(problem.lam).abs() / h
    assert abs(float(exact.value @ direction - numerical)) <= slack


def test_itd_is_the_derivative_of_what_was_run(problem: Problem) -> None:
    """Central differences of E(w_t(λ), λ), with what is held fixed (the steps) held fixed."""
    t = 6
    result = bc.hypergradient(problem, "itd", t=t)
    prepared = Prepared(problem, problem.lam)
    leaves = prepared.leaves

    def run(tensors: tuple[Tensor, ...]) -> Tensor:
        ready = leaves.ready(tensors)
        z = problem.dynamics.start(problem.w0)
        for _ in range(t):
            z = problem.psi_at(z, ready)
        return problem.outer_at(problem.dynamics.iterate(z), ready)

    direction = torch.linspace(-1, 1, problem.n, dtype=torch.float64)
    direction /= direction.norm()
    moved = [Prepared(problem, problem.lam + s * (h := 1e-5 * float(problem.lam.norm())) * direction) for s in (1, -1)]
    up, down = (run(p.leaves.tensors) for p in moved)
    numerical = (up - down) / (2 * h)
    assert float(result.value @ direction) == pytest.approx(float(numerical), rel=1e-4, abs=1e-6)


class Counting:
    """A problem whose evaluations of Φ are counted."""

    def __init__(self, problem: Problem) -> None:
        self.count = 0
        self.problem = replace(problem, phi_at=self._phi(problem.phi_at))

    def _phi(self, phi_at: Callable[[Tensor, object], Tensor]) -> Callable[[Tensor, object], Tensor]:
        def counted(w: Tensor, ready: object) -> Tensor:
            self.count += 1
            return phi_at(w, ready)

        return counted


@pytest.mark.parametrize("method", METHODS)
def test_t_steps_are_t_steps(problem: Problem, method: str) -> None:
    if method == "aid-cg" and not problem.symmetric:
        pytest.skip("CG refuses")
    counts = []
    for t in (3, 8):
        counting = Counting(problem)
        result = bc.hypergradient(counting.problem, method, t=t, k=None if method == "itd" else 2)
        assert result.t == t
        counts.append(counting.count)
    assert counts[1] - counts[0] == 5


def counted(calls: dict[str, int], name: str, original: Callable[[Linearisation, Tensor], Tensor]) -> object:
    def call(self: Linearisation, v: Tensor) -> Tensor:
        calls[name] += 1
        return original(self, v)

    return call


@pytest.mark.parametrize("method", METHODS[1:])
def test_k_steps_are_k_steps(problem: Problem, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of FP and CG is one transposed product, of CG on the normal equations one of each kind."""
    if method == "aid-cg" and not problem.symmetric:
        pytest.skip("CG refuses")
    counts = []
    for k in (3, 8):
        calls = {"d1_T": 0, "d1": 0}
        for name in calls:
            monkeypatch.setattr(Linearisation, name, counted(calls, name, getattr(Linearisation, name)))
        result = bc.hypergradient(problem, f"{method}:{k}", t=4)
        monkeypatch.undo()
        assert (result.t, result.k) == (4, k)
        counts.append(calls)
    assert counts[1]["d1_T"] - counts[0]["d1_T"] == 5
    assert counts[1]["d1"] - counts[0]["d1"] == (5 if method == "aid-cgn" else 0)


def test_fixed_point_is_its_recursion_and_the_derivative_form(problem: Problem) -> None:
    """Proposition thm:20200124a: with u_k = ∂₁Φ u_{k−1} + ∂₂Φ and v_k = ∂₁Φᵀv_{k−1} + ∇₁E, u_kᵀ∇₁E = ∂₂Φᵀv_k."""
    t, k = 5, 7
    result = bc.hypergradient(problem, "aid-fp", t=t, k=k)
    prepared = Prepared(problem, problem.lam)
    Y = jacobian(lambda w: problem.phi_at(w, prepared.ready), result.w)
    outer = outer_gradients(problem, result.w, prepared.leaves)
    at = Linearisation(problem.phi_at, result.w, prepared.ready, prepared.leaves)
    eye = torch.eye(problem.d, dtype=torch.float64)
    Z = torch.stack([prepared.pull_back(at.d2_T(e)) for e in eye])
    u, v = torch.zeros_like(Z), torch.zeros_like(result.w)
    for _ in range(k):
        u, v = Y @ u + Z, Y.T @ v + outer.w
    direct = prepared.pull_back(outer.lam)
    scale = 1 + result.value.norm()
    assert (u.T @ outer.w - Z.T @ v).norm() <= 1e-12 * scale
    assert (direct + Z.T @ v - result.value).norm() <= 1e-12 * scale


def test_ways_of_differentiating_agree(problem: Problem) -> None:
    result = {m: bc.hypergradient(problem, "itd", t=11, mode=m).value for m in ("reverse", "checkpoint", "forward")}
    scale = 1 + result["reverse"].norm()
    assert (result["checkpoint"] - result["reverse"]).norm() <= 1e-12 * scale
    assert (result["forward"] - result["reverse"]).norm() <= 1e-11 * scale


def test_truncation_interpolates(problem: Problem) -> None:
    """All t steps are ITD, none leaves ∇₂E, and more than t are t."""
    whole = bc.hypergradient(problem, "itd", t=9).value
    truncated = {K: bc.hypergradient(problem, f"itd-truncated:{K}", t=9) for K in (0, 4, 9, 20)}
    assert torch.equal(truncated[9].value, whole)
    assert torch.equal(truncated[20].value, whole)
    assert [truncated[K].k for K in (0, 4, 9, 20)] == [0, 4, 9, 9]
    prepared = Prepared(problem, problem.lam)
    direct = prepared.pull_back(outer_gradients(problem, truncated[0].w, prepared.leaves).lam)
    assert (truncated[0].value - direct).norm() <= 1e-12 * (1 + direct.norm())
    for mode in ("checkpoint", "forward"):
        other = bc.hypergradient(problem, "itd-truncated:4", t=9, mode=mode).value
        assert (other - truncated[4].value).norm() <= 1e-11 * (1 + whole.norm())


def test_a_warm_start_at_the_solution_is_exact(problem: Problem) -> None:
    exact = bc.hypergradient(problem, "exact")
    result = bc.hypergradient(problem, "aid-fp", t=0, k=0, w0=exact.w, v0=exact.v)
    assert (result.value - exact.value).norm() <= 1e-10 * (1 + exact.value.norm())
    assert result.k == 0
    assert result.residual.v <= 1e-9 * (1 + float(exact.v.norm()))


@pytest.mark.parametrize("method", [*METHODS, "exact"])
def test_single_precision_stays_single(problem: Problem, method: str) -> None:
    if method == "aid-cg" and not problem.symmetric:
        pytest.skip("CG refuses")
    single = small(problem.name, dtype=torch.float32)
    result = bc.hypergradient(single, method, t=5, k=None if method in ("itd", "exact") else 3)
    assert result.value.dtype == result.w.dtype == torch.float32
    assert result.value.device == single.device


def test_the_result_says_what_was_run(problem: Problem) -> None:
    result = bc.hypergradient(problem, "aid-fp", t=3, k=2)
    assert result.dynamics == problem.dynamics.name
    assert result.linear_map == f"Φ of {problem.name}"
    assert bc.hypergradient(problem, "itd", t=3).linear_map is None
    w, ready = result.w, problem.prepare(problem.lam)
    assert result.residual.w == pytest.approx(float((w - problem.phi_at(w, ready)).norm()), rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_itd_by_formula_is_itd_by_autograd(name: str) -> None:
    """Through all steps and through the last few, with a formula of each kind, named or not."""
    problem = small(name, dynamics="gradient-descent")
    bare = replace(problem, d1phi_T_at=None, d2phi_T_at=None, d2outer_at=None)
    cases = [problem]
    if (d1 := problem.d1phi_T_at) is not None:
        cases.append(replace(problem, d1phi_T_at=lambda w, ready: lambda v: d1(w, ready)(v)))
    for method, t in (("itd", 1), ("itd", 9), ("itd-truncated:4", 9), ("itd-truncated:4", 2)):
        expected = bc.hypergradient(bare, method, t=t, mode="reverse")
        for case in cases:
            result = bc.hypergradient(case, method, t=t, mode="reverse")
            assert torch.allclose(
                result.value, expected.value, rtol=1e-11, atol=1e-13 * float(expected.value.abs().max())
            )
            assert torch.allclose(result.w, expected.w, rtol=1e-13)
