"""What runs on every device and in every dtype: each problem in its smallest size, each solver, each kind of curve."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from pretend import DEVICE, host, pretending
from small import NAMES, small
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves import cost

TINY: dict[str, dict[str, Any]] = {  # forward mode runs once for each entry of λ
    "lr": {"size": 6, "features": 4},
    "krr": {"size": 4, "features": 3},
    "br": {"size": 3, "features": 4},
    "hr": {"size": 4, "features": 2, "represented": 3},
    "eqm": {"size": 2, "hidden": 2, "classes": 2},
    "conv-eqm": {"size": 1, "hidden": 1, "classes": 2},
    "parkinson": {"size": 4, "features": 2},
    "newsgroups": {"size": 4, "features": 4, "classes": 2},
    "fashion-mnist": {"validation_size": 4, "features": 3, "classes": 2},
}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
SOLVERS = {
    "itd-reverse": ("itd", "reverse"),
    "itd-checkpoint": ("itd", "checkpoint"),
    "itd-forward": ("itd", "forward"),
    "itd-truncated": ("itd-truncated:2", "auto"),
    "aid-fp": ("aid-fp", "auto"),
    "aid-cg": ("aid-cg", "auto"),
    "aid-cgn": ("aid-cgn", "auto"),
    "exact": ("exact", "auto"),
}
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS)
EVERY_PROBLEM = pytest.mark.parametrize("name", NAMES)
EVERY_ALGORITHM = pytest.mark.parametrize("algorithm", cost.ALGORITHMS)


@cache
def make(name: str, dtype: torch.dtype, device: str) -> Problem:
    if device == "cpu":
        return small(name, dtype=dtype, device="cpu", **TINY.get(name, {}))
    with pretending():
        return small(name, dtype=dtype, device=DEVICE, **TINY.get(name, {}))


def applies(problem: Problem, solver: str) -> bool:
    """CG refuses what is declared not symmetric; that it does is tested beside it."""
    return solver != "aid-cg" or problem.symmetric is not False


def steps_of(solver: str) -> tuple[int, int]:
    return (1, 2) if solver == "itd-forward" else (3, 6)  # forward mode costs n runs


def curve_methods(problem: Problem, algorithm: str = "wavefront") -> list[str]:
    """All methods; the algorithm matters to ITD only, so that the others need to run once."""
    every = ("itd", "itd-truncated:2", "aid-fp", "aid-fp:2", "aid-cgn", "aid-cg")
    return [m for m in every if applies(problem, m)] if algorithm == "wavefront" else ["itd"]


def agrees(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    gap = (host(found) - expected).norm()
    assert gap <= torch.finfo(expected.dtype).eps ** 0.5 * expected.norm(), f"{host(found)} and on the CPU {expected}"
