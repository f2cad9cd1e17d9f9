"""The three problems of section 4.2 on small synthetic data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pieces import normal
from torch import Tensor

from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import fashion_mnist, newsgroups, parkinson

MAKES: dict[str, Callable[..., Problem]] = {
    "parkinson": lambda **options: parkinson(synthetic=True, **{"size": 6, "features": 3, **options}),
    "newsgroups": lambda **options: newsgroups(synthetic=True, **{"size": 7, "features": 9, "classes": 3, **options}),
    "fashion-mnist": lambda **options: fashion_mnist(
        synthetic=True, **{"validation_size": 8, "features": 4, "classes": 3, **options}
    ),
}
each = pytest.mark.parametrize("name", MAKES)


def point(problem: Problem) -> tuple[Tensor, Tensor]:
    """A w, and a λ that is not the start, where λ = 0 would hide terms."""
    w, shift = normal(problem.d, dtype=problem.dtype, seed=5), normal(problem.n, dtype=problem.dtype, seed=6)
    return w, problem.lam + 0.3 * shift
