"""`plan`: the t and k that each bound guarantees for an accuracy, what they cost, and what was really needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.compare import certificate
from boundcheck.compare.applicability import question, shrinking
from boundcheck.compare.applied_bound import Applied, apply
from boundcheck.compare.case import Case, case_at
from boundcheck.compare.guarantees import WITHOUT_BOUND, Guarantee, Offer, Plan
from boundcheck.compare.step_costs import Costs, measure
from boundcheck.constants import Constants
from boundcheck.errors import AssumptionError, BoundcheckError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.curves.error_curves import error_curves, methods_of
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.rounding_floor import FACTOR
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import Progress, no_progress
from boundcheck.side import Side
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.iterations import Iterations
from boundcheck.theory.symbols import error

AID_STATES = 7  # vectors that AID holds at a time, for any t and k
GRAPH_STATES = 3  # vectors that reverse mode keeps for each step
LONGEST_RUN = 60.0  # seconds that a run to confirm a guarantee may take


@on_few_threads
def plan(
    problem: Problem | str,
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
    problem : Problem or str
        The problem, or its name as `load_problem` takes it.
    eps : float
        The accuracy, positive, in the Euclidean norm of the hypergradient.
    methods : sequence of str, optional
        The methods: "itd", "aid-fp", "aid-cg", "aid-cgn"; a plan finds k, so none may fix it. By default "itd",
        "aid-fp" and "aid-cg", or "aid-cgn" in place of "aid-cg" where ∂₁Φ is known not to be symmetric.
    known : Constants, optional
        Constants that you have proved. The estimator tests them, and does not use those that it refutes.
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
    problem = require_problem(problem)
    if not (isinstance(eps, int | float) and not isinstance(eps, bool) and 0 < eps < float("inf")):
        raise InputError(f"eps = {eps!r} is not an accuracy; give a positive number, such as 1e-3")
    tell = progress or no_progress
    method_list = methods_of(problem, methods)
    if fixed := [m for m in method_list if m.k is not None]:
        raise InputError(f"{fixed[0]} fixes k, which a plan is to find; write {fixed[0].name}")
    lam = problem.checked(problem.lam, "lam")
    doubts = validate.check(problem, lam).unconfirmed
    tell("constants", 0, 1)
    solution, smaller_balls = reference(quick(problem), lam[None]), shrinking(catalogue.values(), method_list)
    case = case_at(problem, solution, known, None, Spend(delta, seed, budget), doubts, tell, smaller_balls)
    costs = measure(problem)
    local, floor = case.constants[BallKind.LOCAL], _floor(case, solution)
    offers: list[Offer] = []
    guarantees: list[Guarantee] = []
    silent: dict[str, str] = {}
    without_guarantee: dict[str, int | None] = {}
    for i, method in enumerate(method_list):
        tell(f"guarantee of {method}", i, len(method_list))
        try:
            best = _offers(method, case, eps, costs)
            offers += best
            if eps <= floor:
                dtype = str(problem.dtype).removeprefix("torch.")
                why = f"eps = {eps:g} is below the rounding floor {floor:.1e} of {dtype}"
                raise AssumptionError(f"{method}: {why}, so no run can reach it; ask for a larger eps")
        except AssumptionError as why:
            silent[str(method)] = str(why)
            if run:
                without_guarantee[str(method)] = _without_bound(problem, method, eps)
            continue
        guarantees.append(_confirmed(problem, best[0], eps, costs, run))
    return Plan(problem, float(eps), local, costs, tuple(offers), tuple(guarantees), silent, without_guarantee, floor)


def _floor(case: Case, solution: ReferenceSolution) -> float:
    """The rounding floor of a long run, or the error of the reference itself if that is larger."""
    late = certificate.model_of(case.constants[BallKind.LOCAL], solution, case.problem.dtype, np.array([10**6]))
    certified = 0.0 if case.certificate is None else case.certificate.value
    return max(FACTOR * float(late[0]), certified)


def _offers(method: Method, case: Case, eps: float, costs: Costs) -> list[Offer]:
    """The offer of every bound, proved ones first, then by cost; AssumptionError if no bound applies to the method."""
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
        local = f"{method.name}-local"  # the form with the fewest assumptions
        name = local if local in reasons else method.name if method.name in reasons else next(iter(reasons), "")
        raise AssumptionError(f"{method}: no bound applies; {name}: {reasons.get(name, 'there is none')}")
    return sorted(offers, key=lambda offer: (offer.side is Side.LOWER, offer.cost))


def _offer(method: Method, bound: str, iterations: Iterations, costs: Costs) -> Offer:
    t, unrolled = iterations.t or 0, method.name == "itd"
    k = None if unrolled else iterations.k if iterations.k is not None else t
    cost = t * (1 + costs.ratio) if unrolled else t + costs.ratio * (k or 0)  # ITD goes back through all t steps
    return Offer(str(method), bound, t, k, iterations.value, iterations.side, cost)


def _iterations(applied: Applied, eps: float, costs: Costs) -> Iterations:
    answers = [
        applied.bound.iterations(constants, eps, cost_t=1.0, cost_k=costs.ratio, **applied.rates)
        for constants in applied.constants
    ]
    return min(answers, key=lambda answer: answer.cost)


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
    """The first t (from 1) after which all errors stay at most eps; None if the last error is above."""
    outside = np.flatnonzero(errors > eps)
    last = int(outside[-1]) + 1 if outside.size else 0
    return last + 1 if last < len(errors) else None
