"""A step on λ of tables 1 and 2 beside its bare matrix products: `python FILE newsgroups` or `fashion-mnist`.

Needs the data sets. Steps and products are timed in turn in one process on one thread, in seconds of the processor, and
the least of several is shown, as other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from boundcheck.paper.tables.data import TABLES, loaded
from boundcheck.paper.tables.outer_loop import OuterDescent
from boundcheck.problems.fashion_mnist import load as load_fashion_mnist
from boundcheck.problems.parts.newsgroups_documents import load_documents

ZETA = {"newsgroups": 1.0, "fashion-mnist": 1e-7}
METHODS = ("itd", "aid-fp", "aid-cg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(ZETA))
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = TABLES[given.name]
    problem = loaded({"data": given.name, "seed": 0, "device": "cpu", "options": dict(table.options)}).problem
    t = min(table.t)
    for count, label, products in _products(given.name, dict(table.options), t):
        zeta = torch.full((count,), ZETA[given.name])
        for method in METHODS:
            descent, steps, bare = OuterDescent.start(problem, count), [], []
            for _ in range(given.repeats + 1):
                start = time.process_time()
                descent = descent.step(problem, method, zeta, t, table.warm, table.within)
                steps.append(time.process_time() - start)
                start = time.process_time()
                products()
                bare.append(time.process_time() - start)
            step, least = min(steps[1:]), min(bare[1:])
            beside = f"{1e3 * least:6.0f} ms {label}: {step / least:.1f}"
            print(f"{count:3} ζ  {method:7} {1e3 * step:6.0f} ms a step, {beside}")


def _products(name: str, options: dict[str, object], t: int) -> Iterator[tuple[int, str, Callable[[], object]]]:
    """For some numbers of step sizes, the products that no implementation can do without, by the quickest kernels."""
    if name == "newsgroups":
        X = load_documents(dtype=torch.float32, **options).X  # type: ignore[arg-type]
        W, R = torch.randn(X.shape[1], 20), torch.randn(X.shape[0], 20)
        pairs = 2 * t + 1  # t steps forward and t back, and E, which has as many documents

        def sparse() -> None:
            for _ in range(pairs):
                X @ W
                X.T @ R

        yield 1, f"for {pairs} products with X and as many with Xᵀ", sparse
        return
    images = load_fashion_mnist(dtype=torch.float32).X_val
    for count in (1, 3, 10, 30):
        columns = torch.randn(10 * count, images.shape[1])
        yield count, "for a product with X and one with Xᵀ", lambda columns=columns: _both(columns, images)


def _both(columns: Tensor, images: Tensor) -> Tensor:
    return (columns @ images.T) @ images


if __name__ == "__main__":
    main()
