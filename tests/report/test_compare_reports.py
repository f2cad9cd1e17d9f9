"""`compare_reports` and `boundcheck compare`: what changed, what got worse, and nothing that is rounding."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import Command

import boundcheck as bc
from boundcheck.report import report_json
from boundcheck.report.comparison import ChangePart, Comparison

Edit = Callable[[dict[str, Any]], None]


@cache
def content() -> dict[str, Any]:
    return bc.check("scalar", ["itd", "aid-cg"], t=6, proofs=False).to_json()


def edited(edit: Edit) -> bc.Report:
    changed = copy.deepcopy(content())
    edit(changed)
    return report_json.from_json(changed)


def compared(edit: Edit, **options: float) -> Comparison:
    return bc.compare_reports(edited(lambda _: None), edited(edit), **options)


def itd(report: dict[str, Any]) -> dict[str, Any]:
    curve: dict[str, Any] = report["curves"][0]
    assert curve["method"] == "itd"
    return curve


def only(comparison: Comparison, part: ChangePart) -> Any:
    (change,) = comparison.changes
    assert change.part is part
    return change


def test_the_same_report() -> None:
    comparison = compared(lambda _: None)
    assert comparison.changes == comparison.violated == ()
    assert comparison.sentence == "scalar: nothing changed."


def test_the_time_is_told_but_is_no_change() -> None:
    comparison = compared(lambda r: r.update(seconds=123.0))
    assert not comparison.changes
    assert "123.0 s after" in str(comparison)


@pytest.mark.parametrize(("verdict", "worse"), [("violated", True), ("inconclusive", True), ("consistent", True)])
def test_a_verdict_gets_worse_and_back(verdict: str, worse: bool) -> None:
    def edit(report: dict[str, Any]) -> None:
        itd(report)["bounds"]["itd"]["verdict"] = verdict
        itd(report)["bounds"]["itd"]["iterations"] = itd(report)["bounds"]["itd-local"]["iterations"]

    forth = compared(edit)
    change = next(c for c in forth.changes if c.part is ChangePart.VERDICT)
    assert (change.name, change.before, change.after, change.worse) == ("itd on itd", "holds", verdict, worse)
    assert forth.sentence.startswith("scalar: 1 verdict got worse, all errors are equal")
    assert forth.violated == (("itd on itd",) if verdict == "violated" else ())
    back = bc.compare_reports(edited(edit), edited(lambda _: None))
    assert back.sentence.startswith("scalar: 1 verdict got better")
    assert not back.violated


def test_a_more_certain_violation_counts_as_a_new_one() -> None:
    def violated(words: str) -> bc.Report:
        return edited(lambda report: itd(report)["bounds"]["itd"].update(verdict=words))

    likely, certain = violated("violated with high probability"), violated("violated")
    assert bc.compare_reports(likely, certain).violated == ("itd on itd",)
    assert bc.compare_reports(certain, likely).violated == ()
    assert bc.compare_reports(certain, certain).violated == ()


def test_a_bound_that_is_violated_and_was_not_there() -> None:
    first = edited(lambda report: itd(report)["bounds"].pop("itd"))
    second = edited(lambda report: itd(report)["bounds"]["itd"].update(verdict="violated"))
    assert bc.compare_reports(first, second).violated == ("itd on itd",)
    assert bc.compare_reports(second, first).violated == ()


def test_an_error_beyond_and_within_rounding() -> None:
    def larger(by: float) -> Edit:
        def edit(report: dict[str, Any]) -> None:
            itd(report)["error"][-1] += by

        return edit

    last = itd(content())["error"][-1]
    floor = itd(content())["floor"][-1]
    assert compared(larger(0.9 * floor), rtol=0).changes == ()
    assert compared(larger(3 * floor), rtol=0).changes[0].part is ChangePart.ERROR
    assert compared(larger(0.9e-6 * last)).changes == ()
    change = compared(larger(1e-3 * last)).changes[0]
    assert (change.part, change.name, change.worse) == (ChangePart.ERROR, "itd at t = 6", True)
    assert compared(larger(-1e-3 * last)).changes[0].worse is False
    assert not compared(larger(1e-3 * last), rtol=0.01).changes
    assert compared(larger(1e-3 * last)).sentence.startswith("scalar: all verdicts are equal, 1 error grew")


def test_an_error_that_is_not_finite_is_worse() -> None:
    def edit(report: dict[str, Any]) -> None:
        itd(report)["error"][-1] = None

    course, change = compared(edit).changes[:2]
    assert (course.part, course.after, course.worse) == (ChangePart.COURSE, "diverges", True)
    assert (change.part, change.after, change.worse) == (ChangePart.ERROR, float("inf"), True)
    assert json.loads(json.dumps(compared(edit).to_json(), allow_nan=False))["changes"][1]["after"] is None


def test_errors_are_compared_at_the_last_common_t() -> None:
    def shorter(report: dict[str, Any]) -> None:
        for curve in report["curves"]:
            for key in ("t", "k", "error", "floor"):
                curve[key] = None if curve[key] is None else curve[key][:4]
            for bound in curve["bounds"].values():
                bound["values"] = bound["values"][:4]

    change = only(compared(shorter), ChangePart.PROBLEM)
    assert (change.name, change.before, change.after, change.worse) == ("last t", 6, 4, None)
    assert compared(shorter).sentence == "scalar: all verdicts are equal, all errors are equal, different last t."


def test_constants_by_value_and_by_what_is_known() -> None:
    def value(report: dict[str, Any]) -> None:
        report["constants"]["q"]["value"] *= 1.001

    def side(report: dict[str, Any]) -> None:
        report["constants_local"]["q"]["side"] = "lower"

    change = only(compared(value), ChangePart.CONSTANT)
    assert (change.name, change.worse) == ("q (paper ball)", None)
    assert change.after == pytest.approx(0.9009, rel=1e-12)
    change = only(compared(side), ChangePart.CONSTANT)
    assert (change.before, change.after, change.worse) == ("proved, exact", "estimated from below", True)
    assert bc.compare_reports(edited(side), edited(lambda _: None)).changes[0].worse is False
    assert only(compared(lambda r: r["constants"].pop("q")), ChangePart.CONSTANT).after is None


def test_steps_and_tightness() -> None:
    def steps(report: dict[str, Any]) -> None:
        itd(report)["iterations"]["1e-01"] = 3

    def looser(report: dict[str, Any]) -> None:
        bound = itd(report)["bounds"]["itd"]
        bound["values"] = [2 * value for value in bound["values"]]

    change = only(compared(steps), ChangePart.STEPS)
    assert (change.name, change.before, change.after, change.worse) == ("itd needs, error ≤ 0.1", None, 3, False)

    def slower(report: dict[str, Any]) -> None:
        itd(report)["iterations"]["1e-01"] = 5

    assert bc.compare_reports(edited(steps), edited(slower)).changes[0].worse is True
    assert bc.compare_reports(edited(slower), edited(steps)).changes[0].worse is False
    assert bc.compare_reports(edited(steps), edited(lambda _: None)).changes[0].worse is True  # it is not reached
    change = only(compared(looser), ChangePart.TIGHTNESS)
    assert change.worse is True
    assert change.after == pytest.approx(2 * change.before, rel=1e-12)


def test_methods_and_problems() -> None:
    def other(report: dict[str, Any]) -> None:
        report["problem"]["name"] = "other"
        report["curves"].pop()

    comparison = compared(other)
    assert [(c.part, c.name) for c in comparison.changes] == [
        (ChangePart.PROBLEM, "name"),
        (ChangePart.METHOD, "aid-cg"),
    ]
    assert comparison.sentence == (
        "Different problems, scalar and other: all verdicts are equal, all errors are equal, "
        "1 method is in one report only."
    )


def test_many_changes_are_cut_but_counted() -> None:
    def edit(report: dict[str, Any]) -> None:
        for constant in report["constants"].values():
            constant["value"] = constant["value"] * 2 + 1

    comparison = compared(edit)
    assert len(comparison.changes) == len(content()["constants"])
    assert f"… and {len(comparison.changes) - 6} more" in str(comparison)
    assert len(str(comparison).splitlines()) == 10


def test_to_frame() -> None:
    pytest.importorskip("pandas")
    frame = compared(lambda r: r["constants"]["q"].update(value=0.5)).to_frame()
    assert frame.to_dict("records") == [
        {"part": "constant", "name": "q (paper ball)", "before": 0.9, "after": 0.5, "worse": None}
    ]


@pytest.mark.parametrize("rtol", [-1, 1, float("nan"), "1", True])
def test_a_bad_tolerance_is_refused(rtol: Any) -> None:
    with pytest.raises(bc.InputError, match=r"rtol = .* is not a relative difference; give a number"):
        compared(lambda _: None, rtol=rtol)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Edit], str]:
    def write(name: str, edit: Edit) -> str:
        (tmp_path / name).mkdir()
        changed = copy.deepcopy(content())
        edit(changed)
        (tmp_path / name / "report.json").write_text(json.dumps(changed), encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_the_command_takes_files_and_folders(boundcheck: Command, written: Callable[[str, Edit], str]) -> None:
    same, worse = (
        written("a", lambda _: None),
        written("b", lambda r: itd(r)["bounds"]["itd"].update(verdict="violated")),
    )
    consistent = written("c", lambda r: itd(r)["bounds"]["itd"].update(verdict="consistent"))
    run = boundcheck("compare", same, f"{same}/report.json")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("scalar: nothing changed.")
    run = boundcheck("compare", same, worse)
    assert run.returncode == 1
    assert run.stdout.splitlines()[1] == "now violated: itd on itd"
    assert boundcheck("compare", worse, same).returncode == 0
    assert boundcheck("compare", same, consistent).returncode == 0  # worse, but not violated
    run = boundcheck("compare", same, worse, "--json")
    assert run.returncode == 1
    assert json.loads(run.stdout)["violated"] == ["itd on itd"]
    assert json.loads(run.stdout)["schema"] == 1


def test_a_file_that_is_not_there_is_one_line(boundcheck: Command, written: Callable[[str, Edit], str]) -> None:
    run = boundcheck("compare", written("a", lambda _: None), "nowhere")
    assert run.returncode == 2
    assert run.stdout == ""
    assert "nowhere cannot be read" in run.stderr
    assert run.stderr.count("\n") == 1


def test_two_problems_of_one_name() -> None:
    def other_loss(report: dict[str, Any]) -> None:
        report["problem"]["landmarks"]["outer loss at w*"] += 1.0

    comparison = compared(other_loss)
    assert comparison.same_name_only
    assert comparison.sentence.startswith("Different problems, both called scalar: all verdicts are equal")
    assert only(comparison, ChangePart.PROBLEM).name == "outer loss at w*"


def test_another_lam_is_the_same_problem() -> None:
    def other_lam(report: dict[str, Any]) -> None:
        report["problem"]["landmarks"]["norm of λ"] *= 2
        report["problem"]["landmarks"]["outer loss at w*"] += 1.0

    comparison = compared(other_lam)
    assert not comparison.same_name_only
    assert comparison.sentence.startswith("scalar: ")
    assert "different norm of λ, outer loss at w*" in comparison.sentence


def test_a_report_from_before_landmarks_is_not_another_problem() -> None:
    assert not compared(lambda report: report["problem"].pop("landmarks")).changes


def test_a_run_that_begins_to_diverge() -> None:
    def diverging(report: dict[str, Any]) -> None:
        curve = itd(report)
        curve["error"] = [10.0**t for t in curve["t"]]
        for name in ("q", "q_star"):
            report["constants_local"][name] |= {"value": 2.0, "side": "exact"}

    comparison = compared(diverging)
    change = next(c for c in comparison.changes if c.part is ChangePart.COURSE)
    assert (change.name, change.before, change.after, change.worse) == ("itd", "converges", "diverges", True)
    assert comparison.sentence.startswith("scalar: itd diverges now (it converged before), ")
