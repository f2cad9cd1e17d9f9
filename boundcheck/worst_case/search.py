"""Search for the worst instance: gradient ascent on log(error/bound) from random starts, then differential evolution.

Many starts climb at once as rows of a batch, in rounds that keep the better half. The results and new random rows are
the first population of scipy's differential evolution. Optima lie on kinks of ramps and where two terms of a maximum
are equal; there the ascent stalls, but evolution does not need derivatives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.optimize import OptimizeResult, differential_evolution
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.progress import Progress, no_progress
from boundcheck.worst_case.family import Family
from boundcheck.worst_case.terms import grouped, required_terms

BOX = 30.0  # larger raw numbers have no more effect
TINY = 1e-280  # keeps logarithms finite
MISSING = 3.0  # the penalty for a share that is too small is this factor times log(least/share)


@dataclass(frozen=True)
class SearchEffort:
    """The effort of a search: rows and steps of the ascent, rounds of halving, generations and rows of evolution."""

    starts: int = 128
    steps: int = 100
    rounds: int = 3
    generations: int = 250
    population: int = 100


FULL, QUICK = SearchEffort(), SearchEffort(starts=64, steps=60, rounds=2, generations=80, population=60)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best raw row, its ratio in double precision, and the effort of the search."""

    family: Family
    raw: Tensor  # one row
    ratio: float
    starts: int
    evaluations: int
    seconds: float
    interrupted: bool = False


class Objective:
    """The objective log(error/bound) of rows, with a count of the evaluated rows."""

    def __init__(self, family: Family, t: int, k: int) -> None:
        self.family, self.t, self.k = family, t, k
        self.expression = family.target.expression(t, k)
        groups = grouped(self.expression)
        names = required_terms(family.parts, groups) if family.least else ()
        self.required = [groups[name] for name in names]
        self.evaluations = 0
        self.best: tuple[Tensor, float] | None = None  # the best row so far, in case the search is stopped

    def __call__(self, raw: Tensor) -> Tensor:
        self.evaluations += len(raw)
        target = self.family.target
        instance = self.family.instance(raw)
        outcome = target.outcome(instance, self.t, self.k)
        bound = target.right(instance, outcome, self.t, self.expression)
        log_ratio: Tensor = torch.log(target.error(instance, outcome) + TINY) - torch.log(bound + TINY)
        for term in self.required:  # a penalty for a term that is too small; it exceeds the possible gain
            share = target.right(instance, outcome, self.t, term) / bound
            log_ratio = log_ratio - MISSING * torch.log(self.family.least / (share + TINY)).clamp(min=0.0)
        log_ratio = torch.where((bound > TINY) & torch.isfinite(log_ratio), log_ratio, -1e3)  # skip 0 ≤ 0
        top = int(log_ratio.argmax())
        if self.best is None or float(log_ratio[top].detach()) > self.best[1]:
            self.best = raw[top].detach().clone(), float(log_ratio[top].detach())
        return log_ratio


def ascend(
    objective: Objective, raw: Tensor, steps: int, rate: float, tell: Callable[[int], None]
) -> tuple[Tensor, Tensor]:
    """Run Adam on every row, with a rate that falls to a hundredth; returns the best points and their values."""
    raw = raw.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([raw], lr=rate)
    fall = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.01 ** (1 / max(steps, 1)))
    best, value = raw.detach().clone(), torch.full((len(raw),), -torch.inf, dtype=raw.dtype)
    for step in range(steps + 1):
        tell(step)
        height = objective(raw)
        better = height.detach() > value
        value = torch.where(better, height.detach(), value)
        best = torch.where(better[:, None], raw.detach(), best)
        if step < steps:
            optimiser.zero_grad()
            (slope,) = torch.autograd.grad(-height.sum(), raw)
            raw.grad = torch.nan_to_num(slope, 0.0, 0.0, 0.0).clamp(-10, 10)
            optimiser.step()
            fall.step()
    return best, value


def search(
    family: Family, t: int, k: int, seed: int = 0, effort: SearchEffort = FULL, tell: Progress | None = None,
    warm: Tensor | None = None,
) -> SearchResult:  # fmt: skip
    """Return the worst instance of the family at t and k. `warm` has additional rows from which to start.

    If the search is interrupted, the best instance so far is returned.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number, at least 0 (got {seed!r})")
    start, tell = time.perf_counter(), tell or no_progress
    objective = Objective(family, t, k)
    generator = torch.Generator().manual_seed(seed)
    rows = family.random(effort.starts, generator)
    rows = rows if warm is None else torch.cat((warm, rows))
    value = torch.full((len(rows),), -torch.inf, dtype=rows.dtype)
    interrupted, total, done = False, effort.steps, 0
    try:
        for number in range(effort.rounds):
            steps = effort.steps // effort.rounds
            rate = 0.2 / 2**number
            rows, value = ascend(objective, rows, steps, rate, partial(_forward, tell, done, total))
            done += steps
            order = torch.argsort(value, descending=True)[: max(16, len(rows) // 2)]
            rows, value = rows[order], value[order]
        fresh = family.random(max(effort.population - len(rows), effort.population // 3), generator)
        population = torch.cat((rows[: effort.population - len(fresh)], fresh))
        evolved, height = _evolve(objective, population, rows[0], value[0], seed, effort, tell)
        # a last ascent, because evolution may have crossed a kink at which the first ascent stalled
        rows, value = ascend(objective, evolved[None], effort.steps // 5, 0.01, lambda i: tell("polish", i, 1))
        if height > value[0]:
            rows, value = evolved[None], height[None]
    except KeyboardInterrupt:
        if objective.best is None:  # no instance was evaluated yet
            raise
        interrupted, rows, value = True, objective.best[0][None], value[:1]
    best = rows[int(value.argmax())][None].detach()
    objective.required = []
    with torch.no_grad():
        ratio = float(objective(best).exp())
    seconds = time.perf_counter() - start
    return SearchResult(family, best, ratio, effort.starts, objective.evaluations, seconds, interrupted)


def _forward(tell: Progress, before: int, total: int, step: int) -> None:
    tell("ascent", before + step, total)


def _evolve(
    objective: Objective,
    population: Tensor,
    best: Tensor,
    value: Tensor,
    seed: int,
    effort: SearchEffort,
    tell: Progress,
) -> tuple[Tensor, Tensor]:
    """Run differential evolution from this population; the result is never worse than `best`."""

    def lost(columns: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            height = objective(torch.from_numpy(np.ascontiguousarray(columns.T)))
        return np.asarray(-torch.nan_to_num(height, -1e3).numpy())

    generation = 0

    def after_generation(intermediate_result: OptimizeResult) -> None:
        nonlocal generation
        generation += 1
        tell("evolution", generation, effort.generations)

    evolved = differential_evolution(
        lost,
        [(-BOX, BOX)] * population.shape[1],
        init=population.clamp(-BOX, BOX).numpy(),
        maxiter=effort.generations,
        strategy="currenttobest1bin",
        mutation=(0.3, 0.9),
        recombination=0.7,
        tol=1e-12,
        rng=np.random.default_rng(seed),
        polish=False,
        vectorized=True,
        updating="deferred",
        callback=after_generation,
    )
    if -evolved.fun > float(value):
        return torch.from_numpy(np.array(evolved.x)), torch.tensor(-float(evolved.fun), dtype=population.dtype)
    return best, value
