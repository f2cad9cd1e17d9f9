"""The terms of the spectral bounds, which are known before a run where ∂₁Φ is one symmetric matrix U diag(j) Uᵀ.

In eigenvectors a step acts on each coordinate alone, so w_t = w* + P_t(∂₁Φ)(w_0 − w*) with numbers P_t(j) that follow
from the step sizes. Nothing is iterated but numbers: neither Φ nor products with ∂₁Φ are called along the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import rows, used
from boundcheck.numerics.bilevel.prepared import Leaves, Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.quick.quick_problem import quick
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves.batch import Batch
from boundcheck.numerics.curves.eigenbasis import Spectrum
from boundcheck.numerics.curves.itd_eigenbasis import Modes
from boundcheck.numerics.curves.lambda_products import d2phi_T_v
from boundcheck.numerics.curves.observed_matrix_norms import norms
from boundcheck.numerics.curves.observed_run import ObservedRun, norm
from boundcheck.numerics.solvers.reference import ReferenceSolution

METHODS = ("itd", "aid-fp", "aid-cg")
CG_STEPS = 20  # steps for which conjugate gradient is followed
ORTHOGONAL = 1e-11  # cosine between residuals up to which they count as orthogonal
Values = dict[str, Tensor]


@torch.no_grad()
def foresee(
    problem: Problem, solution: ReferenceSolution, methods: Sequence[Method], ts: np.ndarray, memory: int = 1 << 28
) -> dict[Method, dict[str, np.ndarray]]:
    """The terms of the spectral bounds of each method at the ascending times `ts`, at λ = problem.lam."""
    spectral_methods = [m for m in methods if m.name in METHODS]
    if not spectral_methods or not ts.size:
        return {}
    problem = quick(problem)
    none = batches.run(problem, Prepared(problem, problem.lam[None]), 0, constant=True)
    if none.spectrum is None:
        return {}
    T = int(ts[-1])
    modes = Modes(replace(none, z=none.z.expand(-1, T + 1, -1)), none.spectrum, _of_phi(none, solution))
    every_t = replace(none, z=_states(problem, solution, modes, none.spectrum))
    run = ObservedRun(every_t, solution, torch.as_tensor(ts, device=problem.device), memory)
    shared = _of_E(run)
    terms: dict[Method, Values] = {}
    for m in spectral_methods:
        terms[m] = shared | ({"dwT_g": _derivative(run, modes)} if m.name == "itd" else _solve(run, none.spectrum, m))
    return {m: {name: x.double().cpu().numpy() for name, x in of_method.items()} for m, of_method in terms.items()}


def _of_phi(none: Batch, solution: ReferenceSolution) -> Leaves:
    return used(none.prepared.leaves, rows(none.problem.phi_at), solution.w[:, None])


def _states(problem: Problem, solution: ReferenceSolution, modes: Modes, spectrum: Spectrum) -> Tensor:
    """z_0 … z_T, each iterate in them from the numbers P_t(j); of shape (1, T + 1, state)."""
    start = (problem.w0 - solution.w) @ spectrum.U[0]
    parts = modes.numbers.chunk(problem.dynamics.copies, dim=-1)
    return torch.cat([solution.w + (spectrum.spread(part) * start) @ spectrum.U.mT for part in parts], dim=-1)


def _of_E(run: ObservedRun) -> Values:
    star, prepared = run.grad_lam(run.solution.w), run.every_t.prepared
    d2, w_db = run.w.new_empty(len(run.ts)), run.w.new_empty(len(run.ts))
    for part in run.parts(6 * run.width):
        apart = tuple(x - y for x, y in zip(run.grad_lam(run.w[part]), star, strict=True))
        d2[part] = norm(prepared.pull_back_rows(run.of_outer, apart)[0])
        w_db[part] = norm(run.implicit(run.b[part] - run.b_star))
    return {"dE_2": d2, "wT_dE_1": w_db}


def _derivative(run: ObservedRun, modes: Modes) -> Tensor:
    """‖(w_t' − w')ᵀ∇₁E(w_t)‖: the response of each eigenvector to those along which w_0 − w* lies."""
    T, every_t = run.every_t.T, run.every_t
    every = ObservedRun(every_t, run.solution, torch.arange(1, T + 1, device=run.w.device), run.memory)
    sizes, start = [], 0
    for cotangents in modes.itd(every.b[None], run.at_once(6 * run.width)):
        moved = every_t.prepared.pull_back_rows(modes.leaves, cotangents)[0]
        sizes.append(norm(moved - run.implicit(every.b[start : start + len(moved)])))
        start += len(moved)
    return torch.cat(sizes)[run.ts - 1]


def _solve(run: ObservedRun, spectrum: Spectrum, method: Method) -> Values:
    """‖(∂₂Φ(w_t) − ∂₂Φ(w*))ᵀv‖, ‖∂₂Φ(w_t)ᵀ(v_{t,k} − v)‖ and ‖∂₂Φ(w_t)ᵀv_{t,k} − w'ᵀ∇₁E(w_t)‖.

    Conjugate gradient is followed for its first steps; later, what it leaves of the exact solution v_t is bounded.
    """
    U, j = spectrum.U[0], spectrum.spread(spectrum.values[:, None])[0, 0]
    k = run.ts if method.k is None else torch.full_like(run.ts, method.k)
    A, b, v = 1 - j, run.b @ U, run.solution.v
    left = torch.zeros_like(b[:, 0])
    if method.name == "aid-cg":
        v_k = torch.cat([_conjugate(A, b[part], k[part]) for part in run.parts(2 * CG_STEPS * len(A))])
        later = ~torch.isfinite(v_k).all(dim=-1)
        v_k[later] = b[later] / A
        left[later] = _weighted_norms(run, A, later) * norm(A.sqrt() * _chebyshev(A, k[later]) * v_k[later])
    else:
        v_k = b * (1 - j ** k[:, None]) / A
    apart = v_k @ U.mT - v
    at_star = d2phi_T_v(run.every_t, run.of_phi, run.solution.w[None], v[None, None])[0]
    terms = {name: torch.empty_like(left) for name in ("dZT_v", "ZT_dv", "duT_g")}
    for part in run.parts(12 * run.width):
        both = torch.stack((v.expand_as(apart[part]), apart[part]), dim=1)
        read = d2phi_T_v(run.batch, run.of_phi, run.batch.w[:, part], both[None])[0]
        terms["dZT_v"][part], terms["ZT_dv"][part] = norm(read[:, 0] - at_star[0]), norm(read[:, 1])
        terms["duT_g"][part] = norm(read.sum(dim=1) - run.implicit(run.b[part]))
    return terms | {name: terms[name] + left for name in ("ZT_dv", "duT_g")}


def _conjugate(A: Tensor, b: Tensor, k: Tensor) -> Tensor:
    """v_k of conjugate gradient from 0 on diag(A)v = b for each row b with its k.

    NaN from the step on at which residuals are no longer orthogonal, as they are in exact arithmetic: rounding then
    decides where the solver goes. NaN also beyond `CG_STEPS` steps.
    """
    v, r, p = torch.zeros_like(b), b, b
    solutions = torch.where((k == 0)[:, None], v, torch.full_like(b, torch.nan))
    units = [r / norm(r)[:, None]]
    fine = torch.ones_like(k, dtype=torch.bool)
    for step in range(1, min(int(k.max()), CG_STEPS) + 1):
        rr = (r * r).sum(dim=-1, keepdim=True)
        length = rr / (A * p * p).sum(dim=-1, keepdim=True)
        v, r = v + length * p, r - length * A * p
        p = r + (r * r).sum(dim=-1, keepdim=True) / rr * p
        unit = r / norm(r)[:, None]
        fine = fine & (torch.stack([(unit * old).sum(dim=-1).abs() for old in units]).amax(dim=0) <= ORTHOGONAL)
        units.append(unit)
        solutions = torch.where((fine & (k == step))[:, None], v, solutions)
    return solutions


def _weighted_norms(run: ObservedRun, A: Tensor, some: Tensor) -> Tensor:
    """‖∂₂Φ(w_t)ᵀA^(−½)‖ at some of the times, in the eigenvectors of A."""
    w = run.w[some]
    parts = batches.pieces(0, len(w), run.matrices.at_once(0))
    return torch.cat([w.new_empty(0), *(norms(run.matrices.Z(w[part]) / A.sqrt()[:, None]) for part in parts)])


def _chebyshev(A: Tensor, k: Tensor) -> Tensor:
    """T_k on the interval of the eigenvalues A over its value at 0, which is at least 1: of shape (k, A).

    1/T_k((κ+1)/(κ−1)) = 2s^k/(1 + s^(2k)) with s = (√κ−1)/(√κ+1).
    """
    low, high = A.min(), A.max()
    x = ((high + low - 2 * A) / (high - low).clamp(min=torch.finfo(A.dtype).tiny)).clamp(-1, 1)
    s = (high.sqrt() - low.sqrt()) / (high.sqrt() + low.sqrt())
    n = k[:, None].to(A.dtype)
    return torch.cos(n * torch.arccos(x)) * 2 * s**n / (1 + s ** (2 * n))
