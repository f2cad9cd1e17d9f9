"""`plan`: the t and k that each bound guarantees for an accuracy, their costs, and the steps that runs needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boundcheck.ball import BallKind
from boundcheck.compare import certificate
from boundcheck.compare.applicability import question, shrinking
from boundcheck.compare.applied_bound import Applied, apply
from boundcheck.compare.case import Case, case_at
from boundcheck.compare.guarantees import Guarantee, Offer, Plan
from boundcheck.compare.measured_need import LENGTHS, Need, NeedSearch, search, within
from boundcheck.compare.step_costs import Costs, measure
from boundcheck.constants import Constants
from boundcheck.errors import AssumptionError, InputError, MissingConstantError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.curves.error_curves import methods_of, refuse_unless_budget
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.rounding_floor import FACTOR
from boundcheck.numerics.solvers.reference import ReferenceSolution, reference
from boundcheck.progress import Progress, no_progress
from boundcheck.side import Side
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.iterations import Iterations
from boundcheck.theory.symbols import error

AID_STATES = 7  # vectors that AID keeps in memory, for any t and k
GRAPH_STATES = 3  # vectors that reverse mode keeps for each step
LONGEST_RUN = 60.0  # time limit in seconds of a run that confirms a guarantee


@on_few_threads
def plan(
    problem: Problem | str,
    eps: float | None = None,
    methods: Sequence[str] | None = None,
    *,
    rtol: float | None = None,
    known: Constants | None = None,
    delta: float = 1e-3,
    seed: int = 0,
    budget: int | None = None,
    memory: int = 1 << 30,
    run: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Find the t and k that guarantee ‖g − ∇f(λ)‖ ≤ eps at least cost.

    For each method the bounds are inverted, with the measured costs of a lower-level step and of a step of the linear
    solver. Runs then show which t and k were enough, also if no bound applies.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    eps : float, optional
        The accuracy, positive, in the Euclidean norm of the hypergradient. Give either `eps` or `rtol`.
    methods : sequence of str, optional
        The methods: "itd", "aid-fp", "aid-cg", "aid-cgn". They must not fix k, because a plan chooses k. By default
        "itd", "aid-fp" and "aid-cg"; if ∂₁Φ is not symmetric, "aid-cgn" replaces "aid-cg".
    rtol : float, optional
        The accuracy relative to ‖∇f(λ)‖; 0.01 means an error of 1 %.
    known : Constants, optional
        Constants that you have proved. The estimator tests them, and does not use constants that it refutes.
    delta : float
        The probability that a certificate by random starts fails; 1e-3 by default.
    seed : int
        The seed of certificates by random starts; 0 by default.
    budget : int, optional
        The largest number of products with derivatives for each estimated constant; by default the limit of each
        estimator.
    memory : int
        The budget for the error curves of runs in bytes; 1 GiB by default.
    run : bool
        Whether to run the methods with the planned steps; True by default.
    progress : callable (what, done, of) -> None, optional
        A function that is called with the name of the current task, the amount done, and the total amount.

    Returns
    -------
    Plan
        `.cheapest` is the cheapest guarantee, `.guarantees` has one for each method, and `.silent` has the methods
        without a guarantee. `.cheapest_run` and `.needs` have the t and k that runs needed, which are estimates.

    Raises
    ------
    UnknownNameError
        If there is no such method.
    InputError
        If an argument cannot be used, a method fixes k, or the accuracy is below the rounding floor.
    DivergenceError
        If w(λ) cannot be computed.
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
    _refuse_unless_accuracy(eps, rtol)
    refuse_unless_budget(memory)
    tell = progress or no_progress
    method_list = methods_of(problem, methods)
    if fixed := [m for m in method_list if m.k is not None]:
        raise InputError(f"{fixed[0]} fixes k, but a plan chooses k; write {fixed[0].name}")
    lam = problem.checked(problem.lam, "lam")
    doubts = validate.check(problem, lam).unconfirmed
    tell("constants", 0, 1)
    solution, smaller_balls = reference(quick(problem), lam[None]), shrinking(catalogue.values(), method_list)
    norm = float(solution.value[0].norm())
    accuracy = _absolute(eps, rtol, norm)
    case = case_at(problem, solution, known, None, Spend(delta, seed, budget), doubts, tell, smaller_balls)
    costs = measure(problem)
    local, floor = case.constants[BallKind.LOCAL], _rounding_floor(case, solution)
    _refuse_below(floor, accuracy, norm, problem)
    known_to = 0.0 if case.certificate is None else case.certificate.value
    offers: list[Offer] = []
    guarantees: list[Guarantee] = []
    silent: dict[str, str] = {}
    needs: dict[str, Need | None] = {}
    not_reached: dict[str, str] = {}
    if methods is None and case.symmetric.refusal:
        method_list = [*method_list, *(Method("aid-cgn") for m in method_list if m.name == "aid-cg")]
    for i, method in enumerate(method_list):
        name = str(method)
        tell(f"guarantee of {method}", i, len(method_list))
        if method.name == "aid-cg" and case.symmetric.refusal:
            silent[name], needs[name] = f"aid-cg does not apply: {case.symmetric.refusal}", None
            continue
        best: Offer | None = None
        priced = costs.of(method.name)
        try:
            best, *others = _offers(method, case, accuracy, priced)
            offers += [best, *others]
            if accuracy <= known_to:
                best, why = None, f"the error of the reference solution is only known to be at most {known_to:.1e}"
                silent[name] = f"{method}: {why}, so nothing is guaranteed; ask for a larger eps"
        except AssumptionError as no_offer:
            silent[name] = str(no_offer)
        tell(f"runs of {method}", i, len(method_list))
        runs = _run(problem, name, best, accuracy, priced, memory) if run and (best is None or best.t) else None
        if runs is not None:
            needs[name] = runs.need
            not_reached |= {name: runs.reason} if runs.need is None else {}
        if best is not None:
            guarantees.append(_guarantee(problem, best, accuracy, runs))
    return Plan(
        problem=problem, eps=accuracy, constants=local, costs=costs, offers=tuple(offers),
        guarantees=tuple(guarantees), silent=silent, floor=max(floor, known_to), needs=needs, not_reached=not_reached,
        gradient_norm=norm, paper_constants=case.constants.get(BallKind.PAPER),
    )  # fmt: skip


def _refuse_unless_accuracy(eps: object, rtol: object) -> None:
    given = {name: value for name, value in (("eps", eps), ("rtol", rtol)) if value is not None}
    if len(given) != 1:
        both = "eps and rtol were given together" if given else "no accuracy was given"
        raise InputError(f"{both}; give one of them, such as eps=1e-3 or rtol=0.01")
    ((name, value),) = given.items()
    refuse_unless_positive(name, value)


def refuse_unless_positive(name: str, value: object) -> None:
    """Raise InputError unless `value` is a positive finite number."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")):
        raise InputError(f"{name} must be a positive number, such as 1e-3 (got {value!r})")


def _absolute(eps: float | None, rtol: float | None, norm: float) -> float:
    """The accuracy as an absolute error."""
    if rtol is None:
        return float(eps or 0)
    if not norm > 0:
        raise InputError(f"rtol = {rtol:g} asks for a share of ‖∇f‖, which is {norm:g}; give eps, an absolute error")
    return rtol * norm


def _rounding_floor(case: Case, solution: ReferenceSolution) -> float:
    """The rounding floor of a long run."""
    late = certificate.model_of(case.constants[BallKind.LOCAL], solution, case.problem.dtype, np.array([10**6]))
    return FACTOR * float(late[0])


def _refuse_below(floor: float, eps: float, norm: float, problem: Problem) -> None:
    """Raise InputError for an accuracy below the rounding floor."""
    if eps <= floor < float("inf"):
        dtype = str(problem.dtype).removeprefix("torch.")
        share = f" ({floor / norm:.1e} of ‖∇f‖)" if norm > 0 else ""
        raise InputError(
            f"eps = {eps:.3g} is below the rounding floor {floor:.1e}{share} of {dtype}: rounding alone may leave as "
            f"much; ask for more than {floor:.1e}"
        )


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
            applied = apply(bound, method, case)
            offer = _offer(applied, _iterations(applied, eps, costs), costs)
            offers.append(replace(offer, side=Side.LOWER, doubt=answer.doubt) if answer.doubt else offer)
        except (AssumptionError, MissingConstantError, InputError) as why:
            reasons[bound.name] = str(why).removeprefix(f"{bound.name}: ")
    if not offers:
        local = f"{method.name}-local"  # the bound with the fewest assumptions
        name = local if local in reasons else method.name if method.name in reasons else next(iter(reasons), "")
        raise AssumptionError(f"{method}: no bound applies; {name}: {reasons.get(name, 'there is none')}")
    return sorted(offers, key=lambda offer: (offer.side is Side.LOWER, offer.cost))


def _offer(applied: Applied, iterations: Iterations, costs: Costs) -> Offer:
    t, unrolled, bound = iterations.t or 0, applied.method.name == "itd", applied.bound
    k = None if unrolled else iterations.k if iterations.k is not None else t
    cost = t * (1 + costs.ratio) if unrolled else t + costs.ratio * (k or 0)  # ITD goes back through all t steps
    used = {name: constant for constants in applied.constants for name, constant in constants.items()}
    weak = {name for name, c in used.items() if name in bound.symbols and not c.side.is_safe_for(bound.direction(name))}
    return Offer(
        str(applied.method), bound.name, t, k, iterations.value, iterations.side, cost, estimated=tuple(sorted(weak)),
        doubt="",
    )  # fmt: skip


def _iterations(applied: Applied, eps: float, costs: Costs) -> Iterations:
    rates: Mapping[str, Any] = applied.rates
    answers = [
        applied.bound.iterations(constants, eps, cost_t=1.0, cost_k=costs.ratio, **rates)
        for constants in applied.constants
    ]
    return min(answers, key=lambda answer: answer.cost)


def _run(problem: Problem, method: str, best: Offer | None, eps: float, costs: Costs, memory: int) -> NeedSearch:
    """Run a method up to the t and k of an offer if this takes at most a minute, else with increasing lengths.

    The `error` of the result is the error at the t and k of the offer, if they were run.
    """
    if best is None or best.cost * costs.inner > LONGEST_RUN:
        return replace(search(problem, method, eps, costs, memory), error=None)
    need = within(problem, method, eps, costs, best.t, best.k or 1, memory, only_last=best.t > LENGTHS[-1])
    return need if need.need is not None else replace(search(problem, method, eps, costs, memory), error=need.error)


def _guarantee(problem: Problem, best: Offer, eps: float, runs: NeedSearch | None) -> Guarantee:
    states = GRAPH_STATES * best.t * problem.dynamics.copies if best.method == "itd" else AID_STATES
    size = states * problem.d * problem.w0.element_size()
    error = None if runs is None else runs.error
    need = None if runs is None else runs.need
    needed = None if need is None or need.t > best.t else (need.t, need.k)
    met = None if error is None else error <= eps
    return Guarantee(**vars(best), memory=size, error=error, met=met, needed=needed)
