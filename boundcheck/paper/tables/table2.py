"""Table 2 of the paper: f(λ_s) and test accuracy of w(λ_s) after gradient descent on λ with ITD, FP and CG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boundcheck.engine.experiment import Outcome, Settings
from boundcheck.paper.tables import runs

NAME = "table2"
TITLE = "objective (test accuracy in %) on w(λ) after s steps on λ: Parkinson, 20 newsgroups, Fashion-MNIST"
ready, tasks, run = runs.ready, runs.tasks, runs.run
measured, shortened = runs.measured, runs.shortened


def settings(quick: bool, seed: int, device: str) -> Settings:
    return runs.settings(quick, seed, device, exact=True)


def report(settings: Settings, results: Mapping[str, Any]) -> Outcome:
    from boundcheck.paper.tables.views import report

    return report.outcome(NAME, settings, results)
