"""Progress: loops that report, how long the rest takes, and what is said about work that takes long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import boundcheck as bc
from boundcheck import progress
from boundcheck.progress import StageClock, counted, duration, reporting_to
from boundcheck.views.terminal.long_work import LongWork


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_loop_reports_to_the_callback_of_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    reports: list[tuple[str, float, float]] = []
    assert list(counted("abc", "before")) == ["a", "b", "c"]
    with reporting_to(lambda *report: reports.append(report)):
        assert list(counted("abc", "letters", power=2)) == ["a", "b", "c"]
        assert list(counted(iter("ab"), "more", 2)) == ["a", "b"]
        with reporting_to(None):
            assert list(counted("a", "a single one")) == ["a"]
        progress.doing("one thing")
    list(counted("abc", "after"))
    assert reports == [
        ("letters", 0, 9), ("letters", 1, 9), ("letters", 4, 9), ("more", 0, 2), ("more", 1, 2), ("one thing", 0, 1),
    ]  # fmt: skip


def test_the_rest_of_a_stage_follows_from_its_first_part() -> None:
    clock = Clock()
    stage = StageClock(clock)
    assert stage.left("constants: q", 0, 10) is None
    clock.time += 4
    assert stage.left("constants: nu_1", 2, 10) == 16.0
    clock.time += 1
    assert stage.left("bounds", 3, 10) is None  # another stage
    clock.time += 5
    assert stage.left("bounds", 4, 10) == 30.0
    assert stage.left("bounds", 1, 10) is None  # it began anew
    clock.time += 0.5
    assert stage.left("bounds", 2, 10) is None  # too early to say


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.1, "1 s"), (50, "50 s"), (100, "2 min"), (9000, "2.5 h"), (2e5, "2.3 days")]
)  # fmt: skip
def test_times_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def listener(lines: list[str], bar: bool) -> tuple[Clock, LongWork]:
    clock = Clock()
    return clock, LongWork(lines.append, bar, lambda seconds: f"use less than {seconds:.0f} s", clock)


def test_long_work_is_announced_once() -> None:
    lines: list[str] = []
    clock, work = listener(lines, bar=True)
    for done in range(4):
        work.hear("itd: every t", done, 100)
        clock.time += 2
    assert lines == ["itd: about 3 min"]
    for done in range(4):
        work.hear("short", done, 5)
        clock.time += 1
    assert len(lines) == 1


def test_without_a_bar_there_are_signs_of_life() -> None:
    lines: list[str] = []
    clock, work = listener(lines, bar=False)
    for step in range(4):
        clock.time += 20
        work.hear(f"Newton step {step}", 0, 1)
    assert lines == ["Newton step 1", "Newton step 3"]


def test_what_takes_days_is_refused_with_advice() -> None:
    clock, work = listener([], bar=True)
    work.hear("aid-fp", 0, 1e6)
    clock.time += 2
    with pytest.raises(bc.InputError, match=r"aid-fp: this would take about 23 days; use less than 2000000 s"):
        work.hear("aid-fp", 1, 1e6)


def test_curves_say_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    said: dict[str, list[float]] = {}
    hear: Callable[[str, float, float], None] = lambda what, done, of: said.setdefault(what, []).append(done / of)  # noqa: E731
    bc.error_curves(bc.problems.scalar(kind="curved"), ["itd", "aid-cgn"], t=40, progress=hear)
    assert said["iterating Φ"][-1] == pytest.approx(39 / 40)
    assert all(shares == sorted(shares) and shares[-1] <= 1 for shares in said.values())
    assert set(said) >= {"iterating Φ", "error curves"}
