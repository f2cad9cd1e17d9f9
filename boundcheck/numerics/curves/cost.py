"""What the ways to compute ITD curves cost, in arithmetic and in memory: the choice among them, how to cut the work.

Arithmetic is counted in multiplications and additions of matrix products; a pass over memory counts as 10 of them,
about what it takes on one core. The constants are rough: the choice matters where the costs are far apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.numerics.bilevel.derivatives import CACHE, DENSE, rows
from boundcheck.numerics.bilevel.formulas import DataMatrix, Diagonal, OuterProducts
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.aid_krylov import DEEP
from boundcheck.numerics.curves.batch import tiled
from boundcheck.numerics.curves.itd_eigenbasis import frozen

ALGORITHMS = ("wavefront", "forward", "dense")
PASS = 10  # arithmetic that takes as long as one pass over a number in memory
STEP = 8_000_000  # … as long as the Python side of one batched step
ROWS = 1000  # rows for which a batched product is quickest
COLUMNS = 200  # … from which on it is not slow
FEW = 4  # times as many entries of w as data, and matrices are nowhere the quicker way
HORIZONS = 8  # t at once where a formula sums over points


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
    width: int = 0  # numbers on the way to one Φ, such as one for each example of the data; about
    formula: bool = False  # is ∂₁Φᵀv a formula of the problem, for a symmetric ∂₁Φ?
    formulas: bool = False  # are derivatives by λ taken by formula, for one λ after the other?
    summed: bool = False  # … by one that sums over points?
    diagonal: bool = False  # does a formula say that ∂₂Φ is diagonal?
    reverse: bool = False  # … so that ITD is computed backwards with shared points (reverse.py)?
    symmetric: bool = False  # is ∂₁Φ?
    few: bool = False  # is it of few data beside a diagonal, so that neither λ nor the reference needs matrices?
    affine: bool = False  # is ∂₁Φ one matrix for each λ?
    rank: int = 0  # … a multiple of I and of a product of data of so many rows? 0 if not
    modes: bool = False  # … and symmetric, with dynamics that depend on λ through Φ only: does modes.py apply?


def measure(problem: Problem, prepared: Prepared, T: int) -> Sizes:
    """Counts an evaluation of Φ at the start, on two rows: the counter sees products of matrices, not with vectors.

    `prepared` is for one λ, as a row.
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rows(problem.phi_at)(problem.w0.expand(1, 2, -1), prepared.ready)
    tensors = prepared.leaves.tensors
    phi = int(counter.get_total_flops()) // 2
    d2 = None if problem.d2phi_T_at is None else problem.d2phi_T_at(problem.w0[None], prepared.each[0])
    d1 = None if problem.d1phi_T_at is None else problem.d1phi_T_at(problem.w0, prepared.each[0])
    formula = problem.d1phi_T_at is not None and problem.symmetric is True
    fixed = frozen(problem, prepared.leaves, problem.dynamics.start(problem.w0).expand(1, 1, -1))
    return Sizes(
        T=T,
        d=problem.d,
        n=problem.n,
        state=problem.d * problem.dynamics.copies,
        leaves=sum(leaf.numel() for leaf in tensors),
        phi=phi,
        width=phi // (2 * problem.d),  # a product of a matrix takes 2d operations for each number that it makes
        itself=all(leaf.numel() <= problem.n for leaf in tensors),
        element=problem.w0.element_size(),
        formula=formula,
        formulas=problem.d2phi_T_at is not None and problem.d2outer_at is not None,
        summed=isinstance(d2, OuterProducts),
        diagonal=isinstance(d2, Diagonal),
        reverse=formula and isinstance(d2, Diagonal) and (problem.dynamics.copies == 1 or fixed),
        symmetric=problem.symmetric is True,
        few=isinstance(d1, DataMatrix) and len(d1.U) * FEW < problem.d and d2 is not None and not problem.affine,
        affine=problem.affine,
        rank=len(d1.U) if isinstance(d1, DataMatrix) and d1.isotropic else 0,
        modes=problem.affine and problem.symmetric is True and problem.d <= DENSE and fixed,
    )


def product(of: Sizes) -> int:
    """One transposed product with ∂₁Ψ: by a formula about as much as Φ, by autograd twice that."""
    return of.phi + 2 * PASS * of.state if of.formula else 2 * of.phi + 4 * PASS * of.state


def itd(of: Sizes, samples: int) -> dict[str, float]:
    """Arithmetic of each way to compute the ITD curves of `samples` values of λ."""
    pull = PASS * of.n if of.itself else 2 * of.leaves * of.n  # one cotangent of the leaves back to λ
    blocks = math.ceil(samples * of.T / ROWS)
    wave = of.T**2 / 2 * (product(replace(of, formula=False)) + of.phi + 3 * PASS * of.d) + of.T * pull
    if of.reverse:
        wave = of.T**2 / 2 * (product(of) + 2 * PASS * of.d)
    d2 = PASS * of.d if of.diagonal else PASS * of.n * of.d if of.itself else of.n * 2 * of.leaves  # ∂₂Ψ as a matrix
    forward = of.T * (of.n * (product(of) + 2 * PASS * of.state) + d2)
    dense = of.T * (of.d * product(replace(of, formula=False)) + d2 + 2 * of.state * of.d * of.n)
    if of.modes:
        points = min(of.d, of.rank + 1 if of.rank else of.d)
        eigenvectors = 10 * of.d**2 * of.rank if of.rank else 30 * of.d**3
        dense = of.T * (points * (2 * of.d + of.phi + 3 * PASS * of.d) + pull) + eigenvectors
    if of.formulas and not (of.itself or of.summed):  # a formula passes over all that depends on λ, for each entry of λ
        passed = of.T * PASS * of.n * of.leaves
        wave, forward, dense = wave + passed, forward + passed, dense + (0 if of.modes else passed)
    return {
        "wavefront": samples * wave
        + of.T * ((blocks + 1) / 2 + (not of.diagonal)) * STEP,  # the steps of each block, and a pull for each t
        "forward": samples * forward + of.T * STEP,
        "dense": samples * dense + of.T / 2 * STEP,
    }


@dataclass(frozen=True)
class Schedule:
    """How the curves are computed, and how much of them at once."""

    way: str | None  # how ITD is computed; None if it is not asked for
    constant: bool  # form ∂₁Φ once for each λ?
    modes: bool  # … and work in its eigenvectors throughout (modes.py)?
    matrices: bool  # … with ∂₂Φ formed?
    samples: int  # λ at once
    rows: int  # t at once in a batched product
    basis: int  # t at once for which a Krylov basis is kept; 0 if none is
    horizons: int  # t at once for which ITD is brought back to cotangents of the leaves
    read: int  # t at once for which cotangents are brought back to λ
    formed: int  # t at once for which ∂₁Ψ and ∂₂Ψ are formed


def plan(of: Sizes, samples: int, names: Sequence[str], algorithm: str, memory: int) -> Schedule:
    """The cheapest way that fits, or the one asked for, in the largest pieces that stay inside `memory`."""
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        raise UnknownNameError.among("algorithm", str(algorithm), ("auto", *ALGORITHMS))
    costs = itd(of, samples)
    by_cost = sorted(costs, key=costs.__getitem__) if algorithm == "auto" else [algorithm]
    ways = [*by_cost] if "itd" in names else [None]
    for way in ways:
        if found := _fit(of, samples, names, way, memory):
            return found
    least = min(bytes_of(of, _pieces(of, 1, names, way, smallest=True), names) for way in ways)
    raise InputError(
        f"memory = {memory} bytes is too little for t = {of.T} and d = {of.d}; give memory = {least} or more, or a "
        "smaller t"
    )


def _fit(of: Sizes, samples: int, names: Sequence[str], way: str | None, memory: int) -> Schedule | None:
    """The largest pieces with fewer and fewer λ at once, and at last with few t of one λ."""
    counts = [samples]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    for count, columns in [*((count, COLUMNS) for count in counts), (1, 1)]:
        found, few, tile = _pieces(of, count, names, way), max(1, columns // count), tiled(1, count)
        while bytes_of(of, found, names) > memory and found.basis >= 2 * tile:
            found = replace(found, basis=found.basis // (2 * tile) * tile)
        while bytes_of(of, found, names) > memory and max(found.rows, found.horizons) > few:
            found = replace(_halved(found, "rows", "horizons", "formed", "read"), basis=found.basis // 2)
        while bytes_of(of, found, names) > memory and max(found.formed, found.read) > 1:
            found = _halved(found, "formed", "read")
        if columns == 1 and bytes_of(of, found, names) > memory:
            found = replace(found, basis=0)
        if bytes_of(of, found, names) <= memory:
            return found
    return None


def _halved(found: Schedule, *names: str) -> Schedule:
    return replace(found, **{name: max(1, getattr(found, name) // 2) for name in names})


def _pieces(of: Sizes, count: int, names: Sequence[str], way: str | None, smallest: bool = False) -> Schedule:
    """Pieces for `count` λ at once that keep batched products at about `ROWS` rows and other passes in the cache."""
    aid = sum(not name.startswith("itd") for name in names)
    modes = of.modes and (way in ("dense", None)) and _constant(of, way)
    matrices = modes and not of.itself and of.n <= of.T * (aid + 1)

    def at_once(numbers: int, count: int = count) -> int:
        return 1 if smallest else max(1, min(of.T, CACHE // max(1, numbers * count)))

    rows = 1 if smallest else max(1, min(of.T, math.ceil(ROWS / count)))
    basis = min(rows, tiled(math.ceil(max(COLUMNS, CACHE / (5 * of.d)) / count), count))
    krylov = of.symmetric and not smallest and not (modes or _constant(of, way)) and "aid-fp" in names
    return Schedule(
        way=way,
        constant=modes or _constant(of, way),
        modes=modes,
        matrices=matrices,
        samples=count,
        rows=rows,
        basis=basis if krylov else 0,
        horizons=rows if not modes else HORIZONS if of.summed and not smallest else at_once(of.leaves),
        read=at_once(_read(of, 1 if matrices else aid), 1 if of.formulas else count),
        formed=at_once(of.n * of.d),
    )


def _read(of: Sizes, methods: int) -> int:
    """Numbers for each t and λ on the way from vectors to λ, for so many methods."""
    return max(of.n, of.leaves) * max(1, methods) + of.n * of.formulas


def _constant(of: Sizes, way: str | None) -> bool:
    """Is it worth forming ∂₁Φ, where it is one matrix for each λ?"""
    if of.modes and way == "dense":
        return True
    return of.affine and of.d <= DENSE and of.d <= of.T**2 / 2 and of.d**2 <= product(of)


SLACK = 1.3  # what allocators and temporaries take on top of what is counted


def bytes_of(of: Sizes, plan: Schedule, names: Sequence[str]) -> int:
    """The most that is held at once."""
    aid = sum(not name.startswith("itd") for name in names)
    matrices = 5 * of.d**2 if of.d <= DENSE else 0  # of the reference, and ∂₁Φ with its eigenvectors
    if of.few:
        matrices = of.width * (of.d + of.width)  # what Woodbury's identity is made of; `width` is about twice the data
    kept = of.T * (of.state + (1 + aid) * of.d) + 4 * of.leaves + matrices
    if plan.matrices:
        kept += 2 * of.d**2 * of.n + (1 + aid) * of.T * of.n
    needs = [
        plan.rows * (12 * of.state + 6 * of.width),
        plan.basis * ((DEEP + 16) * of.d + 6 * of.width),
        plan.read * 6 * _read(of, 1 if plan.matrices else aid) // (plan.samples if of.formulas else 1),
    ]
    if plan.modes:
        needs.append(plan.horizons * (of.d**2 if of.summed else 2 * of.leaves) + 8 * of.d**2)
    elif of.reverse and (plan.way == "wavefront" or "itd-truncated" in names):
        needs.append(plan.horizons * 4 * (of.state + of.d) + plan.rows * 6 * of.width + of.T * 3 * of.d)
    elif plan.way == "wavefront" or "itd-truncated" in names:
        needs.append(plan.horizons * (2 * of.T * of.d + 2 * of.leaves + 6 * of.width) + of.T * 12 * of.state)
    if plan.way in ("forward", "dense") and not plan.modes:
        kept += of.T * of.n
        jacobian = of.d * (of.state + 4 * of.d + 2 * of.width) if plan.way == "dense" else 0
        carried = of.n * (4 * of.state + of.width) + plan.rows * 6 * of.width
        needs.append(plan.formed * (3 * of.n * of.d + jacobian) + carried)
    return int(SLACK * plan.samples * (kept + max(needs)) * of.element)
