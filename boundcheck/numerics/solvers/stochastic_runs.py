"""Many runs of a stochastic method: the request, the iterates w_i, and the adjoints at each t of a grid."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from boundcheck import methods
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.stochastic_chain import (
    COPIES,
    LAST,
    LENGTH,
    LINEAR,
    LOWER,
    Draws,
    MinibatchMaps,
    divergence,
    finite_sum_of,
    first_not_finite,
    generator,
    lower_steps,
)
from boundcheck.progress import Progress, counted, reporting_to
from boundcheck.step_schedule import StepSchedule


@dataclass(frozen=True, eq=False)
class SidRuns:
    """Independent runs of a stochastic method, at each point of a grid of (t, k).

    Attributes
    ----------
    grid : list of (t, k)
        The points of the grid.
    w : list of Tensor of shape (runs, d)
        w_t at each point.
    v : list of Tensor of shape (runs, d)
        v_k at each point.
    value : list of Tensor of shape (runs, n)
        The hypergradients at each point.
    value_again : list of Tensor of shape (runs, n)
        A second hypergradient of each run at each point, from the same w_t with other minibatches for v and the last
        product; empty unless `pairs` was True.
    seed : int
        The seed of the draws.
    """

    grid: list[tuple[int, int]]
    w: list[Tensor]
    v: list[Tensor]
    value: list[Tensor]
    value_again: list[Tensor] = field(default_factory=list)
    seed: int = 0

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.value[0])

    def __repr__(self) -> str:
        return f"SidRuns({self.runs} runs, seed {self.seed}, (t, k) = {', '.join(map(str, self.grid))})"


@dataclass(frozen=True, eq=False)
class RunRequest:
    """The arguments of a call with many runs, after validation."""

    problem: Problem
    method: str
    sums: FiniteSum
    grid: list[tuple[int, int]]
    steps: StepSchedule
    runs: int
    seed: int
    w0: Tensor
    v0: Tensor
    copies: int
    independent: bool
    memory: int

    @classmethod
    def of(
        cls, problem: Problem, method: str, t: int, k: int, steps: StepSchedule, runs: int, seed: int,
        w0: Tensor | None, v0: Tensor | None, grid: Sequence[tuple[int, int]] | None, pairs: bool, independent: bool,
        memory: int,
    ) -> RunRequest:  # fmt: skip
        """Validate the arguments, and raise an error that names an argument that is not valid."""
        sums = finite_sum_of(problem, method)
        least = 1 if method == "neumann" else 0
        t, k, runs = methods.count(t, "t"), methods.count(k, "k", least), methods.count(runs, "runs", 1)
        points = [(t, k)] if grid is None else [(methods.count(a, "t"), methods.count(b, "k", least)) for a, b in grid]
        if not points:
            raise InputError("grid is empty; give at least one (t, k), or leave it out")
        for point in points:
            if point[0] > t or point[1] > k:
                raise InputError(f"grid has (t, k) = {point} beyond t = {t}, k = {k}; raise them, or leave it out")
        problem.checked(problem.lam, "lam")
        copies = COPIES if pairs else 1
        numbers = runs * ((len(points) + 2) * (problem.d + copies * problem.n) + 4 * problem.d)
        bytes_needed = numbers * problem.w0.element_size()
        if bytes_needed > memory:
            raise InputError(
                f"{runs} runs at {len(points)} points need {bytes_needed:,} bytes, and memory = {memory:,}; give fewer "
                "runs or points, or raise memory"
            )
        start = problem.w0 if w0 is None else _rows(problem, w0, "w0", runs)
        start_v = torch.zeros_like(problem.w0) if v0 is None else _rows(problem, v0, "v0", runs)
        return cls(
            problem, method, sums, points, steps, runs, seed, start.expand(runs, -1), start_v.expand(runs, -1), copies,
            independent, memory,
        )  # fmt: skip

    def draws(self, purpose: int, t: int = 0, copy: int = 0) -> Draws:
        """Return the minibatches for one purpose; one minibatch for all purposes unless `independent` is set."""
        if self.independent:
            return Draws(self.sums, generator(self.seed, purpose, t, copy), self.runs, None)
        source = generator(self.seed, LOWER)
        return Draws(self.sums, source, self.runs, self.sums.draw(source, self.runs, self.problem.device))


Adjoints = Callable[[MinibatchMaps, Tensor, Tensor, Tensor, Sequence[int], Draws, torch.Generator], Iterator[Tensor]]


def run_all(plan: RunRequest, adjoints: Adjoints, progress: Progress | None) -> SidRuns:
    """Do all runs. `adjoints` yields v_k, k increasing, from (minibatches, w_t, ∇₁E(w_t), v_0, ks, draws, lengths)."""
    values: list[dict[tuple[int, int], Tensor]] = [{} for _ in range(plan.copies)]
    ws: dict[int, Tensor] = {}
    vs: dict[tuple[int, int], Tensor] = {}
    with reporting_to(progress), torch.no_grad():
        batches = MinibatchMaps(plan.problem, plan.sums, plan.memory)
        for t, w in _lower(plan, batches):
            ws[t] = w
            ks = sorted({k for other, k in plan.grid if other == t})
            b, outer_lam = batches.outer(w)
            for copy in range(plan.copies):
                sources = plan.draws(LINEAR, t, copy), generator(plan.seed, LENGTH, t, copy)
                last = plan.draws(LAST, t, copy).take(w.device)
                for k, v in zip(ks, adjoints(batches, w, b, plan.v0, ks, *sources), strict=True):
                    value = batches.d2_T(w, v, last).add_(outer_lam)
                    if not bool(torch.isfinite(value).all()):
                        raise _explain(plan, batches, adjoints, t, k, copy)
                    values[copy][t, k] = value
                    if copy == 0:
                        vs[t, k] = v
    return SidRuns(
        grid=list(plan.grid),
        w=[ws[t] for t, _ in plan.grid],
        v=[vs[point] for point in plan.grid],
        value=[values[0][point] for point in plan.grid],
        value_again=[values[1][point] for point in plan.grid] if plan.copies > 1 else [],
        seed=plan.seed,
    )


def _lower(plan: RunRequest, batches: MinibatchMaps) -> Iterator[tuple[int, Tensor]]:
    """Yield each t of the grid with w_t, of shape (runs, d)."""
    ts = {t for t, _ in plan.grid}
    if 0 in ts:
        yield 0, plan.w0
    last = max(ts)
    iterates = lower_steps(batches, plan.w0, plan.steps, last, plan.draws(LOWER))
    for i, w in enumerate(counted(iterates, "stochastic steps of w", last), 1):
        if i in ts:
            if not bool(torch.isfinite(w).all()):
                again = lower_steps(batches, plan.w0, plan.steps, i, plan.draws(LOWER))
                raise divergence(plan.problem, "w", first_not_finite(again), i)
            yield i, w


def _explain(plan: RunRequest, batches: MinibatchMaps, adjoints: Adjoints, t: int, k: int, copy: int) -> Exception:
    """Run again, and return an error that names the first step whose result is not finite."""
    w = deque([plan.w0], maxlen=1)
    w.extend(lower_steps(batches, plan.w0, plan.steps, t, plan.draws(LOWER)))
    b, _ = batches.outer(w[0])
    if not bool(torch.isfinite(b).all()):
        return divergence(plan.problem, "∇₁E(w_t)", t, t)
    if plan.method == "neumann":
        return divergence(plan.problem, "the Neumann series", k, k)
    sources = plan.draws(LINEAR, t, copy), generator(plan.seed, LENGTH, t, copy)
    adjoint_iterates = adjoints(batches, w[0], b, plan.v0, range(1, k + 1), *sources)
    return divergence(plan.problem, "v", first_not_finite(adjoint_iterates), k)


def _rows(problem: Problem, value: Tensor, name: str, runs: int) -> Tensor:
    """Return the start of the runs: one vector for all, or a row for each."""
    if isinstance(value, Tensor) and value.dim() == 2 and value.shape == (runs, problem.d):
        problem.checked(value[0], name)
        return value.detach()
    return problem.checked(value, name)
