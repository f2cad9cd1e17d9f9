"""What a tolerance costs: products of ``hypergradient(problem, rtol=…)`` against the cheapest t and k found by search.

``python benchmarks/tolerance.py``. A product is an evaluation of Φ or a product with one of its derivatives; ∂₁Φᵀv and
∂₂Φᵀv of one v are one product, as they are one backward pass, and so is a step of ITD back. "products" are all of them
up to the estimate of the error with its split. "more for the proof" are those after it. With closed forms the proof is
by a reference from Newton's method, whose products are not counted. The fixed t and k say nothing of their error: the
price of a number with its error is compared with that of a number without.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch

import boundcheck as bc

STEPS = sorted({round(2 ** (i / 2)) for i in range(25)})  # 1, 2, 3, 4, 6, 8, 11, 16, …, 4096
PRODUCTS = {"aid-cg": 1, "aid-fp": 1, "aid-cgn": 2}
BEFORE = {"aid-cg": 0, "aid-fp": -1, "aid-cgn": 1}  # the first step of aid-fp costs nothing, as v = 0


def cheapest(problem: bc.Problem, truth: torch.Tensor, rtol: float) -> tuple[int, str]:
    """The fewest products of a method with fixed t and k whose relative error is at most rtol."""
    best, what = 10**9, "none"
    for name, t, k, cost in _candidates(problem):
        if cost >= best:
            continue
        try:
            g = bc.hypergradient(problem, name, t=t, k=k).value
        except bc.BoundcheckError:
            continue
        if float((g - truth).norm()) <= rtol * float(truth.norm()):
            best, what = cost, f"{name}, t = {t}" + ("" if k is None else f", k = {k}")
    return best, what


def _candidates(problem: bc.Problem) -> Iterator[tuple[str, int, int | None, int]]:
    linear = ("aid-fp", "aid-cgn") if problem.symmetric is False else ("aid-cg", "aid-fp")
    for t in STEPS:
        yield "itd", t, None, 2 * t
        for name in linear:
            for k in STEPS:
                yield name, t, k, t + PRODUCTS[name] * k + BEFORE[name] + 2  # Φ at w_t and ∂₂Φᵀv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="*", default=["lr", "krr", "br", "hr", "eqm"])
    parser.add_argument("--rtol", nargs="*", type=float, default=[0.1, 0.01])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print("| problem | rtol | products | more for the proof | error, of ‖∇f‖ | cheapest fixed | ratio | how |")
    print("|---|---|---|---|---|---|---|---|")
    for name in chosen.problems:
        problem = bc.load_problem(name)
        truth = bc.hypergradient(problem, "exact").value
        for rtol in chosen.rtol:
            g = bc.hypergradient(problem, rtol=rtol)
            error = float((g.value - truth).norm() / truth.norm())
            least, what = cheapest(problem, truth, rtol)
            print(
                f"| {name} | {rtol:g} | {g.products} | {g.proof_products} | {error:.2g} | {least} ({what}) | "
                f"{g.products / least:.2f} | {g.how} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
