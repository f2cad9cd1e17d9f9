"""Every built-in problem in a size for tests; a new one takes part with its defaults until it says otherwise here."""

from __future__ import annotations

from typing import Any

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import CATALOGUE

SMALL: dict[str, dict[str, Any]] = {
    "lr": {"size": 12, "features": 8, "low": 0.5, "high": 2.0},
    "krr": {"size": 8, "features": 5, "low": 0.05, "high": 0.5},
    "br": {"size": 6, "features": 8},
    "hr": {"size": 6, "features": 4, "represented": 7},
    "eqm": {"size": 4, "hidden": 3, "features": 2, "classes": 3, "norm": 0.6},
    "conv-eqm": {"size": 2, "hidden": 2, "side": 8, "classes": 3, "norm": 0.6},
    "parkinson": {"synthetic": True, "size": 8, "features": 4},
    "newsgroups": {"synthetic": True, "size": 8, "features": 10, "classes": 3},
    "fashion-mnist": {"synthetic": True, "features": 5, "classes": 3},
}
NAMES = tuple(CATALOGUE)


def small(name: str, **options: Any) -> Problem:
    return CATALOGUE[name].make(**{**SMALL.get(name, {}), **options})
