"""`minimise` against dense solves: ridge regression, where f and ∇f have formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from small import small
from torch import Tensor, nn

import boundcheck as bc
from boundcheck.side import Side
from boundcheck.trust import minimise as minimise_module
from boundcheck.trust import step_rules
from boundcheck.trust.coordinates import PLAIN
from boundcheck.trust.descent import Descent
from boundcheck.trust.outer_value import Corrections, OuterValue, RequestedAccuracy, Start
from boundcheck.trust.step_rules import Decrease, ValueComparison

FLOAT64 = torch.float64
SLACK = 1 + 1e-6  # for the rounding of the dense solves: their condition of at most 1e5 times 1e-16, and more


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=FLOAT64)


class Ridge:
    """½‖Xw − y‖² + ½Σ e^λ w², with f and ∇f by a dense solve; `spread` are the singular values of X."""

    def __init__(self, n: int = 4, spread: Tensor | None = None) -> None:
        self.X, self.y = normal(0, 2 * n, n), normal(1, 2 * n)
        if spread is not None:
            U, _, V = torch.linalg.svd(self.X, full_matrices=False)
            self.X = U * spread @ V
        self.X_val, self.y_val = normal(2, 2 * n, n), normal(3, 2 * n)
        self.lam = torch.full((n,), -1.0, dtype=FLOAT64)

    def inner(self, w: Tensor, lam: Tensor) -> Tensor:
        return ((self.X @ w - self.y) ** 2).sum() / 2 + (lam.exp() * w**2).sum() / 2

    def outer(self, w: Tensor, lam: Tensor) -> Tensor:
        return ((self.X_val @ w - self.y_val) ** 2).sum() / 2 + 0.1 * (lam**2).sum()

    def problem(self) -> bc.Problem:
        return bc.Problem.from_loss(self.inner, self.outer, torch.zeros_like(self.lam), self.lam, name="ridge")

    def truth(self, lam: Tensor) -> tuple[float, Tensor]:
        lam = lam.detach().requires_grad_()
        w = torch.linalg.solve(self.X.T @ self.X + torch.diag(lam.exp()), self.X.T @ self.y)
        f = self.outer(w, lam)
        return float(f.detach()), torch.autograd.grad(f, lam)[0]


@pytest.fixture(scope="module")
def ridge() -> Ridge:
    return Ridge()


@pytest.fixture(scope="module")
def problem(ridge: Ridge) -> bc.Problem:
    return ridge.problem()


@pytest.mark.parametrize("rule", step_rules.RULES)
def test_the_certificate_contains_the_true_gradient(ridge: Ridge, problem: bc.Problem, rule: str) -> None:
    minimum = bc.minimise(problem, tol=1e-5, rule=rule)
    f, g = ridge.truth(minimum.lam)
    norm = minimum.gradient_norm
    assert minimum.converged
    assert minimum.proved
    assert "proved" in minimum.message
    assert float(g.norm()) <= 1e-5
    assert float(norm.lower) / SLACK <= float(g.norm()) <= float(norm.upper) * SLACK
    assert minimum.f == pytest.approx(f, rel=1e-8)
    assert minimum.f < ridge.truth(ridge.lam)[0]
    assert minimum.products == sum(trial.products for trial in minimum.history)


@pytest.mark.parametrize("least", [1e-1, 1e-2])
@pytest.mark.parametrize("rtol", [0.5, 1e-3])
def test_errors_that_are_shown_cover_the_truth(least: float, rtol: float) -> None:
    """With a condition of 1e4 a small residual alone says nothing.

    Rounding: 1e-16 times a condition of at most 1e4, times the numbers in f, with a margin of ten.
    """
    ridge = Ridge(30, torch.logspace(0, torch.log10(torch.tensor(least)), 30, dtype=FLOAT64))
    problem, corrections = ridge.problem(), Corrections()
    asked = RequestedAccuracy(rtol, 0.0, lambda g: float(g.norm()), show=True)
    at = Start(problem.w0, torch.zeros_like(problem.w0))
    for shift in (-8.0, -7.0, -9.0):
        lam = ridge.lam + shift
        found = corrections(problem.at(lam), at, asked)
        f, g = ridge.truth(lam)
        assert float((found.g - g).norm()) <= found.error + 1e-11 * float(g.norm())
        assert found.error <= rtol * float(found.g.norm())
        assert abs(found.f - f) <= found.f_error + 1e-11 * abs(f)
        at = Start(found.w, found.v, found.g)


def test_a_run_whose_values_lie_is_not_converged(problem: bc.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    class Liar(Corrections):
        def __call__(self, problem: bc.Problem, start: Start, asked: RequestedAccuracy) -> OuterValue:
            told = super().__call__(problem, start, asked)
            return replace(told, g=told.g * 1e-9, error=0.0, shown=True)

    monkeypatch.setattr(minimise_module, "Corrections", Liar)
    minimum = bc.minimise(problem, tol=1e-3)
    assert not minimum.converged
    assert float(minimum.gradient_norm.upper) > 1e-3
    assert "not converged" in minimum.message


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_the_history_has_the_products_of_every_value_once(
    problem: bc.Problem, monkeypatch: pytest.MonkeyPatch, tol: float
) -> None:
    spent, value = [], Corrections.__call__

    def counted(self: Corrections, at_lam: bc.Problem, start: Start, asked: RequestedAccuracy) -> OuterValue:
        result = value(self, at_lam, start, asked)
        spent.append(result.products)
        return result

    monkeypatch.setattr(Corrections, "__call__", counted)
    assert bc.minimise(problem, tol=tol, prove=False).products == sum(spent)


def test_where_a_decrease_is_not_significant_f_is_asked_for_more_exactly(problem: bc.Problem) -> None:
    """A value of f costs a correction or two; a hypergradient whose error is shown costs strict ones."""
    asked: list[RequestedAccuracy] = []
    evaluate = Corrections()

    def rough(at_lam: bc.Problem, start: Start, wanted: RequestedAccuracy) -> OuterValue:
        asked.append(wanted)
        value = evaluate(at_lam, start, wanted)
        exact = wanted.show or wanted.f_atol < float("inf")
        return value if exact else replace(value, f_error=1.0)

    run = Descent(problem, rough, PLAIN, 1e-6, "barzilai-borwein", None, lambda trial: None)
    run.step(run.start())
    assert any(wanted.f_atol < 1.0 for wanted in asked)
    assert not any(wanted.show for wanted in asked)


def test_a_step_that_takes_f_up_for_certain_is_made_shorter_at_once(problem: bc.Problem) -> None:
    run = Descent(problem, Corrections(), PLAIN, 1e-6, "barzilai-borwein", None, lambda trial: None)
    here = replace(run.start(), f=1.0, f_error=0.1)
    run.recent = [replace(here, f=2.0, f_error=0.1), here]
    there = replace(here, f=1.9, f_error=0.5)
    assert run.compare(here, there).decrease is Decrease.UNCLEAR
    before = len(run.history)
    assert run.judged(here, there)[2] is Decrease.TOO_LITTLE
    assert len(run.history) == before


def test_without_a_proof_it_is_an_estimate(ridge: Ridge, problem: bc.Problem) -> None:
    minimum = bc.minimise(problem, tol=1e-4, prove=False)
    assert minimum.converged
    assert not minimum.proved
    assert minimum.gradient_norm.side is Side.LOWER
    assert "estimate" in minimum.message
    assert "estimated" in repr(minimum)
    assert float(ridge.truth(minimum.lam)[1].norm()) <= float(minimum.gradient_norm.upper) * SLACK


def test_a_point_far_from_the_minimum_is_not_solved_to_tol(problem: bc.Problem) -> None:
    minimum = bc.minimise(problem, tol=1e-8, prove=False)
    first, last = minimum.history[0], minimum.history[-1]
    assert first.error * first.gradient_norm > 1e4 * 1e-8  # its error
    assert first.asked == 0.5
    assert last.error * last.gradient_norm <= 1e-8


@pytest.mark.parametrize("coordinates", ["auto", "plain"])
def test_lam_stays_in_its_domain(coordinates: str) -> None:
    problem = small("lr")
    minimum = bc.minimise(problem, tol=1e-9, steps=8, prove=False, coordinates=coordinates, outer_step=100.0)
    assert minimum.coordinates == ("log" if coordinates == "auto" else "plain")
    assert bool((minimum.lam > 0).all())
    assert minimum.f < minimum.history[0].f
    exact = bc.hypergradient(problem, "exact", lam=minimum.lam).value
    scale = minimum.lam if coordinates == "auto" else torch.ones_like(exact)
    assert float((scale * exact).norm()) == pytest.approx(float(minimum.gradient_norm.upper), rel=0.6)


def test_structures_and_modules_of_the_user() -> None:
    model = nn.Linear(3, 1, bias=False, dtype=FLOAT64)
    X, y = normal(4, 8, 3), normal(5, 8, 1)

    def inner(model: Any, h: dict[str, Tensor]) -> Tensor:
        return ((model(X) - y) ** 2).mean() + h["ridge"].exp() * (model.weight**2).sum()

    def outer(model: Any, h: dict[str, Tensor]) -> Tensor:
        return ((model(X) - 0.5 * y) ** 2).mean()

    problem = bc.Problem.from_loss(inner, outer, model, {"ridge": torch.zeros((), dtype=FLOAT64)})
    minimum = bc.minimise(problem, tol=1e-4)
    assert minimum.converged
    assert minimum.proved
    assert set(minimum.lam) == {"ridge"}
    assert minimum.lam["ridge"].shape == ()
    assert set(minimum.params) == {"weight"}
    assert minimum.params["weight"].shape == (1, 3)


def test_a_map_that_is_not_symmetric() -> None:
    M = 0.5 * torch.linalg.qr(normal(6, 4, 4))[0]

    def fp_map(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(M @ w + lam)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - 0.2) ** 2).sum() / 2

    problem = bc.Problem.from_map(fp_map, outer, torch.zeros(4, dtype=FLOAT64), torch.ones(4, dtype=FLOAT64))
    minimum = bc.minimise(problem, tol=1e-4)
    assert minimum.converged
    assert float(bc.hypergradient(problem, "exact", lam=minimum.lam).value.norm()) <= 1e-4


def test_float32() -> None:
    ridge = Ridge()
    single = {name: getattr(ridge, name).float() for name in ("X", "y", "X_val", "y_val", "lam")}
    ridge.__dict__.update(single)
    minimum = bc.minimise(ridge.problem(), tol=1e-2, prove=False)
    assert minimum.converged
    assert minimum.lam.dtype == torch.float32


def interrupt(trial: bc.Trial) -> None:
    if trial.step_size:
        raise KeyboardInterrupt


@pytest.mark.parametrize(("callback", "who"), [(interrupt, "user"), (lambda trial: trial.step_size > 0, "callback")])
def test_a_run_may_be_stopped(problem: bc.Problem, callback: Callable[[bc.Trial], object], who: str) -> None:
    minimum = bc.minimise(problem, tol=1e-9, callback=callback)
    assert minimum.message == f"stopped by the {who}"
    assert not minimum.converged
    assert not minimum.proved
    assert len(minimum.history) == 2
    assert minimum.f == min(trial.f for trial in minimum.history)


@pytest.mark.parametrize("steps", [1, 3])
def test_f_of_a_run_that_did_not_converge_is_that_of_its_lam(steps: int) -> None:
    """Far from w(λ) of an exponential every correction changes little, and E(w) − vᵀ(w − Φ(w)) may be anything."""
    X, y = normal(1, 30, 6), normal(2, 30).exp()

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return (torch.exp(X @ w / 2) - (X @ w) * y).mean() + (lam.exp() * w**2).sum() / 2

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - lam) ** 2).sum()

    start, lam = torch.full((6,), 20.0, dtype=FLOAT64), torch.zeros(6, dtype=FLOAT64)
    problem = bc.Problem.from_loss(inner, outer, start, lam, step_size=0.01)
    minimum = bc.minimise(problem, tol=1e-9, steps=steps, outer_step=0.1, prove=False)
    w = torch.zeros_like(start)
    for _ in range(30):
        slope, H = torch.func.grad(inner)(w, minimum.lam), torch.func.hessian(inner)(w, minimum.lam)
        w = w - torch.linalg.solve(H, slope)
    assert not minimum.converged
    assert abs(minimum.f - float(outer(w, minimum.lam))) <= 10 * minimum.f_error + 1e-12
    assert all(trial.f >= -10 * trial.f_error for trial in minimum.history)


def test_too_few_steps(problem: bc.Problem) -> None:
    seen: list[float] = []
    minimum = bc.minimise(problem, tol=1e-9, steps=2, progress=lambda what, done, of: seen.append(done))
    assert minimum.steps == 2
    assert not minimum.converged
    assert "2 steps were not enough" in minimum.message
    assert seen == list(range(1, len(minimum.history) + 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0}, "tol = 0 cannot be used"),
        ({"tol": float("nan")}, "tol = nan"),
        ({"tol": "1e-3"}, "tol = '1e-3'"),
        ({"tol": 1e-3, "outer_step": -1.0}, "outer_step = -1.0"),
        ({"tol": 1e-3, "steps": 0.5}, "steps"),
        ({"tol": 1e-3, "rule": "newton"}, "unknown rule 'newton'"),
        ({"tol": 1e-3, "coordinates": "polar"}, "unknown coordinates 'polar'"),
        ({"tol": 1e-3, "coordinates": "log"}, "not positive"),
        ({"tol": 1e-3, "callback": 3}, "callback = 3"),
    ],
)
def test_bad_input_is_one_line(problem: bc.Problem, options: dict[str, Any], message: str) -> None:
    with pytest.raises(bc.BoundcheckError) as raised:
        bc.minimise(problem, **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_decrease_is_judged_with_the_errors_of_both_values() -> None:
    assert ValueComparison(1.0, 0.4, 0.5).decrease is Decrease.ENOUGH
    assert ValueComparison(1.0, 0.6, 0.5).decrease is Decrease.UNCLEAR
    assert ValueComparison(0.1, 0.3, 0.5).decrease is Decrease.TOO_LITTLE


def test_the_next_step_size() -> None:
    assert step_rules.shorter(1.0, -2.0, 1.0) == pytest.approx(1 / 6)  # x ↦ −x + 3x² has its minimum there
    assert step_rules.shorter(1.0, -1e9, 1.0) == 0.1
    assert step_rules.barzilai_borwein(1.0, 4.0, 2.0) == 2.0  # curvature ½
    assert step_rules.barzilai_borwein(1.0, 4.0, -2.0) == step_rules.GROWTH


def test_a_minimum_on_another_branch_of_solutions_is_not_called_proved() -> None:
    """The run comes to a maximum of the lower-level loss; the steps from params lead to a minimum of it."""
    problem = bc.Problem.from_loss(
        lambda w, lam: (1 - torch.cos(w)).sum() - (lam * w).sum() + 0.02 * (w**2).sum(),
        lambda w, lam: ((w + 3) ** 2).sum() / 2 + (lam**2).sum() / 2,
        torch.tensor([1.4], dtype=torch.float64),
        torch.tensor([0.05], dtype=torch.float64),
        step_size=0.05,
    )
    minimum = bc.minimise(problem, tol=1e-3)
    assert minimum.converged
    assert not minimum.proved
    at_end = bc.hypergradient(problem, "exact", lam=minimum.lam).value
    assert float(at_end.norm()) > 1e-3


def test_products_of_float32_numbers_are_enclosed() -> None:
    for size in (0.1, 0.3, 0.7, 1.7):
        lam = torch.tensor([size])
        problem = bc.Problem.from_loss(
            lambda w, lam: ((w - lam) ** 2).sum() / 2, lambda w, lam: 3 * w.sum(), torch.zeros(1), lam, step_size=1.0
        )
        minimum = bc.minimise(problem, tol=1e-3, steps=0, coordinates="log")
        assert minimum.gradient_norm.lower <= 3 * float(lam) <= minimum.gradient_norm.upper


def test_a_lower_level_that_diverges_at_a_large_lam_gives_a_shorter_step() -> None:
    """Steps of Φ lead away from w(λ), and f = −443 was taken for a decrease. A mean of softplus is positive."""
    generator = torch.Generator().manual_seed(4)
    X = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    y = torch.where(X[:, 0] + 0.5 * torch.randn(60, generator=generator, dtype=torch.float64) > 0, 1.0, -1.0)

    def inner(w: Tensor, h: Tensor) -> Tensor:
        return h.exp() * torch.relu(1 - y[:40] * (X[:40] @ w)).square().mean() + (w**2).sum() / 2

    def outer(w: Tensor, h: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-y[40:] * (X[40:] @ w)).mean()

    start = torch.tensor(-4.0, dtype=torch.float64)
    problem = bc.Problem.from_loss(inner, outer, torch.zeros(5, dtype=torch.float64), start)
    minimum = bc.minimise(problem, tol=1e-3, outer_step=2000.0, steps=1, prove=False)
    assert all(0 < trial.f < 10 for trial in minimum.history if trial.accepted)
