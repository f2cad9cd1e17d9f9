"""`check`: from a problem to errors, bounds, verdicts, and the place where the proof is loose."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from boundcheck.compare import certificate, judge
from boundcheck.compare.applicability import Case, momentum_of, question
from boundcheck.constants import BALLS, BallKind, Constants
from boundcheck.errors import AssumptionError, InputError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.curves.error_curves import error_curves, lams_of, methods_of
from boundcheck.numerics.curves.observables import NAMES, observe
from boundcheck.numerics.curves.spectral_terms import foresee
from boundcheck.numerics.estimate import validate
from boundcheck.numerics.estimate.at_solution import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.progress import Progress, no_progress
from boundcheck.report.report import Curve, Report
from boundcheck.theory.bound import FROM_SPECTRUM, Bound
from boundcheck.theory.catalogue import bounds as catalogue
from boundcheck.theory.step_sizes import Momentum
from boundcheck.theory.symbols import error

AFFORDABLE = 4_000_000_000  # arithmetic for one of the matrices in the proofs, at all t together
FEW, SOME, MANY = 20, 60, 10_000  # t at which proofs are traced: where matrices are large, for several λ, for one
FOREVER = 100_000  # steps after which no iterate is still at its farthest


def check(
    problem: Problem,
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

    Computes the errors at every t, the constants of the problem, the bounds, a verdict for each bound, and where each
    proof is loose.

    Parameters
    ----------
    problem : Problem
        The problem, as `Problem.from_loss` or `load_problem` returns it.
    methods : sequence of str, optional
        The methods: "itd", "itd-truncated:K", "aid-fp", "aid-cg", "aid-cgn"; "aid-cg:10" fixes k = 10, otherwise k =
        t. By default "itd", "aid-fp" and "aid-cg", or "aid-cgn" in place of "aid-cg" where ∂₁Φ is known not to be
        symmetric.
    t : int
        The largest number of lower-level steps; 200 by default. There is an error for each of 1 … t.
    samples : int
        How many λ to draw; 1 by default, which is `lam` or the problem's own λ.
    seed : int, optional
        The seed with which λ is drawn, and that of certificates by random starts; by default that of the problem for
        λ, and 0 for certificates.
    lam : structure of the hyperparameters, or tensor of shape (n,) or (samples, n), optional
        Where to evaluate: one λ, or one in each row. Not together with `samples`.
    bounds : sequence of str, optional
        Names of bounds from the catalogue; all of them by default.
    known : Constants, optional
        Constants that you vouch for. The estimator checks them, and does not use those that it refutes.
    constants : mapping from {"paper", "local"} to Constants, optional
        Constants on both balls, taken as they are, without any estimate: to see what a wrong one does.
    delta : float
        The probability with which each certificate by random starts may fail; 1e-3 by default.
    budget : int, optional
        How many products with derivatives each estimated constant may take; by default the limit of each estimator.
    memory : int
        The budget for error curves in bytes; 1 GiB by default.
    proofs : bool
        Whether to trace the proofs, the most expensive part; True by default.
    progress : callable (what, done, of) -> None, optional
        Called with what is being done, how much of it is done, and of how much.

    Returns
    -------
    Report
        `.verdict` is the worst verdict, `.verdicts[method, bound]` each one, `.curve(method)` the errors and bounds;
        `.table()`, `.plot(path)`, `.page(path)` and `.save(directory)` show it.

    Raises
    ------
    UnknownNameError
        If there is no such method or bound.
    InputError
        If an argument cannot be used, or `memory` is too small for the problem.
    AssumptionError
        If no method can be run: "aid-cg" alone, where ∂₁Φ is not symmetric.
    DivergenceError
        If w(λ) cannot be found.
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
    require_problem(problem)
    start = time.perf_counter()
    tell = progress or no_progress
    asked, chosen = methods_of(problem, methods), _bounds(bounds)
    spend = Spend(delta, seed or 0, budget)
    lams = lams_of(problem, samples, seed if samples > 1 else None, lam)
    doubts = validate.check(problem, lams[0]).unconfirmed
    tell("error curves", 0, 1)
    refused: dict[str, str] = {}
    try:
        curves = error_curves(problem, [str(m) for m in asked], t, lam=lams, memory=memory, progress=tell)
    except AssumptionError:
        asked, refused = _runnable(problem, asked, lams, t)
        curves = error_curves(problem, [str(m) for m in asked], t, lam=lams, memory=memory, progress=tell)
    cases = []
    found = [curves.reference.row(i) for i in range(len(lams))]
    for i, row in enumerate(lams):
        tell("constants", i, len(lams))
        cases.append(case_at(problem.at(row), found[i], known, constants, spend, doubts, tell))
    tell("the rounding floor", 0, 1)
    here, local = cases[0].problem, [case.constants[BallKind.LOCAL] for case in cases]
    errors = {method: curves[str(method)] for method in asked}
    floors, floor_how = certificate.rounding_floor(here, asked, t, local, found, errors)
    certificates = tuple(case.certificate for case in cases)
    own = np.array([[0.0 if c is None else c.value] for c in certificates])
    tell("the proofs", 0, 1)
    ts = _places(problem, t, MANY if len(lams) == 1 else SOME)
    seen = observe(here, found[0], asked, t, _names(chosen, asked, proofs), q=_q(local[0]), ts=ts)
    away = certificate.distance(here, found[0], local[0])
    observed = _from_w_star(seen, away.value, _q(local[0]), ts)
    foreseen = _foreseen(cases[0], found[0], asked, chosen, ts)
    made: dict[str, Curve] = {}
    for method in asked:
        tell("bounds", len(made), len(asked))
        fitting = [b for b in chosen if method.name in b.methods]
        floor, told = np.maximum(floors[method], own), foreseen.get(method, {})
        made[str(method)] = judge.curve(
            method, curves, floor, fitting, cases, observed[method], told, ts, seen[method], away.doubt
        )
    return Report(
        problem={**problem.about(), "dynamics": problem.dynamics.name, "samples": len(lams)},
        constants=cases[0].constants,
        curves=made,
        refused=refused,
        certificates=certificates,
        floor_how=floor_how,
        seconds=time.perf_counter() - start,
    )


def _from_w_star(
    observed: Mapping[Method, judge.Observed], off: float, q: float | None, ts: np.ndarray
) -> dict[Method, judge.Observed]:
    """Distances that were measured from the reference, as bounds on those from w*, which is `off` from it at most."""
    more = {"r_t": np.full(ts.shape, off)}
    if q is not None:  # Σ_{1≤j<t} q^(t−1−j)
        with np.errstate(over="ignore", invalid="ignore"):  # for q > 1, of which no bound speaks
            more["path_t"] = off * (ts - 1.0 if q == 1 else (1 - q ** (ts - 1.0)) / (1 - q))
    return {m: {n: x + more[n] if n in more else x for n, x in seen.items()} for m, seen in observed.items()}


def _foreseen(
    case: Case, found: ReferenceSolution, asked: Sequence[Method], chosen: Sequence[Bound], ts: np.ndarray
) -> Mapping[Method, judge.Observed]:
    """What the spectral bounds are made of, where one may apply."""
    fitting = [b for b in chosen if b.kind == FROM_SPECTRUM]
    some = [m for m in asked if any(m.name in b.methods and not question(b, m, case).refusal for b in fitting)]
    return foresee(case.problem, found, some, ts) if some else {}


def _q(constants: Constants) -> float | None:
    return constants["q"].value if "q" in constants else None


def _bounds(names: Sequence[str] | None) -> list[Bound]:
    chosen = [catalogue[name] for name in (names if names is not None else catalogue)]
    if names is not None:
        for bound in chosen:
            if bound.bounds != error:
                raise InputError(f"{bound.name} bounds {bound.bounds}, not the hypergradient's error; leave it out")
            if bound.kind == "enclosure":
                raise InputError(f"{bound.name} is what the errors are known to, in every report; leave it out")
    return [b for b in chosen if b.bounds == error and b.kind != "enclosure"]


def _runnable(problem: Problem, asked: Sequence[Method], lams: Tensor, T: int) -> tuple[list[Method], dict[str, str]]:
    """The methods that can be run, and why the others cannot: CG on a system that is not symmetric."""
    refused: dict[str, str] = {}
    for method in asked:
        if method.name == "aid-cg":
            try:
                error_curves(problem, [str(method)], T, lam=lams)
            except AssumptionError as why:
                refused[str(method)] = str(why)
    left = [method for method in asked if str(method) not in refused]
    if not left:
        raise AssumptionError(next(iter(refused.values())))
    return left, refused


def case_at(
    problem: Problem, found: ReferenceSolution, known: Constants | None, constants: Mapping[str, Constants] | None,
    spend: Spend, doubts: tuple[str, ...] = (), tell: Progress = no_progress,
) -> Case:  # fmt: skip
    """The problem with its constants on both balls; the local one as wide as its dynamics may ever reach."""
    if constants is not None:
        if missing := [ball for ball in BALLS if ball not in constants]:
            raise InputError(f"constants has no ball {missing[0].value!r}; give both, {' and '.join(BALLS)}")
        return _case(problem, found, constants)
    made = on_balls(problem, found, BALLS, known=known, spend=spend, tell=tell, doubts=doubts)
    momentum = momentum_of(problem, made[BallKind.LOCAL])
    if momentum is not None:  # the iterates leave the ball they start on
        peak = _peak(momentum)
        made |= on_balls(
            problem, found, (BallKind.LOCAL,), known=known, peak=peak, spend=spend, tell=tell, doubts=doubts
        )
    return _case(problem, found, made)


def _peak(momentum: Momentum | None) -> float:
    """How many times r_0 the iterates may be away from w*."""
    return 1.0 if momentum is None else max(1.0, float(momentum.factor(np.arange(FOREVER)).max()))


def _case(problem: Problem, found: ReferenceSolution, constants: Mapping[str, Constants]) -> Case:
    local = constants[BallKind.LOCAL]
    momentum = momentum_of(problem, local)
    radius = _peak(momentum) * local["r_0"].value if "r_0" in local else 0.0
    return Case(problem, found.w[0], constants, momentum, radius, certificate.certify(problem, found, local))


def _places(problem: Problem, T: int, most: int) -> np.ndarray:
    """Where the proofs are traced: at every t, or at as many as can be afforded, some of them early ones."""
    d, n = problem.d, problem.n
    count = max(FEW, min(most, AFFORDABLE // (d * d * (d + n))))
    if count >= T:
        return np.arange(1, T + 1)
    return np.unique(np.concatenate([np.geomspace(1, T, count // 2), np.linspace(1, T, count // 2)]).astype(int))


def _names(chosen: Sequence[Bound], asked: Sequence[Method], traced: bool) -> frozenset[str]:
    """All that the proofs, the a posteriori bounds and their conditions want to know of a run with these methods."""
    used = {method.name for method in asked}
    fitting = [bound for bound in chosen if used & set(bound.methods) and bound.kind != FROM_SPECTRUM]
    proofs = {name for bound in fitting if traced and bound.chain for name in bound.chain.observables}
    symbols = {symbol.name for bound in fitting for symbol in bound.primitive.free_symbols | bound.in_conditions}
    return frozenset({"r_t"} | proofs | symbols) & frozenset(NAMES)  # r_t tells whether w_t is in the ball
