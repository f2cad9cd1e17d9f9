"""The standing adversary at a small size: no false statement on problems built to draw one out."""

from __future__ import annotations

import contextlib
from collections import defaultdict

import pytest
import torch
from adversary.ask import ask
from adversary.exact import Exact, minus, mp, norm, vector
from adversary.generate import case_of
from adversary.tally import Tally

PROBLEMS, PIECES = 150, 6


@pytest.mark.parametrize("piece", range(PIECES))
def test_no_false_statement(piece: int) -> None:
    tally = Tally()
    for number in range(piece, PROBLEMS, PIECES):
        tally.add(ask(number))
    assert tally.false == 0, tally.text(shown=20)


def test_most_legal_problems_are_answered() -> None:
    tally = Tally()
    for number in range(200, 240):
        tally.add(ask(number, call="hypergradient"))
    asked, refused = sum(tally.asked.values()), sum(tally.refused.values())
    assert refused <= asked / 5, tally.text()


def test_the_two_languages_say_the_same() -> None:
    """Φ and E of every case in torch against mpmath, at the start and beside it, up to rounding."""
    worst: dict[str, float] = defaultdict(float)
    for number in range(300, 400):
        case = case_of(number)
        if case.undefined or case.rough or case.misspelt or case.alpha is not None:
            continue
        for shift in (0.0, 0.37):
            w = torch.tensor([x + shift * case.w_scale for x in case.w0], dtype=case.dtype)
            here = vector(w.tolist())
            value, truth = case.function(w, case.hparams), case.exact.phi(here, case.exact.lam)
            E, exact_E = case.outer(w, case.hparams), case.exact.outer(here, case.exact.lam)
            if not all(map(torch.isfinite, (*value, E))):
                continue
            off = float(norm(minus(vector(value.tolist()), truth))) / (float(norm(truth)) + case.w_scale)
            off_E = abs(float(E) - float(exact_E)) / (abs(float(exact_E)) + 1e-300)
            assert off <= 100 * case.eps, str(case)
            worst["E"] = max(worst["E"], off_E / case.eps)
    assert worst["E"] < 1e4  # E may cancel a little


def test_a_problem_is_the_same_every_time() -> None:
    first, again = (ask(17, seed=3) for _ in range(2))
    assert (first.kinds, first.call, first.refusal, first.lies) == (again.kinds, again.call, again.refusal, again.lies)


def test_iterates_that_run_away_have_no_truth() -> None:
    """w³ + e^(−w²) from 2: after a few steps, the exponential alone would take hours."""
    exact = Exact(lambda w, lam: [w[0] ** 3 + mp.exp(-(w[0] ** 2))], lambda w, lam: w[0], vector([2.0]), vector([1.0]))
    assert exact.w_star is None


def test_what_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def for_ever(*_: object) -> None:
        while True:
            with contextlib.suppress(TimeoutError):  # as code does that catches every exception
                for _ in range(10**9):
                    pass
            stopped.append(True)
            if len(stopped) == 2:
                raise TimeoutError

    stopped: list[bool] = []
    monkeypatch.setattr("adversary.ask.LONGEST", 0.1)
    monkeypatch.setattr("adversary.ask.case_of", for_ever)
    assert [kind for kind, _ in ask(0).lies] == ["too long"]
    assert len(stopped) == 2
