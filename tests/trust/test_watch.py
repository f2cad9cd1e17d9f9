"""A user's own training loop, watched: against the truth by dense solves, and without a trace left in the loop."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import ridge_loop as ridge
import torch
from ridge_loop import ZERO, loop, truth
from torch import nn

import boundcheck as bc
from boundcheck.side import Side
from boundcheck.theory.bounds import warm_drift

ROUNDED = 1e-12  # a hundred times what the dense solves of ridge.py round
STEPS = list(loop(5))


def watched(steps: list[ridge.LoopStep] = STEPS, **options: object) -> bc.Watch:
    watch = bc.Watch(ridge.problem(), **options)
    for step in steps:
        watch(step.lam, step.w, step.g)
    return watch


@pytest.fixture(scope="module")
def rows() -> tuple:
    return watched(t=5, k=5, rtol=1e-3).trace.rows


def test_errors_and_angles_are_those_of_dense_solves(rows: tuple) -> None:
    for row, step in zip(rows, STEPS, strict=True):
        g, g_true = step.g.numpy(), truth(step.lam).g
        error = float(np.linalg.norm(g - g_true))
        assert row.proved
        assert row.accuracy.error.lower - ROUNDED <= error <= row.accuracy.error.upper + ROUNDED
        assert row.accuracy.error.upper - row.accuracy.error.lower < 1e-10  # and it says something
        assert row.accuracy.relative_error == pytest.approx(error / np.linalg.norm(g_true), rel=1e-6)
        cosine = g @ g_true / np.linalg.norm(g) / np.linalg.norm(g_true)
        assert row.accuracy.angle == pytest.approx(math.degrees(math.acos(cosine)), rel=1e-6)
        assert row.descent is True
        assert row.f == pytest.approx(truth(step.lam).f, abs=ROUNDED)


def test_distances_and_their_bounds_are_those_of_dense_solves(rows: tuple) -> None:
    for i, (row, step) in enumerate(zip(rows, STEPS, strict=True)):
        there = truth(step.lam)
        away = float(np.linalg.norm(step.w.numpy() - there.w))
        assert row.r_t.lower - ROUNDED <= away <= row.r_t.upper + ROUNDED
        assert row.r_t.upper <= away + 1e-10
        if i == 0:
            assert row.bound is None
            assert row.estimate is None
            assert math.isnan(row.lam_step)
            continue
        before = STEPS[i - 1]
        r_0 = float(np.linalg.norm(before.w.numpy() - there.w))
        assert row.r_0.upper == pytest.approx(r_0, abs=1e-10)
        assert row.bound.proved
        assert row.bound.name == "warm-start"
        assert row.bound.value == pytest.approx(there.q**5 * r_0, rel=1e-6)
        assert away <= row.bound.value <= row.from_residual.value
        with torch.enable_grad():
            eps_0 = float((before.w - ridge.descend(before.w, step.lam, 1)).norm())
        assert row.from_residual.value == pytest.approx(there.q**5 * eps_0 / (1 - there.q), rel=1e-6)
        assert row.lam_step == pytest.approx(float((step.lam - before.lam).norm()), rel=1e-12)
        r_prev = float(np.linalg.norm(before.w.numpy() - truth(before.lam).w))
        given = {"r_prev": r_prev, "W_path": truth(before.lam).W, "lam_step": row.lam_step}
        value = float(warm_drift.BOUND.evaluate({"q": there.q}, 5, **given).values)
        assert row.estimate.value == pytest.approx(value, rel=1e-6)
        assert row.estimate.side is Side.LOWER
        assert not row.estimate.proved


def test_the_decrease_is_that_of_f(rows: tuple) -> None:
    f = [truth(step.lam).f for step in STEPS]
    np.testing.assert_allclose([row.decrease for row in rows[1:]], -np.diff(f), atol=ROUNDED)


def test_the_steps_that_would_have_done_do(rows: tuple) -> None:
    """They are run again here, from the same start, and one fewer is not enough."""
    for before, step, row in zip(STEPS, STEPS[1:], rows[1:], strict=False):
        g_true = truth(step.lam).g

        def relative(n: int, start=before.w, lam=step.lam, g_true=g_true) -> float:
            g = bc.hypergradient(ridge.problem(), "aid-cg", t=n, lam=lam, w0=start).value.numpy()
            return float(np.linalg.norm(g - g_true) / np.linalg.norm(g_true))

        assert relative(row.enough.t) <= 1e-3 * (1 + 1e-9) < relative(row.enough.t - 1)
        assert row.enough.k == row.enough.t


def test_a_start_from_elsewhere_is_noticed() -> None:
    cold = list(loop(3, t=1, warm=False))
    near = [ridge.LoopStep(s.lam, torch.tensor(truth(s.lam).w), s.g) for s in cold[:1]] + cold[1:]
    watch = watched(near, t=1)
    assert "started elsewhere (give w0=)" in watch.trace.rows[1].why
    watch = bc.Watch(ridge.problem(), t=1)
    for step in cold:
        row = watch(step.lam, step.w, step.g, w0=ZERO)
        assert row.why == ""
        assert row.estimate is None
        assert row.r_t.upper <= row.bound.value


def test_without_a_proof_it_says_so() -> None:
    for row, step in zip(watched(prove=False, t=5).trace.rows, STEPS, strict=True):
        assert not row.proved
        assert row.descent is None
        assert row.bound is None
        assert row.accuracy.error.side is Side.LOWER
        assert row.why == "estimates only: prove=False"
        error = float(np.linalg.norm(step.g.numpy() - truth(step.lam).g))
        assert float(row.accuracy.error.upper) == pytest.approx(error, rel=1e-6)


def test_every_other_step() -> None:
    watch = watched(every=2, t=5)
    assert [row.step for row in watch.trace.rows] == [0, 2, 4]
    for row in watch.trace.rows[1:]:
        assert row.bound.proved
        assert row.estimate is None
    assert repr(watch) == "Watch(ridge, 3 of 5 steps watched)"


def test_a_logger_gets_plain_floats() -> None:
    log: list[tuple[int, dict[str, float]]] = []
    watched(STEPS[:2], t=5, callback=lambda step, values: log.append((step, values)))
    assert [step for step, _ in log] == [0, 1]
    for _, values in log:
        assert all(type(value) is float and math.isfinite(value) for value in values.values())
        assert values["proved"] == values["descent"] == 1.0
    assert "r_t_bound" not in log[0][1]
    assert log[1][1]["r_t"] <= log[1][1]["r_t_bound"]


def test_a_callback_that_raises_is_heard() -> None:
    def broken(step: int, values: dict[str, float]) -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        watched(STEPS[:1], callback=broken)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_nothing_in_the_loop_changes(mode: type) -> None:
    lam, w = STEPS[1].lam.clone().requires_grad_(), STEPS[1].w.clone().requires_grad_()
    lam.grad, w.grad = torch.ones(4, dtype=torch.float64), None
    loss = ridge.outer_loss(w, lam)  # a graph that is still to be used
    g = STEPS[1].g.clone()
    torch.manual_seed(7), np.random.seed(7), random.seed(7)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    versions = [x._version for x in (lam, w, g)]
    watch = bc.Watch(ridge.problem(), t=5)
    with mode():
        row = watch(lam, w, g)
        assert torch.is_grad_enabled() is (mode is torch.enable_grad)
    assert row.proved
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert before[2] == random.getstate()
    assert [x._version for x in (lam, w, g)] == versions
    assert w.grad is None
    assert torch.equal(lam.grad, torch.ones(4, dtype=torch.float64))
    loss.backward()
    assert w.grad is not None


def test_what_it_keeps_is_not_what_the_loop_changes() -> None:
    """A loop that works in place, as optimisers do."""
    w, watch = STEPS[0].w.clone(), bc.Watch(ridge.problem(), t=5)
    watch(STEPS[0].lam, w, STEPS[0].g)
    w.fill_(100.0)
    row = watch(STEPS[1].lam, STEPS[1].w, STEPS[1].g)
    assert row.bound.value == pytest.approx(watched(STEPS[:2], t=5).trace.rows[1].bound.value)


def as_module() -> tuple[bc.Problem, nn.Module, dict]:
    model = nn.Linear(4, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    hparams = {"log_penalty": ridge.START.clone()}

    def inner(module: nn.Module, h: dict) -> torch.Tensor:
        penalty = (h["log_penalty"].exp() * module.weight[0] ** 2).sum() / 2
        return ((module(ridge.X)[:, 0] - ridge.y) ** 2).mean() / 2 + penalty

    def outer(module: nn.Module, h: dict) -> torch.Tensor:
        left = module(ridge.X_val)[:, 0] - ridge.y_val
        return (left**2).mean() / 2 + 0.01 * (h["log_penalty"] ** 2).sum()

    return bc.Problem.from_loss(inner, outer, model, hparams, step_size=ridge.ALPHA), model, hparams


def test_modules_dicts_and_tuples(rows: tuple) -> None:
    problem, model, hparams = as_module()
    with torch.no_grad():
        model.weight.copy_(STEPS[0].w[None])
        hparams["log_penalty"].copy_(STEPS[0].lam)
    parameter = model.weight
    by_module = bc.Watch(problem)(hparams, model, {"log_penalty": STEPS[0].g})
    by_list = bc.Watch(problem)(hparams, list(model.parameters()), {"log_penalty": STEPS[0].g})
    as_autograd_gives_it = bc.Watch(ridge.problem())(STEPS[0].lam, STEPS[0].w, (STEPS[0].g,))
    for row in (by_module, by_list, as_autograd_gives_it):
        assert row.proved
        assert row.accuracy.relative_error == pytest.approx(rows[0].accuracy.relative_error, rel=1e-9)
    assert model.weight is parameter
    assert parameter.grad is None


def test_momentum_has_no_bound_from_q() -> None:
    problem = ridge.problem(dynamics=bc.dynamics.constant("heavy-ball", ridge.ALPHA, ridge.ALPHA, 0.5))
    watch = bc.Watch(problem, t=5)
    for step in STEPS[:2]:
        row = watch(step.lam, step.w, step.g)
    assert row.proved
    assert row.r_t is not None
    assert row.bound is None
    assert row.estimate is None


def in_float32() -> bc.Problem:
    X, X_val, y, y_val = (x.float() for x in (ridge.X, ridge.X_val, ridge.y, ridge.y_val))

    def inner(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return ((X @ w - y) ** 2).mean() / 2 + (lam.exp() * w**2).sum() / 2

    def outer(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        return ((X_val @ w - y_val) ** 2).mean() / 2

    return bc.Problem.from_loss(inner, outer, ZERO.float(), ridge.START.float(), step_size=0.25)


def test_float32() -> None:
    problem = in_float32()
    g = bc.hypergradient(problem, "aid-cg", t=5)
    row = bc.Watch(problem, t=5)(problem.lam, g.w, g, w0=ZERO.float())
    assert row.r_t is not None
    assert row.accuracy is not None
    assert row.r_t.upper <= row.bound.value


def test_autocast_of_the_loop_does_not_reach_the_proof() -> None:
    problem = in_float32()
    g = bc.hypergradient(problem, "aid-cg", t=5)
    plain = bc.Watch(problem)(problem.lam, g.w, g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        row = bc.Watch(problem)(problem.lam, g.w, g)
        assert torch.is_autocast_enabled("cpu")
    assert row.accuracy.relative_error == plain.accuracy.relative_error
