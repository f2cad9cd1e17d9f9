"""`follow`: gradient descent on λ, the same each time, that ends in good order whatever happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import ridge_loop as ridge
import torch
from ridge_loop import loop, truth

import boundcheck as bc
from boundcheck.numerics.bilevel.problem_types import Domain


def same(one: bc.report.run_trace.RunTrace, other: bc.report.run_trace.RunTrace) -> bool:
    """Number for number, but for the seconds."""
    return all(
        replace(a, seconds=0.0).to_dict() == replace(b, seconds=0.0).to_dict()
        for a, b in zip(one.rows, other.rows, strict=True)
    )


def test_it_is_the_loop_that_a_user_would_write() -> None:
    """AID-FP without a warm start of v, as in ridge_loop.py; both in float64, so to rounding."""
    trace = bc.follow(ridge.problem(), outer_step=0.5, steps=3, method="aid-fp", t=5, prove=False, warm=True)
    steps = list(loop(4))
    first = bc.hypergradient(ridge.problem(), "aid-fp", t=5)
    np.testing.assert_allclose(first.value.numpy(), steps[0].g.numpy(), rtol=1e-12)
    assert trace.rows[1].lam_step == pytest.approx(float((steps[1].lam - steps[0].lam).norm()), rel=1e-10)
    assert len(trace) == 3
    assert trace.status == "completed"
    assert trace.warm is True
    assert trace.method == "aid-fp"


def test_where_it_ends_is_what_its_gradients_say() -> None:
    """With many steps g is ∇f to 1e-9 or so, and so λ is that of exact gradient descent."""
    trace = bc.follow(ridge.problem(), outer_step=0.5, steps=3, t=200, k=20, prove=False)
    lam = ridge.START.numpy()
    for _ in range(3):
        lam = lam - 0.5 * truth(lam).g
    np.testing.assert_allclose(trace.lam, lam, atol=1e-8)
    assert trace.method == "aid-cg:20"
    assert trace.rows[0].k == 20
    assert trace.rows[0].cost == 220


def test_the_same_call_gives_the_same_rows() -> None:
    torch.manual_seed(1)
    once = bc.follow(ridge.problem(), outer_step=0.5, steps=2, t=3)
    torch.manual_seed(2)
    assert same(once, bc.follow(ridge.problem(), outer_step=0.5, steps=2, t=3))
    assert once.proved
    assert once.rows[1].bound.proved
    assert once.rows[1].estimate is not None


def test_warm_starts_are_nearer_and_cold_ones_start_at_w_0() -> None:
    warm, cold = (
        bc.follow(ridge.problem(), outer_step=0.5, steps=3, t=3, rtol=1e-2, warm=warm, prove=False)
        for warm in (True, False)
    )
    assert warm.rows[2].r_0.upper < 0.3 * cold.rows[2].r_0.upper
    assert warm.rows[2].enough.t < cold.rows[2].enough.t
    lam = ridge.START.numpy() - 0.5 * bc.hypergradient(ridge.problem(), "aid-cg", t=3).value.numpy()
    assert float(cold.rows[1].r_0.upper) == pytest.approx(np.linalg.norm(truth(lam).w), rel=1e-9)
    first = bc.hypergradient(ridge.problem(), "aid-cg", t=3)
    for trace, start in ((warm, {"w0": first.w, "v0": first.v}), (cold, {})):
        g = bc.hypergradient(ridge.problem(), "aid-cg", t=3, lam=torch.tensor(lam), **start).value.numpy()
        error = np.linalg.norm(g - truth(lam).g) / np.linalg.norm(truth(lam).g)
        assert trace.column("relative_error")[1] == pytest.approx(error, rel=1e-9)


def test_the_k_that_would_have_done_is_not_that_which_was_fixed() -> None:
    trace = bc.follow(ridge.problem(), outer_step=0.5, steps=1, t=5, k=1, rtol=1e-4, prove=False)
    assert trace.rows[0].k == 1
    assert trace.rows[0].enough.k == trace.rows[0].enough.t > 1
    truncated = bc.follow(ridge.problem(), outer_step=0.5, steps=1, method="itd-truncated", k=3, t=5, prove=False)
    assert (truncated.method, truncated.rows[0].k) == ("itd-truncated:3", 3)


def test_exact_hypergradients() -> None:
    trace = bc.follow(ridge.problem(), outer_step=0.5, steps=2, method="exact", prove=False)
    lam = ridge.START.numpy()
    for _ in range(2):
        lam = lam - 0.5 * truth(lam).g
    np.testing.assert_allclose(trace.lam, lam, atol=1e-12)
    assert max(trace.column("relative_error")) < 1e-12


def test_a_step_size_that_changes() -> None:
    sizes = bc.follow(ridge.problem(), outer_step=lambda step: 0.5 / (1 + step), steps=3, t=3, prove=False)
    one = bc.follow(ridge.problem(), outer_step=0.5, steps=3, t=3, prove=False)
    assert sizes.rows[1].lam_step == one.rows[1].lam_step
    assert sizes.rows[2].lam_step == pytest.approx(0.5 * one.rows[2].lam_step, rel=1e-12)


def test_it_stays_in_the_domain() -> None:
    low = Domain("every entry of lam is < -0.95", lambda lam: (lam < -0.95).all())
    trace = bc.follow(ridge.problem(domain=low), outer_step=5.0, steps=3, t=5, prove=False)
    assert (trace.lam < -0.95).all()
    assert "; to stay in the domain of lam, steps 0" in trace.status


def test_ctrl_c_gives_what_is_there() -> None:
    told: list[tuple[str, float, float]] = []

    def progress(what: str, done: float, of: float) -> None:
        told.append((what, done, of))
        if done == 2:
            raise KeyboardInterrupt

    trace = bc.follow(ridge.problem(), outer_step=0.5, steps=5, t=3, prove=False, progress=progress)
    assert len(trace) == 2
    assert trace.status == "interrupted after 2 of 5 steps"
    assert told == [("following", 0, 5), ("following", 1, 5), ("following", 2, 5)]


def test_a_run_that_diverges_ends_with_its_rows() -> None:
    """One huge step leads to an e^λ for which the steps of gradient descent are too large."""
    trace = bc.follow(ridge.problem(), outer_step=3e3, steps=4, t=200, k=5, prove=False)
    assert len(trace) == 1
    assert trace.status.startswith("ended after 1 of 4 steps: ridge: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"outer_step": -1.0}, "outer_step = -1.0 is not a step size"),
        ({"outer_step": "fast"}, "outer_step = 'fast' is not a step size"),
        ({"outer_step": 1.0, "steps": -1}, "steps must be at least 0"),
        ({"outer_step": 1.0, "t": 0.5}, "t must be a whole number"),
        ({"outer_step": 1.0, "lam": torch.zeros(2, dtype=torch.float64)}, "lam has shape"),
        ({"outer_step": 1.0, "method": "aid-cg:3", "k": 4}, "both fix k"),
    ],
)
def test_wrong_input(options: dict, says: str) -> None:
    with pytest.raises(bc.InputError, match=says):
        bc.follow(ridge.problem(), **options)


def test_no_steps_is_an_empty_trace() -> None:
    trace = bc.follow(ridge.problem(), outer_step=1.0, steps=0)
    assert len(trace) == 0
    assert not trace.proved
    assert trace.summary() == "ridge: 0 steps watched, completed"
    with pytest.raises(bc.InputError, match="the run has no rows to draw"):
        bc.plot.along_run(trace)
