"""`plan`: the t and k that each bound guarantees for an accuracy, what they cost, and what was really needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from boundcheck.compare import certify
from boundcheck.compare.applicable import Case, refusal
from boundcheck.compare.applied import Applied, apply
from boundcheck.compare.check import case_at
from boundcheck.compare.curves import methods_of
from boundcheck.constants import Constants, Side
from boundcheck.errors import AssumptionError, BoundcheckError, InputError, MissingConstantError
from boundcheck.estimate import checks
from boundcheck.estimate.point import Spend
from boundcheck.methods import Method
from boundcheck.prepared import Prepared
from boundcheck.problem import Problem
from boundcheck.products import linearise
from boundcheck.solvers.exact import reference
from boundcheck.solvers.hypergradient import hypergradient
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.complexity import Iterations
from boundcheck.theory.symbols import error

TIMINGS = 7  # of which the median counts
AID_STATES = 7  # vectors that AID holds at a time, whatever t and k
GRAPH_STATES = 3  # vectors that reverse mode keeps for each step
LONGEST_RUN = 60.0  # seconds that a run to confirm a guarantee may take
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Costs:
    """Seconds of an inner step and of a step of the linear solver."""

    inner: float
    linear: float

    @property
    def ratio(self) -> float:
        """A linear step in inner steps."""
        return self.linear / self.inner


@dataclass(frozen=True)
class Guarantee:
    """The cheapest t and k for which a bound is at most the accuracy, and what a run found.

    `cost` is in inner steps; `memory` in bytes. `error` is what the run at (t, k) had, None where it would have taken
    too long; `needed` are the least t and k, in the same proportion, that reached the accuracy.
    """

    method: str
    bound: str
    t: int
    k: int | None
    value: float
    side: Side
    cost: float
    memory: int
    error: float | None
    met: bool | None
    needed: tuple[int, int | None] | None


@dataclass(frozen=True, eq=False)
class Plan:
    """What is guaranteed for an accuracy; `silent` are the methods on which no bound speaks, with the reason."""

    problem: Problem
    eps: float
    constants: Constants
    costs: Costs
    guarantees: tuple[Guarantee, ...]
    silent: dict[str, str]
    floor: float  # of rounding: a smaller accuracy may be guaranteed but cannot be had

    @property
    def cheapest(self) -> Guarantee | None:
        """Of those that a run has not shown to miss the accuracy."""
        return min((g for g in self.guarantees if g.met is not False), key=lambda g: g.cost, default=None)


def plan(
    problem: Problem,
    eps: float,
    methods: Sequence[str] = ("itd", "aid-fp", "aid-cg"),
    *,
    known: Constants | None = None,
    delta: float = 1e-3,
    seed: int = 0,
    budget: int | None = None,
    run: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """For each method the bound that guarantees ‖g − ∇f‖ ≤ `eps` at least cost, then a run that shows what it took.

    The cost of a step of the linear solver against an inner step is measured; t and k are split by it.
    """
    if not (isinstance(eps, int | float) and not isinstance(eps, bool) and 0 < eps < float("inf")):
        raise InputError(f"eps = {eps!r} is no accuracy; give a positive number, such as 1e-3")
    tell = progress or (lambda what, done, of: None)
    asked = methods_of(methods)
    if fixed := [m for m in asked if m.k is not None]:
        raise InputError(f"{fixed[0]} fixes k, which a plan is to find; write {fixed[0].name}")
    lam = problem.checked(problem.lam, "lam")
    checks.check(problem, lam)
    tell("constants", 0, 1)
    found = reference(problem, lam[None])
    case = case_at(problem, found, known, None, Spend(delta, seed, budget))
    costs = measure(problem)
    guarantees, silent = [], {}
    for i, method in enumerate(asked):
        tell(f"guarantee of {method}", i, len(asked))
        try:
            best = _best(method, case, eps, costs)
        except AssumptionError as why:
            silent[str(method)] = str(why)
            continue
        guarantees.append(_confirmed(problem, method, eps, costs, *best, found.value[0] if run else None))
    local = case.constants["local"]
    floor = certify.model_of(local, found, problem.dtype)
    return Plan(problem, float(eps), local, costs, tuple(guarantees), silent, floor)


@torch.no_grad()
def measure(problem: Problem) -> Costs:
    """The median of some timings, each after the first."""
    prepared = Prepared(problem, problem.lam)
    z = problem.dynamics.start(problem.w0)
    at = linearise(problem, problem.w0, prepared)
    v = torch.ones_like(problem.w0)

    def seconds(step: Callable[[], object]) -> float:
        times = []
        for _ in range(TIMINGS + 1):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        return median(times[1:])

    return Costs(seconds(lambda: problem.psi_at(z, prepared.ready)), seconds(lambda: at.d1_T(v)))


def _best(method: Method, case: Case, eps: float, costs: Costs) -> tuple[Applied, Iterations]:
    """The bound that guarantees the accuracy at the least cost; AssumptionError if none speaks of the method."""
    choices, reasons = [], {}
    for bound in catalogue.values():
        if method.name not in bound.methods or bound.bounds != error:
            continue
        try:
            if why := refusal(bound, method, case):
                raise AssumptionError(why)
            applied = apply(bound, method, case)
            choices.append((applied, _iterations(applied, eps, costs)))
        except (AssumptionError, MissingConstantError, InputError) as why:
            reasons[bound.name] = str(why).removeprefix(f"{bound.name}: ")
    if not choices:
        name = method.name if method.name in reasons else next(iter(reasons), "")
        raise AssumptionError(f"{method}: no bound applies; {name}: {reasons.get(name, 'there is none')}")
    safe = [choice for choice in choices if choice[1].side is not Side.LOWER]
    return min(safe or choices, key=lambda choice: choice[1].cost)


def _iterations(applied: Applied, eps: float, costs: Costs) -> Iterations:
    found = [
        applied.bound.iterations(constants, eps, cost_t=1.0, cost_k=costs.ratio, **applied.rates)
        for constants in applied.constants
    ]
    return min(found, key=lambda one: one.cost)


def _confirmed(
    problem: Problem, method: Method, eps: float, costs: Costs, applied: Applied, found: Iterations,
    exact: torch.Tensor | None,
) -> Guarantee:  # fmt: skip
    t, unrolled = found.t or 0, method.name == "itd"
    k = None if unrolled else found.k if found.k is not None else t
    cost = t * (1 + costs.ratio) if unrolled else t + costs.ratio * (k or 0)  # ITD goes all the way back
    states = GRAPH_STATES * t * problem.dynamics.copies if unrolled else AID_STATES
    size = states * problem.d * problem.w0.element_size()
    reached, needed = None, None
    if exact is not None and cost * costs.inner <= LONGEST_RUN:
        truth = exact

        def away(t: int, k: int | None) -> float:
            try:
                return float((hypergradient(problem, method.name, t, k).value - truth).norm())
            except BoundcheckError:  # it diverged
                return float("inf")

        reached = away(t, k)
        needed = _needed(away, t, k, eps) if reached <= eps else None
    met = None if reached is None else reached <= eps
    return Guarantee(str(method), applied.bound.name, t, k, found.value, found.side, cost, size, reached, met, needed)


def _needed(away: Callable[[int, int | None], float], t: int, k: int | None, eps: float) -> tuple[int, int | None]:
    """The least t, with k in proportion, that reaches the accuracy: galloping, then bisection."""

    def pair(n: int) -> tuple[int, int | None]:
        return n, None if k is None else max(1, round(k * n / t)) if t else k

    good, bad = 1, 0
    while good < t and away(*pair(good)) > eps:
        good, bad = min(2 * good, t), good
    while good - bad > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if away(*pair(middle)) <= eps else (good, middle)
    return pair(good)
