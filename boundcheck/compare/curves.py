"""Error curves: ‖g(t) − ∇f‖ of every method at every t = 1 … T, for many λ at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck import methods as names
from boundcheck.compare import batch as batches
from boundcheck.compare import cost, sensitivities, systems, wavefront
from boundcheck.compare.batch import Batch
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.methods import Method
from boundcheck.problem import Problem
from boundcheck.products import Linearisation, rows, rows_d2_T, rows_outer
from boundcheck.solvers.conjugate_gradient import refuse_unless_symmetric
from boundcheck.solvers.exact import reference

Progress = Callable[[int, int], None]  # (pieces done, pieces in all)


@dataclass(frozen=True, eq=False)
class Curves(Mapping[str, "np.ndarray"]):
    """`curves["itd"]` is an array of errors, samples × t; `diverged` says where one left the finite numbers."""

    t: np.ndarray
    errors: Mapping[str, np.ndarray]
    lam: Tensor  # samples × n
    exact: Tensor  # ∇f at each of them
    algorithm: str | None  # how ITD was computed

    @property
    def diverged(self) -> dict[str, list[int | None]]:
        """For each method, the first t of each sample at which its error is not finite (None where all are)."""
        broken = {method: ~np.isfinite(errors) for method, errors in self.errors.items()}
        return {
            method: [int(self.t[row.argmax()]) if row.any() else None for row in rows]
            for method, rows in broken.items()
        }

    def __repr__(self) -> str:
        shape = f"{len(self.lam)} λ, t = 1 … {len(self.t)}"
        broken = {m: min(t for t in ts if t) for m, ts in self.diverged.items() if any(ts)}
        return f"Curves({', '.join(self.errors)}; {shape}{f'; diverged from t = {broken}' if broken else ''})"

    def __getitem__(self, method: str) -> np.ndarray:
        try:
            return self.errors[method]
        except KeyError:
            raise UnknownNameError.among("curve", method, self.errors) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.errors)

    def __len__(self) -> int:
        return len(self.errors)


@torch.no_grad()
def error_curves(
    problem: Problem,
    methods: Sequence[str] = ("itd", "aid-fp", "aid-cg"),
    t: int = 200,
    samples: int = 1,
    seed: int | None = None,
    *,
    lam: Any = None,
    memory: int = 1 << 30,
    algorithm: str = "auto",
    progress: Progress | None = None,
) -> Curves:
    """‖g(t) − ∇f(λ)‖ for every t = 1 … `t`, every method, and `samples` values of λ.

    λ is `lam` (one, or one a row), else drawn with `seed`; one sample without a seed is the problem's own λ. `memory`
    is the budget in bytes; `algorithm` is how ITD is computed: "wavefront", "forward", "dense", or "auto" for the
    cheapest.
    """
    asked = _methods(methods)
    T = names.count(t, "t")
    if T == 0:
        raise InputError("t = 0 leaves nothing to draw; give t >= 1")
    if isinstance(memory, bool) or not isinstance(memory, int) or memory <= 0:
        raise InputError(f"memory = {memory!r} is no budget; give a number of bytes, as in memory=2**30")
    lams = _lams(problem, samples, seed, lam)
    sizes = cost.measure(problem, lams[0], T)
    itd = any(m.name == "itd" for m in asked)
    way = cost.choose(algorithm, sizes, len(lams), memory) if itd else None
    stored = way or ("wavefront" if any(m.name == "itd-truncated" for m in asked) else None)
    cut = cost.cut(sizes, len(lams), sum(m.name in systems.SOLVERS for m in asked), stored, memory)
    errors = {m: np.empty((len(lams), T)) for m in asked}
    exact = torch.empty_like(lams)
    starts = range(0, len(lams), cut.samples)
    for done, start in enumerate(starts):
        piece = slice(start, start + cut.samples)
        exact[piece] = reference(problem, lams[piece]).value
        batch = batches.run(problem, lams[piece], T, dense=cost.constant_jacobian(sizes, memory))
        for m, values in _errors(batch, exact[piece], asked, way, cut).items():
            errors[m][piece] = values.cpu().numpy()
        if progress is not None:
            progress(done + 1, len(starts))
    return Curves(np.arange(1, T + 1), {str(m): e for m, e in errors.items()}, lams, exact, way)


def _methods(asked: Sequence[str]) -> list[Method]:
    if isinstance(asked, str):
        asked = [asked]
    parsed = list(dict.fromkeys(names.parse(m) for m in asked))
    if not parsed:
        raise InputError("methods is empty; name at least one, as in methods=['itd', 'aid-cg:10']")
    if any(m.name == "exact" for m in parsed):
        raise InputError("the method exact is what errors are measured against; leave it out")
    return parsed


def _lams(problem: Problem, samples: int, seed: int | None, lam: Any) -> Tensor:
    if lam is not None:
        if samples != 1 or seed is not None:
            raise InputError("lam was given, so samples and seed mean nothing; leave them out")
        many = isinstance(lam, Tensor) and lam.dim() == 2 and lam.shape[-1] == problem.n
        return torch.stack([problem.checked(one, "lam") for one in (lam if many else [lam])])
    if names.count(samples, "samples") == 0:
        raise InputError("samples = 0 leaves nothing to draw; give samples >= 1")
    if samples == 1 and seed is None:
        return problem.checked(problem.lam, "lam")[None]
    return problem.sample(samples, seed)


def _errors(
    batch: Batch, exact: Tensor, asked: Sequence[Method], way: str | None, cut: cost.Cut
) -> dict[Method, Tensor]:
    """All curves of one batch: the linear systems first, then for some t at a time what they come to."""
    problem, prepared, w, T = batch.problem, batch.prepared, batch.w, batch.T
    if any(m.name == "aid-cg" for m in asked):
        some = torch.stack([w[:, i] for i in sorted({0, T // 2, T - 1})], dim=1)
        if bool(torch.isfinite(some).all()):
            refuse_unless_symmetric(Linearisation(rows(problem.phi_at), some, prepared.ready), problem)
    of_outer = prepared.leaves.used_by(rows(problem.outer_at), w[:, :1])
    of_phi = prepared.leaves.used_by(rows(problem.phi_at), w[:, :1])
    of_psi = prepared.leaves.used_by(rows(problem.psi_at), batch.z[:, :1])
    b = torch.cat([rows_outer(problem, w[:, part], of_outer.none()).w for part in pieces(0, T, cut.block)], dim=1)
    solved = {}
    for solver in systems.SOLVERS:
        if ks := [m.k for m in asked if m.name == solver]:
            solved[solver] = systems.iterates(batch, b, solver, ks, cut.block)
    carried: Tensor | None = None
    if way == "forward":
        carried = sensitivities.forward(batch, b)
    elif way == "dense":
        carried = sensitivities.dense(batch, b, of_psi, max(1, cut.block // problem.d))

    errors = {m: torch.empty_like(b[..., 0]) for m in asked}
    for block in pieces(0, T, cut.block):
        waves = {
            m: wavefront.itd(batch, b, of_psi, block.start, block.stop, m.k)
            for m in asked
            if m.name == "itd-truncated" or (m.name == "itd" and carried is None)
        }
        for part in pieces(block.start, block.stop, cut.read):
            outer = prepared.pull_back_rows(of_outer, rows_outer(problem, w[:, part], of_outer).lam)
            rest = outer - exact[:, None]  # what all methods share
            for m in asked:
                # (dw/dλ)ᵀ∇₁E, or what the method puts in its place
                if m in waves:
                    here = slice(part.start - block.start, part.stop - block.start)
                    indirect = prepared.pull_back_rows(of_psi, tuple(c[:, here] for c in waves[m]))
                elif m.name == "itd" and carried is not None:
                    indirect = carried[:, part]
                else:
                    v = solved[m.name][m.k][:, part]
                    indirect = prepared.pull_back_rows(of_phi, rows_d2_T(problem.phi_at, w[:, part], of_phi, v))
                errors[m][:, part] = torch.linalg.vector_norm(indirect + rest, dim=-1)
    return errors


def pieces(start: int, stop: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]
