"""What the ways to compute ITD curves cost, in arithmetic and in memory: the choice among them, how to cut the work.

Arithmetic is counted in multiplications and additions of matrix products; a pass over memory counts as 10 of them,
about what it takes on one core. The constants are rough: the choice matters where the costs are far apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.problem import Problem
from boundcheck.products import DENSE, Prepared, rows

ALGORITHMS = ("wavefront", "forward", "dense")
PASS = 10  # arithmetic that takes as long as one pass over a number in memory
STEP = 8_000_000  # … as long as the Python side of one batched step
ROWS = 1000  # rows for which a batched product is quickest
CACHE = 1_000_000  # numbers that are quick to pass over again and again


@dataclass(frozen=True)
class Sizes:
    """What the costs depend on, for one λ."""

    T: int
    d: int
    n: int
    state: int
    leaves: int  # numbers that were prepared from λ
    phi: int  # arithmetic of one Φ
    itself: bool  # is what was prepared λ itself, or a vector like it?
    element: int  # bytes of a number
    affine: bool = False  # is ∂₁Φ one matrix for each λ?


def measure(problem: Problem, lam: Tensor, T: int) -> Sizes:
    """Counts an evaluation of Φ at the start, on two rows: the counter sees products of matrices, not with vectors."""
    prepared = Prepared(problem, lam[None])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rows(problem.phi_at)(problem.w0.expand(1, 2, -1), prepared.ready)
    tensors = prepared.leaves.tensors
    return Sizes(
        T=T,
        d=problem.d,
        n=problem.n,
        state=problem.d * problem.dynamics.copies,
        leaves=sum(leaf.numel() for leaf in tensors),
        phi=int(counter.get_total_flops()) // 2,
        itself=all(leaf.numel() <= problem.n for leaf in tensors),
        element=problem.w0.element_size(),
        affine=problem.affine,
    )


def product(of: Sizes) -> int:
    """One transposed product with ∂₁Ψ."""
    return 2 * of.phi + 4 * PASS * of.state


def itd(of: Sizes, samples: int) -> dict[str, float]:
    """Arithmetic of each way to compute the ITD curves of `samples` values of λ."""
    pull = PASS * of.n if of.itself else 2 * of.leaves * of.n  # one cotangent of the leaves back to λ
    blocks = math.ceil(samples * of.T / ROWS)
    wave = of.T**2 / 2 * (product(of) + of.phi + 3 * PASS * of.d) + of.T * pull
    forward = of.T * of.n * (2 * product(of) + 4 * PASS * of.leaves)
    dense = of.T * (of.d * (product(of) + PASS * of.leaves + pull) + 2 * of.state * of.d * of.n)
    return {
        "wavefront": samples * wave
        + of.T * ((blocks + 1) / 2 + 1) * STEP,  # the steps of each block, and a pull for each t
        "forward": samples * forward + 5 * of.T * STEP,
        "dense": samples * dense + of.T / 2 * STEP,
    }


def choose(asked: str, of: Sizes, samples: int, memory: int) -> str:
    """The way asked for, or the cheapest that fits."""
    if asked != "auto":
        if asked not in ALGORITHMS:
            raise UnknownNameError.among("algorithm", asked, ("auto", *ALGORITHMS))
        return asked
    costs = itd(of, samples)
    fitting = [way for way in ALGORITHMS if _itd_bytes(way, of, 1, 1) <= memory]
    return min(fitting or ["wavefront"], key=costs.__getitem__)


def constant_jacobian(of: Sizes, memory: int) -> bool:
    """Is it worth forming ∂₁Φ, where it is one matrix for each λ?"""
    fits = of.d <= DENSE and 6 * of.d**2 * of.element <= memory
    return of.affine and fits and of.d <= of.T**2 / 2 and 2 * of.d**2 <= 2 * product(of)


@dataclass(frozen=True)
class Cut:
    """How many λ, and how many values of t, to work on at once; and for how many t to bring cotangents back to λ."""

    samples: int
    block: int
    read: int


SLACK = 1.3  # what allocators and temporaries take on top of what is counted


def cut(of: Sizes, samples: int, reads: int, way: str | None, memory: int) -> Cut:
    """The largest pieces that stay inside `memory`, with about `ROWS` rows in a batched product.

    `reads` is how many curves of AID are read off, `way` how ITD is computed (None if it is not).
    """
    count = samples
    while True:
        block = max(1, min(of.T, math.ceil(ROWS / count)))
        while block > 1 and _bytes(of, count, block, reads, way) > memory:
            block //= 2
        need = _bytes(of, count, block, reads, way)
        if need <= memory:
            return Cut(count, block, max(1, min(block, CACHE // (max(of.n, of.leaves) * count))))
        if count == 1:
            raise InputError(
                f"memory = {memory} bytes is too little for t = {of.T} and d = {of.d}; give memory = {need} or more, "
                "or a smaller t"
            )
        count = -(-count // 2)


def _bytes(of: Sizes, count: int, block: int, reads: int, way: str | None) -> int:
    matrices = 5 * of.d**2 if of.d <= DENSE else 0  # of the exact reference, and ∂₁Φ with its eigenvectors
    shared = of.T * (of.state + (1 + reads) * of.d) + 4 * of.leaves + matrices
    rows = 12 * of.state + 2 * of.leaves
    reading = 6 * max(of.n, of.leaves) * min(block, max(1, CACHE // (max(of.n, of.leaves) * count)))
    numbers = count * (shared + block * rows + reading)
    return int(SLACK * (numbers * of.element + (0 if way is None else _itd_bytes(way, of, count, block))))


def _itd_bytes(way: str, of: Sizes, count: int, block: int) -> int:
    if way == "wavefront":
        numbers = 2 * block * of.T * of.d + of.T * 12 * of.state + block * 2 * of.leaves
    elif way == "forward":
        numbers = of.n * (12 * of.state + 3 * of.leaves) + of.T * of.n
    else:
        numbers = block * of.d * (of.state + of.leaves + 2 * of.n) + of.T * of.n + of.state * of.n
    return count * numbers * of.element
