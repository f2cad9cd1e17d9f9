"""The choice of the cheapest algorithm for the curves, and of pieces that fit into a memory budget.

The cost of each algorithm is computed next to its code. This module chooses among the algorithms, and the pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.methods import unrolls
from boundcheck.numerics.bilevel.derivatives import CACHE, DENSE
from boundcheck.numerics.curves import (
    aid,
    aid_krylov,
    itd_backward,
    itd_backward_shared,
    itd_eigenbasis,
    itd_eigenbasis_matrices,
    itd_forward,
    lambda_products,
)
from boundcheck.numerics.curves.batch import tiled
from boundcheck.numerics.curves.sizes import PASS, D2Formula, Sizes, product

ALGORITHMS = ("wavefront", "forward", "dense")
STEP = 8_000_000  # arithmetic that takes as long as the Python overhead of one batched step
ROWS = 1000  # number of rows for which a batched product is fastest
COLUMNS = 200  # a matrix product with fewer columns is slow
BASIS_VECTORS = 5  # number of vectors of a Krylov basis that are in the cache at once
SUMMED_HORIZONS = 8  # number of t at once if a formula sums over points
SLACK = 1.3  # actual memory divided by counted memory, for allocators and temporary tensors
REFERENCE_MATRICES = 5  # number of d × d matrices of the reference, and of ∂₁Φ with its eigenvectors
LEAVES = 4  # number of copies of the leaves that stay in memory


@dataclass(frozen=True)
class Schedule:
    """The algorithms for the curves, and the sizes of the pieces."""

    algorithm: str | None  # how ITD is computed; None if ITD is not requested
    constant: bool  # form ∂₁Φ once for each λ
    eigenbasis: bool  # work in the eigenvectors of ∂₁Φ throughout
    matrices: bool  # form ∂₂Φ in these eigenvectors
    samples: int  # number of λ at once
    rows: int  # number of t at once in a batched product
    basis: int  # number of t at once with a Krylov basis; 0 for no basis
    horizons: int  # number of t at once for ITD
    read: int  # number of t at once whose cotangents are pulled back to λ
    formed: int  # number of t at once for which ∂₁Ψ and ∂₂Ψ are formed


def choose(sizes: Sizes, samples: int, names: Sequence[str], algorithm: str, memory: int) -> Schedule:
    """Return the cheapest schedule that fits into memory.

    Parameters
    ----------
    sizes : Sizes
        The sizes of the problem.
    samples : int
        The number of λ.
    names : sequence of str
        The methods, without their k.
    algorithm : {"auto", "wavefront", "forward", "dense"}
        How to compute ITD; "auto" tries the cheapest first.
    memory : int
        The budget in bytes.

    Returns
    -------
    Schedule
        The schedule with the largest pieces that fit into `memory`.

    Raises
    ------
    UnknownNameError
        If `algorithm` is not the name of an algorithm.
    InputError
        If no schedule fits. The message says how much memory is enough.
    """
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        raise UnknownNameError.among("algorithm", str(algorithm), ("auto", *ALGORITHMS))
    candidates: list[str | None] = [None]
    if "itd" in names:
        costs = itd_costs(sizes, samples)
        candidates = [*sorted(costs, key=costs.__getitem__)] if algorithm == "auto" else [algorithm]
    for candidate in candidates:
        if schedule := _fit(sizes, samples, names, candidate, memory):
            return schedule
    smallest = [_pieces(sizes, 1, names, candidate, smallest=True) for candidate in candidates]
    least = min(bytes_needed(sizes, schedule, names) for schedule in smallest)
    raise InputError(
        f"memory must be at least {_in_words(least)} for t = {sizes.problem.T} and d = {sizes.problem.d} "
        f"(got {_in_words(memory)}); give memory={least} (--memory {_in_words(least)}), or a smaller t"
    )


def _in_words(size: int) -> str:
    """Return a number of bytes as text, rounded up to two or more digits: "3.9GB"."""
    unit, letters = (10**9, "GB") if size >= 10**9 else (10**6, "MB") if size >= 10**6 else (10**3, "kB")
    return f"{math.ceil(10 * size / unit) / 10:g}{letters}"


def itd_costs(sizes: Sizes, samples: int) -> dict[str, float]:
    """Return the arithmetic of each algorithm for the ITD curves of `samples` values of λ."""
    T = sizes.problem.T
    if sizes.shared_backward:
        wavefront = itd_backward_shared.arithmetic(sizes) + _formula_passes(sizes)
    else:
        wavefront = itd_backward.arithmetic(sizes) + _formula_passes(sizes)
    forward = itd_forward.forward_arithmetic(sizes) + _formula_passes(sizes)
    if sizes.eigenbasis:
        dense = itd_eigenbasis.arithmetic(sizes)
    else:
        dense = itd_forward.dense_arithmetic(sizes) + _formula_passes(sizes)
    blocks = math.ceil(samples * T / ROWS)
    pulls = 0 if sizes.lam.d2 is D2Formula.DIAGONAL else 1  # for each t
    return {
        "wavefront": samples * wavefront + T * ((blocks + 1) / 2 + pulls) * STEP,
        "forward": samples * forward + T * itd_forward.graphs(sizes) * STEP,
        "dense": samples * dense + T / 2 * STEP,
    }


def _formula_passes(sizes: Sizes) -> int:
    """Return the arithmetic of formulas for λ: passes over all leaves for each entry of λ, unless short or summed."""
    if not sizes.lam_by_formula or sizes.leaves_like_lam or sizes.lam.d2 is D2Formula.SUMMED:
        return 0
    return sizes.problem.T * PASS * sizes.lam.n * sizes.lam.leaves


def _fit(sizes: Sizes, samples: int, names: Sequence[str], algorithm: str | None, memory: int) -> Schedule | None:
    """Return the schedule with the largest pieces that fit: first with fewer λ at once, then with fewer t of one λ."""

    def too_large(schedule: Schedule) -> bool:
        return bytes_needed(sizes, schedule, names) > memory

    counts = [samples]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    for count, columns in [*((count, COLUMNS) for count in counts), (1, 1)]:
        schedule, tile = _pieces(sizes, count, names, algorithm), tiled(1, count)
        fewest_rows = max(1, columns // count)
        while too_large(schedule) and schedule.basis >= 2 * tile:
            schedule = replace(schedule, basis=schedule.basis // (2 * tile) * tile)
        while too_large(schedule) and max(schedule.rows, schedule.horizons) > fewest_rows:
            schedule = _halved(schedule, "rows", "horizons", "formed", "read")
            schedule = replace(schedule, basis=schedule.basis // 2)
        while too_large(schedule) and max(schedule.formed, schedule.read) > 1:
            schedule = _halved(schedule, "formed", "read")
        if columns == 1 and too_large(schedule):
            schedule = replace(schedule, basis=0)
        if not too_large(schedule):
            return schedule
    return None


def _halved(schedule: Schedule, *fields: str) -> Schedule:
    return replace(schedule, **{field: max(1, getattr(schedule, field) // 2) for field in fields})


def _pieces(sizes: Sizes, count: int, names: Sequence[str], algorithm: str | None, smallest: bool = False) -> Schedule:
    """Return pieces for `count` λ at once: about `ROWS` rows in batched products, and other passes within the cache."""
    T, d, n = sizes.problem.T, sizes.problem.d, sizes.lam.n
    aid_methods = _aid_methods(names)
    constant = _form_constant_jacobian(sizes, algorithm)
    eigenbasis = sizes.eigenbasis and algorithm in ("dense", None) and constant
    matrices = eigenbasis and not sizes.leaves_like_lam and n <= T * (aid_methods + 1)

    def in_cache(numbers: int, lams: int) -> int:
        """Return how many t fit into the cache, given the number of λ and how many numbers each t takes."""
        return 1 if smallest else max(1, min(T, CACHE // max(1, numbers * lams)))

    rows = 1 if smallest else max(1, min(T, math.ceil(ROWS / count)))
    horizons = rows
    if eigenbasis:
        sums = sizes.lam.d2 is D2Formula.SUMMED and not smallest
        horizons = SUMMED_HORIZONS if sums else in_cache(sizes.lam.leaves, count)
    krylov = sizes.map.symmetric and not smallest and not constant and "aid-fp" in names
    basis = min(rows, tiled(math.ceil(max(COLUMNS, CACHE / (BASIS_VECTORS * d)) / count), count))
    on_the_way = lambda_products.numbers_on_the_way(sizes, 1 if matrices else aid_methods)
    return Schedule(
        algorithm=algorithm,
        constant=constant,
        eigenbasis=eigenbasis,
        matrices=matrices,
        samples=count,
        rows=rows,
        basis=basis if krylov else 0,
        horizons=horizons,
        read=in_cache(on_the_way, 1 if sizes.lam_by_formula else count),
        formed=in_cache(n * d, count),
    )


def _aid_methods(names: Sequence[str]) -> int:
    return sum(not unrolls(name) for name in names)


def _form_constant_jacobian(sizes: Sizes, algorithm: str | None) -> bool:
    """Return whether it is cheaper to form ∂₁Φ, which must be one matrix for each λ."""
    if sizes.eigenbasis and algorithm == "dense":
        return True
    T, d = sizes.problem.T, sizes.problem.d
    return sizes.map.affine and d <= DENSE and d <= T**2 / 2 and d**2 <= product(sizes)


def bytes_needed(sizes: Sizes, schedule: Schedule, names: Sequence[str]) -> int:
    """Return the most bytes in memory at once."""
    stored, working = _numbers_kept(sizes, schedule, names), _numbers_working(sizes, schedule, names)
    return int(SLACK * schedule.samples * (stored + working) * sizes.problem.element)


def _numbers_kept(sizes: Sizes, schedule: Schedule, names: Sequence[str]) -> int:
    """Return how many numbers stay in memory for one λ: states, vectors of AID and ∇₁E, leaves, matrices, results."""
    T, d, aid_methods = sizes.problem.T, sizes.problem.d, _aid_methods(names)
    stored = T * (sizes.state + (1 + aid_methods) * d) + LEAVES * sizes.lam.leaves + _reference_numbers(sizes)
    if schedule.matrices:
        stored += itd_eigenbasis_matrices.numbers_kept(sizes, aid_methods)
    if schedule.algorithm in ("forward", "dense") and not schedule.eigenbasis:
        stored += T * sizes.lam.n
    return stored


def _reference_numbers(sizes: Sizes) -> int:
    """Return how many numbers the matrices of the reference have: few data, dense up to d = `DENSE`, or none."""
    d, width = sizes.problem.d, sizes.width
    if sizes.few_data:
        return width * (d + width)  # `width` is about twice the data
    return REFERENCE_MATRICES * d**2 if d <= DENSE else 0


def _numbers_working(sizes: Sizes, schedule: Schedule, names: Sequence[str]) -> int:
    """Return the most additional numbers that one stage of the work needs, for one λ."""
    on_the_way = lambda_products.numbers_held(sizes, 1 if schedule.matrices else _aid_methods(names), schedule.read)
    stages = [
        aid.numbers_held(sizes, schedule.rows),
        aid_krylov.numbers_held(sizes, schedule.basis),
        on_the_way // (schedule.samples if sizes.lam_by_formula else 1),
    ]
    backward = schedule.algorithm == "wavefront" or "itd-truncated" in names
    if schedule.eigenbasis:
        stages.append(itd_eigenbasis.numbers_held(sizes, schedule.horizons))
    elif backward and sizes.shared_backward:
        stages.append(itd_backward_shared.numbers_held(sizes, schedule.horizons, schedule.rows))
    elif backward:
        stages.append(itd_backward.numbers_held(sizes, schedule.horizons))
    if schedule.algorithm == "forward":
        stages.append(itd_forward.forward_numbers_held(sizes, schedule.formed, schedule.rows))
    elif schedule.algorithm == "dense" and not schedule.eigenbasis:
        stages.append(itd_forward.dense_numbers_held(sizes, schedule.formed, schedule.rows))
    return max(stages)
