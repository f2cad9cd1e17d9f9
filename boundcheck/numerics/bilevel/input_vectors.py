"""Conversion of the user's and the sampler's values of w and λ to flat vectors, with errors for unusable values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel import user_functions

if TYPE_CHECKING:
    from boundcheck.numerics.bilevel.problem import Problem


def flat_vector(problem: Problem, value: Any, name: str) -> Tensor:
    """Return a value as a flat vector. `Problem.checked` documents the arguments and errors."""
    shape, layout = (problem.n, problem.lam_layout) if name in ("lam", "g") else (problem.d, problem.w_layout)
    if isinstance(value, Tensor) and value.layout is not torch.strided:
        raise InputError(f"{problem.name}: {name} is a sparse tensor; give a dense one, as .to_dense() returns")
    if isinstance(value, Tensor) and value.shape == (shape,):
        flat = value
    elif layout is not None:
        flat = layout.flatten(value, name)
    else:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"{problem.name}: {name} has shape {got}; give a flat tensor of {shape} entries")
    if flat.dtype != problem.dtype or flat.device != problem.device:
        raise InputError(
            f"{problem.name}: {name} is {flat.dtype} on {flat.device} and the problem {problem.dtype} on "
            f"{problem.device}; convert one of them"
        )
    if not bool(torch.isfinite(flat).all()):
        raise InputError(f"{problem.name}: {name} has entries that are not finite; remove NaN and infinity first")
    if name == "lam" and problem.domain is not None and not bool(problem.domain.holds(flat)):
        raise InputError(f"{problem.name}: lam is outside its domain: {problem.domain.says}; choose lam inside it")
    return flat.detach()


def drawn_lams(problem: Problem, count: int, seed: int | None) -> Tensor:
    """Return values of λ from the sampler of the problem. `Problem.sample` documents the arguments and errors."""
    if problem.sampler is None:
        raise InputError(f"{problem.name} has no sampler for lam; pass lam=…, or sampler=… when you make the problem")
    seed = problem.seed if seed is None else seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"seed must be a whole number (got {seed!r})")
    if count < 1:
        raise InputError(f"count must be at least 1 (got {count})")
    generator = torch.Generator(device="cpu").manual_seed(seed)
    lams = []
    for _ in range(count):
        lam = user_functions.call(problem.sampler, "sampler", generator)
        if not isinstance(lam, Tensor) or lam.numel() != problem.n:
            got = user_functions.what(lam)
            raise InputError(f"{problem.name}: sampler returned {got}; return a flat tensor of {problem.n} entries")
        lams.append(flat_vector(problem, lam.reshape(-1).to(dtype=problem.dtype, device=problem.device), "lam"))
    return torch.stack(lams)
