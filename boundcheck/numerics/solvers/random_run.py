"""One run of a method that draws minibatches, with the same result type as the other methods."""

from __future__ import annotations

from torch import Tensor

from boundcheck import methods
from boundcheck.errors import InputError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import lower_level
from boundcheck.numerics.solvers.neumann import run_neumann
from boundcheck.numerics.solvers.result import COMPLETED, Hypergradient, Residuals
from boundcheck.numerics.solvers.sid import run_sid
from boundcheck.step_schedule import StepSchedule

DYNAMICS = "stochastic fixed-point"


def random_run(
    problem: Problem, method: Method, t: int, *, seed: int, steps: StepSchedule, steps_v: StepSchedule,
    w0: Tensor | None = None, v0: Tensor | None = None,
) -> Hypergradient:  # fmt: skip
    """Run "sid" or "neumann" once. The residuals are computed with Φ on all examples."""
    t = methods.count(t, "t")
    k = method.steps(t)
    if method.name == "sid":
        result = run_sid(problem, t, k, steps=steps, steps_v=steps_v, runs=1, seed=seed, w0=w0, v0=v0)
    elif v0 is not None:
        raise InputError(f"v0 is the start of a linear solver, and {method.name} has none; leave v0 out")
    else:
        result = run_neumann(problem, t, k, steps=steps, runs=1, seed=seed, w0=w0)
    w, v = result.w[0][0], result.v[0][0]
    prepared = Prepared(problem, problem.lam)
    linearised = linearise(problem, w, prepared)
    b = outer_gradients(problem, w, prepared.leaves).w
    return Hypergradient(
        value=result.value[0][0],
        method=str(method),
        t=t,
        k=k,
        residual=Residuals(
            float(lower_level.length(w - linearised.y.detach())),
            float(lower_level.length(v - linearised.d1_T(v) - b)),
        ),
        status=COMPLETED,
        dynamics=f"{DYNAMICS}, {steps}",
        linear_map=f"Φ of {problem.name}, on minibatches",
        w=w,
        v=v,
        layout=problem.lam_layout,
    )
