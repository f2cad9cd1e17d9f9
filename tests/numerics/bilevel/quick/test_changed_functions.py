"""Functions that change after they were recorded, and formulas that were wrong once: answers are those of autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.quick import quick_problem

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def numbers(*x: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(x, dtype=dtype)


def by_autograd(problem: bc.Problem, monkeypatch: pytest.MonkeyPatch, ask: Callable[[bc.Problem], Any]) -> Any:
    """The same question without formulas."""
    with monkeypatch.context() as patch:
        for module in _users():
            patch.setattr(module, "quick", lambda problem: problem)
        return ask(problem)


def _users() -> list[Any]:
    import sys

    mine = [module for name, module in list(sys.modules.items()) if name.startswith("boundcheck.")]
    return [module for module in mine if module.__dict__.get("quick") is quick_problem.quick]


@DTYPES
def test_data_that_are_written_into_are_seen(dtype: torch.dtype) -> None:
    """A change of 5 in a residual beside one of 1000² was less than the rounding that was forgiven."""
    X = torch.diag(numbers(1000, 1, dtype=dtype))
    y = numbers(1, 1, dtype=dtype)
    problem = bc.Problem.from_loss(
        lambda w, lam: ((X @ w - y) ** 2).sum() / 2 + (lam.exp() * w**2).sum() / 2,
        lambda w, lam: ((w - 1) ** 2).sum(), torch.zeros(2, dtype=dtype), torch.zeros(2, dtype=dtype),
    )  # fmt: skip
    bc.hypergradient(problem, "exact")
    y[1] = 5.0
    w = 5 / 2  # of the second entry: w + w − 5 = 0, and dw/dλ = −w/2
    near = 1e-9 if dtype == torch.float64 else 0.1  # the condition number is 10⁶
    assert float(bc.hypergradient(problem, "exact").value[1]) == pytest.approx(2 * (w - 1) * -w / 2, rel=near)


def test_a_number_that_matters_far_from_the_start_is_seen() -> None:
    cap = 10.0
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * torch.clamp(w, max=cap) + lam, lambda w, lam: (w**2).sum(), numbers(0, 0), numbers(1, 1)
    )
    assert bc.hypergradient(problem, "itd", t=50).value.tolist() == pytest.approx([8, 8])
    cap = 1.0
    assert bc.hypergradient(problem, "itd", t=50).value.tolist() == pytest.approx([3, 3])


def test_a_quadratic_loss_that_becomes_another_one_is_not_taken_as_affine(monkeypatch: pytest.MonkeyPatch) -> None:
    curved = False
    X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        u = X @ w
        return (F.softplus(u) if curved else (u - 1) ** 2).mean() + (lam.exp() * w**2).sum() / 2

    problem = bc.Problem.from_loss(inner, lambda w, lam: ((w - 1) ** 2).sum(), numbers(0, 0, 0), numbers(0, 0, 0))
    assert problem.affine
    bc.error_curves(problem, ["itd"], t=5)
    curved = True
    fresh = bc.Problem.from_loss(
        inner, lambda w, lam: ((w - 1) ** 2).sum(), problem.w0, problem.lam, problem_step(problem)
    )
    assert bc.error_curves(problem, ["itd"], t=40)["itd"][0].tolist() == pytest.approx(
        bc.error_curves(fresh, ["itd"], t=40)["itd"][0].tolist(), rel=1e-6, abs=1e-12
    )


def problem_step(problem: bc.Problem) -> float:
    assert problem.step_at is not None
    return float(problem.step_at(problem.prepare(problem.lam)))


def penalised(w: Tensor, lam: Tensor) -> Tensor:
    d = len(w)
    X = torch.linspace(-1, 1, 4 * d, dtype=w.dtype).view(4, d).sin()
    return F.softplus(X @ w).mean() + 0.1 * torch.cosh(w).sum() + 0.05 * (lam.exp().sum() * w**2).sum()


@pytest.mark.parametrize("algorithm", ["auto", "wavefront", "forward", "dense"])
def test_a_bent_penalty_beside_data(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagonal of ∂₁Φ depends on w here; it was taken to be the same at all points."""
    problem = bc.Problem.from_loss(
        penalised, lambda w, lam: ((w - 1) ** 2).sum(), torch.ones(7, dtype=torch.float64), numbers(0, 0.1), 0.5
    )

    def ask(problem: bc.Problem) -> list[float]:
        values: list[float] = bc.error_curves(problem, ["itd", "aid-fp"], t=24, algorithm=algorithm)["itd"][0].tolist()
        return values

    assert ask(problem) == pytest.approx(by_autograd(problem, monkeypatch, ask), rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("term", [lambda lam: 3 * (lam**2).sum(), lambda lam: 3 * (F.relu(lam - 0.5) ** 2).sum()])
def test_a_term_of_lam_alone_is_kept(term: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded at λ = 0, where it has no slope, and asked for elsewhere."""
    X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return ((X @ lam.view(4, 3) @ w - 1) ** 2).mean() + (w**2).sum() / 2

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return ((X @ lam.view(4, 3) @ w - 2) ** 2).mean() + term(lam)

    problem = bc.Problem.from_loss(inner, outer, numbers(0, 0, 0), torch.zeros(12, dtype=torch.float64), 0.1)
    bc.hypergradient(problem, "itd", t=3)
    lam = torch.linspace(-1, 1, 12, dtype=torch.float64)

    def ask(problem: bc.Problem) -> list[float]:
        values: list[float] = bc.error_curves(problem, ["itd"], t=6, lam=lam)["itd"][0].tolist()
        return values

    assert ask(problem) == pytest.approx(by_autograd(problem, monkeypatch, ask), rel=1e-8)


def test_a_linear_term_of_a_matrix_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    A = torch.randn(3, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return ((lam**2)[:3, None] * (A @ w.view(2, 2))).sum() + 0.5 * (w**2).sum() + 0.5 * (lam.exp() * w**2).sum()

    problem = bc.Problem.from_loss(
        inner, lambda w, lam: ((w - 1) ** 2).sum(), torch.zeros(4).double(), torch.zeros(4).double(), 0.3
    )
    bc.hypergradient(problem, "itd", t=3)
    lam = numbers(0.5, -0.3, 0.8, 0.1)

    def ask(problem: bc.Problem) -> list[float]:
        values: list[float] = bc.error_curves(problem, ["aid-fp"], t=5, lam=lam)["aid-fp"][0].tolist()
        return values

    assert ask(problem) == pytest.approx(by_autograd(problem, monkeypatch, ask), rel=1e-8)


def test_powers_of_zero_are_numbers() -> None:
    problem = bc.Problem.from_loss(
        lambda w, lam: (w**0).sum() + (lam.exp() * (w - 1) ** 2).sum(), lambda w, lam: (w**2).sum(),
        numbers(0, 0), numbers(0, 0),
    )  # fmt: skip
    assert bool(bc.hypergradient(problem, "itd", t=5).value.isfinite().all())


def test_inference_mode_is_refused() -> None:
    """Derivatives would be 0 there, without a word."""
    problem = bc.problems.scalar(q=0.5)
    with torch.inference_mode(), pytest.raises(bc.InputError, match=r"inside of torch\.inference_mode"):
        bc.hypergradient(problem, "itd", t=3)


def test_problems_that_differ_in_lam_share_formulas() -> None:
    problem = bc.Problem.from_loss(
        lambda w, lam: (lam.exp() * (w - 1) ** 2).sum(), lambda w, lam: (w**2).sum(), numbers(0, 0), numbers(0, 0)
    )
    other = replace(problem, lam=numbers(1, 2))
    assert quick_problem.quick(problem).phi_at is quick_problem.quick(other).phi_at
