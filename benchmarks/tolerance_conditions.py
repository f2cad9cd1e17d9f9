"""Estimates of `hypergradient(problem, rtol=…, prove=False)` on ill-conditioned lower levels, as a table.

``python benchmarks/tolerance_conditions.py --problems 200``. The problems are ridge and logistic regressions with a
tiny penalty and equilibria of maps that are not symmetric. Their condition numbers are between 10² and 10⁷. The truth
is the dense solution in float64.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from torch import Tensor

import boundcheck as bc

TOLERANCES = (0.1, 0.01)
KINDS = ("ridge", "ridge", "logistic", "logistic", "map")
SPECTRA = ("geometric", "polynomial", "gap")
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95)
DECADES = (2, 7)  # of the condition number
MOST = 20_000  # steps of one solver


@dataclass(frozen=True)
class Answer:
    """What came of one problem."""

    kind: str
    kappa: float
    products: int
    ratio: float | None  # estimate/error; None where there is no answer
    descent_is_false: bool = False


def spectrum(rng: Random, d: int, kappa: float) -> Tensor:
    """Eigenvalues from 1 down to 1/kappa."""
    at = torch.linspace(0, 1, d, dtype=torch.float64)
    shape = rng.choice(SPECTRA)
    if shape == "geometric":
        return kappa**-at
    if shape == "polynomial":
        power = rng.uniform(1, 3)
        return (1 + at * (kappa ** (1 / power) - 1)) ** -power
    few = rng.randint(1, 10)
    return torch.cat([10 ** -torch.linspace(0, 1, d - few, dtype=torch.float64), torch.full((few,), 1 / kappa)])


def _orthogonal(d: int, generator: torch.Generator) -> Tensor:
    return torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q


def make(number: int) -> tuple[bc.Problem, str, float]:
    """One problem, its kind and the condition number of its lower level, about."""
    rng = Random(f"conditions-{number}")
    generator = torch.Generator().manual_seed(number)
    kind, d = rng.choice(KINDS), rng.choice((20, 60, 150))
    kappa = 10 ** rng.uniform(*DECADES)
    lam = spectrum(rng, d, kappa)
    U = _orthogonal(d, generator)
    X = (_orthogonal(d, generator) * (d * lam).sqrt()) @ U.T
    w_true = torch.randn(d, generator=generator, dtype=torch.float64)
    y = X @ w_true + 0.1 * torch.randn(d, generator=generator, dtype=torch.float64)
    X_val = torch.randn(d, d, generator=generator, dtype=torch.float64) @ ((U * lam.sqrt()) @ U.T)
    y_val = X_val @ w_true + 0.1 * torch.randn(d, generator=generator, dtype=torch.float64)
    many = rng.random() < 0.5  # a penalty for every feature
    h = torch.full((d,) if many else (), -math.log(kappa), dtype=torch.float64)
    w0 = torch.zeros(d, dtype=torch.float64)
    if kind == "map":
        A = lam.diag() + torch.triu(0.1 * lam[:, None] * torch.randn(d, d, generator=generator, dtype=torch.float64), 1)
        M = torch.eye(d, dtype=torch.float64) - 0.5 * U @ A @ U.T
        problem = bc.Problem.from_map(
            lambda w, h: M @ w + (h * w_true if many else h.exp() * w_true),
            lambda w, h: ((w - w_true) ** 2).mean(),
            w0,
            h,
        )
        return problem, kind, kappa
    if kind == "ridge":

        def inner(w: Tensor, h: Tensor) -> Tensor:
            return ((X @ w - y) ** 2).mean() / 2 + (h.exp() * w**2).sum() / 2

        def outer(w: Tensor, h: Tensor) -> Tensor:
            return ((X_val @ w - y_val) ** 2).mean()

        return bc.Problem.from_loss(inner, outer, w0, h, 1.0), kind, kappa
    labels, labels_val = torch.sign(y), torch.sign(y_val)

    def logistic(w: Tensor, h: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-labels * (X @ w)).mean() + (h.exp() * w**2).sum() / 2

    def validation(w: Tensor, h: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-labels_val * (X_val @ w)).mean()

    return bc.Problem.from_loss(logistic, validation, w0, h, 1.0), kind, kappa


def ask(number: int) -> Answer:
    """The answer to one problem."""
    problem, kind, kappa = make(number)
    rtol = TOLERANCES[number % len(TOLERANCES)]
    truth = bc.hypergradient(problem, "exact").value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            g = bc.hypergradient(problem, rtol=rtol, prove=False, t=MOST)
    except bc.ToleranceError as why:
        return Answer(kind, kappa, why.best.products if why.best is not None else 0, None)
    error = float((g.value - truth).norm())
    false = g.descent is not None and g.descent is not bool(g.value @ truth > 0)
    return Answer(kind, kappa, g.products, float(g.error.upper) / error if error > 0 else math.inf, false)


def row(name: str, answers: list[Answer]) -> str:
    """A row of the table."""
    ratios = [answer.ratio for answer in answers if answer.ratio is not None]
    quantiles = " | ".join(f"{x:.2g}" for x in np.quantile(ratios, QUANTILES)) if ratios else " | ".join("–" * 6)
    false = sum(answer.descent_is_false for answer in answers)
    products = int(np.median([answer.products for answer in answers]))
    return f"| {name} | {len(answers)} | {len(answers) - len(ratios)} | {quantiles} | {false} | {products} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=sorted(set(KINDS)), help="only these")
    parser.add_argument("--each", action="store_true", help="a line for each problem")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    answers = []
    for number in range(chosen.first, chosen.first + chosen.problems):
        if make(number)[1] not in chosen.kinds:
            continue
        answers.append(ask(number))
        if chosen.each:
            print(number, answers[-1], flush=True)
    print("| problems | number | no answer | " + " | ".join(f"{q:.0%}" for q in QUANTILES) + " | descent | products |")
    print("|---" * (len(QUANTILES) + 5) + "|")
    print(row("all", answers))
    for kind in chosen.kinds:
        print(row(kind, [answer for answer in answers if answer.kind == kind]))
    for low, high in ((2, 4), (4, 5.5), (5.5, 7)):
        chosen_ones = [answer for answer in answers if 10**low <= answer.kappa < 10**high]
        if chosen_ones:
            print(row(f"κ = 10^{low} … 10^{high}", chosen_ones))


if __name__ == "__main__":
    main()
