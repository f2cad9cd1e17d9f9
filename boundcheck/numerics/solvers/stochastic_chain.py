"""Shared parts of the stochastic solvers: products with minibatches for many runs, random draws, and the steps of w.

All runs advance together: w has shape (runs, d), and the minibatches of a step have shape (runs, b). The indices of all
runs are drawn on the CPU before the runs are divided into chunks, and each chunk is one call of `vmap`. So the draws
depend neither on the chunks nor on the device. Another chunk size changes the results only by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from boundcheck.errors import DivergenceError, InputError
from boundcheck.numerics.bilevel.derivatives import rows, rows_outer, used
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.prepared import Leaves, Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.torch_refusals import in_words
from boundcheck.step_schedule import StepSchedule

AT_ONCE = 1 << 28  # bytes that a chunk of runs may compute in a step: so large that the overhead of calls is small
FEWEST = 16  # the fewest runs in a chunk, if memory allows
LOWER, LINEAR, LAST, LENGTH = range(4)  # purposes of draws: ζ_i, ζ'_i, ζ'', and the length of a Neumann series
PURPOSES, COPIES = 4, 2
SEEDS = 2**32
ODD = 0x9E3779B1  # multiplication by an odd number maps different numbers to different numbers modulo 2³²


def require_seed(seed: object) -> int:
    """Return the seed if it is valid, and raise an InputError otherwise. Different seeds give different draws."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < SEEDS:
        raise InputError(f"seed = {seed!r} is not a seed; give a whole number from 0, below 2³²")
    return seed


def generator(seed: int, purpose: int, t: int = 0, copy: int = 0) -> torch.Generator:
    """Return the random generator for one purpose, at one t, in one of two continuations.

    Two generators with the same `seed` and different other arguments have different states: PyTorch uses 32 bits of a
    seed, and these differ.
    """
    base = require_seed(seed)
    number = (t * COPIES + copy) * PURPOSES + purpose + 1
    return torch.Generator(device="cpu").manual_seed((base * ODD + number) * ODD % SEEDS)


def finite_sum_of(problem: Problem, method: str) -> FiniteSum:
    """Return the finite sum of a problem, or raise an error if a method that draws minibatches does not apply to it."""
    if problem.finite_sum is None:
        raise InputError(
            f"{problem.name}: {method} draws minibatches, and the lower level is not a mean over examples; give data= "
            "and batch= to from_loss or from_map, or batch= to a built-in problem that takes it"
        )
    if problem.dynamics.copies != 1:
        raise InputError(
            f"{problem.name}: {method} takes steps of its own and no momentum, so it would not run the dynamics "
            f"{problem.dynamics.name}; leave dynamics out"
        )
    return problem.finite_sum


class Draws:
    """A source of minibatches for all runs."""

    def __init__(self, sums: FiniteSum, source: torch.Generator, runs: int, same: Tensor | None) -> None:
        self._sums, self._source, self._runs, self._same = sums, source, runs, same

    def take(self, device: torch.device) -> Tensor:
        """Draw the next minibatch of every run, of shape (runs, b); always `same`, if that was given."""
        return self._sums.draw(self._source, self._runs, device) if self._same is None else self._same


class MinibatchMaps:
    """Φ̂ and products with its derivatives at rows w, with a minibatch for each row, and the gradients of E at rows."""

    def __init__(self, problem: Problem, sums: FiniteSum, memory: int) -> None:
        self._d = problem.d
        self._n = problem.n
        self._problem = problem
        self._phi_on = sums.phi_on
        self._phi = in_words(vmap(sums.phi_on, in_dims=(0, None, 0)))
        self._prepared = Prepared(problem, problem.lam[None])
        leaves, w = self._prepared.leaves, problem.w0[None]
        self._ready = leaves.at(0)
        indices = torch.zeros(1, sums.batch, dtype=torch.int64, device=problem.device)
        self._of_phi = used(leaves, rows(lambda w, ready: sums.phi_on(w, ready, indices[0])), w[None])
        self._of_outer = used(leaves, rows(problem.outer_at), w[None])
        self._step_chunk = _chunk(memory, lambda: self._d1_T(w, w, indices), f"{problem.name}: a step of one run")
        self._last_chunk = _chunk(
            memory, lambda: (self._outer(w), self._d2_T(w, w, indices)), f"{problem.name}: ∂₂Φ and ∇E of one run"
        )

    def phi(self, w: Tensor, indices: Tensor) -> Tensor:
        """Return Φ̂(w, ζ)."""
        with torch.no_grad():
            return _in_chunks(lambda w, i: self._phi(w, self._ready, i), self._step_chunk, w, indices)

    def d1_T(self, w: Tensor, v: Tensor, indices: Tensor) -> Tensor:
        """Return ∂₁Φ̂(w, ζ)ᵀv."""
        return _in_chunks(self._d1_T, self._step_chunk, w, v, indices)

    def d2_T(self, w: Tensor, v: Tensor, indices: Tensor) -> Tensor:
        """Return ∂₂Φ̂(w, ζ)ᵀv, of shape (runs, n)."""
        return _in_chunks(self._d2_T, self._last_chunk, w, v, indices)

    def outer(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return ∇₁E(w) and ∇₂E(w), of shapes (runs, d) and (runs, n)."""
        both = _in_chunks(self._outer, self._last_chunk, w)
        return both[:, : self._d], both[:, self._d :]

    def _d1_T(self, w: Tensor, v: Tensor, indices: Tensor) -> Tensor:
        with torch.enable_grad():
            w = w.detach().requires_grad_()
            y = self._phi(w, self._ready, indices)
        if not y.requires_grad:
            return torch.zeros_like(w)
        return torch.autograd.grad(y, w, v, materialize_grads=True)[0]

    @in_words
    def _d2_T(self, w: Tensor, v: Tensor, indices: Tensor) -> Tensor:
        leaves = self._of_phi
        if not leaves.active:
            return w.new_zeros(len(w), self._n)
        one = Leaves(tuple(x[0] for x in leaves.flat), leaves.spec, leaves.active)

        def of_row(w: Tensor, v: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
            transposed = vjp(lambda tensors: self._phi_on(w, one.ready(tensors), indices), one.tensors)[1]
            return tuple(transposed(v)[0])

        cotangents = vmap(of_row)(w, v, indices)
        return self._prepared.pull_back_rows(leaves, tuple(c[None] for c in cotangents))[0]

    def _outer(self, w: Tensor) -> Tensor:
        gradients = rows_outer(self._problem, w[None], self._of_outer)
        pulled = self._prepared.pull_back_rows(self._of_outer, gradients.lam)[0]
        return torch.cat((gradients.w[0], pulled.expand(len(w), -1)), dim=1)


def _in_chunks(function: Callable[..., Tensor], size: int, *inputs: Tensor) -> Tensor:
    if len(inputs[0]) <= size:
        return function(*inputs)
    return torch.cat([function(*pieces) for pieces in zip(*(torch.split(x, size) for x in inputs), strict=True)])


class _Bytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the results of all operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, Tensor):
                self.total += x.numel() * x.element_size()
        return result


def _chunk(memory: int, of_one_run: Callable[[], object], what: str) -> int:
    """Return how many runs to compute at once, from the bytes that one run computes."""
    with _Bytes() as counter:
        of_one_run()
    of_one = int(counter.total) or 1
    most = memory // of_one
    if most < 1:
        raise InputError(f"{what} needs {of_one:,} bytes, and memory = {memory:,}; raise memory")
    return min(most, max(FEWEST, AT_ONCE // of_one))


def lower_steps(batches: MinibatchMaps, w: Tensor, steps: StepSchedule, t: int, draws: Draws) -> Iterator[Tensor]:
    """Yield w_1 … w_t of every run: w_{i+1} = w_i + η_i(Φ̂(w_i, ζ_i) − w_i)."""
    for i in range(t):
        w = torch.lerp(w, batches.phi(w, draws.take(w.device)), steps.at(i))
        yield w


def first_not_finite(iterates: Iterator[Tensor]) -> int:
    """Return the number, counted from 1, of the first iterate that is not finite in some run; 0 if all are finite."""
    for done, x in enumerate(iterates, 1):
        if not bool(torch.isfinite(x).all()):
            return done
    return 0


def divergence(problem: Problem, what: str, step: int, of: int) -> DivergenceError:
    return DivergenceError(
        f"{problem.name}: {what} left the finite numbers in step {step} of {of}, in some run; give smaller steps, such "
        "as StepSchedule.constant(0.1), or a larger batch"
    )
