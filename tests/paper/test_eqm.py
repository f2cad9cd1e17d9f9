"""Training equilibrium models: the same as a plain implementation, resumable, and plain about lost assumptions."""

from __future__ import annotations

import copy
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import plain_training as plain
import pytest
import torch
from command import Command
from matplotlib.text import Text

from boundcheck.engine import conduct, workers
from boundcheck.engine.experiment import Outcome, Step, Task
from boundcheck.errors import InputError
from boundcheck.paper import load
from boundcheck.paper.equilibrium import training
from boundcheck.paper.equilibrium.training import METHODS, key_of, task
from boundcheck.paper.equilibrium.views import claims as _report_equilibrium
from boundcheck.paper.equilibrium.views import figures, summary

NAMES = ("eqm", "conv-eqm")
SMALL: dict[str, dict[str, Any]] = {
    "eqm": {"size": 8, "test_size": 6, "hidden": 3, "sigma": 0.5, "radius": 0.99},
    "conv-eqm": {"size": 3, "test_size": 3, "hidden": 2, "sigma": 0.2, "radius": 0.999},
}
TINY = {"data": "gaussian", "dtype": "float64", "steps": 8, "every": 4, "t": 6, "k": 4, "long": 60, "seeds": 2}


def settings(name: str, **more: Any) -> dict[str, Any]:
    sizes = {"step_sizes": [0.3, 3.0], "shown": {"projected": 3.0, "free": 0.3}}
    dense = {"dense": {"problem": "eqm", "hidden": 3, "radius": 0.99, "step_size": 0.3}} if name == "conv-eqm" else {}
    return {**load(name).settings(True, 0, "cpu"), **TINY, **SMALL[name], **sizes, **dense, **more}


def finished(running: Generator[Step, None, Any]) -> tuple[list[Any], Any]:
    states = []
    while True:
        try:
            states.append(copy.deepcopy(next(running).state))
        except StopIteration as end:
            return states, end.value


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray | torch.Tensor):
        return a.dtype == b.dtype and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
    return bool(a == b) or (a != a and b != b)


def data_of(asked: Task) -> Any:
    p = asked.parameters
    which = (p[key] for key in ("data", "problem", "seed", "size", "test_size", "dtype", "device"))
    return training.examples(*which)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_the_outer_loop_is_that_of_a_plain_implementation(name: str, method: str, projected: bool) -> None:
    asked = task(settings(name), method, projected, 0.7, 1)
    train, test = data_of(asked)
    p = asked.parameters
    start = training.first(training.model(p).problem, p["sigma"], 3, p["start"])
    if projected:
        start = training.model(p).project(start)
    objectives, lam, cut = plain.trained(p, train.X, train.Y.argmax(-1), start, 3)
    result = finished(training.train(asked, None))[1]
    # sums of some hundred terms in float64, through 8 steps; CG in mid-convergence amplifies rounding most
    assert result["objective"] == pytest.approx(objectives, rel=1e-8)
    torch.testing.assert_close(result["lam"], lam, rtol=1e-7, atol=1e-9)
    assert (cut > 0) == projected  # so that the projection had something to do
    params = plain.split(lam, plain.shapes(p, train.X.shape[1], 3))
    step, w = plain.phi(p, test.X, params), torch.zeros(plain.length(p, test.X), dtype=torch.float64)
    for _ in range(p["t"]):
        w = step(w)
    right = plain.scores(p, test.X, params, w).argmax(-1) == test.Y.argmax(-1)
    assert result["accuracy"][-1] == pytest.approx(float(right.double().mean()))
    assert np.isfinite(result["accuracy"]).tolist() == [s % 4 == 0 for s in range(9)]
    half = round(train.X.shape[1] ** 0.5) // 2
    assert result["norm"][-1] == pytest.approx(plain.operator_norm(p, params[0], half), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_projection_keeps_the_norm_below_its_bound_after_every_step(name: str) -> None:
    above = 0
    for projected in (True, False):
        asked = task(settings(name, dtype="float32", steps=12), "aid-fp", projected, 3.0, 0)
        p, (train, _) = asked.parameters, data_of(asked)
        half = round(train.X.shape[1] ** 0.5) // 2
        for state in finished(training.train(asked, None))[0]:
            A = plain.split(state["lam"], plain.shapes(p, train.X.shape[1], 3))[0]
            norm = plain.operator_norm(p, A.double(), half)
            if projected:
                assert norm <= p["radius"] * (1 + 1e-5)  # some dozens of roundings in float32
            above += not projected and norm > 1
    assert above > 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_resumed_from_any_step_it_is_the_same_to_the_last_bit(name: str, method: str) -> None:
    asked = task(settings(name, dtype="float32", steps=4), method, name == "eqm", 1.0, 0)
    states, whole = finished(training.train(asked, None))
    assert [state["s"] for state in states] == [1, 2, 3, 4, 5]
    for state in states:
        assert same(finished(training.train(asked, state))[1], whole)


def test_a_run_that_leaves_the_finite_numbers_says_so_and_resumes() -> None:
    asked = task(settings("eqm", dtype="float32"), "aid-fp", False, 1e38, 0)
    states, whole = finished(training.run(asked, None))
    assert "finite" in whole["why"]
    assert len(whole["objective"]) == len(states) < 9
    assert same(finished(training.run(asked, states[-1]))[1], whole)


def conducted(name: str, folder: Path, given: dict[str, Any]) -> Outcome:
    return conduct.conduct(load(name), given, folder, workers.Here()).outcome


@pytest.fixture(scope="module")
def of_eqm(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return conducted("eqm", tmp_path_factory.mktemp("eqm"), settings("eqm"))


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("eqm", ("overlap", "unstable", "suffers", "stable", "faster", "memory", "regulariser", "reliable than AID")),
        ("conv-eqm", ("marked", "exceeds", "slightly better", "not converge", "stable", "smaller")),
    ],
)
def test_the_report_has_every_claim_and_figure(
    name: str, claims: tuple[str, ...], of_eqm: Outcome, tmp_path: Path
) -> None:
    outcome = of_eqm if name == "eqm" else conducted(name, tmp_path, settings(name))
    assert len(outcome.claims) == len(claims)
    for word, claim in zip(claims, outcome.claims, strict=True):
        assert word in claim.what
        assert "8 steps, not 5000 and 1500" in claim.why  # that the setting is cut
        assert claim.where
        assert claim.published
        assert claim.ours
    (figure,) = outcome.figures.values()
    drawn = [{x.get_gid() for x in axes.lines if "ticks" not in str(x.get_gid())} for axes in figure.axes]
    every = set(outcome.data["curves"])
    assert len(every) == 6
    assert len(drawn) == 4
    assert all(every <= gids for gids in drawn)
    curve = outcome.data["curves"]["itd-free"]
    assert curve["objective"].shape == (2, 9)
    assert outcome.data["sensitivity"]["aid-fp-projected"]["accuracy"].shape == (2, 2)  # step sizes, seeds


def test_where_the_norm_is_1_or_more_the_notes_say_which_assumption_is_gone(of_eqm: Outcome) -> None:
    notes = [note for note in of_eqm.notes if "Assumption 2" in note]
    assert len(notes) == 6
    assert any("no theorem of the paper applies" in note for note in of_eqm.notes)
    held = [note for note in notes if "so Assumption 2 holds" in note]
    gone = [note for note in notes if "Assumption 2 (contraction) fails" in note]
    assert all("†" in note for note in gone)
    assert len(gone) == 3  # none with projection, all three without
    assert len(held) == 3
    asked = task(settings("eqm"), "aid-fp", False, 3.0, 0)
    norms = finished(training.run(asked, None))[1]["norm"]
    lost = of_eqm.data["sensitivity"]["aid-fp-free"]["lost"][1, 0]
    assert norms[int(lost)] >= 1
    assert (norms[: int(lost)] < 1).all()


def test_a_run_that_did_not_reach_the_end_is_the_worst_and_not_steady() -> None:
    ends = {"accuracy": np.array([[0.9, np.nan], [0.9, 0.88], [0.9, 0.5], [0.9, 0.9]])}
    ends |= {"diverged": np.isnan(ends["accuracy"]), "started": np.full((4, 2), 2.3)}
    ends["objective"] = np.array([[0.1, np.nan], [0.1, 0.1], [0.1, 0.1], [0.1, 2.4]])
    assert summary.steady(ends).tolist() == [False, True, False, False]
    assert _report_equilibrium.worst_accuracy(ends) == 0
    assert summary.spread(ends)[0] == np.inf


def test_a_run_that_is_lost_is_crossed_and_ends_the_mean(of_eqm: Outcome) -> None:
    """The others are no mean of all: no line goes on without it, and a cross says why."""
    data = copy.deepcopy(of_eqm.data)
    clean = figures.panels(data)
    assert not [x for axes in clean.axes for x in axes.lines if str(x.get_gid()).endswith("lost")]
    name, (row,) = "aid-fp-free", np.flatnonzero(data["step_sizes"] == data["shown"]["free"])
    for what in ("objective", "accuracy", "hypergradient"):
        data["curves"][name][what][1, 5:] = np.nan  # the second of two seeds
    data["sensitivity"][name]["accuracy"][row, 1] = np.nan
    data["sensitivity"][name]["diverged"][row, 1] = True
    figure = figures.panels(data)
    for axes in figure.axes:
        lines = {str(line.get_gid()): line for line in axes.lines}
        drawn, cross = lines[name].get_xydata(), lines[f"{name} lost"].get_xydata()
        assert len(cross) == 1
        seen = drawn[np.isfinite(drawn[:, 1])]
        assert len(seen) == (1 if axes is figure.axes[-1] else 2 if axes is figure.axes[1] else 5)
        if axes is not figure.axes[-1]:
            assert cross[0].tolist() == seen[-1].tolist()
    assert figures.LOST in [text.get_text() for text in figure.findobj(Text)]


def test_states_are_the_iterates_of_the_trained_map(tmp_path: Path) -> None:
    more = {"step_size": 0.5, "digits": [0, 2]}
    given = {**load("states").settings(True, 0, "cpu"), **TINY, **SMALL["conv-eqm"], **more}
    (asked,) = load("states").tasks(given)
    states, result = finished(load("states").run(asked, None))
    lam, (train, test) = states[-1]["lam"], data_of(asked)
    chosen = [int((test.Y.argmax(-1) == digit).nonzero()[0]) for digit in (0, 2)]
    params = plain.split(lam, plain.shapes(asked.parameters, train.X.shape[1], 3))
    step = plain.phi(asked.parameters, test.X[chosen], params)
    w = torch.zeros(2 * 2 * 4 * 4, dtype=torch.float64)
    assert result["maps"].shape == (2, 7, 2, 4, 4)
    for t in range(7):
        np.testing.assert_allclose(result["maps"][:, t].reshape(-1), w.numpy(), rtol=0, atol=1e-13)
        w = step(w)
    assert (result["distance"][:, 0] == 1).all()  # from w_0 = 0
    assert (np.diff(result["distance"], axis=1) < 0).all()
    outcome = conducted("states", tmp_path, given)
    assert [claim.what for claim in outcome.claims][-1] == "6 iterations approximately reach the fixed point"
    assert list(outcome.figures) == ["states"]
    with pytest.raises(InputError, match="digits = \\[7, 8\\] are not all among the test images; give a larger"):
        finished(load("states").run(load("states").tasks({**given, "digits": [7, 8], "steps": 1})[0], None))


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("name", [*NAMES, "states"])
def test_without_mnist_it_is_said_before_anything_is_written(name: str, tmp_path: Path) -> None:
    experiment = load(name)
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz not found: put the file .* at .*, or allow"):
        conduct.conduct(experiment, experiment.settings(True, 0, "cpu"), tmp_path / "out", workers.Here())
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("empty")
def test_without_mnist_the_command_ends_with_2(boundcheck: Command, tmp_path: Path) -> None:
    done = boundcheck("paper", "eqm", "--quick", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_each_run_of_an_experiment_has_its_own_key() -> None:
    for name in (*NAMES, "states"):
        experiment = load(name)
        for quick in (True, False):
            given = experiment.settings(quick, 0, "cpu")
            keys = [one.key for one in experiment.tasks(given)]
            assert len(keys) == len(set(keys))
            if "shown" in given:
                assert key_of("itd", True, given["shown"]["projected"], 0) in keys
                assert key_of("itd", False, given["shown"]["free"], 0) in keys
