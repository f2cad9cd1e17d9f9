"""Every equilibrium model in turn, and images in the place of real ones."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from equilibria import CASES, TINY, Make

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import parts


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(case: str) -> Make:
    return CASES[case]


@pytest.fixture
def tiny(case: str) -> Problem:
    return CASES[case](**TINY[case])


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Three images in the place of MNIST's."""
    rng = np.random.default_rng(0)
    images = SimpleNamespace(
        train_images=rng.integers(0, 256, (3, 28, 28)).astype(np.uint8), train_labels=np.array([7, 0, 9], np.uint8)
    )
    fake = SimpleNamespace(mnist=lambda: images)
    monkeypatch.setitem(sys.modules, "boundcheck.problems.parts.datasets", fake)
    monkeypatch.setattr(parts, "datasets", fake, raising=False)
    return images
