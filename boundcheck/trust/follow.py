"""`follow`: gradient descent on λ that tells at every step how good its hypergradient was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from boundcheck.errors import DivergenceError, InputError
from boundcheck.methods import count, parse
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.solvers.hypergradient import hypergradient
from boundcheck.progress import Progress, no_progress
from boundcheck.report.run_trace import RunTrace
from boundcheck.trust.watch import Callback, Watch

HALVINGS = 60  # of a step that would leave the domain of λ


@on_few_threads
def follow(
    problem: Problem | str,
    *,
    outer_step: float | Callable[[int], float],
    steps: int = 20,
    method: str = "aid-cg",
    t: int = 10,
    k: int | None = None,
    warm: bool = True,
    lam: Any = None,
    every: int = 1,
    prove: bool = True,
    rtol: float | None = None,
    callback: Callback | None = None,
    progress: Progress | None = None,
) -> RunTrace:
    """Run gradient descent on λ and watch it: λ ← λ − outer_step·g, with g by a hypergradient method.

    Nothing is random, so the same call gives the same rows. Ctrl-C ends it, with what was found so far.

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name as `load_problem` takes it.
    outer_step : float, or callable (step) -> float
        The step size of the upper level. A step that would leave the domain of λ is halved until it does not.
    steps : int
        Upper-level steps; 20 by default.
    method : str
        The method, as `hypergradient` takes it; "aid-cg" by default, which needs a symmetric ∂₁Φ.
    t : int
        Lower-level steps at each upper-level step; 10 by default.
    k : int, optional
        Steps of the linear solver; `t` by default. Not for "itd".
    warm : bool
        Whether both levels start where they ended at the step before; True by default. Otherwise the lower level starts
        at the start of the problem, and the linear solver at 0.
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        The first λ; the problem's own by default.
    every : int
        Watch only every n-th step; 1 by default.
    prove : bool
        Whether to prove the numbers; True by default.
    rtol : float, optional
        A wanted relative error. With it the rows say which t and k would have reached it, from the same start.
    callback : callable (step, values) -> object, optional
        Called after every watched step, with its number and a dict from str to float.
    progress : callable (what, done, of) -> None, optional
        Called with what is being done, how much of it is done, and of how much.

    Returns
    -------
    RunTrace
        A row for each step, and the λ where the last step led to.

    Raises
    ------
    InputError
        If an argument cannot be used.
    AssumptionError
        If the method is "aid-cg" and ∂₁Φ is not symmetric.
    DivergenceError
        If the first step has no hypergradient. A later one ends the run, and `RunTrace.status` says so.
    UserCodeError
        If a function of the user raises.

    Examples
    --------
    >>> import boundcheck as bc
    >>> trace = bc.follow(bc.problems.scalar(q=0.5), outer_step=0.01, steps=3, method="itd", t=10)
    >>> len(trace), trace.proved, trace.status
    (3, True, 'completed')
    """
    problem = require_problem(problem)
    if k is not None and ":" in method:
        raise InputError(f"k = {k} and method = {method!r} both fix k; give one of them")
    asked = parse(method) if k is None else parse(f"{method}:{count(k, 'k')}")
    free = str(asked) if asked.name == "itd-truncated" else asked.name  # of k, for the steps that would have done
    watch = Watch(problem, every=every, prove=prove, rtol=rtol, method=free, callback=callback)
    first = problem.checked(problem.lam if lam is None else lam, "lam")
    run = _Run(problem, watch, str(asked), count(t, "t"), warm, first.clone())
    tell, steps = progress or no_progress, count(steps, "steps")
    status = "completed"
    try:
        for step in range(steps):
            tell("following", step, steps)
            size = outer_step(step) if callable(outer_step) else outer_step
            if not (isinstance(size, int | float) and 0 <= size < math.inf):
                raise InputError(f"outer_step = {size!r} is not a step size; give a number >= 0")
            if ended := run.step(step, float(size)):
                status = f"ended after {run.done} of {steps} steps: {ended}"
                break
        else:
            tell("following", steps, steps)
    except KeyboardInterrupt:
        status = f"interrupted after {run.done} of {steps} steps"
    if run.halved:
        status += f"; to stay in the domain of lam, steps {', '.join(map(str, run.halved))} were halved"
    end = run.lam.double().cpu().numpy()
    return replace(watch.trace, method=str(asked), warm=warm, status=status, lam=end)


@dataclass
class _Run:
    """Where the run is."""

    problem: Problem
    watch: Watch
    method: str
    t: int
    warm: bool
    lam: Tensor
    w: Tensor | None = None
    v: Tensor | None = None
    done: int = 0  # steps whose hypergradient is there
    halved: list[int] = field(default_factory=list)

    def step(self, step: int, size: float) -> str:
        """One step of gradient descent; why there can be no more, if so."""
        start = self.problem.w0 if self.w is None or not self.warm else self.w
        given = None if self.method == "exact" else start
        v0 = self.v if self.warm and self.method.startswith("aid") else None
        try:
            g = hypergradient(self.problem, self.method, t=self.t, lam=self.lam, w0=given, v0=v0)
        except DivergenceError as why:
            if step == 0:
                raise
            return str(why)
        # without w0 the watch knows that it is the w of the step before
        self.watch(self.lam, g.w, g, t=g.t, k=g.k, w0=None if self.warm and step else start)
        self.w, self.v, self.done = g.w, g.v, self.done + 1
        return self._move(step, g.value, size)

    def _move(self, step: int, g: Tensor, size: float) -> str:
        domain = self.problem.domain
        for halvings in range(HALVINGS):
            reached = self.lam - size / 2**halvings * g
            if bool(reached.isfinite().all()) and (domain is None or bool(domain.holds(reached))):
                if halvings:
                    self.halved.append(step)
                self.lam = reached
                return ""
        return f"no step from here stays in the domain of lam ({domain.says if domain else 'finite numbers'})"
