"""Where runs are made does not matter; what they depend on does."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toy
from started import result, steps

from boundcheck.engine import checkpoints, conduct, slices
from boundcheck.engine import workers as _workers
from boundcheck.engine.checkpoints import Checkpoint, Store
from boundcheck.engine.experiment import Experiment, Step, Task
from boundcheck.errors import InputError
from boundcheck.paper import load, names, output

EXPERIMENT = Experiment.of(toy)


def carried_out(folder: Path, workers: _workers.Workers | None = None, seed: int = 0) -> conduct.Conducted:
    settings = EXPERIMENT.settings(True, seed, "cpu")
    done = conduct.conduct(EXPERIMENT, settings, folder / "out", workers or _workers.Here(), seconds=0.0)
    output.save(EXPERIMENT, done.outcome, settings, folder / "out")
    return done


def test_two_processes_give_the_result_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out(tmp_path / "one")
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "two" / "log"))
    (tmp_path / "two").mkdir()
    carried_out(tmp_path / "two", _workers.Processes(2))
    assert result(tmp_path / "one") == result(tmp_path / "two")
    assert os.getpid() not in {pid for *_, pid in steps(tmp_path / "two")}


def test_the_pace_is_that_after_the_first_step_which_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def run(task: Task, state: int | None) -> Generator[Step, None, str]:
        now[0] += 100  # to load
        for step in range(1, 11):
            now[0] += 1
            yield Step(step, step, 10)
        return "all"

    monkeypatch.setattr(toy, "run", run)
    monkeypatch.setattr(slices, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    task = Task("walk", {})
    part, one, whole = (slices.advance("toy", task, None, seconds) for seconds in (102.5, 0.0, 1000.0))
    assert (part.done, part.seconds, part.pace) == (0.3, 103, pytest.approx(10))
    assert (one.done, one.pace) == (0.1, None)
    assert (whole.finished, whole.pace) == (True, pytest.approx(10))
    two = slices.advance("toy", task, None, 0.0, least=2)
    assert (two.done, two.pace) == (0.2, pytest.approx(10))


def test_threads_are_those_of_the_experiment_and_come_back(tmp_path: Path) -> None:
    seen = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        module = "toy"
        task = toy.tasks(toy.settings(True, 0, "cpu"))[0]
        original, toy.run = toy.run, lambda task, state: seen.append(torch.get_num_threads())
        conduct.advance(module, task, None, 1.0)
        assert torch.get_num_threads() == 2
    finally:
        toy.run = original
        torch.set_num_threads(before)
    assert seen == [1]


def test_files_of_an_experiment(tmp_path: Path) -> None:
    carried_out(tmp_path)
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {"checkpoints", "result.json", "table.md", "toy.png", "toy.svg"}
    result = json.loads((out / "result.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert result["data"]["walk-0"]["nothing"] is None
    assert len(result["data"]["walk-0"]["found"]) == toy.STEPS
    assert result["claims"][1]["published"] == 0.0
    table = (out / "table.md").read_text().splitlines()
    assert table[2] == "| what | published | ours | difference | why |"
    assert table[4].startswith("| where walk-0 ends (nowhere) | 0 | ")


@pytest.mark.parametrize("changed", ["settings", "code", "torch"])
def test_what_was_made_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    carried_out(tmp_path)
    before = result(tmp_path)
    message = {"settings": "seed was 0, now 5", "code": "code was '", "torch": "torch was '"}[changed]
    if changed == "code":
        monkeypatch.setattr(checkpoints, "_code", lambda experiment: "other")
    if changed == "torch":
        monkeypatch.setattr(torch, "__version__", "0.0")
    with pytest.raises(InputError, match=message) as caught:
        carried_out(tmp_path, seed=5 if changed == "settings" else 0)
    assert "give another --out, or remove" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert result(tmp_path) == before


def test_the_digest_of_the_code_knows_what_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By packages: not what is only looked at, not the engine, not other experiments."""
    package = tmp_path / "package"
    computes = {"constants.py", "numerics/bilevel/problem.py", "paper/toy/experiment.py"}
    shows = {"cli/app.py", "views/terminal/table.py", "paper/toy/views/figures.py"}
    others = {
        "paper/__init__.py",
        "paper/command.py",
        "engine/conduct.py",
        "sweeps/runs.py",
        "paper/other/experiment.py",
    }
    for name in computes | shows | others:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    monkeypatch.setattr("boundcheck.__file__", str(package / "__init__.py"))
    experiment = replace(EXPERIMENT, module="boundcheck.paper.toy.experiment")
    before = checkpoints._code(experiment)
    changes = set()
    for path in package.rglob("*.py"):
        path.write_text("2")
        if checkpoints._code(experiment) != before:
            changes.add(path.relative_to(package).as_posix())
        path.write_text("1")
    assert changes == computes


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    carried_out(tmp_path)
    path = tmp_path / "out" / "checkpoints" / "walk-1.result"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"walk-1\.result cannot be read .* remove it"):
        carried_out(tmp_path)
    path.unlink()
    assert carried_out(tmp_path).from_before == 1


def test_damage_is_told_before_anything_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out(tmp_path)
    folder = tmp_path / "out" / "checkpoints"
    (folder / "walk-0.result").unlink()
    (folder / "walk-1.result").write_bytes(b"damaged")
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    with pytest.raises(InputError, match=r"walk-1\.result cannot be read"):
        carried_out(tmp_path)
    assert steps(tmp_path) == []


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    settings = EXPERIMENT.settings(True, 0, "cpu")
    with Store(tmp_path / "out", EXPERIMENT, settings) as store:
        (store.folder / ".walk-0.state.part").write_text("being written")
        with pytest.raises(InputError, match="out is in use: another command is at work in it; wait for it") as raised:
            carried_out(tmp_path)
        assert "\n" not in str(raised.value)
        assert (store.folder / ".walk-0.state.part").exists()  # nothing of the other one is removed
    assert carried_out(tmp_path).from_before == 0
    assert not list(store.folder.glob(".*"))


def test_a_refused_folder_is_not_locked(tmp_path: Path) -> None:
    carried_out(tmp_path)
    for _ in range(2):
        with pytest.raises(InputError, match="seed was 0, now 5"):
            carried_out(tmp_path, seed=5)
    assert carried_out(tmp_path).from_before == 2


def test_the_bar_never_goes_back_nor_ahead_of_what_is_made(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    settings = EXPERIMENT.settings(True, 0, "cpu")
    bar = lambda what, done, of: seen.append((done, of))  # noqa: E731
    conduct.conduct(EXPERIMENT, settings, tmp_path / "out", _workers.Here(), bar=bar, seconds=0.0)
    done = [part for part, _ in seen]
    assert done == sorted(done)
    assert {of for _, of in seen} == {3.0}  # costs 1 and 2
    assert (done[0], done[1], done[-1]) == (0.0, 0.0, 3.0)  # a run that begins is not yet made


def test_states_come_back_as_they_were(tmp_path: Path) -> None:
    with Store(tmp_path, EXPERIMENT, {}) as store:
        come_back(store)


def come_back(store: Store) -> None:
    tree = {
        "array": np.arange(6.0).reshape(2, 3)[:, 1:],
        "scalar": np.array(2.5),
        "tensor": torch.arange(4, dtype=torch.uint8),
        "nested": [1, (2.5, "three"), {"four": None, "five": True}],
        "large": 2**100,
    }
    store.keep_state("a", Checkpoint(tree, 0.5, 1.0))
    result = store.state("a")
    assert result is not None
    assert result.done == 0.5
    assert result.content["array"].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert result.content["scalar"].shape == ()
    assert torch.equal(result.content["tensor"], tree["tensor"])  # type: ignore[arg-type]
    assert result.content["tensor"].dtype == torch.uint8
    assert result.content["nested"] == tree["nested"]
    assert result.content["large"] == 2**100
    store.keep_result("a", Checkpoint(1, 1.0, 1.0))
    assert store.state("a") is None


def test_a_key_names_a_file() -> None:
    with pytest.raises(InputError, match=r"key = '\.\./x' cannot be used as a file name"):
        Task("../x", {})


def test_every_experiment_keeps_the_contract() -> None:
    assert "fig1" in names()
    for name in names():
        experiment = load(name)
        assert experiment.name == name
        for quick in (True, False):
            settings = experiment.settings(quick, 0, "cpu")
            assert json.loads(json.dumps(settings)) == settings
            keys = [task.key for task in experiment.tasks(settings)]
            assert len(set(keys)) == len(keys) > 0
