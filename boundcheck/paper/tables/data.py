"""The three problems of section 4.2 for the tables: the settings of appendix C.2, and the test examples.

The paper does not give the precision (here float64 for Parkinson, which is small, else float32), the seed of the
splits, and when a step size counts as diverged (here if a number is not finite, or some λ_j is not in the range
`within`, where e^λ_j can be represented).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.paper.tables.outer_loop import MOMENTUM
from boundcheck.problems.fashion_mnist import load as load_fashion_mnist
from boundcheck.problems.kernel_ridge import kernel, squared_differences
from boundcheck.problems.loading import load_problem
from boundcheck.problems.parkinson import load as load_parkinson
from boundcheck.problems.parts import datasets
from boundcheck.problems.parts.newsgroups_documents import load_documents

Accuracy = Callable[[Tensor, Tensor], float]  # a function of (λ, w)

LARGEST_FLOAT32 = 1e38  # near the largest number of float32


@dataclass(frozen=True)
class Table:
    """The settings of appendix C.2 for a problem; `together` is the number of step sizes in one batch."""

    t: tuple[int, ...]
    k_r: int
    s: int
    exponents: tuple[float, float]  # log₁₀ of the first and the last step size
    together: int
    warm: bool = False  # w_0(λ_i) = w_t(λ_{i−1})
    exact: int = 2000  # steps towards w(λ); 0: the closed form
    dtype: torch.dtype = torch.float32
    within: tuple[float, float] = (-LARGEST_FLOAT32, LARGEST_FLOAT32)
    fp: str = "aid-fp"
    certify: bool = False  # whether the error of the last hypergradient is enclosed; otherwise it is estimated
    options: Mapping[str, Any] = field(default_factory=dict)  # options of the problem

    def methods(self, t: int) -> dict[str, str]:
        """Return the method for each row of the table; if k_r ≥ t, there are no rows for k = k_r."""
        methods = {"ITD": "itd", "FP k=t": self.fp, "CG k=t": "aid-cg"}
        if self.k_r < t:
            methods |= {"FP k=k_r": f"{self.fp}:{self.k_r}", "CG k=k_r": f"aid-cg:{self.k_r}"}
        if self.fp != "aid-fp":
            methods |= {f"{row}, FP on Φ": f"aid-fp{k}" for row, k in (("FP k=t", ""), ("FP k=k_r", f":{self.k_r}"))}
        return methods


TABLES = {
    "parkinson": Table(
        (100, 150),
        10,
        1000,
        (-6, 1),
        30,
        exact=0,
        dtype=torch.float64,
        within=(-300, 300),
        fp=MOMENTUM,
        certify=True,
    ),
    # one step size at a time, because batches are not faster; tf-idf as in the paper, but its accuracies are of counts
    "newsgroups": Table(
        (10, 25, 50),
        10,
        500,
        (-4, 4),
        1,
        True,
        within=(-LARGEST_FLOAT32, 40),
        options={"tfidf": True, "used_words": True},
    ),
    "fashion-mnist": Table((5, 10), 5, 4000, (-10, -2), 30),
}
READ: dict[str, Callable[[], object]] = {
    "parkinson": datasets.parkinsons, "newsgroups": datasets.newsgroups, "fashion-mnist": datasets.fashion_mnist,
}  # fmt: skip
SECONDS: dict[str, Callable[[int, int, int], float]] = {  # measured for an upper-level step, by step sizes, t and k
    "parkinson": lambda count, t, k: 0.01 + 0.001 * count + (t + k / 2) * (0.0004 + 0.00001 * count),
    "newsgroups": lambda count, t, k: 0.005 * count * (t + k),
    "fashion-mnist": lambda count, t, k: 0.025 + 0.03 * count + 0.001 * (t + k),
}


@dataclass(frozen=True, eq=False)
class Loaded:
    """The problem, and the fraction of test examples that w classifies correctly."""

    problem: Problem
    accuracy: Accuracy


def loaded(parameters: Mapping[str, Any]) -> Loaded:
    """Return the problem of a run, which is cached for the next slice."""
    options = tuple(sorted(parameters["options"].items()))
    return _loaded(parameters["data"], parameters["seed"], parameters["device"], options)


@lru_cache(maxsize=1)
def _loaded(name: str, seed: int, device: str, options: tuple[tuple[str, Any], ...]) -> Loaded:
    load_options = {"seed": seed, "device": device, "dtype": TABLES[name].dtype, **dict(options)}
    return Loaded(load_problem(name, **load_options), ACCURACIES[name](load_options))


def _parkinson(options: dict[str, Any]) -> Accuracy:
    parts = load_parkinson(**options)
    Q, y = squared_differences(parts.X_test, parts.X), parts.y_test > 0.5  # targets are 0 and 1

    def accuracy(lam: Tensor, w: Tensor) -> float:
        return float((((kernel(Q, lam[1:].exp()) @ w) > 0.5) == y).double().mean())

    return accuracy


def _newsgroups(options: dict[str, Any]) -> Accuracy:
    parts = load_documents(**options)
    X, y = parts.X_test, parts.Y_test.argmax(-1)
    return lambda lam, w: float(((X @ w.reshape(X.shape[1], -1)).argmax(-1) == y).double().mean())


def _fashion_mnist(options: dict[str, Any]) -> Accuracy:
    fewer = options if options.get("synthetic") else {**options, "validation_size": 1}  # these images are not needed
    parts = load_fashion_mnist(**fewer)
    X, y = parts.X_test, parts.Y_test.argmax(-1)
    return lambda lam, w: float(((X @ w.reshape(X.shape[1], -1)).argmax(-1) == y).double().mean())


ACCURACIES: dict[str, Callable[[dict[str, Any]], Accuracy]] = {
    "parkinson": _parkinson, "newsgroups": _newsgroups, "fashion-mnist": _fashion_mnist,
}  # fmt: skip
