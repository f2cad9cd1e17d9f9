"""A run of a recursion goes on where the last one ended, and says the same as one from the start."""

from __future__ import annotations

import numpy as np
import pytest

from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.recursion import Tracks

NUMBERS = {
    "q": 0.9,
    "nu_1": 0.3,
    "nu_2": 0.2,
    "eta_1": 1.0,
    "eta_2": 0.5,
    "L_E": 2.0,
    "L_Phi": 1.0,
    "r_0": 0.7,
    "W": 1.5,
    "g_star": 2.0,
    "q_star": 0.85,
}
GROWS = {**NUMBERS, "q": 40.0, "q_star": 40.0}  # doubles overflow after about 190 steps, and intervals take over


@pytest.mark.parametrize("numbers", [NUMBERS, GROWS], ids=["falls", "overflows"])
def test_the_same_states(numbers: dict[str, float]) -> None:
    recursion = catalogue["itd-recursive"].recursion
    assert recursion is not None
    constants = {name: np.asarray(value) for name, value in numbers.items()}
    tracks: Tracks = {}
    for ts in ([5], [120], [3, 60], [250], [249, 2], [400]):
        arrays = {**constants, "t": np.array(ts)}
        ours = recursion.run(arrays, rigorous=False, tracks=tracks)
        alone = recursion.run(arrays, rigorous=False)
        assert ours.keys() == alone.keys()
        assert all(np.array_equal(ours[name], alone[name]) for name in alone)


def test_other_constants_are_another_run() -> None:
    recursion = catalogue["itd-recursive"].recursion
    assert recursion is not None
    tracks: Tracks = {}
    states = [
        recursion.run({name: np.asarray(x) for name, x in {**NUMBERS, "r_0": r_0}.items()} | {"t": np.array([9])},
                      rigorous=False, tracks=tracks)
        for r_0 in (0.7, 0.8)
    ]  # fmt: skip
    assert not np.array_equal(states[0]["Delta_t"], states[1]["Delta_t"])
