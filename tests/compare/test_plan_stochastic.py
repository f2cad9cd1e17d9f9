"""Plans for a mean square error: what is promised is kept by runs, and what cannot be is refused with a reason."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from scalar_sums import line

from boundcheck import Problem, check_stochastic, plan_stochastic
from boundcheck.errors import InputError
from boundcheck.side import Side

LAST_DRAW = partial(line, [0.2, 0.2], [1.5, 0.5], [0.0, 0.0])  # m₂ = ¼/b: a floor that no t and k remove
plan = partial(plan_stochastic, run=False)


def test_the_error_of_the_cheapest_split_is_within_the_goal() -> None:
    problem = line([0.3, 0.5], [1.0, 1.0], [0.5, -0.5], batch=4)
    found = plan(problem, 0.5, batches=[4])
    best = found.cheapest
    assert best is not None
    assert best.side is not Side.LOWER
    assert best.bound <= 0.5**2
    assert best.cost == best.batch * (best.t + best.k + 1)
    report = check_stochastic(
        problem, [f"sid:{best.k}"], best.t, 5000, points=1, steps=best.steps, steps_v=best.steps_v, bounds=[]
    )
    mse = report.curve(f"sid:{best.k}").means["mse"]
    assert mse.proved
    assert mse.upper[0] <= 0.5**2


def test_the_floor_of_the_last_minibatch_needs_a_larger_batch() -> None:
    # E‖g − ∇f‖² ≥ m₂‖v‖² = ¼/b·(2/0.8)² = 1.5625/b
    found = plan(LAST_DRAW(), 0.4, batches=[1, 5, 20, 50])
    assert set(found.reasons) == {1, 5}
    assert "take a larger batch" in found.reasons[1]
    assert [split.batch for split in found.splits] == [20, 50]
    by_batch = {split.batch: split.t for split in found.splits}
    assert by_batch[50] <= by_batch[20]
    assert found.cheapest is not None
    assert found.cheapest.cost == min(split.cost for split in found.splits)


def test_no_split_where_nothing_is_enough() -> None:
    found = plan(LAST_DRAW(), 1e-9, batches=[1, 2])
    assert found.cheapest is None
    assert not found.splits
    assert "No bound guarantees" in str(found)
    assert "no t and k bring the bound below" in found.reasons[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give rmse= or rtol=, one of them"),
        ({"rmse": 1.0, "rtol": 1.0}, "one of them"),
        ({"rmse": -1.0}, r"rmse = -1.0 is no accuracy"),
        ({"rtol": float("nan")}, "rtol = nan is no accuracy"),
        ({"rmse": 1.0, "batches": [0]}, "batch must be at least 1"),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(LAST_DRAW(), **options)


def test_the_ball_is_that_of_the_smallest_batch() -> None:
    """A wall that single examples reach and the batch of the problem does not: constants beyond it count."""
    far = torch.full((20, 1), -1.0, dtype=torch.float64)
    far[0] = 19.0

    def inner_loss(w, lam, batch):  # type: ignore[no-untyped-def]
        return 0.5 * ((w - batch[0]) ** 2).mean() + (lam * w).sum() + 1e3 * (torch.relu(w - 3.2) ** 4).sum()

    problem = Problem.from_loss(
        inner_loss,
        lambda w, lam: 0.5 * ((w - 1) ** 2).sum(),
        torch.tensor([2.5], dtype=torch.float64),
        torch.zeros(1, dtype=torch.float64),
        step_size=0.5,
        data=(far,),
        batch=10,
        replacement=False,
    )
    assert all(split.side is Side.LOWER for split in plan(problem, 1.0, batches=[1, 10]).splits if split.batch < 10)
