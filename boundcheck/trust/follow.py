"""`follow`: gradient descent on λ that records the accuracy of its hypergradient at every step."""

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

HALVINGS = 60  # halve a step that would leave the domain of λ at most this often


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
    """Run gradient descent on λ and watch it: λ ← λ − outer_step·g, where g comes from a hypergradient method.

    Nothing is random, so the same call gives the same rows. Ctrl-C ends the run and returns the rows so far.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`.
    outer_step : float, or callable (step) -> float
        The step size of the upper level. A step that would leave the domain of λ is halved until it stays inside.
    steps : int
        The number of upper-level steps; 20 by default.
    method : str
        The method, as for `hypergradient`; "aid-cg" by default, which needs a symmetric ∂₁Φ.
    t : int
        The lower-level steps at each upper-level step; 10 by default.
    k : int, optional
        The steps of the linear solver; `t` by default. Not for "itd".
    warm : bool
        Whether both levels start from the results of the previous step; True by default. Otherwise the lower level
        starts from the start of the problem, and the linear solver from 0.
    lam : structure of the hyperparameters, or flat tensor of shape (n,), optional
        The first λ; the problem's own λ by default.
    every : int
        Watch only every n-th step; 1 by default.
    prove : bool
        Whether to prove the numbers; True by default.
    rtol : float, optional
        A requested relative error. With it, each row has t and k that reach this error from the same start.
    callback : callable (step, values) -> object, optional
        A function that is called after every watched step, with the number of the step and a dict from str to float.
    progress : callable (what, done, of) -> None, optional
        A function that is called with the name of the current task, the amount done, and the total amount.

    Returns
    -------
    RunTrace
        A row for each watched step, and the λ after the last step.

    Raises
    ------
    InputError
        If an argument cannot be used.
    AssumptionError
        If the method is "aid-cg" and ∂₁Φ is not symmetric.
    DivergenceError
        If the first step diverges. If a later step diverges, the run ends, and `RunTrace.status` says so.
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
    parsed = parse(method) if k is None else parse(f"{method}:{count(k, 'k')}")
    free = str(parsed) if parsed.name == "itd-truncated" else parsed.name  # without k: `rtol` also chooses k
    watch = Watch(problem, every=every, prove=prove, rtol=rtol, method=free, callback=callback)
    first = problem.checked(problem.lam if lam is None else lam, "lam")
    run = _Run(problem, watch, str(parsed), count(t, "t"), warm, first.clone())
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
    return replace(watch.trace, method=str(parsed), warm=warm, status=status, lam=end)


@dataclass
class _Run:
    """The state of a run."""

    problem: Problem
    watch: Watch
    method: str
    t: int
    warm: bool
    lam: Tensor
    w: Tensor | None = None
    v: Tensor | None = None
    done: int = 0  # the steps whose hypergradient was computed
    halved: list[int] = field(default_factory=list)

    def step(self, step: int, size: float) -> str:
        """Take one step of gradient descent; returns the reason if the run has to end, else an empty string."""
        start = self.problem.w0 if self.w is None or not self.warm else self.w
        w0 = None if self.method == "exact" else start
        v0 = self.v if self.warm and self.method.startswith("aid") else None
        try:
            g = hypergradient(self.problem, self.method, t=self.t, lam=self.lam, w0=w0, v0=v0)
        except DivergenceError as why:
            if step == 0:
                raise
            return str(why)
        # without w0, the watch takes the w of the previous step as the start
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
