"""`hypergradient`: one run of any solver by name, with exactly the requested steps."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from boundcheck import methods
from boundcheck.errors import DivergenceError, InputError, UnknownNameError
from boundcheck.methods import Method, unrolls
from boundcheck.numerics.bilevel.derivatives import Linearisation, linearise, outer_gradients
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem, require_problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.bilevel.threads import on_few_threads
from boundcheck.numerics.solvers import (
    conjugate_gradient,
    fixed_point,
    lower_level,
    normal_equations,
    reference,
    unrolling,
)
from boundcheck.numerics.solvers.krylov_error import KrylovError
from boundcheck.numerics.solvers.result import COMPLETED, Hypergradient, LinearSolution, Residuals

MODES = ("auto", "reverse", "checkpoint", "forward")
GRAPH_BUDGET = 1 << 30  # the most bytes that back-propagation stores without checkpoints
GRAPH_COPIES = 8  # assumed number of tensors of the size of the state that a step stores


@on_few_threads
def hypergradient(
    problem: Problem,
    method: str = "aid-cg",
    t: int = 100,
    k: int | None = None,
    *,
    lam: Any = None,
    w0: Any = None,
    v0: Any = None,
    tol: float | None = None,
    mode: str = "auto",
) -> Hypergradient:
    """Run a hypergradient method once, with exactly the requested steps.

    `boundcheck.hypergradient` documents the parameters, the result and the errors.
    """
    require_problem(problem)
    requested = named(method, k)
    methods.refuse_random(requested, "give it to boundcheck.hypergradient, which takes a seed and steps")
    if mode not in MODES:
        raise UnknownNameError.among("mode", mode, MODES)
    if tol is not None and not 0 < tol < math.inf:
        raise InputError(
            f"tol = {tol} is not a tolerance; give a positive number, or leave it out for exactly t and k steps"
        )
    if lam is not None:
        problem = problem.at(lam)
    else:
        problem.checked(problem.lam, "lam")
    t = methods.count(t, "t")
    if requested.name == "exact":
        for name, value in (("w0", w0), ("v0", v0), ("tol", tol)):
            if value is not None:
                raise InputError(f"exact iterates to machine precision and takes no {name}; leave it out")
        return _exact(quick(problem))
    if mode != "auto" and not requested.unrolls:
        raise InputError(f"mode = {mode!r} is how ITD differentiates; {requested.name} takes none")
    problem = quick(problem)
    prepared = Prepared(problem, problem.lam)
    z0 = problem.dynamics.start(problem.w0 if w0 is None else problem.checked(w0, "w0"))
    if requested.unrolls:
        if v0 is not None:
            raise InputError(f"v0 is the start of a linear solver, and {requested.name} has none; leave v0 out")
        result = _itd(problem, prepared, z0, t, requested, tol, mode)
    else:
        v0 = None if v0 is None else problem.checked(v0, "v0")
        result = _aid(problem, prepared, z0, t, requested, v0, tol)
    if not bool(torch.isfinite(result.w).all()):
        raise lower_level.explain_divergence(problem, prepared.ready, z0, t)
    if not bool(torch.isfinite(result.value).all() & (result.v is None or torch.isfinite(result.v).all())):
        raise _linear_divergence(problem, prepared, result, v0)
    return result


def named(method: str, k: int | None) -> Method:
    """Return the method with its k, which may be given in `method` or in `k`, but not in both."""
    text = str(method)
    if k is None:
        return methods.parse(text)
    methods.count(k, "k")
    if ":" in text:
        raise InputError(f"k = {k} and method = {text!r} both fix k; give one of them")
    return methods.parse(f"{text}:{k}")


def _itd(
    problem: Problem, prepared: Prepared, z0: Tensor, t: int, method: Method, tol: float | None, mode: str
) -> Hypergradient:
    stopped = ""
    if tol is not None:
        lower = lower_level.run(problem, prepared.ready, z0, t, tol)
        t, stopped = lower.t, lower.stopped
    through = method.steps(t)
    if mode == "auto":
        graph_bytes = GRAPH_COPIES * through * z0.numel() * z0.element_size()
        mode = "reverse" if graph_bytes <= GRAPH_BUDGET else "forward" if problem.n == 1 else "checkpoint"
    if mode == "forward":
        unrolled = unrolling.forward(problem, prepared, z0, t, through)
    else:
        unrolled = unrolling.reverse(problem, prepared, z0, t, through, checkpoint=mode == "checkpoint")
    return Hypergradient(
        value=unrolled.value,
        method=str(method),
        t=t,
        k=through if method.name == "itd-truncated" else None,
        residual=Residuals(float(lower_level.residual(problem, prepared.ready, unrolled.w))),
        status=stopped or COMPLETED,
        dynamics=problem.dynamics.name,
        linear_map=None,
        w=unrolled.w,
        v=None,
        layout=problem.lam_layout,
    )


def _aid(
    problem: Problem, prepared: Prepared, z0: Tensor, t: int, method: Method, v0: Tensor | None, tol: float | None
) -> Hypergradient:
    ready = prepared.ready
    lower = lower_level.run(problem, ready, z0, t, tol)
    w = problem.dynamics.iterate(lower.z)
    linearised = linearise(problem, w, prepared)
    outer = outer_gradients(problem, w, prepared.leaves)
    if method.name == "aid-cg" and bool(torch.isfinite(w).all()):
        conjugate_gradient.refuse_unless_symmetric(linearised, problem)
    solution = solve(method.name, linearised, outer.w, method.steps(t), v0, tol)
    total = tuple(a + b for a, b in zip(outer.lam, linearised.d2_T(solution.v), strict=True))
    residual_v = lower_level.length(solution.v - linearised.d1_T(solution.v) - outer.w)
    return Hypergradient(
        value=prepared.pull_back(total),
        method=str(method),
        t=lower.t,
        k=solution.k,
        residual=Residuals(float(lower_level.length(w - linearised.y.detach())), float(residual_v)),
        status="; ".join(filter(None, (lower.stopped, solution.stopped))) or COMPLETED,
        dynamics=problem.dynamics.name,
        linear_map=f"Φ of {problem.name}",
        w=w,
        v=solution.v,
        layout=problem.lam_layout,
    )


def solve(
    name: str, linearised: Linearisation, b: Tensor, k: int, v0: Tensor | None = None, tol: float | None = None,
    error: KrylovError | None = None,
) -> LinearSolution:  # fmt: skip
    """Do k steps of the linear solver of an AID method on (I − ∂₁Φᵀ)v = b.

    All solvers except aid-fp compute ‖b‖². If it would overflow or underflow, b is scaled by a power of two, which is
    exact.
    """
    if name == "aid-fp":
        return fixed_point.solve(linearised.d1_T, b, k, v0, tol)
    unit = _unit_of_squares(b)
    if unit != 1 and error is None:  # an error is in the units of b
        scaled = solve(name, linearised, b / unit, k, None if v0 is None else v0 / unit, tol)
        return replace(scaled, v=scaled.v * unit)
    if name == "aid-cg":
        return conjugate_gradient.solve(linearised.d1_T, b, k, v0, tol, error)
    return normal_equations.solve(linearised.d1_T, linearised.d1, b, k, v0, tol, error)


def _unit_of_squares(b: Tensor) -> float:
    """Return 1, or a power of two near the size of the vector if its square leaves the range of its dtype."""
    info, size = torch.finfo(b.dtype), float(b.abs().max()) if b.numel() else 0.0
    if size == 0 or not math.isfinite(size) or math.sqrt(info.tiny) / info.eps < size < math.sqrt(info.max) * info.eps:
        return 1.0
    return float(2.0 ** (math.frexp(size)[1] - 1))


def _exact(problem: Problem) -> Hypergradient:
    solution = reference.reference(problem, problem.lam[None])
    return Hypergradient(
        value=solution.value[0],
        method="exact",
        t=0,
        k=None,
        residual=Residuals(float(solution.residual_w[0]), float(solution.residual_v[0])),
        status=COMPLETED,
        dynamics="Newton",
        linear_map=f"Φ of {problem.name}",
        w=solution.w[0],
        v=solution.v[0],
        certificate=reference.certificate(problem, solution, problem.lam),
        layout=problem.lam_layout,
    )


def _linear_divergence(
    problem: Problem, prepared: Prepared, failed: Hypergradient, v0: Tensor | None
) -> DivergenceError:
    """Solve again with fewer steps, and return an error that names the first step whose result is not finite."""
    if failed.k is None or unrolls(failed.method):
        return DivergenceError(
            f"{problem.name}: {failed.method} is not finite at t = {failed.t}; reduce t or the step size"
        )
    name = failed.method.partition(":")[0]
    linearised = linearise(problem, failed.w, prepared)
    b = outer_gradients(problem, failed.w, prepared.leaves).w
    if not bool(torch.isfinite(b).all()):
        return DivergenceError(f"{problem.name}: ∇₁E(w_t) is not finite at t = {failed.t}; E has no gradient there")

    def broken(k: int) -> bool:
        return not bool(torch.isfinite(solve(name, linearised, b, k, v0).v).all())

    first = bisect_left(range(failed.k + 1), True, key=broken)  # once not finite, never finite again
    return DivergenceError(
        f"{problem.name}: the linear solver of {failed.method} left the finite numbers at k = {first} of {failed.k}; "
        "∂₁Φ is not a contraction at w_t: reduce the step size, or use aid-cgn"
    )
