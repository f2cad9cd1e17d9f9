"""`check`: errors of the real solvers, the bounds on them, verdicts and proofs.

The stages are validate, run, estimate, measure the floor, observe, judge. Each stage returns a frozen object, and
nothing is computed twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck.ball import BallKind
from boundcheck.compare import certificate, judge
from boundcheck.compare.applicability import question, shrinking
from boundcheck.compare.case import Case, case_at
from boundcheck.compare.judge import MethodRun
from boundcheck.compare.landmarks import landmarks
from boundcheck.compare.last_accuracy import last_accuracy
from boundcheck.compare.observations import (
    TRACED_ONE,
    TRACED_SEVERAL,
    Observations,
    distances_from_w_star,
    names_of_observables,
    traced_steps,
)
from boundcheck.constants import Constants
from boundcheck.errors import AssumptionError, InputError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.curves.error_curves import (
    Computed,
    Curves,
    compute,
    lams_of,
    methods_of,
    refuse_unless_budget,
    steps_of,
)
from boundcheck.numerics.curves.observables import observe
from boundcheck.numerics.curves.spectral_terms import foresee
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress, no_progress, reporting_to
from boundcheck.report.report import Report
from boundcheck.theory.bound import Bound
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.kinds import BoundKind
from boundcheck.theory.symbols import error


@dataclass(frozen=True, eq=False)
class ErrorRuns:
    """The errors of every method that can be run, and the reasons why the others cannot."""

    methods: Sequence[Method]
    computed: Computed
    refused: Mapping[str, str]

    @property
    def curves(self) -> Curves:
        return self.computed.curves

    @cached_property
    def references(self) -> list[ReferenceSolution]:
        """The reference solution at each λ."""
        return [self.curves.reference.row(i) for i in range(len(self.curves.lam))]

    @property
    def errors(self) -> dict[Method, np.ndarray]:
        """The errors of each method, samples × T; an error that is not finite becomes infinite."""
        by_method = {method: self.curves[str(method)] for method in self.methods}
        return {method: np.where(np.isfinite(errors), errors, np.inf) for method, errors in by_method.items()}


@on_few_threads
def check(
    problem: Problem | str,
    methods: Sequence[str] | None = None,
    t: int = 200,
    samples: int = 1,
    seed: int | None = None,
    *,
    lam: Any = None,
    bounds: Sequence[str] | None = None,
    known: Constants | None = None,
    constants: Mapping[str, Constants] | None = None,
    delta: float = 1e-3,
    budget: int | None = None,
    memory: int = 1 << 30,
    proofs: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Compare the errors of real solvers with every bound on them.

    The report has the errors at every t, the constants of the problem, the bounds, a verdict for each bound, and the
    slack of every step of the proofs.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    methods : sequence of str, optional
        The methods: "itd", "itd-truncated:K", "aid-fp", "aid-cg", "aid-cgn"; "aid-cg:10" fixes k = 10, otherwise k =
        t. By default "itd", "aid-fp" and "aid-cg"; if ∂₁Φ is known not to be symmetric, "aid-cgn" replaces "aid-cg".
    t : int
        The largest number of lower-level steps; 200 by default. The report has an error for each of 1 … t.
    samples : int
        How many λ to draw; 1 by default, which is `lam` or the problem's own λ.
    seed : int, optional
        The seed of the drawn λ and of certificates by random starts; by default the seed of the problem for λ, and 0
        for certificates.
    lam : structure of the hyperparameters, or tensor of shape (n,) or (samples, n), optional
        Where to evaluate: one λ, or one in each row. Not together with `samples`.
    bounds : sequence of str, optional
        Names of bounds from the catalogue; all of them by default.
    known : Constants, optional
        Constants that you have proved. The estimator tests them, and does not use constants that it refutes.
    constants : mapping from {"paper", "local"} to Constants, optional
        Constants on both balls, used without any estimate or test, for example to see the effect of a wrong constant.
    delta : float
        The probability that a certificate by random starts fails; 1e-3 by default.
    budget : int, optional
        The largest number of products with derivatives for each estimated constant; by default the limit of each
        estimator.
    memory : int
        The budget for error curves in bytes; 1 GiB by default.
    proofs : bool
        Whether to trace the proofs, the most expensive part; True by default.
    progress : callable (what, done, of) -> None, optional
        A function that is called with the name of the current task, the amount done, and the total amount.

    Returns
    -------
    Report
        The report: `.verdict` is the worst verdict, `.verdicts[method, bound]` has each verdict, `.curve(method)` has
        the errors and bounds; `.table()`, `.plot(path)`, `.page(path)` and `.save(directory)` show it.

    Raises
    ------
    UnknownNameError
        If there is no such method or bound.
    InputError
        If an argument cannot be used, or `memory` is too small for the problem.
    AssumptionError
        If no method can be run, as for "aid-cg" alone if ∂₁Φ is not symmetric.
    DivergenceError
        If w(λ) cannot be computed.
    UserCodeError
        If a function of the user raises, or its derivatives are not those of autograd.

    Examples
    --------
    >>> import boundcheck as bc
    >>> report = bc.check(bc.problems.scalar(q=0.5), ["itd"], t=10, bounds=["itd", "itd-local"])
    >>> report.verdict.value
    'holds'
    >>> report.curve("itd").bounds["itd-local"].tightness[0].round(6)
    array([1., 1., 1., 1., 1., 1., 1., 1., 1., 1.])
    """
    problem = require_problem(problem)
    start, tell = time.perf_counter(), progress or no_progress
    method_list, bound_list, T = methods_of(problem, methods), _bounds(bounds), steps_of(t)
    if bounds is not None:
        _refuse_unless_run(bound_list, method_list)
    refuse_unless_budget(memory)
    spend = Spend(delta, seed or 0, budget)
    lams = lams_of(problem, samples, seed if samples > 1 else None, lam)
    tell("checking the problem", 0, 1)
    doubts = validate.check(problem, lams[0]).unconfirmed
    runs = _run(problem, method_list, lams, T, memory, tell)
    _refuse_nothing_to_compare(problem, runs)
    cases, smaller_balls = [], shrinking(bound_list, runs.methods)
    for i, reference in enumerate(runs.references):
        tell("constants", i, len(lams))
        at_lam = problem if torch.equal(lams[i], problem.lam) else problem.at(lams[i])  # a copy has no cached results
        cases.append(case_at(at_lam, reference, known, constants, spend, doubts, tell, smaller_balls))
    tell("the rounding floor", 0, 1)
    local = [case.constants[BallKind.LOCAL] for case in cases]
    with reporting_to(progress):
        floor = certificate.rounding_floor(cases[0].problem, runs.methods, T, local, runs.references, runs.errors)
        tell("the proofs", 0, 1)
        observations = _observe(runs, cases[0], bound_list, proofs, memory)
    norms = tuple(float(torch.linalg.vector_norm(solution.value)) for solution in runs.references)
    curves = {}
    for i, method in enumerate(runs.methods):
        tell("bounds", i, len(runs.methods))
        of_reference = np.array([[0.0 if c.certificate is None else c.certificate.value] for c in cases])
        run = MethodRun(
            method, runs.errors[method], np.maximum(floor.values[method], of_reference), cases, observations.ts,
            observations.from_reference[method], observations.from_w_star[method],
            observations.spectral.get(method, {}), observations.doubt, _gradient_norm(cases[0], norms[0]),
        )  # fmt: skip
        fitting = [bound for bound in bound_list if method.name in bound.methods]
        last = last_accuracy(cases[0], runs.references[0], method, T)
        curves[str(method)] = replace(judge.curve(run, fitting), last=last)
    validate.unchanged(problem)
    return Report(
        problem={
            **problem.about(),
            "dynamics": problem.dynamics.name,
            "samples": len(lams),
            "landmarks": landmarks(problem, lams[0], runs.references[0].w[0]),
        },
        constants=cases[0].constants,
        curves=curves,
        refused=dict(runs.refused),
        certificates=tuple(case.certificate for case in cases),
        floor_how=floor.how,
        seconds=time.perf_counter() - start,
        gradient_norms=norms,
    )


def _gradient_norm(case: Case, of_reference: float) -> float:
    """A lower bound on ‖∇f‖: the norm of the reference minus its certified error."""
    return max(0.0, of_reference - (0.0 if case.certificate is None else case.certificate.value))


def _bounds(names: Sequence[str] | None) -> list[Bound]:
    bound_list = [catalogue[name] for name in (names if names is not None else catalogue)]
    if names is not None:
        for bound in bound_list:
            if bound.bounds != error:
                raise InputError(f"{bound.name} bounds {bound.bounds}, not the hypergradient's error; leave it out")
            if bound.kind is BoundKind.ENCLOSURE:
                raise InputError(f"{bound.name} is part of every report; leave it out")
    return [b for b in bound_list if b.bounds == error and b.kind is not BoundKind.ENCLOSURE]


def _refuse_unless_run(bounds: Sequence[Bound], methods: Sequence[Method]) -> None:
    """Raise InputError if a requested bound applies to none of the methods."""
    names = {method.name for method in methods}
    for bound in bounds:
        about = [name for name in bound.methods if name != "exact"]
        if about and not names & {*about}:
            run, names_of_methods = " or ".join(about), ", ".join(map(str, methods))
            raise InputError(
                f"the bound {bound.name} is about {run}, and the methods are {names_of_methods}; add {about[0]}"
            )


def _run(problem: Problem, methods: Sequence[Method], lams: Tensor, T: int, memory: int, tell: Progress) -> ErrorRuns:
    """Run every method that can be run; conjugate gradient needs a symmetric system."""
    try:
        return ErrorRuns(methods, compute(problem, methods, T, lams, memory, progress=tell), {})
    except AssumptionError as why:
        refused = {}
        for method in methods:
            if method.name == "aid-cg":
                try:
                    compute(problem, [method], T, lams, memory, progress=tell)
                except AssumptionError as of_method:
                    refused[str(method)] = str(of_method)
        runnable = [method for method in methods if str(method) not in refused]
        if not runnable:
            raise AssumptionError(next(iter(refused.values()), str(why))) from None
        return ErrorRuns(runnable, compute(problem, runnable, T, lams, memory, progress=tell), refused)


def _refuse_nothing_to_compare(problem: Problem, runs: ErrorRuns) -> None:
    """Raise InputError if ∇f and every hypergradient are 0; then every bound holds trivially."""
    zero = not any(bool(solution.value.any()) for solution in runs.references)
    if zero and not any(errors.any() for errors in runs.errors.values()):
        raise InputError(
            f"{problem.name}: ∇f = 0, and so is every hypergradient at every t, so there is nothing to compare: at "
            "this lam the lower level does not depend on hparams, or outer_loss does not depend on params; check both, "
            "or take another lam"
        )


def _observe(runs: ErrorRuns, case: Case, bound_list: Sequence[Bound], proofs: bool, memory: int) -> Observations:
    problem, reference, local = case.problem, runs.references[0], case.constants[BallKind.LOCAL]
    T = len(runs.curves.t)
    ts = traced_steps(problem, T, TRACED_ONE if len(runs.references) == 1 else TRACED_SEVERAL)
    q = local["q"].value if "q" in local else None
    names = names_of_observables(bound_list, runs.methods, proofs)
    from_reference = observe(
        problem, reference, runs.methods, T, names, q=q, ts=ts, states=runs.computed.states, memory=memory // 4
    )
    distance = certificate.distance(problem, reference, local)
    from_w_star = distances_from_w_star(from_reference, distance.value, q, ts)
    from_spectrum = [bound for bound in bound_list if bound.kind is BoundKind.FROM_SPECTRUM]
    spectral_methods = [
        method
        for method in runs.methods
        if any(method.name in bound.methods and not question(bound, method, case).refusal for bound in from_spectrum)
    ]
    spectral = foresee(problem, reference, spectral_methods, ts, memory=memory // 4) if spectral_methods else {}
    return Observations(ts, from_reference, from_w_star, spectral, distance.doubt)
