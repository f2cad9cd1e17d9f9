"""The quantities in the proofs, measured on a run: the observables of `theory/symbols.py` at every t.

Vectors are computed by products, for any d. Matrices, and v_t = (I − ∂₁Φ(w_t)ᵀ)⁻¹∇₁E(w_t), are computed only if they
are small enough to be formed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import DENSE, MATRIX, rows
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves import observables_aid
from boundcheck.numerics.curves.observables_aid import OF_V_T
from boundcheck.numerics.curves.observed_run import ObservedRun, norm
from boundcheck.numerics.solvers.reference import ReferenceSolution

OF_ALL = ("r_t", "g_t", "eps_w", "dE_1", "dE_2", "wT_dE_1", "Z_t", "dZ", "W_t", "newton_t", "dY", "A_t_inv", "A_inv")
OF_ITD = ("dw", "dwT_g")
OF_PATH = ("path_t",)
OF_AID = ("v_t", "v_star", "dv_t", "dv_k", "dv_kt", "v_k", "eps_v", "ZT_dv", "dZT_v", "duT_g", "solve_error")
OF_FP = ("du",)
NAMES = (*OF_ALL, *OF_ITD, *OF_PATH, *OF_AID, *OF_FP)
NEED_MATRICES = frozenset(
    {"wT_dE_1", "Z_t", "dZ", "W_t", "newton_t", "dY", "A_t_inv", "A_inv", *OF_V_T, *OF_ITD, *OF_FP, "duT_g"}
)

Values = dict[str, Tensor]


def may_be_formed(problem: Problem) -> bool:
    """Return whether ∂₁Φ and ∂₂Φ are small enough to be formed as matrices."""
    return problem.d <= DENSE and problem.d * problem.n <= MATRIX


def observables_of(method: Method) -> tuple[str, ...]:
    """Return the names of the observables of a method."""
    if method.name.startswith("aid"):
        return (*OF_ALL, *OF_AID, *(OF_FP if method.name == "aid-fp" else ()))
    return (*OF_ALL, *((*OF_ITD, *OF_PATH) if method.name == "itd" else ()))


@torch.no_grad()
def observe(
    problem: Problem,
    solution: ReferenceSolution,
    methods: Sequence[Method],
    T: int,
    names: Collection[str],
    *,
    q: float | None = None,
    ts: np.ndarray | None = None,
    states: Tensor | None = None,
    memory: int = 1 << 28,
) -> dict[Method, dict[str, np.ndarray]]:
    """Return the observables in the proofs, at λ = problem.lam, for each method at every t of `ts` (default: 1 … T).

    Observables that a method does not have are omitted, such as u_{t,k} for conjugate gradient. Observables that need
    matrices are omitted if `may_be_formed` is false, and those discounted by `q` if `q` is None. `states` are
    z_0 … z_T of an earlier run. `memory` is the budget in bytes for matrices that are formed at once.
    """
    for name in names:
        if name not in NAMES:
            raise UnknownNameError.among("observable of a run", name, NAMES)
    problem = quick(problem)
    formed = may_be_formed(problem)
    left_out = {*(() if formed else NEED_MATRICES), *(OF_PATH if q is None else ())}
    names_of = {m: [x for x in observables_of(m) if x in names and x not in left_out] for m in methods}
    times, back = np.unique(_times(ts, T), return_inverse=True)
    if not times.size:
        return {m: {name: np.empty(0) for name in names_of[m]} for m in methods}
    wanted = {name for names in names_of.values() for name in names}
    prepared, constant = Prepared(problem, problem.lam[None]), problem.affine and formed
    last = int(times[-1])
    if states is None:
        every_t = batches.run(problem, prepared, last, constant=constant)
    else:
        every_t = batches.of_states(problem, prepared, states[None, : last + 1], constant=constant)
    run = ObservedRun(every_t, solution, torch.as_tensor(times, device=problem.device), memory)
    values = _lower(run, wanted, q) | _of_matrices(run, [m for m in methods if "du" in names_of[m]], wanted)
    of_aid = observables_aid.observe(run, [m for m in methods if {*OF_AID} & {*names_of[m]}], wanted)
    return {
        m: {x: (values | of_aid.get(m, {}))[_key(x, m)].double().cpu().numpy()[back] for x in names_of[m]}
        for m in methods
    }


def _key(name: str, method: Method) -> str:
    return f"{name} {method}" if name == "du" else name


def _times(ts: np.ndarray | None, T: int) -> np.ndarray:
    if ts is None:
        return np.arange(1, T + 1)
    times = np.asarray(ts)
    if times.ndim != 1 or not (times.size == 0 or np.issubdtype(times.dtype, np.integer)):
        raise InputError(f"ts = {ts!r} is not a list of times; give a vector of integers from 1 to {T}")
    if times.size and not (times.min() >= 1 and times.max() <= T):
        raise InputError(f"ts has {times.min()} … {times.max()}, outside 1 … {T}; give times from 1 to {T}")
    return times


def _lower(run: ObservedRun, wanted: set[str], q: float | None) -> Values:
    """Return the observables of the iterates and of E."""
    w, db, prepared = run.w, run.b - run.b_star, run.every_t.prepared
    values = {"r_t": norm(w - run.solution.w), "g_t": norm(run.b), "dE_1": norm(db)}
    if wanted & {"eps_w", "newton_t"}:
        phi = rows(run.problem.phi_at)
        parts = run.parts(12 * run.problem.d)
        excess = torch.cat([w[part] - phi(w[None, part], prepared.ready)[0] for part in parts])
        values["eps_w"] = norm(excess)
        if "newton_t" in wanted:
            values["newton_t"] = norm(run.matrices.newton_steps(w, excess))
    if "path_t" in wanted and q is not None:
        values["path_t"] = _discounted(norm(run.every_t.w[0] - run.solution.w), q)[run.ts - 1]
    if "dE_2" in wanted:
        values["dE_2"] = torch.zeros_like(values["r_t"])
        star = run.grad_lam(run.solution.w)
        for part in run.parts(6 * run.width):
            apart = tuple(x - y for x, y in zip(run.grad_lam(w[part]), star, strict=True))
            values["dE_2"][part] = norm(prepared.pull_back_rows(run.of_outer, apart)[0])
    if "wT_dE_1" in wanted:
        values["wT_dE_1"] = torch.cat([norm(run.implicit(db[part])) for part in run.parts(6 * run.width)])
    return values


def _discounted(r: Tensor, q: float) -> Tensor:
    """Return Σ_{1≤j<t} q^(t−1−j) r_j for t = 1, 2, …, given r_1, r_2, …"""
    sums = [0.0]
    for distance in r[:-1].tolist():
        sums.append(q * sums[-1] + distance)
    return torch.tensor(sums, dtype=r.dtype, device=r.device)


def _of_matrices(run: ObservedRun, fp: Sequence[Method], wanted: set[str]) -> Values:
    """Return the observables that are norms of matrices."""
    values: Values = {}
    ks = {_key("du", m): run.ts if m.k is None else torch.full_like(run.ts, m.k) for m in fp}
    names = wanted & {"Z_t", "dZ", "W_t", "dY", "A_t_inv"}
    if names or ks:
        values |= run.matrices.at_points(run.w, ks, names)
    if "A_inv" in wanted:
        values["A_inv"] = run.matrices.A_inv().expand(len(run.ts))
    if wanted & {*OF_ITD}:
        values["dw"], values["dwT_g"] = run.matrices.of_iterates(run.ts, run.b)
    return values
