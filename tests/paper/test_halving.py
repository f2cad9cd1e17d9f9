"""Step sizes by successive halving: the rounds, a slow starter, resumption, and what fits into a budget."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import Command
from small import small
from test_tables import steps_and_result, task

from boundcheck.errors import AssumptionError, InputError
from boundcheck.paper import load
from boundcheck.paper.tables import budget, data, runs
from boundcheck.paper.tables import hypergradient_error as hypergradient_error_module
from boundcheck.paper.tables.halving import HalvingRule, rounds, survivors, work
from boundcheck.paper.tables.hypergradient_error import hypergradient_error

ZETA = [0.001, 0.01, 0.03, 0.1, 1e9]
COSTS = {name: {"load": 1.0, "factor": 1.0} for name in data.TABLES}


@pytest.mark.parametrize(
    ("count", "s", "rule", "plan"),
    [
        (30, 1000, "3", [[30, 38], [10, 112], [3, 334], [1, 1000]]),
        (30, 1000, "3:20", [[30, 20], [10, 60], [3, 180], [1, 1000]]),
        (30, 100, "3:20", [[30, 20], [10, 60], [3, 100], [1, 100]]),
        (30, 15, "10", [[30, 1], [3, 2], [1, 15]]),
        (30, 2, "3", [[30, 1], [1, 2]]),
        (30, 1, "3", [[30, 1], [1, 1]]),
        (1, 7, "3", [[1, 7]]),
    ],
)
def test_rounds(count: int, s: int, rule: str, plan: list[list[int]]) -> None:
    assert rounds(count, s, HalvingRule.read(rule)) == plan
    assert str(HalvingRule.read(rule)) == rule


@pytest.mark.parametrize("text", ["", "1", "x", "3:", "3:0", "3:1:2", "-3", "1000"])
def test_rules_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match=r"--halving"):
        HalvingRule.read(text)


def test_the_best_go_on_and_what_diverged_does_not() -> None:
    assert survivors([3.0, None, 1.0, 2.0, 1.0], 2) == [2, 4]
    assert survivors([3.0, None, 1.0, 2.0, 1.0], 3) == [2, 3, 4]
    assert survivors([None, None], 1) == []


def planted(rule: str, s: int = 81) -> int:
    """Which of nine curves is left: the last one ends lowest but is worst until step 30, the others level off."""
    left = list(range(9))
    plan = rounds(9, s, HalvingRule.read(rule))
    for (_, steps), (kept, _) in zip(plan, [*plan[1:], [1, s]], strict=True):
        values = [10.0 - steps / 3 if i == 8 else 5.0 + i / 10 - min(steps, 20) / 100 for i in left]
        left = [left[i] for i in survivors(values, kept)]
    return left[0]


def test_a_slow_starter_is_found_only_if_the_first_round_is_long_enough() -> None:
    """The grid would take curve 8, the only one that still falls: at step 81 it is lowest by far."""
    assert planted("3") == 0  # rounds of 9, 27 and 81 steps: at 9 it is worst, and dropped
    assert planted("3:30") == 8


def halved(s: int = 9, **changed: Any) -> dict[str, Any]:
    plan = rounds(len(ZETA), s, HalvingRule(2))
    return steps_and_result(task("parkinson", "aid-cg", ZETA, s=s, rounds=plan, exact=0, **changed))[1]


def test_each_step_size_is_where_the_grid_has_it() -> None:
    """Dropped after r steps, it has the f_t of a run of r steps; the one that is left that of s."""
    result = halved()
    assert rounds(len(ZETA), 9, HalvingRule(2)) == [[5, 3], [2, 5], [1, 9]]
    assert result["f_t"][4] is None  # diverged
    assert sorted(result["stopped"]) == [3, 3, 3, 5, 9]
    for steps in (3, 5, 9):
        grid = steps_and_result(task("parkinson", "aid-cg", ZETA, s=steps, exact=0))[1]
        for number, (value, at) in enumerate(zip(result["f_t"], result["stopped"], strict=True)):
            if at == steps:
                assert value == pytest.approx(grid["f_t"][number], rel=1e-9) if value else grid["f_t"][number] is None
    assert result["best"] == result["stopped"].index(9)
    alone = steps_and_result(task("parkinson", "aid-cg", [ZETA[result["best"]]], s=9, exact=0))[1]
    assert result["f"] == pytest.approx(alone["f"], rel=1e-9)
    assert (result["accuracy"], result["accuracy_t"]) == (alone["accuracy"], alone["accuracy_t"])


@pytest.mark.parametrize("name", ["parkinson", "newsgroups"])
def test_it_goes_on_from_any_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches of two, so some states are between batches; newsgroups with warm starts."""
    monkeypatch.setitem(data.TABLES, name, replace(data.TABLES[name], together=2))
    plan = rounds(3, 4, HalvingRule(2))
    given = task(name, "aid-fp:3", [0.01, 0.03, 0.1], s=4, rounds=plan, exact=0 if name == "parkinson" else 30)
    states, result = steps_and_result(given)
    assert len(states) == sum(steps for _, steps in work(plan, 2)) + (0 if name == "parkinson" else 2)
    for state in states[:-1:3]:
        assert steps_and_result(given, state)[1] == result


def seconds_of(name: str, settings: dict[str, Any]) -> float:
    alone = settings | {"data": {name: settings["data"][name]}}
    return COSTS[name]["load"] + sum(one.cost for one in runs.tasks(alone))


def test_a_budget_decides_the_plan() -> None:
    whole = runs.settings(False, 0, "cpu", exact=True)
    hours = {hours: budget.shortened(whole, "", hours * 3600.0, COSTS, runs.tasks) for hours in (0.1, 1, 10, 1000)}
    assert all("rounds" not in of for of in hours[1000]["data"].values())
    assert hours[1000]["data"] == whole["data"]
    for given, settings in hours.items():
        planned = sum(seconds_of(name, settings) for name in settings["data"])
        assert planned == pytest.approx(settings["planned"], rel=0.01)
        assert planned <= 0.8 * given * 3600
        assert json.loads(json.dumps(settings)) == settings
    s = {name: [settings["data"].get(name, {"s": 0})["s"] for settings in hours.values()] for name in data.TABLES}
    assert all(values == sorted(values) for values in s.values())  # a larger budget never takes less
    assert len(hours[0.1]["data"]) < 3
    halving = budget.shortened(whole, "3:20", 3.6e6, COSTS, runs.tasks)
    assert halving["data"]["parkinson"]["rounds"] == [[30, 20], [10, 60], [3, 180], [1, 1000]]
    with pytest.raises(InputError, match=r"--budget of 2 s is too short: the least of parkinson alone takes about"):
        budget.shortened(whole, "", 2.0, COSTS, runs.tasks)


def test_waiting_is_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy with other work a step takes longer, but the plan is the same."""

    def slow(given: Any) -> data.Loaded:
        time.sleep(0.3)
        return data.Loaded(small("parkinson"), lambda lam, w: 0.0)

    monkeypatch.setattr(budget, "loaded", slow)
    of_data = {"t": [2], "zeta": [0.1], "options": {}}
    costs = budget.measured({"seed": 0, "device": "cpu", "data": {"parkinson": of_data}})["parkinson"]
    assert 0 < costs["load"] < 0.2
    assert costs["factor"] > 0


SYNTHETIC = {"data": {"parkinson": {"t": [100], "s": 3, "zeta": ZETA[:4], "exact": 0, "options": {"synthetic": True}}}}


def test_the_command(boundcheck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost is measured once and kept: the same command has the same plan however quick the machine is then."""
    experiment = load("table2")
    measured: list[float] = []

    def costs(settings: Any) -> dict[str, Any]:
        measured.append(100.0 ** len(measured))
        return {"parkinson": {"load": 0.0, "factor": measured[-1]}}

    base = {"quick": False, "seed": 0, "device": "cpu"} | SYNTHETIC
    short = replace(experiment, settings=lambda quick, seed, device: base, ready=lambda settings: None, measured=costs)
    monkeypatch.setitem(data.TABLES, "parkinson", replace(data.TABLES["parkinson"], certify=False))
    monkeypatch.setattr("boundcheck.paper.command.load", lambda name: short)
    command = ("paper", "table2", "--budget", "1h", "--halving", "2", "--quiet", "--out", str(tmp_path / "out"))
    first = boundcheck(*command)
    assert first.returncode == 0, first.stderr
    table = (tmp_path / "out" / "table.md").read_text()
    assert "Chosen for a budget of" in table
    assert "step sizes by successive halving" in table
    dropped = (tmp_path / "out" / "halving.md").read_text()
    assert "**" in dropped  # the one that is reported
    assert ", FP k=10 |" in dropped  # as the table calls it
    assert "k_r" not in dropped
    again = boundcheck(*command)
    assert again.returncode == 0, again.stderr
    assert "of them from before" in again.stdout
    assert measured == [1.0]
    other = boundcheck(*command[:3], "2h", *command[4:])
    assert other.returncode == 2
    assert "holds another run" in other.stderr
    (tmp_path / "out" / "checkpoints" / "costs.json").write_text("{")
    assert "costs.json cannot be read" in boundcheck(*command).stderr


def test_the_error_of_the_last_hypergradient() -> None:
    """Proved, it is at least the distance to a longer run; estimated, it is that distance."""
    problem, table = small("parkinson"), data.TABLES["parkinson"]
    errors = {}
    for certify in (True, False):
        how = (problem, replace(table, certify=certify), "aid-cg:1", problem.lam, problem.w0, 20)
        errors[certify] = hypergradient_error(*how)
    assert (errors[True]["known"], errors[False]["known"]) == ("proved", "estimated")
    assert 0 < errors[False]["relative"] <= errors[True]["relative"] * (1 + 1e-3) < 1
    assert errors[True]["why"] == ""


def test_where_nothing_contracts_it_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any, **how: Any) -> None:
        raise AssumptionError("the reference cannot be certified: Φ does not contract")

    monkeypatch.setattr(hypergradient_error_module, "enclose", fails)
    problem = small("parkinson")
    error = hypergradient_error(problem, data.TABLES["parkinson"], "itd", problem.lam, problem.w0, 5)
    assert (error["known"], error["why"]) == ("estimated", "not contracting at this step")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fig1", "--budget", "1h"), "--budget is for table1 and table2; fig1 has no grid of step sizes"),
        (("table1", "--budget", "long"), "--budget must be a time such as 2h, 10m or 90s (got 'long')"),
        (("table1", "--budget", "0s"), "--budget must be a time such as 2h, 10m or 90s (got '0s')"),
        (("table1", "--halving", "3", "--quick"), "--halving and --quick were given together"),
        (("table1", "--halving", "x"), "--halving must be a divisor from 2 to 100"),
    ],
)
def test_bad_input(boundcheck: Command, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = boundcheck("paper", *arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
