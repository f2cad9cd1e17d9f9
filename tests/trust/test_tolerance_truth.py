"""Hypergradients to a tolerance on problems built to draw out false statements, against a truth of 70 digits."""

from __future__ import annotations

import pytest
from tolerance_truth import Tally, ask

PROBLEMS, PIECES = 40, 2


@pytest.mark.parametrize("piece", range(PIECES))
def test_nothing_false_is_proved(piece: int) -> None:
    tally = Tally()
    for number in range(piece, PROBLEMS, PIECES):
        tally.join(ask(number))
    assert not tally.false, tally.false
    assert tally.kinds["proved"] > PROBLEMS / PIECES / 4
