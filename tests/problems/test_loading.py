"""Problems by their name, and from users' own files."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads


def test_load_problem_by_name_and_from_a_file(tmp_path: Path) -> None:
    assert bc.load_problem("lr", features=5, seed=3).d == 5
    assert bc.problems.logistic_regression(features=5).d == 5
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import torch, boundcheck as bc\n"
        "def make(scale=0.5):\n"
        "    phi = lambda w, lam: scale * w + lam\n"
        "    return bc.Problem.from_map(phi, lambda w, lam: w.sum(), torch.zeros(2), torch.ones(2))\n"
        "problem = make()\n"
        "number = 3\n"
        "def anything(**options):\n"
        "    return make()\n"
        "def broken():\n"
        "    return 1 / 0\n"
    )
    assert bc.load_problem(f"{mine}:problem").d == 2
    assert bc.load_problem(f"{mine}:anything", device="cpu", colour="red").d == 2
    assert bc.load_problem(f"{mine}:make", scale=0.25).phi(torch.ones(2), torch.zeros(2))[0] == 0.25
    for spec, options, message in (
        (f"{mine}:number", {}, "number in mine.py is a int"),
        (f"{mine}:prob", {}, "unknown name in mine.py 'prob'; did you mean problem"),
        (f"{mine}:broken", {}, "mine.py:broken, line 10 raised ZeroDivisionError: division by zero"),
        (f"{mine}:make", {"size": 1}, "unknown option of mine.py:make 'size'"),
        (f"{mine}:problem", {"seed": 1}, "mine.py:problem is a finished problem and takes no seed; make problem a"),
        (f"{mine}:problem", {"dtype": 1}, "takes no dtype; make problem a function that takes dtype= to use --dtype"),
        (f"{mine}:make", {"device": "cpu"}, "mine.py:make takes no device; let make take device= to use --device"),
        (f"{mine}:anything", {"device": "nowhere"}, "device = 'nowhere' cannot be used: torch knows no device of that"),
        (str(mine), {}, "names a file but nothing in it"),
        (str(tmp_path / "other.py:problem"), {}, "is not a file"),
        ("logistic", {}, "unknown problem 'logistic'"),
        ("lr", {"sise": 3}, "unknown option of lr 'sise'; did you mean size"),
    ):
        with pytest.raises(bc.BoundcheckError, match=message) as caught:
            bc.load_problem(spec, **options)
        assert "\n" not in str(caught.value)
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\nraise ValueError('two\\nlines')\n")
    with pytest.raises(bc.UserCodeError, match=r"running bad\.py, line 2 raised ValueError: two lines; fix the file"):
        bc.load_problem(f"{bad}:problem")


def test_files_with_dataclasses_and_neighbours(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("SCALE = 0.5\n")
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "import torch, boundcheck as bc\n"
        "from beside import SCALE\n"
        "@dataclass\n"
        "class Options:\n"
        "    scale: float = SCALE\n"
        "def make():\n"
        "    phi = lambda w, lam: Options().scale * w + lam\n"
        "    return bc.Problem.from_map(phi, lambda w, lam: w.sum(), torch.zeros(2), torch.ones(2))\n"
    )
    assert bc.load_problem(f"{tmp_path / 'mine.py'}:make").d == 2
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(bc.UserCodeError, match="raised SystemExit"):
        bc.load_problem(f"{tmp_path / 'leaves.py'}:make")


@pytest.mark.parametrize("device", ["nowhere", "cuda:99", "meta", "lazy", "mkldnn", torch.device("meta")])
def test_a_device_that_is_not_there_is_one_line(device: torch.device | str) -> None:
    for make in (bc.problems.scalar, bc.problems.logistic_regression, lambda **given: bc.load_problem("br", **given)):
        with pytest.raises(
            bc.InputError, match=r"device = '[\w:]+' cannot be used: .*; this machine has cpu"
        ) as caught:
            make(device=device)
        assert "\n" not in str(caught.value)


def test_what_is_no_problem_is_told_with_what_to_give() -> None:
    for given, message in (
        (None, "problem is a NoneType; give a Problem, as bc.load_problem or bc.Problem.from_loss returns"),
        (bc.Problem, "problem is the class Problem; give a Problem"),
    ):
        with pytest.raises(bc.InputError, match=message):
            require_problem(given)
        with pytest.raises(bc.InputError, match=message):
            bc.hypergradient(given)  # type: ignore[arg-type]
    problem = bc.problems.scalar()
    assert require_problem(problem) is problem


TAKE_A_PROBLEM: dict[str, dict[str, object]] = {
    "check": {}, "plan": {"eps": 1.0}, "estimate_constants": {}, "explain_constant": {"name": "q"}, "enclose": {"g": 0},
    "hypergradient": {}, "audit": {"g": 0}, "assert_hypergradient": {"g": 0}, "minimise": {"tol": 1.0},
    "follow": {"outer_step": 1.0}, "error_curves": {}, "Watch": {}, "check_stochastic": {}, "plan_stochastic": {},
    "sweep": {"over": {}},
}  # fmt: skip


@pytest.mark.parametrize("function", TAKE_A_PROBLEM)
def test_every_function_of_a_problem_takes_its_name(function: str) -> None:
    """A name that is not known is refused by `load_problem`, so it was asked."""
    with pytest.raises(bc.UnknownNameError, match=r"unknown problem 'lrr'; did you mean lr"):
        getattr(bc, function)("lrr", **TAKE_A_PROBLEM[function])


def test_a_problem_by_name_is_the_one_of_load_problem() -> None:
    value = bc.hypergradient(bc.load_problem("scalar"), "itd", t=3).value
    assert torch.equal(bc.hypergradient("scalar", "itd", t=3).value, value)
    assert torch.equal(bc.hypergradient(problem="scalar", method="itd", t=3).value, value)
    assert bc.enclose("scalar", value).upper > 0
    assert bc.audit("scalar", value).descent
    assert len(bc.follow("scalar", outer_step=0.1, steps=2)) == 2
    assert bc.error_curves("scalar", ["itd"], t=3)["itd"].shape == (1, 3)
    assert bc.Watch("scalar").problem.name == "scalar"


def test_every_public_function_that_takes_a_problem_is_in_the_list() -> None:
    functions = {name: thing for name in bc.__all__ if inspect.isfunction(thing := getattr(bc, name))}
    takes = {name for name, thing in functions.items() if next(iter(inspect.signature(thing).parameters)) == "problem"}
    assert {*takes, "Watch"} == set(TAKE_A_PROBLEM)


def test_a_small_problem_by_name_runs_on_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert on_few_threads(lambda problem: (problem.name, torch.get_num_threads()))("scalar") == ("scalar", 1)
    finally:
        torch.set_num_threads(before)
