"""Table 2 of the paper: f(λ_s) and test accuracy of w(λ_s), where gradient descent on λ by ITD, FP and CG ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boundcheck.paper import _tables_runs
from boundcheck.paper._experiment import Outcome, Settings

NAME = "table2"
TITLE = "objective (test accuracy in %) on w(λ) after s steps on λ: Parkinson, 20 newsgroups, Fashion-MNIST"
ready, tasks, run = _tables_runs.ready, _tables_runs.tasks, _tables_runs.run


def settings(quick: bool, seed: int, device: str) -> Settings:
    return _tables_runs.settings(quick, seed, device, exact=True)


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper import _report_tables

    return _report_tables.outcome(NAME, settings, results)
