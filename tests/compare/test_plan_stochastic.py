"""Plans for a mean square error: what is promised is kept by runs, and what cannot be is refused with a reason."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from scalar_sums import line

from boundcheck import Problem, check_stochastic, plan_stochastic
from boundcheck.errors import InputError
from boundcheck.side import Side

module = sys.modules["boundcheck.compare.plan_stochastic"]  # the function hides it
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
        ({"rmse": -1.0}, r"rmse = -1.0 is not an accuracy"),
        ({"rtol": float("nan")}, "rtol = nan is not an accuracy"),
        ({"rmse": 1.0, "batches": [0]}, "batch must be at least 1"),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(LAST_DRAW(), **options)


def _wall(batch: int) -> Problem:
    """A wall that single examples reach with full steps, and minibatches of ten do not."""
    far = torch.full((20, 1), -1.0, dtype=torch.float64)
    far[0] = 19.0

    def inner_loss(w, lam, batch):  # type: ignore[no-untyped-def]
        return 0.5 * ((w - batch[0]) ** 2).mean() + (lam * w).sum() + 1e3 * (torch.relu(w - 3.2) ** 4).sum()

    return Problem.from_loss(
        inner_loss,
        lambda w, lam: 0.5 * ((w - 1) ** 2).sum(),
        torch.tensor([2.5], dtype=torch.float64),
        torch.zeros(1, dtype=torch.float64),
        step_size=0.5,
        data=(far,),
        batch=batch,
        replacement=False,
    )


def test_every_batch_has_the_ball_and_the_steps_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 20)
    few, many = plan(_wall(10), 10.0, batches=[1, 10]).splits
    (alone,) = plan(_wall(1), 10.0, batches=[1]).splits
    assert few == alone
    assert few.steps.largest < 1e-3
    assert many.steps.largest == 1.0
    assert many.bound < few.bound / 2


def test_all_examples_in_a_minibatch() -> None:
    problem = line([0.3, 0.5], [1.5, 0.5], [0.0, 0.0], batch=1, replacement=False)
    (split,) = plan(problem, 1e-3, batches=[2]).splits  # the batch of the problem is another one
    assert split.batch == 2
    again = replace(problem, finite_sum=problem.finite_sum.with_batch(2, True))  # type: ignore[union-attr]
    assert "without replacement, all examples in a minibatch have no noise" in plan(again, 1e-3, batches=[2]).reasons[2]


@pytest.mark.parametrize(("goal", "words"), [(2.0, "(measured)"), (0.3, "an estimate: rare runs may be far off")])
def test_runs_that_reach_the_goal_are_named_though_their_interval_does_not(
    goal: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_RUN", 8)
    found = plan_stochastic(line([0.3, 0.5], [1.0, 1.0], [0.5, -0.5], batch=20), goal, batches=[20])
    assert found.measured is not None
    assert found.measured.mse <= goal**2
    assert (found.measured.upper <= goal**2) == (words == "(measured)")
    assert words in str(found)


def test_a_plan_as_a_table_and_in_the_words_of_all_tables() -> None:
    problem = line([0.3, 0.5], [1.5, 0.5], [0.0, 0.0], batch=1, replacement=False)
    found = plan(problem, 1e-3, batches=[1, 2])
    assert "is proved to be enough, by " in str(found)
    split = replace(found.splits[0], side=Side.HIGH_PROBABILITY)
    likely = replace(found, splits=(split,))
    assert "is probably enough, by " in str(likely)
    assert "probable" in str(likely)
    pytest.importorskip("pandas")
    table = likely.to_frame()
    assert list(table.columns) == ["batch", "t", "k", "bound", "value", "known", "side", "cost", "best"]
    assert table.iloc[0][["batch", "t", "known", "best"]].tolist() == [split.batch, split.t, "probable", True]
