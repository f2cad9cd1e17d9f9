"""The theorems on minibatch hypergradients against real runs: every bound on several problems and step schedules.

    python benchmarks/stochastic_theorems.py [--problems lr,newsgroups,…] [--t 50] [--runs 1000] [--points 4]

A table row is a bound on one problem with one schedule: the verdict, bound/estimate at the last t, and the upper end of
the interval in units of the bound. The exit code is 1 if anything is violated.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import boundcheck as bc
from boundcheck import StepSchedule
from boundcheck.report.stochastic_report import StochasticReport

EXAMPLES = Path(__file__).parent.parent / "examples"


def digits() -> bc.Problem:
    """A user's multinomial regression in plain torch."""
    return runpy.run_path(str(EXAMPLES / "own_stochastic.py"))["problem"]


def images() -> bc.Problem:
    """Training images as hyperparameters, away from the images of zeros at which w is 0."""
    problem = bc.problems.fashion_mnist(synthetic=True, validation_size=40, features=6, classes=3, batch=2)
    noise = torch.randn(problem.n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return problem.at(problem.lam + 0.05 * noise)


PROBLEMS: dict[str, Callable[[], bc.Problem]] = {
    "lr": lambda: bc.problems.logistic_regression(size=100, features=10, low=1.0, batch=10),
    "newsgroups": lambda: bc.problems.newsgroups(synthetic=True, size=60, features=20, classes=3, batch=10),
    "fashion-mnist": images,
    "digits": digits,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="names, separated by commas")
    parser.add_argument("--t", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    print("problem        steps       bound                  verdict        bound/estimate  upper end/bound")
    for name in options.problems.split(","):
        problem = PROBLEMS[name]()
        default = check(problem, options, None)
        counts += rows(name, "default", default)
        for label, steps in schedules(default).items():
            counts += rows(name, label, check(problem, options, steps))
    print("; ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    return int(any(verdict.startswith("violated") for verdict in counts))


def check(problem: bc.Problem, options: argparse.Namespace, steps: StepSchedule | None) -> StochasticReport:
    """One report."""
    return bc.check_stochastic(
        problem, t=options.t, runs=options.runs, points=options.points, seed=options.seed, steps=steps
    )


def schedules(default: StochasticReport) -> dict[str, StepSchedule]:
    """Half of the constant step that the theory chooses, and the largest steps of Theorems 4.1, 4.2 and 5.1."""
    constants, eta = default.constants, default.steps.eta or default.steps.at(0)
    names = ("q", "sigma_2", "L_Phi_hat")
    q, sigma_2, L_Phi_hat = (constants[name].value if name in constants else 0.0 for name in names)
    beta = 2 / (1 - q**2) if q < 1 else 2.0
    growth = 2 * (L_Phi_hat**2 + q**2) / (1 - q) ** 2 if q < 1 else 1.0  # σ₂ as Theorem 4.3 has it
    up = 1 + 1e-9
    return {
        "constant": StepSchedule.constant(eta / 2),
        "4.1": StepSchedule.constant(1 / (1 + sigma_2) / up),
        "4.2": StepSchedule.decreasing(beta, beta * max(2.0, 1 + sigma_2) * up),
        "5.1": StepSchedule.decreasing(beta, beta * (1 + growth) * up),
    }


def rows(name: str, label: str, report: StochasticReport) -> Counter[str]:
    """Prints a row for every bound that applies."""
    counts: Counter[str] = Counter()
    curve = report.curve("sid")
    for bound in curve.bounds.values():
        if not bound.applies:
            continue
        counts[bound.verdict.value] += 1
        at = np.flatnonzero(~np.isnan(bound.values))[-1]
        mean = curve.means[bound.quantity.value]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, share = bound.values[at] / mean.value[at], mean.upper[at] / bound.values[at]
        verdict = bound.verdict.value.replace("with high probability", "w.h.p.")
        print(f"{name:14} {label:11} {bound.name:22} {verdict:14} {ratio:14.4g} {share:16.3g}", flush=True)
    if report.ball_doubt:
        print(f"{name:14} {label:11} nothing is proved: {report.ball_doubt}")
    return counts


if __name__ == "__main__":
    sys.exit(main())
