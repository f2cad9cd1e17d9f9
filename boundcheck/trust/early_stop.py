"""The hypergradients that result from too few steps of the lower level, of the linear solver, or of both.

Every t and k up to `LONGEST` is tried, and the best of each family is a suspect.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from boundcheck.errors import AssumptionError, BoundcheckError
from boundcheck.methods import parse
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.threads import is_small
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves import cost
from boundcheck.numerics.curves.all_methods import evaluate
from boundcheck.numerics.curves.batch import Batch
from boundcheck.numerics.curves.cost import Schedule
from boundcheck.numerics.curves.sizes import measure
from boundcheck.numerics.solvers import conjugate_gradient, normal_equations
from boundcheck.trust.diagnosis import Suspect, double
from boundcheck.trust.evidence import Evidence
from boundcheck.trust.pieces import Pieces, exact_at

LONGEST = 128  # steps to try for a small problem
SHORTER = 16  # steps to try for a large problem
KRYLOV = 24  # the largest number of steps of conjugate gradient
EVERY_T = 64  # the largest d for which the exact linear solve is tried at every t
SOME_T = (0, 1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128)
MEMORY = 1 << 28  # bytes
EXACTLY = 1e-3  # the message says "about" if more than this share of the error is left
MORE_STEPS = "Take more lower-level steps t."
MORE_K = "Take more steps k of the linear solver, or a better one."


def linear(e: Evidence) -> Iterator[Suspect]:
    """Suspects ∇₂E + ∂₂Φᵀv_k with k steps of the linear solvers."""
    base, off, alpha = e.base, e.off, e.alpha
    yield Suspect(
        "linear-solve", off(base.direct), "its implicit part ∂₂Φᵀv is missing, as with v = 0 (k = 0 steps)",
        "Solve (I − ∂₁Φᵀ)v = ∇₁E and add ∂₂Φᵀv.",
    )  # fmt: skip
    if alpha is not None and abs(alpha - 1) > 1e-3:
        yield Suspect(
            "linear-solve", off(base.direct + base.pulled(base.b) / alpha),
            "it has ∇₁E instead of the solution of ∂₁₁ℓ v = ∇₁E, as in T1−T2: the Hessian counts as the identity",
            "Solve ∂₁₁ℓ v = ∇₁E, with conjugate gradient for example.",
        )  # fmt: skip
    for name, vs in _iterates(base).items():
        yield from _best(
            e, "linear-solve", [off(base.direct + base.pulled(v)) for v in vs],
            f"the linear system is solved with k = {{}} {name} only", MORE_K,
        )  # fmt: skip


def _iterates(base: Pieces) -> dict[str, list[Tensor]]:
    """The iterates v_1, v_2, … of each solver from v_0 = 0."""
    d1_T, b, problem = base.linearised.d1_T, base.b, base.problem
    vs = [b]
    for _ in range(_longest(problem) - 1):
        vs.append(d1_T(vs[-1]) + b)
    iterates = {"fixed-point steps": vs}
    steps = range(1, min(KRYLOV, problem.d) + 1)
    try:
        conjugate_gradient.refuse_unless_symmetric(base.linearised, problem)
        iterates["steps of conjugate gradient"] = [conjugate_gradient.solve(d1_T, b, k, None, None).v for k in steps]
    except AssumptionError:
        d1 = base.linearised.d1
        solved = [normal_equations.solve(d1_T, d1, b, k, None, None).v for k in steps]
        iterates["steps of conjugate gradient on the normal equations"] = solved
    return iterates


def inner(e: Evidence) -> Iterator[Suspect]:
    """Suspects at every t: AID at w_t with an exact linear solve, ITD, and AID with k = t."""
    problem = e.problem
    prepared = Prepared(problem, problem.lam[None])
    T = _longest(problem)
    schedule = cost.choose(measure(problem, prepared, T), 1, ["itd", "aid-fp"], "auto", MEMORY)
    batch = batches.run(problem, prepared, T, constant=schedule.constant)
    path = torch.cat([problem.w0[None], batch.w[0]])
    ts = [t for t in (range(T + 1) if problem.d <= EVERY_T else SOME_T) if t <= T]
    ts = [t for t in ts if bool(torch.isfinite(path[t]).all())]
    at_t = exact_at(problem, path[ts])
    cause = "the inner solution is not accurate: it is the hypergradient at w_t after t = {} lower-level steps"
    off = (double(at_t) - double(e.g)).norm(dim=-1)
    yield from _best(e, "inner", [e.credible(float(x)) for x in off], cause, MORE_STEPS, ts)
    for method in ("itd", "aid-fp", "aid-cg"):
        distances = [e.credible(x) for x in _distances(batch, e.g, method, schedule)]
        if method == "itd":
            cause = "the inner solution is not accurate: it is what ITD gives after t = {} lower-level steps"
            yield from _best(e, "inner", distances, cause, MORE_STEPS)
        elif distances:
            yield from _both(e, path, distances, method)


def _distances(batch: Batch, g: Tensor, method: str, schedule: Schedule) -> list[float]:
    """‖g(t) − g‖ of a method for t = 1 … T."""
    parsed = parse(method)
    try:
        values = evaluate(batch, g[None], [parsed], schedule)[parsed][0]
    except BoundcheckError:
        return []
    return [float(x) for x in values]


def _both(e: Evidence, path: Tensor, distances: list[float], method: str) -> Iterator[Suspect]:
    """The suspect AID with k = t; the fault is the larger one of its two errors."""
    t = _least(distances) + 1
    w = path[t]
    at_w = double(exact_at(e.problem, w[None])[0])
    of_w = float((at_w - double(e.exact.value)).norm())
    pieces = Pieces(e.problem, w, v=torch.zeros_like(w))
    d1_T, b = pieces.linearised.d1_T, pieces.b
    v = b
    if method == "aid-cg":
        v = conjugate_gradient.solve(d1_T, b, t, None, None).v
    else:
        for _ in range(t - 1):
            v = d1_T(v) + b
    of_v = float((double(pieces.direct + pieces.pulled(v)) - at_w).norm())
    fault, remedy = ("inner", MORE_STEPS) if of_w >= of_v else ("linear-solve", MORE_K)
    part = "inner solution" if fault == "inner" else "linear solve"
    cause = f"the {part} is not accurate: it is what {method} gives with t = k = {{}} steps"
    yield from _best(e, fault, distances, cause, remedy)


def _best(
    e: Evidence, fault: str, distances: list[float], cause: str, remedy: str, steps: list[int] | None = None
) -> Iterator[Suspect]:
    """The suspect of a family that is nearest to g; its members have `steps`, by default 1, 2, … steps."""
    if not distances:
        return
    i = _least(distances)
    count = i + 1 if steps is None else steps[i]
    about = "" if distances[i] <= EXACTLY * e.off_base else "about "
    yield Suspect(fault, distances[i], cause.format(f"{about}{count}"), remedy, tries=len(distances))


def _least(distances: list[float]) -> int:
    return min(range(len(distances)), key=lambda i: distances[i] if distances[i] == distances[i] else float("inf"))


def _longest(problem: Problem) -> int:
    return LONGEST if is_small(problem) else SHORTER
