"""Constants, as ratios in one run: ``make bench`` or ``python benchmarks/constants.py``.

Whole estimates against the error curves that they are compared with, and all constants of 20 newsgroups in seconds and
memory. Then extreme eigenvalues: Lanczos with its stopping rule against eigsh and the power method, all from the same
random start to a true relative error of 1e-6 of the largest eigenvalue, at d = 10⁴ and κ = 10⁴. Lanczos stops by
itself; eigsh is given the loosest of some tolerances with which its answer is that good, and the power method is
stopped by the truth. Products are counted, not seconds.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from clock import peak_megabytes, race
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

import boundcheck as bc
from boundcheck.ball import BALLS
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.estimate.lanczos import Product, dense_symmetric, lanczos, power, slack
from boundcheck.numerics.solvers.reference import reference

D, KAPPA, RTOL, DELTA = 10_000, 1e4, 1e-6, 1e-3
SEEDS = range(5)
POWER = 20_000  # products at most
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)
SPECTRA: dict[str, Callable[[int], Tensor]] = {
    "uniform": lambda d: torch.linspace(1 / KAPPA, 1, d, dtype=torch.float64),
    "logarithmic": lambda d: torch.logspace(-math.log10(KAPPA), 0, d, dtype=torch.float64),
}


def generator(seed: int) -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(seed)


def start(d: int, seed: int) -> Tensor:
    return torch.randn(d, generator=generator(seed), dtype=torch.float64)


def turned(spectrum: Tensor, seed: int = 99) -> Product:
    """The eigenvalues in a basis that is no coordinate basis: between two reflections."""
    u = start(len(spectrum), seed)
    u /= u.norm()

    def reflect(v: Tensor) -> Tensor:
        return v - 2 * (u @ v) * u

    return lambda v: reflect(spectrum * reflect(v))


def scipy_products(product: Product, d: int, seed: int, top: float) -> float:
    """The fewest of eigsh, with its default basis of 20 vectors, over the tolerances; infinite if none will do."""
    for tol in TOLERANCES:
        count = 0

        def counted(x: np.ndarray) -> np.ndarray:
            nonlocal count
            count += 1
            return product(torch.from_numpy(np.ascontiguousarray(x).ravel())).numpy()

        operator = LinearOperator((d, d), matvec=counted, dtype=float)
        try:
            result = eigsh(operator, 1, which="LA", v0=start(d, seed).numpy(), tol=tol, return_eigenvectors=False)[0]
        except ArpackNoConvergence:
            continue
        if abs(result - top) <= RTOL * top:
            return count
    return math.inf


def largest(name: str, d: int = D, seeds: range = SEEDS) -> None:
    spectrum = SPECTRA[name](d)
    product, top = turned(spectrum), float(spectrum[-1])
    rows = []
    for seed in seeds:
        ours = lanczos(product, d, delta=DELTA, rtol=RTOL, want="largest", generator=generator(seed)).largest
        error = (top - ours.estimate) / top
        quotients = power(product, d, POWER, generator=generator(seed))
        plain = next((k for k, x in enumerate(quotients, 1) if x >= (1 - RTOL) * top), POWER)
        rows.append((ours, error, scipy_products(product, d, seed, top), plain))
    eigsh_ratio = [ours.products / other for ours, _, other, _ in rows]
    power_ratio = [plain / ours.products for ours, _, _, plain in rows]
    capped = "at least " if any(plain == POWER for *_, plain in rows) else ""
    print(
        f"{name}: d = {d}, {len(rows)} starts, products {[r[0].products for r in rows]}, eigsh {[r[2] for r in rows]}"
    )
    print(f"  true relative errors {', '.join(f'{r[1]:.0e}' for r in rows)} (at most {RTOL:.0e})")
    print(f"  x{median(eigsh_ratio):.2f} of eigsh, worst x{max(eigsh_ratio):.2f} (at most x1.2)")
    print(f"  {capped}{min(power_ratio):.0f} times fewer than power iteration (at least 10)")
    worst = max(r[0].slack for r in rows)
    planned = max(slack(d, r[0].steps, DELTA).cosh2 for r in rows)
    print(
        f"  certified (delta = {DELTA:g}) at x{worst:.5f} of the estimate; by the number of steps alone x{planned:.5f}"
    )


def dense(d: int = 500) -> None:
    spectrum = SPECTRA["uniform"](d)
    H = torch.stack([turned(spectrum)(e) for e in torch.eye(d, dtype=torch.float64)])
    result = dense_symmetric(H)
    print(
        f"dense: d = {d}, certified at x(1 + {result.largest.slack - 1:.1e}) and x(1 - {1 - result.smallest.slack:.1e})"
    )


METHODS = ["itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10"]


def whole(name: str) -> None:
    """All constants of a problem of the paper on both balls, as in a check, and the curves of one λ at T = 200."""
    problem = bc.load_problem(name)

    def estimate() -> None:
        result = reference(problem, problem.lam[None])
        on_balls(problem, result, BALLS, spend=Spend(DELTA, 0), tell=lambda what, done, of: None)

    ours, curves = race(estimate, lambda: bc.error_curves(problem, METHODS, t=200), repeat=5)
    print(f"{name:4s} constants on both balls {ours:.2f} s, x{ours / curves:.2f} of the curves (below 1)")


def newsgroups() -> None:
    """Two million unknowns: seconds and peak memory of all constants."""
    start = time.perf_counter()
    try:
        peak = peak_megabytes("p = bc.load_problem('newsgroups')", "bc.estimate_constants(p)")
    except subprocess.CalledProcessError as error:
        print(f"newsgroups not measured: {error.stderr.splitlines()[-1]}")
        return
    print(f"newsgroups: all constants in {time.perf_counter() - start:.0f} s with {peak:.0f} MB more than the data")


def main() -> None:
    torch.set_num_threads(1)
    for name in ("lr", "krr", "br", "hr"):
        whole(name)
    newsgroups()
    for name in SPECTRA:
        largest(name)
    dense()


if __name__ == "__main__":
    main()
