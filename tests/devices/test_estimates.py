"""The estimator on a device: the same constants as on the CPU, and nothing that mixes the two."""

from __future__ import annotations

import pytest
import torch
from cases import EVERY_PROBLEM, make
from pretend import DEVICE, pretending

from boundcheck.estimate.all import estimate_constants


@EVERY_PROBLEM
def test_constants(name: str) -> None:
    """To what a climb that a budget stopped may differ by, when its sums are rounded in another order."""
    expected = estimate_constants(make(name, torch.float64, "cpu"), budget=300)
    with pretending():
        found = estimate_constants(make(name, torch.float64, str(DEVICE)), budget=300)
    assert set(found) == set(expected)
    for key, constant in found.items():
        assert constant.side is expected[key].side, key
        assert constant.value == pytest.approx(expected[key].value, rel=1e-2, abs=1e-9), key
