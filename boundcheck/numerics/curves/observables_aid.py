"""The quantities in the proofs of AID: v_{t,k} compared with v and v_t, residuals, and ∂₂Φ(w_t)ᵀ times differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from boundcheck.methods import Method
from boundcheck.numerics.curves import aid, aid_krylov
from boundcheck.numerics.curves.aid_stepwise import SOLVERS
from boundcheck.numerics.curves.lambda_products import d2phi_T_v
from boundcheck.numerics.curves.observed_run import ObservedRun, norm

OF_V_T = ("v_t", "dv_t", "dv_kt", "solve_error")  # observables of the exact solution v_t at w_t
READ = ("ZT_dv", "dZT_v", "solve_error", "duT_g")  # observables that need ∂₂Φᵀ times a vector

Values = dict[str, Tensor]


def observe(run: ObservedRun, methods: Sequence[Method], wanted: Collection[str]) -> dict[Method, Values]:
    """Return the wanted observables of each AID method, and others that need no additional work."""
    v, v_k = run.solution.v, iterates(run, methods)
    v_t = _solutions(run) if {*OF_V_T} & {*wanted} else None
    values: dict[Method, Values] = {}
    for m, x in v_k.items():
        values[m] = {"v_star": norm(v).expand(len(run.ts)), "v_k": norm(x), "dv_k": norm(x - v)}
        if v_t is not None:
            values[m] |= {"v_t": norm(v_t), "dv_t": norm(v_t - v), "dv_kt": norm(x - v_t)}
        if "eps_v" in wanted:
            values[m]["eps_v"] = torch.cat([_residual(run, part, x) for part in run.parts(12 * run.problem.d)])
    if v_k and {*READ} & {*wanted}:
        to = [v.expand_as(run.b)] if v_t is None else [v.expand_as(run.b), v_t]
        apart = torch.stack([torch.stack([x - y for y in to], dim=1) for x in v_k.values()], dim=1)
        read = [_read(run, part, apart[part], "duT_g" in wanted) for part in run.parts(12 * run.width * len(v_k))]
        for i, m in enumerate(v_k):
            values[m] |= {name: torch.cat([block_values[name][..., i] for block_values in read]) for name in read[0]}
    return values


def iterates(run: ObservedRun, methods: Sequence[Method]) -> dict[Method, Tensor]:
    """Return v_{t,k} of every method, with one row for each t."""
    ts = run.ts.tolist()
    steps = {m: ts if m.k is None else [m.k] * len(ts) for m in methods if m.name in SOLVERS}
    d = run.problem.d
    solutions = aid.iterates(run.batch, run.b[None], steps, run.at_once(12 * d), run.fit(aid_krylov.DEEP * d))
    return {m: v[0] for m, v in solutions.items()}


def _solutions(run: ObservedRun) -> Tensor:
    """Return v_t, by dense solves."""
    constant = run.every_t.constant
    eye = torch.eye(run.problem.d, dtype=run.w.dtype, device=run.w.device)
    if constant is not None:
        solved: Tensor = torch.linalg.solve_ex(eye - constant.J[0].mT, run.b.mT)[0]
        return solved.mT
    parts = run.parts(8 * run.problem.d**2)
    each = [torch.linalg.solve_ex(eye - run.matrices.Y(run.w[part]).mT, run.b[part, :, None])[0] for part in parts]
    return torch.cat(each)[..., 0]


def _residual(run: ObservedRun, part: slice, v: Tensor) -> Tensor:
    """Return ‖(I − ∂₁Φ(w_t)ᵀ)v − ∇₁E(w_t)‖."""
    v_part = v[None, part]
    return norm(v_part - run.batch.products(run.batch.w[:, part]).d1_T(v_part) - run.b[part])[0]


def _read(run: ObservedRun, part: slice, apart: Tensor, implied: bool) -> Values:
    """Return the norms of ∂₂Φ(w_t)ᵀx, of shape (times, methods), for the differences x of v_{t,k} from v and v_t."""
    batch, v = run.batch, run.solution.v
    x = torch.cat((v.expand(len(apart), 1, -1), apart.flatten(1, 2)), dim=1)
    read = d2phi_T_v(batch, run.of_phi, batch.w[:, part], x[None])[0]
    at_v, rest = read[:, :1], read[:, 1:].reshape(*apart.shape[:3], -1)
    at_star = d2phi_T_v(batch, run.of_phi, run.solution.w[None], v[None, None])[0]
    values = {"dZT_v": norm(at_v - at_star).expand(-1, apart.shape[1])}
    values |= dict(zip(("ZT_dv", "solve_error"), norm(rest).unbind(-1), strict=False))
    if implied:  # ∂₂Φᵀv_{t,k} − w'ᵀ∇₁E; for fixed-point iterations u_{t,k}ᵀ∇₁E = ∂₂Φᵀv_{t,k}
        values["duT_g"] = norm(rest[:, :, 0] + at_v - run.implicit(run.b[part])[:, None])
    return values
