"""What the proofs speak of, measured on a run: the observables of `theory/symbols.py` at every t.

Vectors by products, for d of any size; matrices, and v_t = (I − ∂₁Φ(w_t)ᵀ)⁻¹∇₁E(w_t), only where they may be formed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from boundcheck.compare import batch as batches
from boundcheck.compare import systems
from boundcheck.compare.batch import Batch, pieces
from boundcheck.compare.cost import ROWS
from boundcheck.compare.evaluate import read_off
from boundcheck.compare.matrices import Matrices
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.estimate.point import MATRIX
from boundcheck.methods import Method
from boundcheck.prepared import Leaves
from boundcheck.problem import Problem
from boundcheck.products import DENSE, OuterGradients, rows, rows_outer, used
from boundcheck.solvers.exact import Reference

OF_ALL = ("r_t", "g_t", "eps_w", "dE_1", "dE_2", "wT_dE_1", "Z_t", "dZ", "dY", "A_t_inv", "A_inv")
OF_ITD = ("dw", "dwT_g")
OF_AID = ("v_t", "v_star", "dv_t", "dv_k", "dv_kt", "eps_v", "ZT_dv", "dZT_v", "solve_error")
OF_FP = ("du", "duT_g")
NAMES = (*OF_ALL, *OF_ITD, *OF_AID, *OF_FP)
OF_v_t = ("v_t", "dv_t", "dv_kt", "solve_error")
READ = ("ZT_dv", "dZT_v", "solve_error", "duT_g")  # ∂₂Φᵀ times a vector
NEED_MATRICES = frozenset({"wT_dE_1", "Z_t", "dZ", "dY", "A_t_inv", "A_inv", *OF_v_t, *OF_ITD, *OF_FP})

Values = dict[str, Tensor]


def may_be_formed(problem: Problem) -> bool:
    """Are ∂₁Φ and ∂₂Φ small enough to be formed as matrices?"""
    return problem.d <= DENSE and problem.d * problem.n <= MATRIX


def of(method: Method) -> tuple[str, ...]:
    """The observables that a kind of method has."""
    if method.name.startswith("aid"):
        return (*OF_ALL, *OF_AID, *(OF_FP if method.name == "aid-fp" else ()))
    return (*OF_ALL, *(OF_ITD if method.name == "itd" else ()))


@torch.no_grad()
def observe(
    problem: Problem,
    found: Reference,
    methods: Sequence[Method],
    T: int,
    names: Collection[str],
    *,
    ts: np.ndarray | None = None,
    memory: int = 1 << 28,
) -> dict[Method, dict[str, np.ndarray]]:
    """What the proofs speak of, at λ = problem.lam, for each method at every t of `ts` (all of 1 … T unless given).

    Left out for a method is what it does not have (u_{t,k} for conjugate gradient, …), and for all of them what needs
    matrices where `may_be_formed` says no. `memory` is a budget in bytes for what is formed at once.
    """
    for name in names:
        if name not in NAMES:
            raise UnknownNameError.among("observable of a run", name, NAMES)
    formed = may_be_formed(problem)
    asked = {m: [x for x in of(m) if x in names and (formed or x not in NEED_MATRICES)] for m in methods}
    times, back = np.unique(_times(ts, T), return_inverse=True)
    if not times.size:
        return {m: {name: np.empty(0) for name in asked[m]} for m in methods}
    wanted = {name for own in asked.values() for name in own}
    whole = batches.run(problem, problem.lam[None], int(times[-1]), constant=problem.affine and formed)
    run = Run(whole, found, torch.as_tensor(times, device=problem.device), memory)
    values = run.lower(wanted) | run.of_matrices([m for m in methods if "du" in asked[m]], wanted)
    own = run.aid([m for m in methods if {*OF_AID, "duT_g"} & {*asked[m]}], wanted)
    return {
        m: {x: (values | own.get(m, {}))[_key(x, m)].double().cpu().numpy()[back] for x in asked[m]} for m in methods
    }


def _key(name: str, method: Method) -> str:
    return f"{name} {method}" if name == "du" else name


def _times(ts: np.ndarray | None, T: int) -> np.ndarray:
    if ts is None:
        return np.arange(1, T + 1)
    times = np.asarray(ts)
    if times.ndim != 1 or not (times.size == 0 or np.issubdtype(times.dtype, np.integer)):
        raise InputError(f"ts = {ts!r} is no list of times; give a vector of integers from 1 to {T}")
    if times.size and not (times.min() >= 1 and times.max() <= T):
        raise InputError(f"ts has {times.min()} … {times.max()}, outside 1 … {T}; give times from 1 to {T}")
    return times


def _norm(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return length


@dataclass(frozen=True, eq=False)
class Run:
    """One run, its solution, and the times at which to look; vectors have shape (times, d), λ being one."""

    whole: Batch  # all t
    found: Reference
    ts: Tensor  # ascending
    memory: int

    @cached_property
    def batch(self) -> Batch:
        """The run with only the states asked for, after z_0."""
        keep = torch.cat((torch.zeros_like(self.ts[:1]), self.ts))
        whole = self.whole
        return Batch(whole.problem, whole.prepared, whole.z[:, keep], whole.constant, whole.spectrum)

    @property
    def problem(self) -> Problem:
        return self.whole.problem

    @cached_property
    def w(self) -> Tensor:
        return self.batch.w[0]

    @cached_property
    def of_phi(self) -> Leaves:
        return used(self.whole.prepared.leaves, rows(self.problem.phi_at), self.found.w[:, None])

    @cached_property
    def of_outer(self) -> Leaves:
        return used(self.whole.prepared.leaves, rows(self.problem.outer_at), self.found.w[:, None])

    @cached_property
    def matrices(self) -> Matrices:
        return Matrices(self.whole, self.found.w[0], self.of_phi, self.memory)

    def _outer(self, w: Tensor) -> OuterGradients:
        return rows_outer(self.problem, w[None], self.of_outer)

    def parts(self, numbers: int) -> list[slice]:
        """The times in pieces, where each takes so many numbers."""
        each = max(1, self.memory // (numbers * self.w.element_size()))
        return pieces(0, len(self.ts), min(ROWS, each))

    @cached_property
    def b(self) -> Tensor:
        """∇₁E(w_t)."""
        leaves = self.of_outer.none()
        parts = self.parts(12 * self.problem.d)
        return torch.cat([rows_outer(self.problem, self.w[None, part], leaves).w[0] for part in parts])

    @cached_property
    def b_star(self) -> Tensor:
        return rows_outer(self.problem, self.found.w[None], self.of_outer.none()).w[0, 0]

    def lower(self, wanted: set[str]) -> Values:
        """What concerns the iterates and E."""
        w, db, prepared = self.w, self.b - self.b_star, self.whole.prepared
        made = {"r_t": _norm(w - self.found.w), "g_t": _norm(self.b), "dE_1": _norm(db)}
        if "eps_w" in wanted:
            made["eps_w"] = _norm(w - rows(self.problem.phi_at)(w[None], prepared.ready)[0])
        if "dE_2" in wanted:
            made["dE_2"] = torch.zeros_like(made["r_t"])
            star = self._outer(self.found.w).lam
            for part in self.parts(6 * self._width):
                apart = tuple(x - y for x, y in zip(self._outer(w[part]).lam, star, strict=True))
                made["dE_2"][part] = _norm(prepared.pull_back_rows(self.of_outer, apart)[0])
        if "wT_dE_1" in wanted:
            made["wT_dE_1"] = torch.cat([_norm(self._implicit(db[part])) for part in self.parts(6 * self._width)])
        return made

    @property
    def _width(self) -> int:
        """Numbers in a cotangent on its way to λ."""
        return max(self.problem.n, sum(leaf.numel() for leaf in self.whole.prepared.leaves.tensors))

    def _implicit(self, x: Tensor) -> Tensor:
        """w'ᵀx for rows x: ∂₂Φ(w*)ᵀ(I − ∂₁Φ(w*)ᵀ)⁻¹x."""
        return self.matrices.turned(x) @ self.matrices.w_prime

    def of_matrices(self, fp: Sequence[Method], wanted: set[str]) -> Values:
        made: Values = {}
        ks = {_key("du", m): self.ts if m.k is None else torch.full_like(self.ts, m.k) for m in fp}
        names = wanted & {"Z_t", "dZ", "dY", "A_t_inv"}
        if names or ks:
            made |= self.matrices.at_points(self.w, ks, names)
        if "A_inv" in wanted:
            made["A_inv"] = self.matrices.A_inv().expand(len(self.ts))
        if wanted & {*OF_ITD}:
            made["dw"], made["dwT_g"] = self.matrices.of_iterates(self.ts, self.b)
        return made

    def aid(self, methods: Sequence[Method], wanted: set[str]) -> dict[Method, Values]:
        """What concerns the linear systems: for each method of AID, by its iterates v_{t,k}."""
        v_k, v, d = self._iterates(methods), self.found.v, self.problem.d
        v_t = self._solutions() if wanted & {*OF_v_t} else None
        made: dict[Method, Values] = {
            m: {"v_star": _norm(v).expand(len(self.ts)), "dv_k": _norm(v_k[m] - v)} for m in v_k
        }
        for m, x in v_k.items():
            if v_t is not None:
                made[m] |= {"v_t": _norm(v_t), "dv_t": _norm(v_t - v), "dv_kt": _norm(x - v_t)}
            if "eps_v" in wanted:
                made[m]["eps_v"] = torch.cat([self._residual(part, x) for part in self.parts(12 * d)])
        if wanted & {*READ}:
            pairs = {
                m: x[:, None] - (v if v_t is None else torch.stack((v.expand_as(v_t), v_t), dim=1))
                for m, x in v_k.items()
            }
            read = [self._read(part, pairs, wanted) for part in self.parts(6 * self._width * (1 + 2 * len(v_k)))]
            for m in v_k:
                made[m] |= {name: torch.cat([of[m][name] for of in read]) for name in read[0][m]}
        return made

    def _residual(self, part: slice, v_k: Tensor) -> Tensor:
        v = v_k[None, part]
        return _norm(v - self.batch.products(self.batch.w[:, part]).d1_T(v) - self.b[part])[0]

    def _read(self, part: slice, pairs: dict[Method, Tensor], wanted: set[str]) -> dict[Method, Values]:
        """Norms of ∂₂Φ(w_t)ᵀx, for x the differences of v_{t,k} to v and, where given, to v_t."""
        v = self.found.v.expand(1, part.stop - part.start, 1, -1)
        x = torch.cat((v, *(pair[None, part] for pair in pairs.values())), dim=2)
        at_v, *rest = read_off(self.batch, self.of_phi, self.batch.w[:, part], x)[0].unbind(1)
        at_star = read_off(self.batch, self.of_phi, self.found.w[None], self.found.v[None, None])[0, 0]
        indirect = self._implicit(self.b[part]) if "duT_g" in wanted else None
        made: dict[Method, Values] = {}
        for i, m in enumerate(pairs):
            here = rest[i * len(rest) // len(pairs) : (i + 1) * len(rest) // len(pairs)]
            made[m] = {"dZT_v": _norm(at_v - at_star)} | dict(
                zip(("ZT_dv", "solve_error"), map(_norm, here), strict=False)
            )
            if indirect is not None:  # u_{t,k}ᵀ∇₁E = ∂₂Φᵀv_{t,k} for fixed-point iterations
                made[m]["duT_g"] = _norm(here[0] + at_v - indirect)
        return made

    def _iterates(self, methods: Sequence[Method]) -> dict[Method, Tensor]:
        """v_{t,k} of every method, a row for each t; k = t is t itself where not all times are asked for."""
        made: dict[Method, Tensor] = {}
        count, d, T = len(self.ts), self.problem.d, self.whole.T
        block = max(1, min(ROWS, self.memory // (12 * d * self.w.element_size())))
        for solver in systems.SOLVERS:
            own = [m for m in methods if m.name == solver]
            if count == T and own:
                found = systems.iterates(self.batch, self.b[None], solver, [m.k for m in own], block)
                made |= {m: found[m.k][0] for m in own}
                continue
            made |= {m: torch.empty_like(self.b) for m in own}
            few = max(1, min(block, int((self.memory // (4 * d * self.w.element_size())) ** 0.5)))
            for part in pieces(0, count, few) if own else ():
                ts = self.ts[part].tolist()
                ks = sorted({k for m in own for k in (ts if m.k is None else [m.k])})
                found = systems.iterates(self._only(part), self.b[None, part], solver, ks, block)
                for m in own:
                    at = [found[m.steps(t)][0, i] for i, t in enumerate(ts)]
                    made[m][part] = torch.stack(at)
        return made

    def _only(self, part: slice) -> Batch:
        z = self.batch.z
        kept = torch.cat((z[:, :1], z[:, 1:][:, part]), dim=1)
        return Batch(self.problem, self.whole.prepared, kept, self.whole.constant, self.whole.spectrum)

    def _solutions(self) -> Tensor:
        """v_t, by dense solves."""
        M = self.matrices
        if self.whole.constant is not None:
            eye = torch.eye(self.problem.d, dtype=self.w.dtype, device=self.w.device)
            v: Tensor = torch.linalg.solve_ex(eye - self.whole.constant.J[0].mT, self.b.mT)[0].mT
            return v
        parts = self.parts(8 * self.problem.d**2)
        solved = [torch.linalg.solve_ex(M.one - M.Y(self.w[part]).mT, self.b[part, :, None])[0] for part in parts]
        return torch.cat(solved)[..., 0]
