"""The rounding that rules themselves do: exact results in 50 digits and in fractions lie in the balls."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf
from pieces import normal
from torch import Tensor

from boundcheck.numerics.program.rounding_rules import RULES
from boundcheck.numerics.program.rounding_rules.ball import Ball, add, div, matmul, mul, point, sub, total

mpmath.mp.dps = 60
COUNT = 300
ROOT = mpmath.sqrt(mpf(2))


def softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def normal_share(x: Any) -> Any:
    return mpmath.erfc(-x / ROOT) / 2


EVERYWHERE: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpf(2) ** x,
    "expm1": mpmath.expm1,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "sigmoid": sigmoid,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "gelu": lambda x: x * normal_share(x),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: softplus(x) if x <= 20 else x,
    "square": lambda x: x * x,
    "log_sigmoid_forward": lambda x: -softplus(-x),
}
POSITIVE: dict[str, Callable[[Any], Any]] = {
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}


def spread_out(seed: int) -> Tensor:
    """Numbers of both signs from 1e-12 to 30."""
    size = 10 ** (13.5 * torch.rand(COUNT, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 12)
    return torch.where(normal(COUNT, seed=seed + 1) > 0, size, -size)


def contains(ball: Ball, truth: list[Any]) -> None:
    mid, rad = ball.mid.reshape(-1).tolist(), ball.rad.expand(ball.shape).reshape(-1).tolist()
    distances = [abs(mpf(m) - t) for m, t in zip(mid, truth, strict=True)]
    assert all(d <= mpf(r) for d, r in zip(distances, rad, strict=True))
    assert any(d > 0 for d in distances), "a radius of 0 would pass"


@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-2])
@pytest.mark.parametrize("name", [*EVERYWHERE, *POSITIVE])
def test_functions_in_sixty_digits(name: str, width: float) -> None:
    """At both ends of the balls and in the middle."""
    x = spread_out(seed=5)
    x = x.abs() if name in POSITIVE else x
    rad = width * x.abs()
    found = RULES[name](Ball(x, rad))
    found = found[0] if isinstance(found, tuple) else found
    f = (EVERYWHERE | POSITIVE)[name]
    for side in (0, -1, 1) if width else (0,):
        contains(found, [f(mpf(m) + side * mpf(r)) for m, r in zip(x.tolist(), rad.tolist(), strict=True)])
    if not width:
        # at most 60 units in the last place, of the number or of what it is the difference of
        assert bool((found.rad <= 60 * 2.0**-52 * (found.mid.abs() + 1)).all())


@pytest.mark.parametrize("p", [2, 3, -1, -4, 0.5, -1.5, 2.7, 0.1])
def test_powers_in_sixty_digits(p: float) -> None:
    x = spread_out(seed=6).abs()
    contains(RULES["pow"](point(x), p), [mpf(m) ** mpf(p) for m in x.tolist()])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("width", [0.0, 1e-6])
def test_arithmetic_in_fractions(name: str, width: float) -> None:
    x, y = 1e8 * spread_out(seed=8), spread_out(seed=9)
    a, b = Ball(x, width * x.abs()), Ball(y, width * y.abs())
    found = {"add": add, "sub": sub, "mul": mul, "div": div}[name](a, b)
    op = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__, "div": Fraction.__truediv__}[name]
    for one in (-1, 1):
        for other in (-1, 1):
            ends = zip(x.tolist(), a.rad.tolist(), y.tolist(), b.rad.tolist(), strict=True)
            truth = [op(Fraction(m) + one * Fraction(r), Fraction(k) + other * Fraction(s)) for m, r, k, s in ends]
            contains(found, [mpf(t.numerator) / t.denominator for t in truth])


def exactly(x: Tensor) -> np.ndarray:
    return np.vectorize(lambda t: Fraction(float(t)), otypes=[object])(x.numpy())


def as_mpf(x: np.ndarray) -> list[Any]:
    return [mpf(t.numerator) / t.denominator for t in np.asarray(x, dtype=object).reshape(-1)]


@pytest.mark.parametrize("seed", range(10))
def test_products_and_sums_that_cancel_in_fractions(seed: int) -> None:
    A, B = normal(9, 30, seed=seed) * 1e6, normal(30, 5, seed=seed + 100)
    A[:, 15:] = -A[:, :15] + normal(9, 15, seed=seed + 200) * 1e-4
    B[15:] = B[:15]
    contains(matmul(point(A), point(B)), as_mpf(exactly(A) @ exactly(B)))
    contains(total(point(A), 1), as_mpf(exactly(A).sum(1)))
    product = A[:, :, None] * B
    contains(total(point(product)), as_mpf(exactly(product).sum()))


def test_a_dot_product_that_cancels() -> None:
    a = torch.tensor([1e8, -1e8, 1.0, 1 / 3], dtype=torch.float64)
    b = torch.tensor([1 / 3, 1 / 3 + 1e-9, 1 / 3, 0.7], dtype=torch.float64)
    contains(RULES["dot"](point(a), point(b)), as_mpf(exactly(a) @ exactly(b)))


def test_exact_operations_stay_exact() -> None:
    """Whole numbers, zeros and powers of two: conditions on them can be decided."""
    x = torch.arange(-4, 5).double()
    for found in (add(point(x), 3.0), mul(point(x), 0.5), mul(point(x / 3), 0.0), div(point(x / 3), 4.0)):
        assert found.exact
    assert matmul(point(normal(3, 9)), point(x * 0)).exact
    assert not add(point(x), 1e-17).exact
    assert not mul(point(x + 1 / 3), 3.0).exact


@pytest.mark.parametrize("n", [3, 6, 8])
def test_solutions_of_hilbert_systems_in_fractions(n: int) -> None:
    """Condition numbers from 5e2 to 1.5e10."""
    i = torch.arange(n, dtype=torch.float64)
    H = 1 / (i[:, None] + i + 1)
    b = normal(n, 1, seed=n)
    exact = mpmath.matrix(n, n)
    for r in range(n):
        for c in range(n):
            exact[r, c] = mpf(float(H[r, c]))
    truth = mpmath.lu_solve(exact, mpmath.matrix([mpf(float(x)) for x in b[:, 0]]))
    contains(RULES["_linalg_solve_ex"](point(H), point(b))[0], list(truth))
    inverse = exact**-1
    contains(RULES["linalg_inv_ex"](point(H))[0], list(inverse))
    contains(RULES["linalg_cholesky_ex"](point(H))[0], list(mpmath.cholesky(exact)))
    values = sorted(mpmath.eigsy(exact, eigvals_only=True))
    contains(RULES["_linalg_eigh"](point(H))[0], values)
    contains(RULES["_linalg_svd"](point(H))[1], values[::-1])
    contains(RULES["_linalg_slogdet"](point(H))[1], [mpmath.log(mpmath.det(exact))])
