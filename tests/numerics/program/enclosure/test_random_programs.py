"""Random programs of everything that has a rule: no sample of the ball contradicts what is said of it."""

from __future__ import annotations

import pytest
from random_programs import random_program
from soundness import ask, read, report

PROGRAMS, GROUP = 80, 10


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_nothing_false_is_said_of_random_programs(first: int) -> None:
    answers = [ask(seed) for seed in range(first, first + GROUP)]
    assert not [a for a in answers if a.get("false") or a.get("error")]
    assert sum(bool(a.get("declined")) for a in answers) <= GROUP // 2


def test_a_program_is_that_of_its_seed() -> None:
    one, two = random_program(5), random_program(5)
    assert one.text == two.text
    assert one(one.w, one.lam).equal(two(two.w, two.lam))


def test_the_log_is_read_again(tmp_path) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "log"
    log.write_text('{"seed": 1, "radius": 1.0, "ratios": {"third": 2.0}}\n{"seed": 2, "radius": 1.0, "fal')
    answers = read(log)
    assert [a["seed"] for a in answers] == [1]
    assert "1 programs, 0 with false statements" in report(answers)
