"""`hypergradient`: with exactly the requested steps, or to a requested accuracy."""

from __future__ import annotations

from typing import Any

from boundcheck import methods
from boundcheck.errors import InputError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.solvers import hypergradient as fixed_steps
from boundcheck.numerics.solvers.random_run import random_run
from boundcheck.numerics.solvers.result import Hypergradient
from boundcheck.numerics.solvers.stochastic_chain import finite_sum_of
from boundcheck.step_schedule import StepSchedule

METHOD, STEPS = "aid-cg", 100  # used if neither a method nor a tolerance is given
MOST = 100_000  # the largest number of steps of a solver, with a tolerance


@on_few_threads
def hypergradient(
    problem: Problem | str,
    method: str | None = None,
    t: int | None = None,
    k: int | None = None,
    *,
    lam: Any = None,
    w0: Any = None,
    v0: Any = None,
    tol: float | None = None,
    mode: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    prove: bool = True,
    seed: int | None = None,
    steps: StepSchedule | str | None = None,
    steps_v: StepSchedule | None = None,
) -> Any:
    """Approximate ∇f(λ), f(λ) = E(w(λ), λ): with exactly the requested steps, or to a tolerance.

    With `rtol` or `atol`, the steps are chosen automatically such that ‖g − ∇f‖ ≤ rtol·‖∇f‖ + atol, and the result says
    whether this is proved.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    method : str, optional
        "aid-cg", "aid-cgn", "aid-fp", "itd", "itd-truncated:K" or "exact"; by default "aid-cg", which needs a
        symmetric ∂₁Φ. "aid-cg:10" fixes k = 10, and "itd-truncated:10" differentiates through the last 10 steps.
        "exact" solves both levels to machine precision. "sid" and "neumann" draw minibatches from a problem with data:
        one run of SID, or of a Neumann series with a random length below k.
    t : int, optional
        The number of lower-level steps; 100 by default. Exactly this many are taken unless `tol` is given. With `rtol`
        or `atol`, the largest number of steps of a solver; 100,000 by default.
    k : int, optional
        The number of steps of the linear solver; `t` by default. For "itd-truncated", the steps to differentiate
        through. Not for "itd" and "exact".
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        Where to evaluate; the problem's own λ by default.
    w0 : structure of the parameters, or flat tensor of shape (d,), optional
        A warm start of the lower level; `problem.w0` by default. Not for "exact".
    v0 : structure of the parameters, or flat tensor of shape (d,), optional
        A warm start of the linear solver; 0 by default. Only for the AID methods.
    tol : float, optional
        Stop the lower level when a step moves w by at most tol·max(1, ‖w‖), and the linear solver at a residual of at
        most tol·‖∇₁E‖. Without `tol` there are exactly t and k steps. `tol` does not bound the error; see `rtol`.
    mode : {"auto", "reverse", "checkpoint", "forward"}
        How ITD differentiates. "auto", the default, back-propagates up to 1 GiB of graph; beyond that it uses forward
        mode for a single hyperparameter and checkpoints for more.
    rtol : float, optional
        The allowed relative error: ‖g − ∇f‖ ≤ rtol·‖∇f‖ + atol. The method is chosen automatically, so `method`, `k`,
        `tol` and `mode` cannot be given with it.
    atol : float, optional
        The allowed absolute error; 0 if only `rtol` is given.
    prove : bool
        Whether to prove the error if the program of the problem allows it; True by default. An estimate is faster.
        Only with `rtol` or `atol`.
    seed : int, optional
        The seed of the minibatches; 0 by default. Only for "sid" and "neumann".
    steps : StepSchedule or "paper", optional
        The steps η_i of the lower level. By default they are derived from constants at the solution, to make a bound on
        the error of w_t small; this takes longer than the run. "paper" derives the steps that Grazzi, Pontil and Salzo
        (2021) recommend. Only for "sid" and "neumann".
    steps_v : StepSchedule, optional
        The steps of the linear solver; by default equal to `steps` if these are given, otherwise derived in the same
        way. Only for "sid".

    Returns
    -------
    Hypergradient or AccurateHypergradient
        An `AccurateHypergradient` if `rtol` or `atol` is given: `.value`, `.error`, `.relative_error`, `.angle`,
        `.descent`, `.how` and more. Otherwise a `Hypergradient`: `.grad` in the structure of the hyperparameters,
        `.value` of shape (n,), the numbers of steps `.t` and `.k`, `.residual.w` = ‖w_t − Φ(w_t)‖, `.residual.v`, and
        `.status`.

    Raises
    ------
    UnknownNameError
        If there is no such method or mode.
    InputError
        If an argument cannot be used, or does not apply to this method.
    AssumptionError
        If the method is "aid-cg" and ∂₁Φ is not symmetric, or I − ∂₁Φ is not positive definite.
    DivergenceError
        If an iterate is not finite (the message says at which step), or if "exact" cannot compute w(λ).
    ToleranceError
        If the tolerance is not reached. Its `best` is the best hypergradient so far.
    UserCodeError
        If a function of the user raises.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.scalar(q=0.5)
    >>> g = bc.hypergradient(problem, "itd", t=30)
    >>> g.t, g.status
    (30, 'completed')
    >>> bc.hypergradient(problem, "exact").grad
    tensor([4.], dtype=torch.float64)

    To a relative error of one per cent:

    >>> g = bc.hypergradient(problem, rtol=0.01)
    >>> g.how, g.relative_error <= 0.01, g.descent
    ('proved', True, True)
    """
    problem = require_problem(problem)
    if rtol is None and atol is None:
        t = STEPS if t is None else t
        parsed = fixed_steps.named(method or METHOD, k)
        if parsed.is_random:
            for name, value in (("tol", tol), ("mode", None if mode == "auto" else mode)):
                if value is not None:
                    raise InputError(f"{name} = {value!r} cannot be used with {parsed.name}; leave it out")
            return _random(problem if lam is None else problem.at(lam), parsed, t, seed, steps, steps_v, w0, v0)
        _refuse_random_options(str(parsed), seed, steps, steps_v)
        return fixed_steps.hypergradient(problem, method or METHOD, t, k, lam=lam, w0=w0, v0=v0, tol=tol, mode=mode)
    _refuse_random_options("a tolerance", seed, steps, steps_v)
    from boundcheck.trust.adaptive import to_tolerance  # imported here, because it loads the theory
    from boundcheck.trust.tolerance import Tolerance

    for name, value in (("method", method), ("k", k), ("tol", tol), ("mode", None if mode == "auto" else mode)):
        if value is not None:
            raise InputError(
                f"{name} = {value!r} cannot be used with rtol or atol, which choose the steps; leave it out"
            )
    tolerance = Tolerance(0.0 if rtol is None else rtol, 0.0 if atol is None else atol)
    at_lam = problem if lam is None else problem.at(lam)
    at_lam.checked(at_lam.lam, "lam")
    most = MOST if t is None else methods.count(t, "t")
    if most < 1:
        raise InputError(f"t = {t} leaves no step to a solver; give at least 1, or leave it out")
    start = problem.w0 if w0 is None else problem.checked(w0, "w0")
    v = None if v0 is None else problem.checked(v0, "v0")
    return to_tolerance(at_lam, tolerance, start, v, most, prove)


def _random(
    problem: Problem, method: Method, t: int, seed: int | None, steps: StepSchedule | str | None,
    steps_v: StepSchedule | None, w0: Any, v0: Any,
) -> Hypergradient:  # fmt: skip
    """One run on minibatches."""
    finite_sum_of(problem, method.name)
    if method.name != "sid" and steps_v is not None:
        raise InputError(f"steps_v = {steps_v} are steps of a linear solver, and {method.name} has none; leave it out")
    t = methods.count(t, "t")
    if not isinstance(steps, StepSchedule):
        from boundcheck.trust.stochastic_steps import default_steps  # imported here, because it loads the theory

        chosen = default_steps(problem, t, method.steps(t), steps, steps_v)
        steps, steps_v = chosen.w, chosen.v
    start = None if w0 is None else problem.checked(w0, "w0")
    v = None if v0 is None else problem.checked(v0, "v0")
    seed = 0 if seed is None else seed
    return random_run(problem, method, t, seed=seed, steps=steps, steps_v=steps_v or steps, w0=start, v0=v)


def _refuse_random_options(what: str, seed: Any, steps: Any, steps_v: Any) -> None:
    for name, value in (("seed", seed), ("steps", steps), ("steps_v", steps_v)):
        if value is not None:
            raise InputError(f"{name} = {value} is for the methods sid and neumann, not for {what}; leave it out")
