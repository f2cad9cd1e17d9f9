"""Small programs around one operation, for the contract of its rule."""

from __future__ import annotations

from collections.abc import Callable

import torch
from enclosure_cases import Case
from sampled_derivatives import Judge, Verdict
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.recorded_program import Program

D, N = 3, 2
RADII = (1e-8, 1e-3, 0.2, 2.0)
BEFORE = 5  # operations at least that make an input of the operation, and are the same for all


def around(case: Case, seed: int, dtype: torch.dtype, *, bent: bool, scalar: bool) -> Callable[..., Tensor]:
    """w, λ ↦ the operation on tensors that depend on both; `bent`: with functions that are not linear around it."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    inputs = [(draw(*s), draw(torch.Size(s).numel(), D), draw(torch.Size(s).numel(), N)) for s in case.shapes]

    def function(w: Tensor, lam: Tensor) -> Tensor:
        xs = []
        for base, A, B in inputs:
            x = base + 0.4 * (A @ w + B @ lam).reshape(base.shape)
            if bent:
                x = x + torch.atan(x) * 0.5
            x = case.size * x if case.low is None else case.low + 0.5 * torch.exp(0.3 * x)
            xs.append(x)
        y = case.apply(*xs)
        if bent:
            y = y * torch.atan(y) + y**2 / 4
        y = y.to(dtype)
        weights = torch.cos(torch.arange(y.numel(), dtype=dtype) + seed % 7).reshape(y.shape)
        out = y * weights
        return out.sum() if scalar else torch.cat([out.reshape(-1), w])

    return function


def recorded(case: Case, seed: int, dtype: torch.dtype, *, bent: bool, scalar: bool) -> tuple[Program, Tensor, Tensor]:
    """The program, and a centre and λ for it."""
    generator = torch.Generator().manual_seed(seed + 1)
    w, lam = (torch.randn(k, generator=generator, dtype=torch.float64).to(dtype) for k in (D, N))
    function = around(case, seed, dtype, bent=bent, scalar=scalar)
    return capture(function, w, lam, EXPANSIONS), w, lam


def judged(case: Case, seed: int, rounds: int) -> list[Verdict]:
    """Verdicts over balls of several sizes, in both precisions, bent and not, scalar and map."""
    verdicts = []
    skip = 2 + BEFORE * len(case.shapes)
    for i in range(rounds):
        at = seed + i
        dtype, radius, scalar = torch.float32 if at % 5 == 3 else torch.float64, RADII[(at // 3) % 4], i % 3 != 1
        program, w, lam = recorded(case, at, dtype, bent=i % 2 == 0, scalar=scalar)
        verdicts.append(Judge(program, w, lam, radius, points=4, seed=at, skip=skip).judge(scalar))
    return verdicts
