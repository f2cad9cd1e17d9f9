"""Plans for a mean square error: what is promised is kept by runs, and what cannot be is refused with a reason."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from scalar_sums import line

from boundcheck import Problem, check_stochastic, plan_stochastic
from boundcheck.compare.stochastic_bounds import BoundsOnGrid, Evaluated
from boundcheck.errors import InputError
from boundcheck.report.stochastic_curve import Measured
from boundcheck.report.stochastic_summary import PARTS
from boundcheck.side import Side
from boundcheck.theory.bound import Bound

module = sys.modules["boundcheck.compare.plan_stochastic"]  # the function hides it
LAST_DRAW = partial(line, [0.2, 0.2], [1.5, 0.5], [0.0, 0.0])  # m₂ = ¼/b: a floor that no t and k remove
HEADER_WORDS = ("batch", "t", "k", "examples", "error", "bias", "√V", "given", "w", "√V", "of", "mean", "status")
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


def test_a_split_bounds_bias_and_variances_apart_and_runs_do_not_contradict_it() -> None:
    problem = line([0.3, 0.5], [1.0, 1.0], [0.5, -0.5], batch=4)
    best = plan(problem, 0.5, batches=[4]).cheapest
    assert best is not None
    method = f"sid:{best.k}"
    names = ["sid-bias", "sid-variance-given-w", "sid-variance-of-mean"]
    report = check_stochastic(
        problem, [method], best.t, 5000, points=1, steps=best.steps, steps_v=best.steps_v, bounds=names
    )
    curve = report.curve(method)
    assert [part.quantity for part in best.parts] == list(PARTS)
    for part, name in zip(best.parts, names, strict=True):
        assert part.side is not Side.LOWER
        theorem, whole = float(curve.bounds[name].values[0]), best.bound
        assert part.value == pytest.approx(min(theorem, math.sqrt(whole) if name == "sid-bias" else whole), rel=0.05)
        assert part.bound_name == (name if theorem < part.value * 1.05 else "sid-orthogonal")
        measured = curve.means[part.quantity.value]
        assert measured.proved
        assert measured.lower[0] <= part.value
        assert part.root**2 <= best.bound * (1 + 1e-12)


def test_a_part_of_the_error_that_has_a_bound_above_the_whole_takes_the_whole() -> None:
    (split,) = plan(LAST_DRAW(), 0.4, batches=[50]).splits
    noise = split.part(Measured.VARIANCE_GIVEN_W)
    assert noise is not None
    assert noise.bound_name == split.bound_name  # Theorem 3.2 has 2·m₂L_E²/(1−q)², twice the floor of the whole
    assert noise.value == split.bound


def test_a_part_without_a_theorem_is_known_no_better_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = BoundsOnGrid.evaluate

    def doubtful(self: BoundsOnGrid, bound: Bound) -> Evaluated:
        found = evaluate(self, bound)
        if bound.name == "sid-bias":
            return replace(found, doubt="for this test")
        return replace(found, refusal="for this test") if bound.name == "sid-variance-of-mean" else found

    problem = line([0.3, 0.5], [1.0, 1.0], [0.5, -0.5], batch=4)
    proved = plan(problem, 0.5, batches=[4]).splits[0]
    monkeypatch.setattr(BoundsOnGrid, "evaluate", doubtful)
    bias, _, of_mean = plan(problem, 0.5, batches=[4]).splits[0].parts
    assert proved.parts[0].side is not Side.LOWER
    assert bias.side is Side.LOWER
    assert (of_mean.bound_name, of_mean.value, of_mean.side) == ("sid-orthogonal", proved.bound, proved.side)


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
        ({"rtol": "small"}, "rtol = 'small' is not an accuracy"),
        ({"rmse": 1.0, "batches": [0]}, "batch must be at least 1"),
        ({"rmse": 1.0, "batches": []}, "batches is empty; give at least one"),
        ({"rmse": 1.0, "batches": 5}, r"batches = 5 is no list; give batch sizes, such as \[1, 10\]"),
        ({"rmse": 1.0, "seed": -1}, "seed = -1 is not a seed"),
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


def test_where_no_batch_is_enough_the_reason_is_that_of_the_largest() -> None:
    found = plan(LAST_DRAW(), 1e-3, batches=[1, 2])
    assert "take a larger batch" in found.reasons[1]
    assert "No bound guarantees a root mean square error of 0.001" in str(found)
    assert ", not even with batch = 2: no t and k bring the bound below " in str(found)
    assert "without replacement, all examples in a minibatch have no noise." in str(found)


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
    assert math.fsum(found.measured.shares.values()) == pytest.approx(1)
    assert "Of the mean square error, by these estimates, " in str(found)


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
    parts = ["bias", "variance_given_w", "variance_of_mean"]
    assert list(table.columns) == ["batch", "t", "k", "bound", "value", *parts, "known", "side", "cost", "best"]
    assert table.loc[0, parts].tolist() == [part.value for part in split.parts]
    header = next(line for line in str(likely).splitlines() if "batch  " in line)
    assert header.split() == list(HEADER_WORDS)
    as_json = json.loads(json.dumps(likely.to_json(), allow_nan=False))
    assert as_json["splits"][0]["parts"]["bias"]["value"] == split.parts[0].value
    assert table.iloc[0][["batch", "t", "known", "best"]].tolist() == [split.batch, split.t, "probable", True]
