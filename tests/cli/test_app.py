"""The command line as a user meets it: output, JSON, exit codes, and one line for each mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command

import boundcheck as bc

CONSTANTS = {"q": 0.9, "D": 1, "L_E": 2, "L_Phi": 3, "nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4}
ITD = ["bound", "itd", *(word for name, value in CONSTANTS.items() for word in ("--set", f"{name}={value}"))]


def test_as_a_process() -> None:
    """The same through the interpreter: output on stdout, one line on stderr, the exit code."""
    good = subprocess.run([sys.executable, "-m", "boundcheck", *ITD, "--json"], capture_output=True, encoding="utf-8")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["values"]["t"] == [1, 10, 100, 1000]
    bad = subprocess.run([sys.executable, "-m", "boundcheck", "bound", "itt"], capture_output=True, encoding="utf-8")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["bound", "itd"], ["list"]])
def test_a_terminal_without_unicode_is_no_reason_to_crash(arguments: list[str]) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    run = subprocess.run([sys.executable, "-m", "boundcheck", *arguments], capture_output=True, env=env)
    assert run.returncode == 0
    assert b"Traceback" not in run.stderr


def test_a_reader_that_goes_away_is_no_failure() -> None:
    command = f"set -o pipefail; {sys.executable} -m boundcheck list | head -1"
    run = subprocess.run(["bash", "-c", command], capture_output=True)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_reported() -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([sys.executable, "-m", "boundcheck", "bound", "itd"], stdout=full, stderr=subprocess.PIPE)
    assert run.returncode == 2
    assert b"Traceback" not in run.stderr


def test_bound_shows_the_theorem(boundcheck: Command) -> None:
    run = boundcheck("bound", "itd")
    assert run.returncode == 0
    for expected in ("Grazzi et al. 2020, Theorem 2.1", "‖g − ∇f‖ ≤", "c₁ = ", "1(iii)", "L_Phi", "contraction"):
        assert expected in run.stdout


def test_bound_evaluates(boundcheck: Command) -> None:
    run = boundcheck(*ITD, "--t", "50", "--eps", "1e-3")
    assert run.returncode == 0
    value = float(bc.bounds["itd"].evaluate(CONSTANTS, t=50).values)
    assert f"{value:.6g}" in run.stdout
    assert f"t = {bc.bounds['itd'].iterations(CONSTANTS, 1e-3).t}" in run.stdout


def test_json_is_strict_and_alone_on_stdout(boundcheck: Command) -> None:
    run = boundcheck(*ITD, "--t", "0:4:2", "--eps", "1e-3", "--json", "--side", "upper")
    content = json.loads(run.stdout, parse_constant=lambda x: pytest.fail(f"{x} in JSON"))
    assert run.stderr == ""
    assert content["schema"] == 1
    assert content["version"] == bc.__version__
    assert content["values"]["t"] == [0, 2, 4]
    assert content["values"]["k"] is None
    assert content["values"]["side"] == "upper"
    assert content["values"]["bound"] == pytest.approx(bc.bounds["itd"].evaluate(CONSTANTS, t=[0, 2, 4]).values)
    assert content["iterations"]["t"] == bc.bounds["itd"].iterations(CONSTANTS, 1e-3).t
    assert content["constants"]["q"] == {"value": 0.9, "side": "upper"}
    assert content["bound"]["reference"]["label"] == "boundSolver"


def test_json_has_null_for_infinity(boundcheck: Command) -> None:
    huge = [x.replace("D=1", "D=1e200").replace("L_E=2", "L_E=1e200") for x in ITD]
    content = json.loads(boundcheck(*huge, "--t", "1", "--json").stdout)
    assert content["values"]["bound"] == [None]


def test_sources(boundcheck: Command) -> None:
    assert boundcheck("bound", "aid-fp", "--python").stdout.rstrip() == bc.bounds["aid-fp"].python().rstrip()
    assert boundcheck("bound", "aid-fp", "--javascript").stdout.rstrip() == bc.bounds["aid-fp"].javascript().rstrip()
    assert boundcheck("bound", "aid-fp", "--latex").stdout.rstrip() == bc.bounds["aid-fp"].latex()
    assert json.loads(boundcheck("bound", "itd", "--latex", "--json").stdout)["source"] == bc.bounds["itd"].latex()


def test_rigorous_and_rates(boundcheck: Command) -> None:
    run = boundcheck(*ITD, "--t", "3", "--rigorous", "--json")
    assert json.loads(run.stdout)["values"]["bound"] == [
        float(bc.bounds["itd"].evaluate(CONSTANTS, t=3, rigorous=True).values)
    ]
    recursion = boundcheck("bound", "itd-recursive").stdout
    assert "Δ'ₜ₊₁ = " in recursion
    assert "nu_1*r_t" not in recursion
    aid = ["bound", "aid-contraction", *ITD[2:], "--set", "kappa=19", "--t", "9", "--k", "4", "--json"]
    value = json.loads(boundcheck(*aid, "--rate", "sigma=cg").stdout)["values"]["bound"]
    assert value == pytest.approx([float(bc.bounds["aid-cg"].evaluate({**CONSTANTS, "kappa": 19}, t=9, k=4).values)])


def test_steps_that_are_enough_along_a_schedule(boundcheck: Command) -> None:
    numbers = {"q": 0.5, "m_1": 0.1, "m_2": 0, "V_star": 0.1, "mse_0": 1, "L_E": 1, "L_Phi_star": 1}
    numbers |= dict.fromkeys(("nu_1", "nu_2", "eta_1", "eta_2"), 0.2)
    asked = ["bound", "sid-mse", *(x for name, value in numbers.items() for x in ("--set", f"{name}={value}"))]
    found = json.loads(boundcheck(*asked, "--eps", "0.5", "--step", "4/(20+i)", "--step-v", "0.05", "--json").stdout)
    steps, steps_v = bc.StepSchedule.decreasing(4, 20), bc.StepSchedule.constant(0.05)
    needed = bc.bounds["sid-mse"].iterations(numbers, 0.5, steps=steps, steps_v=steps_v)
    assert (found["iterations"]["t"], found["iterations"]["k"]) == (needed.t, needed.t)
    assert (
        "takes ρ_t and σ_k; give the steps of its iterations, such as --step 0.1"
        in boundcheck(*asked, "--eps", "0.5").stderr
    )
    assert "it stays at" in boundcheck(*asked, "--eps", "0.01", "--step", "0.1").stderr
    assert "--step is for --eps" in boundcheck(*asked, "--step", "0.1").stderr
    assert "give --step as well" in boundcheck(*asked, "--eps", "0.5", "--step-v", "0.1").stderr


def test_lower_constants_are_called_what_they_are(boundcheck: Command) -> None:
    assert "proves nothing" in boundcheck(*ITD, "--t", "3", "--side", "lower").stdout


def test_list(boundcheck: Command) -> None:
    run = boundcheck("list")
    assert run.returncode == 0
    assert all(name in run.stdout for name in bc.bounds)
    found = json.loads(boundcheck("list", "bounds", "--json").stdout)
    assert [row["name"] for row in found["bounds"]] == list(bc.bounds)
    listed = {row["name"] for row in json.loads(boundcheck("list", "problems", "--json").stdout)["problems"]}
    assert {"lr", "krr", "br", "hr", "scalar", "eqm", "conv-eqm", "parkinson", "newsgroups", "fashion-mnist"} <= listed
    methods = {row["name"] for row in json.loads(boundcheck("list", "methods", "--json").stdout)["methods"]}
    assert methods == {method for bound in bc.bounds.values() for method in bound.methods}


def test_version_and_help(boundcheck: Command) -> None:
    assert boundcheck("--version").stdout.strip() == f"boundcheck {bc.__version__}"
    assert "bound" in boundcheck("--help").stdout
