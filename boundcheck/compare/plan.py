"""`plan`: the t and k that each bound guarantees for an accuracy, what they cost, and what was really needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import ClassVar

import numpy as np
import torch

from boundcheck.compare import certificate
from boundcheck.compare.applicability import question
from boundcheck.compare.applied_bound import Applied, apply
from boundcheck.compare.case import Case, case_at
from boundcheck.constants import BallKind, Constants, Side
from boundcheck.errors import AssumptionError, BoundcheckError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import linearise
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.curves.error_curves import error_curves, methods_of
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.rounding_floor import FACTOR
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import Progress, no_progress
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.iterations import Iterations
from boundcheck.theory.symbols import error

TIMINGS = 7  # of which the median counts
AID_STATES = 7  # vectors that AID holds at a time, whatever t and k
GRAPH_STATES = 3  # vectors that reverse mode keeps for each step
LONGEST_RUN = 60.0  # seconds that a run to confirm a guarantee may take
WITHOUT_BOUND = 500  # steps of the run where no bound says how many


@dataclass(frozen=True)
class Costs:
    """How long steps take on this machine.

    Attributes
    ----------
    inner : float
        Seconds of a lower-level step.
    linear : float
        Seconds of a step of the linear solver.
    """

    inner: float
    linear: float

    @property
    def ratio(self) -> float:
        """The cost of a linear step in lower-level steps."""
        return self.linear / self.inner


@dataclass(frozen=True)
class Offer:
    """The cheapest t and k for which one bound is at most the accuracy.

    Attributes
    ----------
    method : str
        The method.
    bound : str
        The name of the bound.
    t : int
        The lower-level steps.
    k : int or None
        The steps of the linear solver; None for ITD.
    value : float
        The bound at t and k.
    side : Side
        What the value is worth, given its constants.
    cost : float
        The cost of the run, in lower-level steps.
    """

    method: str
    bound: str
    t: int
    k: int | None
    value: float
    side: Side
    cost: float


@dataclass(frozen=True)
class Guarantee(Offer):
    """The best offer for a method, and what a run found.

    Attributes
    ----------
    method : str
        The method.
    bound : str
        The name of the bound.
    t : int
        The lower-level steps.
    k : int or None
        The steps of the linear solver; None for ITD.
    value : float
        The bound at t and k.
    side : Side
        What the value is worth, given its constants.
    cost : float
        The cost of the run, in lower-level steps.
    memory : int
        The memory of the run, in bytes.
    error : float or None
        The error of the run at (t, k); None where it was not run or would take too long.
    met : bool or None
        Whether that error is within the accuracy; None where it was not run.
    needed : tuple of int and int or None, or None
        The least t, with the same k, from which on the error was within the accuracy; None where it was not run, or the
        error at t was not.
    """

    memory: int
    error: float | None
    met: bool | None
    needed: tuple[int, int | None] | None


@dataclass(frozen=True, eq=False)
class Plan:
    """What the bounds guarantee for an accuracy, and what runs needed.

    Attributes
    ----------
    problem : Problem
        The problem.
    eps : float
        The accuracy ‖g − ∇f(λ)‖ ≤ eps.
    constants : Constants
        The constants on the local ball.
    costs : Costs
        How long steps take on this machine.
    offers : tuple of Offer
        Of every bound that applies, the cheapest t and k; for each method, those that are proved first, then by cost.
    guarantees : tuple of Guarantee
        For each method the best offer, tried by a run.
    silent : dict from str to str
        The methods without a guarantee, and why.
    measured : dict from str to int or None
        For the methods without a guarantee, the least t (with k = t) from which on a run was within the accuracy; None
        where it never was.
    floor : float
        The rounding floor: a smaller accuracy cannot be reached in this precision.
    longest_run : int
        How long the runs of methods without a guarantee are, in lower-level steps.
    """

    problem: Problem
    eps: float
    constants: Constants
    costs: Costs
    offers: tuple[Offer, ...]
    guarantees: tuple[Guarantee, ...]
    silent: dict[str, str]
    measured: dict[str, int | None]
    floor: float
    longest_run: ClassVar[int] = WITHOUT_BOUND

    @property
    def cheapest(self) -> Guarantee | None:
        """The cheapest of the guarantees that no run has shown to miss the accuracy; None if there is none."""
        return min((g for g in self.guarantees if g.met is not False), key=lambda g: g.cost, default=None)


def plan(
    problem: Problem,
    eps: float,
    methods: Sequence[str] | None = None,
    *,
    known: Constants | None = None,
    delta: float = 1e-3,
    seed: int = 0,
    budget: int | None = None,
    run: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Find the t and k that guarantee ‖g − ∇f(λ)‖ ≤ eps at least cost.

    For each method the bounds are inverted; the cost of a step of the linear solver against a lower-level step is
    measured, and t and k are chosen by it. A run then shows what was really needed.

    Parameters
    ----------
    problem : Problem
        The problem, as `Problem.from_loss` or `load_problem` returns it.
    eps : float
        The accuracy, positive, in the Euclidean norm of the hypergradient.
    methods : sequence of str, optional
        The methods: "itd", "aid-fp", "aid-cg", "aid-cgn"; a plan finds k, so none may fix it. By default "itd",
        "aid-fp" and "aid-cg", or "aid-cgn" in place of "aid-cg" where ∂₁Φ is known not to be symmetric.
    known : Constants, optional
        Constants that you vouch for. The estimator checks them, and does not use those that it refutes.
    delta : float
        The probability with which each certificate by random starts may fail; 1e-3 by default.
    seed : int
        The seed of certificates by random starts; 0 by default.
    budget : int, optional
        How many products with derivatives each estimated constant may take; by default the limit of each estimator.
    run : bool
        Whether to run the methods with the steps that were found; True by default.
    progress : callable (what, done, of) -> None, optional
        Called with what is being done, how much of it is done, and of how much.

    Returns
    -------
    Plan
        `.cheapest` is the cheapest guarantee, `.guarantees` has one for each method, `.silent` the methods without one.

    Raises
    ------
    UnknownNameError
        If there is no such method.
    InputError
        If an argument cannot be used, or a method fixes k.
    DivergenceError
        If w(λ) cannot be found.
    UserCodeError
        If a function of the user raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import boundcheck as bc
    >>> plan = bc.plan(bc.problems.scalar(q=0.5), 1e-3, ["itd"])
    >>> best = plan.cheapest
    >>> best.method, best.t, best.met
    ('itd', 17, True)
    """
    require_problem(problem)
    if not (isinstance(eps, int | float) and not isinstance(eps, bool) and 0 < eps < float("inf")):
        raise InputError(f"eps = {eps!r} is not an accuracy; give a positive number, such as 1e-3")
    tell = progress or no_progress
    asked = methods_of(problem, methods)
    if fixed := [m for m in asked if m.k is not None]:
        raise InputError(f"{fixed[0]} fixes k, which a plan is to find; write {fixed[0].name}")
    lam = problem.checked(problem.lam, "lam")
    doubts = validate.check(problem, lam).unconfirmed
    tell("constants", 0, 1)
    found = reference(problem, lam[None])
    case = case_at(problem, found, known, None, Spend(delta, seed, budget), doubts, tell)
    costs = measure(problem)
    local, floor = case.constants[BallKind.LOCAL], _floor(case, found)
    offers: list[Offer] = []
    guarantees: list[Guarantee] = []
    silent: dict[str, str] = {}
    measured: dict[str, int | None] = {}
    for i, method in enumerate(asked):
        tell(f"guarantee of {method}", i, len(asked))
        try:
            best = _offers(method, case, eps, costs)
            offers += best
            if eps <= floor:
                dtype = str(problem.dtype).removeprefix("torch.")
                why = f"eps = {eps:g} is below the rounding floor {floor:.1e} of {dtype}"
                raise AssumptionError(f"{method}: {why}, so no run can have it; ask for a larger eps")
        except AssumptionError as why:
            silent[str(method)] = str(why)
            if run:
                measured[str(method)] = _without_bound(problem, method, eps)
            continue
        guarantees.append(_confirmed(problem, best[0], eps, costs, run))
    return Plan(problem, float(eps), local, costs, tuple(offers), tuple(guarantees), silent, measured, floor)


def _floor(case: Case, found: ReferenceSolution) -> float:
    """The rounding floor of a long run, and what the reference itself may be off."""
    late = certificate.model_of(case.constants[BallKind.LOCAL], found, case.problem.dtype, np.array([10**6]))
    own = 0.0 if case.certificate is None else case.certificate.value
    return max(FACTOR * float(late[0]), own)


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


def _offers(method: Method, case: Case, eps: float, costs: Costs) -> list[Offer]:
    """Of every bound, those that prove it first, then by cost; AssumptionError if none speaks of the method."""
    offers, reasons = [], {}
    for bound in catalogue.values():
        if method.name not in bound.methods or bound.bounds != error:
            continue
        try:
            answer = question(bound, method, case)
            if answer.refusal:
                raise AssumptionError(answer.refusal)
            offer = _offer(method, bound.name, _iterations(apply(bound, method, case), eps, costs), costs)
            offers.append(replace(offer, side=Side.LOWER) if answer.doubt else offer)
        except (AssumptionError, MissingConstantError, InputError) as why:
            reasons[bound.name] = str(why).removeprefix(f"{bound.name}: ")
    if not offers:
        local = f"{method.name}-local"  # the form that asks for least
        name = local if local in reasons else method.name if method.name in reasons else next(iter(reasons), "")
        raise AssumptionError(f"{method}: no bound applies; {name}: {reasons.get(name, 'there is none')}")
    return sorted(offers, key=lambda offer: (offer.side is Side.LOWER, offer.cost))


def _offer(method: Method, bound: str, found: Iterations, costs: Costs) -> Offer:
    t, unrolled = found.t or 0, method.name == "itd"
    k = None if unrolled else found.k if found.k is not None else t
    cost = t * (1 + costs.ratio) if unrolled else t + costs.ratio * (k or 0)  # ITD goes all the way back
    return Offer(str(method), bound, t, k, found.value, found.side, cost)


def _iterations(applied: Applied, eps: float, costs: Costs) -> Iterations:
    found = [
        applied.bound.iterations(constants, eps, cost_t=1.0, cost_k=costs.ratio, **applied.rates)
        for constants in applied.constants
    ]
    return min(found, key=lambda one: one.cost)


def _confirmed(problem: Problem, best: Offer, eps: float, costs: Costs, run: bool) -> Guarantee:
    t, k = best.t, best.k
    states = GRAPH_STATES * t * problem.dynamics.copies if best.method == "itd" else AID_STATES
    size = states * problem.d * problem.w0.element_size()
    reached, needed = None, None
    if run and t and best.cost * costs.inner <= LONGEST_RUN:
        errors = _errors(problem, best.method if k is None else f"{best.method}:{k}", t)
        reached = float(errors[-1])
        first = _first_within(errors, eps)
        needed = None if first is None else (first, k)
    met = None if reached is None else reached <= eps
    return Guarantee(**vars(best), memory=size, error=reached, met=met, needed=needed)


def _without_bound(problem: Problem, method: Method, eps: float) -> int | None:
    return _first_within(_errors(problem, str(method), WITHOUT_BOUND), eps)


def _errors(problem: Problem, method: str, t: int) -> np.ndarray:
    """The error at 1 … t; infinite where the run diverged or the method cannot be run."""
    try:
        errors = error_curves(problem, [method], t)[method][0]
    except BoundcheckError:
        return np.full(t, np.inf)
    return np.where(np.isfinite(errors), errors, np.inf)


def _first_within(errors: np.ndarray, eps: float) -> int | None:
    """The least t (from 1) from which on all errors are at most eps; None where the last is not."""
    outside = np.flatnonzero(errors > eps)
    last = int(outside[-1]) + 1 if outside.size else 0
    return last + 1 if last < len(errors) else None
