"""Successive halving of a grid of step sizes: all are run for a few steps, and the best of them continue until the end.

This does not give the result of the whole grid: a step size that starts slowly is dropped, even if it would be the best
in the end. So the result records which step sizes were dropped, after how many steps, and with which f_t.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.engine.experiment import Step
from boundcheck.errors import InputError
from boundcheck.paper.tables.data import Loaded, Table
from boundcheck.paper.tables.hypergradient_error import hypergradient_error
from boundcheck.paper.tables.outer_loop import OuterDescent

DIVISOR = 3
MOST_DIVISOR = 100
LISTS = ("left", "values", "last", "stopped")


@dataclass(frozen=True)
class HalvingRule:
    """The rule of successive halving: after each round, one in `divisor` step sizes continues.

    The first round ends at step `first`, and each later one at `divisor` times as many steps, the last one at s. By
    default, `first` follows from s.
    """

    divisor: int = DIVISOR
    first: int | None = None

    @classmethod
    def read(cls, text: str) -> HalvingRule:
        """Return the rule of a text such as "3", or "3:20" with the steps of the first round."""
        divisor, colon, first = text.partition(":")
        parts = [divisor, first] if colon else [divisor]
        if not all(part.strip().isdecimal() for part in parts) or not 2 <= int(divisor) <= MOST_DIVISOR:
            raise InputError(f"--halving must be a divisor from 2 to {MOST_DIVISOR}, as in 3, or 3:20 (got {text!r})")
        if colon and int(first) < 1:
            raise InputError(f"--halving {text} begins with {int(first)} steps; give at least 1")
        return cls(int(divisor), int(first) if colon else None)

    def __str__(self) -> str:
        return f"{self.divisor}" if self.first is None else f"{self.divisor}:{self.first}"


def rounds(count: int, s: int, rule: HalvingRule) -> list[list[int]]:
    """Return [number of step sizes, last step] of each round; the last round is [1, s]."""
    counts = [count]
    while counts[-1] > 1:
        counts.append(max(1, counts[-1] // rule.divisor))
    last = len(counts) - 1
    plan: list[list[int]] = []
    for i, some in enumerate(counts):
        grown = -(-s // rule.divisor ** (last - i)) if rule.first is None else rule.first * rule.divisor**i
        steps = s if i == last else min(s, grown)
        if i == last or not plan or steps > plan[-1][1]:  # skip rounds without steps
            plan.append([some, steps])
    return plan


def survivors(values: Sequence[float | None], count: int) -> list[int]:
    """Return the indices of the least values, in increasing order; None, for divergence, is left out."""
    finite = [i for i, value in enumerate(values) if value is not None]
    return sorted(sorted(finite, key=lambda i: (values[i], i))[:count])


def work(plan: Sequence[Sequence[int]], together: int) -> list[tuple[int, int]]:
    """Return (step sizes, steps) of each batch."""
    done, pieces = 0, []
    for count, steps in plan:
        pieces += [(min(together, count - at), steps - done) for at in range(0, count, together)]
        done = steps
    return pieces


@dataclass(eq=False)
class Pool:
    """The remaining step sizes with their λ and w, the results of all step sizes, and the current batch."""

    round: int
    left: list[int]  # the indices of the remaining step sizes
    lam: Tensor
    w: Tensor
    values: list[float | None]  # f_t of the remaining step sizes that have finished this round
    last: list[float | None]  # f_t of every step size at the step where it stopped
    stopped: list[int]  # the step at which each step size stopped
    done: int = 0  # the number of finished batches
    at: int = 0  # the number of remaining step sizes that have finished this round
    definite: bool = True
    batch: dict[str, Any] | None = None

    @classmethod
    def start(cls, lam: Tensor, w0: Tensor, count: int) -> Pool:
        rows = lam.expand(count, -1).clone(), w0.expand(count, -1).clone()
        return cls(0, list(range(count)), *rows, [None] * count, [None] * count, [0] * count)

    @classmethod
    def read(cls, state: Mapping[str, Any], device: torch.device) -> Pool:
        """Return the pool of a checkpoint, without changes to the checkpoint."""
        lists = {name: list(state[name]) for name in LISTS}
        tensors = {name: state[name].to(device) for name in ("lam", "w")}
        return cls(**{**state, **lists, **tensors})

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint. Tensors are not copied, because they are never changed in place."""
        return vars(self) | {name: list(getattr(self, name)) for name in LISTS}


def halve(
    data: Loaded, table: Table, parameters: Mapping[str, Any], state: Mapping[str, Any] | None, of: float,
    before: float = 0,
) -> Generator[Step, None, tuple[dict[str, Any], Tensor | None]]:  # fmt: skip
    """Run the rounds, and yield after each step on λ; returns the summary and λ_s of the last step size."""
    problem, t, plan = data.problem, parameters["t"], parameters["rounds"]
    zeta = torch.tensor(parameters["zeta"], dtype=problem.dtype, device=problem.device)
    start = Pool.start(problem.lam, problem.w0, len(zeta))
    pool = start if state is None else Pool.read(state, problem.device)
    finished = sum(steps for _, steps in work(plan, table.together)[: pool.done])
    while pool.round < len(plan):
        from_step = plan[pool.round - 1][1] if pool.round else 0
        steps = plan[pool.round][1]
        while pool.at < len(pool.left):
            rows = slice(pool.at, pool.at + table.together)
            descent = _resumed(pool, rows, from_step, problem.device)
            numbers = torch.tensor(pool.left[rows], device=problem.device)
            while descent.done < steps:
                descent = descent.step(problem, parameters["method"], zeta[numbers], t, table.warm, table.within)
                pool.batch = vars(descent)
                yield Step(pool.state(), before + finished + descent.done - from_step, of)
            _end_batch(pool, rows, descent, data, t, table.warm)
            finished += steps - from_step
        _end_round(pool, steps, plan[pool.round + 1][0] if pool.round + 1 < len(plan) else 1)
    return _summary(pool, data, parameters, table)


def _resumed(pool: Pool, rows: slice, from_step: int, device: torch.device) -> OuterDescent:
    if pool.batch is not None:
        tensors = {name: pool.batch[name].to(device) for name in ("alive", "lam", "w")}
        return OuterDescent(done=pool.batch["done"], definite=pool.batch["definite"], **tensors)
    lam = pool.lam[rows]
    return OuterDescent(from_step, torch.arange(len(lam), device=device), lam.clone(), pool.w[rows].clone())


def _end_batch(pool: Pool, rows: slice, descent: OuterDescent, data: Loaded, t: int, warm: bool) -> None:
    """Store λ, w and f_t of the step sizes of the batch in the pool."""
    problem = data.problem
    if len(descent.alive):
        pool.lam, pool.w = pool.lam.clone(), pool.w.clone()
        w = descent.last(problem, t, warm)
        for row, lam, at, of_lam in zip(descent.alive.tolist(), descent.lam, descent.w, w, strict=True):
            place = rows.start + row
            pool.lam[place], pool.w[place] = lam, at
            value = float(problem.outer_at(of_lam, problem.prepare(lam)))
            pool.values[place] = value if value == value and abs(value) != float("inf") else None
    pool.definite, pool.batch = pool.definite and descent.definite, None
    pool.at, pool.done = min(rows.stop, len(pool.left)), pool.done + 1


def _end_round(pool: Pool, steps: int, count: int) -> None:
    """Store f_t of all step sizes of the round, and keep the best step sizes."""
    for number, value in zip(pool.left, pool.values, strict=True):
        pool.last[number], pool.stopped[number] = value, steps
    keep = survivors(pool.values, count)
    pool.left, pool.lam, pool.w = [pool.left[i] for i in keep], pool.lam[keep], pool.w[keep]
    pool.values, pool.at, pool.round = [None] * len(keep), 0, pool.round + 1


def _summary(
    pool: Pool, data: Loaded, parameters: Mapping[str, Any], table: Table
) -> tuple[dict[str, Any], Tensor | None]:  # fmt: skip
    """Return the same summary as for a batch of the grid, with the step at which each step size stopped."""
    summary: dict[str, Any] = {"zeta": list(parameters["zeta"]), "f_t": pool.last, "best": None}
    summary |= {"definite": pool.definite, "stopped": pool.stopped}
    if not pool.left:
        return summary, None
    (best,) = pool.left
    lam = pool.lam[0].clone()
    alone = torch.zeros(1, dtype=torch.long, device=lam.device)
    problem, t, descent = data.problem, parameters["t"], OuterDescent(0, alone, lam[None], pool.w)
    w, first = descent.last(problem, t, table.warm)[0], descent.first(problem, table.warm)[0]
    error = hypergradient_error(problem, table, parameters["method"], lam, first, t)
    return summary | {"best": best, "accuracy_t": data.accuracy(lam, w), "error": error}, lam
