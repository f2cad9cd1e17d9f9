"""`Watch`: measure the accuracy of every hypergradient in a user's own training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.errors import InputError
from boundcheck.methods import count, parse
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.solvers.result import Hypergradient
from boundcheck.report.run_step import RunStep
from boundcheck.report.run_trace import RunTrace
from boundcheck.trust import warm_bounds
from boundcheck.trust.certified_solution import CertifiedSolution, certified_solution
from boundcheck.trust.enough_steps import enough_steps
from boundcheck.trust.result import AccurateHypergradient
from boundcheck.trust.undisturbed import undisturbed

Callback = Callable[[int, dict[str, float]], object]
FLOOR = 1000  # computed iterates may exceed a bound for exact iterates by this many rounding units, divided by 1 − q


@dataclass(frozen=True, eq=False)
class _Before:
    """The previous step: its λ and w, and its measurements if it was watched."""

    lam: Tensor
    w: Tensor
    v: Tensor | None = None
    r: float | None = None
    W: Constant | None = None


class Watch:
    """Watch the hypergradients of a training loop: call it at every upper-level step with λ, w and g.

    w is the result of the lower level, and g is a hypergradient from any library. Each call computes w(λ) and ∇f(λ) by
    Newton's method from w, proves their accuracy, and compares w and g with them. It does not change tensors,
    gradients, the graph or random numbers. If a step fails, its row says so, and the loop continues.

    Parameters
    ----------
    problem : Problem or str
        The problem, or a name for `load_problem`; its own λ and start are not used.
    t : int, optional
        The lower-level steps of the loop, w_{j+1} = Φ(w_j, λ) from the w of the previous step. With `t`, the rows have
        the bound `warm-start` on ‖w − w(λ)‖.
    k : int, optional
        The steps of the loop's linear solver; only recorded.
    every : int
        Watch only every n-th step; 1 by default, which watches all steps.
    prove : bool
        Whether to prove the numbers; True by default. With False they are estimates, which are much faster on large
        problems, and the rows say so.
    rtol : float, optional
        A requested relative error. With it, each row has t and k that reach this error from the same start.
    method : str, optional
        The method for `rtol`; by default "aid-cg" for a problem from a loss, and "aid-fp" otherwise.
    callback : callable (step, values) -> object, optional
        A function that is called after every watched step, with the number of the step and a dict from str to float,
        `RunStep.to_dict`. The loggers of TensorBoard and of Weights & Biases accept such a dict.

    Raises
    ------
    InputError
        If an argument cannot be used.

    Examples
    --------
    >>> import boundcheck as bc
    >>> problem = bc.problems.scalar(q=0.5)
    >>> watch = bc.Watch(problem)
    >>> g = bc.hypergradient(problem, "itd", t=10)
    >>> row = watch(problem.lam, g.w, g)
    >>> row.proved, row.descent
    (True, True)
    >>> print(f"{row.accuracy.relative_error:.4f}")
    0.0107
    """

    def __init__(
        self,
        problem: Problem | str,
        *,
        t: int | None = None,
        k: int | None = None,
        every: int = 1,
        prove: bool = True,
        rtol: float | None = None,
        method: str | None = None,
        callback: Callback | None = None,
    ) -> None:
        problem = require_problem(problem)
        if count(every, "every") < 1:
            raise InputError(f"every = {every} is too small; give an integer >= 1")
        if rtol is not None and not 0 < rtol < math.inf:
            raise InputError(f"rtol = {rtol} is not a relative error; give a positive number, or leave it out")
        if callback is not None and not callable(callback):
            raise InputError(
                f"callback = {callback!r} cannot be called; give a function of a step and a dict of floats"
            )
        self.problem, self.every, self.prove, self.rtol, self.callback = problem, every, prove, rtol, callback
        self.t, self.k = (None if n is None else count(n, name) for n, name in ((t, "t"), (k, "k")))
        self.method = method or ("aid-cg" if problem.inner_at is not None else "aid-fp")
        parse(self.method)
        self._anywhere = replace(problem, domain=None)  # a λ outside of the domain is a row, not an error
        self._steps = 0
        self._rows: list[RunStep] = []
        self._before: _Before | None = None
        self._f = math.nan

    def __repr__(self) -> str:
        return f"Watch({self.problem.name}, {len(self._rows)} of {self._steps} steps watched)"

    @property
    def trace(self) -> RunTrace:
        """The rows so far."""
        lam = None if self._before is None else self._before.lam.double().cpu().numpy()
        wanted = self.method if self.rtol is not None else ""
        return RunTrace(self.problem.name, tuple(self._rows), self.rtol, wanted, lam=lam)

    def __call__(
        self, lam: Any, w: Any, g: Any, *, t: int | None = None, k: int | None = None, w0: Any = None
    ) -> RunStep | None:
        """Record one upper-level step, and measure its accuracy if this step is watched.

        Parameters
        ----------
        lam : structure of the hyperparameters, or flat tensor of shape (n,)
            The λ at which the hypergradient was computed.
        w : structure of the parameters, or flat tensor of shape (d,)
            The result of the lower level.
        g : Hypergradient, structure of the hyperparameters, or flat tensor of shape (n,)
            The hypergradient.
        t, k : int, optional
            The steps of both levels, if they differ from those of the watch.
        w0 : structure of the parameters, or flat tensor of shape (d,), optional
            The start of the lower level; by default the w of the previous step.

        Returns
        -------
        RunStep or None
            The row of this step; None if this step is not watched.

        Raises
        ------
        InputError
            If λ, w, g or w0 has another shape, dtype or device than the problem, or an entry that is not finite.
        """
        lam, w = self._flat(lam, "lam"), self._flat(w, "w")
        v = g.v if isinstance(g, Hypergradient | AccurateHypergradient) else None
        g = self._flat(g.value if isinstance(g, Hypergradient | AccurateHypergradient) else g, "g")
        start = None if w0 is None else self._flat(w0, "w0")
        t, k = (mine if n is None else count(n, name) for n, name, mine in ((t, "t", self.t), (k, "k", self.k)))
        step, before = self._steps, self._before
        now, row = _Before(lam, w, v), None
        if step % self.every == 0:
            began = time.perf_counter()
            blank = RunStep(step, t=t, k=k)
            if before is not None:
                blank = replace(blank, lam_step=float((lam - before.lam).double().norm()))
            try:
                with undisturbed(self.problem):
                    row, now = self._look(blank, now, g, start)
            except Exception as error:  # no error of the watch may end the user's training
                row = replace(blank, why=f"{type(error).__name__}: {' '.join(str(error).split())}"[:500])
            row = replace(row, seconds=time.perf_counter() - began)
            self._rows.append(row)
            self._f = row.f
        self._steps, self._before = step + 1, now
        if row is not None and self.callback is not None:
            self.callback(step, row.to_dict())
        return row

    def _flat(self, value: Any, name: str) -> Tensor:
        layout = self.problem.lam_layout
        if (
            name == "g"
            and isinstance(value, tuple)
            and len(value) == 1
            and layout is not None
            and layout.paths == ("",)
        ):
            value = value[0]  # torch.autograd.grad returns a tuple
        with torch.inference_mode(False), torch.no_grad():
            return self._anywhere.checked(value, name).clone()

    def _look(self, row: RunStep, now: _Before, g: Tensor, start: Tensor | None) -> tuple[RunStep, _Before]:
        before = self._before
        if start is None and before is not None:
            start = before.w
        certified = certified_solution(
            self.problem, now.lam, now.w, now.w if start is None else start, prove=self.prove
        )  # fmt: skip
        r_t, f = certified.distance_of(now.w), certified.f
        row = replace(
            row,
            accuracy=certified.accuracy(g),
            f=f,
            decrease=self._f - f,
            r_t=r_t,
            r_0=None if start is None else certified.distance_of(start),
            why=certified.why if self.prove else "estimates only: prove=False",
        )
        t = row.t
        if start is not None and t is not None:
            row = replace(
                row,
                bound=warm_bounds.from_distance(certified, t),
                from_residual=warm_bounds.from_residual(certified, t),
            )
            if before is not None and before.r is not None and before.W is not None and start is before.w:
                guess = warm_bounds.from_drift(certified, t, before.r, before.W, row.lam_step)
                row = replace(row, estimate=guess)
            row = _not_from_there(row, certified)
        if self.rtol is not None and start is not None:
            v0 = before.v if before is not None and start is before.w else None
            row = replace(row, enough=enough_steps(certified, self.method, self.rtol, v0))
        return row, replace(now, r=float(r_t.upper), W=certified.constants.get("W"))


def _not_from_there(row: RunStep, certified: CertifiedSolution) -> RunStep:
    """Add a note if w is not the result of t steps of Φ from the start, because it violates the proved bound on r_t."""
    if row.bound is None or row.r_t is None or not row.bound.proved or not row.r_0 or certified.why:
        return row
    gap = 1 - certified.constants["q"].value
    unit = torch.finfo(certified.problem.dtype).eps
    floor = FLOOR * unit * (1 + float(certified.solution.w[0].norm())) / gap
    if float(row.r_t.lower) <= row.bound.value + floor:
        return row
    return replace(
        row,
        why=f"w is {float(row.r_t.lower):.3g} from w(λ), but {row.t} steps of Φ from the previous w end within "
        f"{row.bound.value:.3g} of it: the lower level started elsewhere (give w0=), or does not take these steps",
    )
