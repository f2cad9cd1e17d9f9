"""`check` on problems as a stranger writes them: proved, and not only consistent with samples."""

from __future__ import annotations

import pytest
from user_problems import PAIRS

import boundcheck as bc

SIZES: dict[str, dict[str, int]] = {
    "lr": {"size": 12, "features": 3},
    "br": {"size": 12, "features": 3},
    "krr": {"size": 5, "features": 2},
    "hr": {"size": 5, "features": 3, "represented": 3},
    "multinomial": {"size": 12, "features": 3, "classes": 3},
    "eqm": {"size": 3, "hidden": 2, "features": 2, "classes": 2},
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_bounds_are_proved(name: str) -> None:
    user = PAIRS[name](**SIZES[name.partition(",")[0]]).user
    assert bc.check(user, t=8, bounds=["itd", "aid-fp"]).verdict is bc.Verdict.HOLDS
