"""Error curves: ‖g(t) − ∇f‖ of every method at every t = 1 … T, for many λ at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boundcheck import methods as names
from boundcheck.compare import batch as batches
from boundcheck.compare import systems, wavefront
from boundcheck.methods import Method
from boundcheck.problem import Problem
from boundcheck.products import Cotangents, rows_d2_T, rows_outer
from boundcheck.solvers.exact import reference

ROWS = 1000  # rows for which a batched product is quickest


@dataclass(frozen=True, eq=False)
class Curves(Mapping[str, "np.ndarray"]):
    """`curves["itd"]` is an array of shape samples × t."""

    t: np.ndarray
    errors: Mapping[str, np.ndarray]
    lam: Tensor
    exact: Tensor

    def __getitem__(self, method: str) -> np.ndarray:
        return self.errors[method]

    def __iter__(self) -> Iterator[str]:
        return iter(self.errors)

    def __len__(self) -> int:
        return len(self.errors)


def error_curves(
    problem: Problem,
    methods: Sequence[str] = ("itd", "aid-fp", "aid-cg"),
    t: int = 200,
    samples: int = 1,
    seed: int | None = None,
    *,
    lam: Any = None,
    memory: int = 1 << 30,
) -> Curves:
    asked = [names.parse(m) for m in methods]
    T = names.count(t, "t")
    lams = problem.sample(samples, seed)
    exact = reference(problem, lams)
    errors = _errors(problem, lams, exact.value, asked, T)
    return Curves(np.arange(1, T + 1), {str(m): e.cpu().numpy() for m, e in errors.items()}, lams, exact.value)


def _errors(problem: Problem, lams: Tensor, exact: Tensor, asked: Sequence[Method], T: int) -> dict[Method, Tensor]:
    batch = batches.run(problem, lams, T)
    leaves, w = batch.prepared.leaves, batch.w
    b = torch.empty_like(w)
    block = max(1, min(T, ROWS // len(lams)))
    blocks = [slice(start, min(start + block, T)) for start in range(0, T, block)]
    outer: list[Cotangents] = []
    for part in blocks:
        gradients = rows_outer(problem, w[:, part], leaves)
        b[:, part] = gradients.w
        outer.append(gradients.lam)
    errors = {m: torch.empty(len(lams), T, dtype=problem.dtype, device=problem.device) for m in asked}

    def record(m: Method, i: int, parts: Cotangents) -> None:
        total = tuple(x + y for x, y in zip(outer[i], parts, strict=True))
        errors[m][:, blocks[i]] = (batch.prepared.pull_back_rows(total) - exact[:, None]).norm(dim=-1)

    for solver in systems.SOLVERS:
        wanted = [m for m in asked if m.name == solver]
        if wanted:
            found = systems.iterates(batch, b, solver, [m.k for m in wanted], block)
            for m in wanted:
                for i, part in enumerate(blocks):
                    record(m, i, rows_d2_T(problem.phi_at, w[:, part], leaves, found[m.k][:, part]))
    for m in asked:
        if m.name == "itd":
            for i, part in enumerate(blocks):
                record(m, i, wavefront.itd(batch, b, part.start, part.stop))
    return errors
