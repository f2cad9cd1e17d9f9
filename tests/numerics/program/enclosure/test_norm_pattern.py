"""Quotients x/√(sΣx² + ε) are found however they are written, and only these; their bounds are close."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import enclosure_cases as cases
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import jacrev

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.norm_pattern import Norm, norm_of

W = torch.tensor([0.3, -1.2, 0.9, 2.0, -0.4, 0.5], dtype=torch.float64)
LAM = torch.ones(1, dtype=torch.float64)
Function = Callable[[Tensor], Tensor]


def found_in(f: Function) -> list[Norm]:
    program = capture(lambda w, lam: f(w.reshape(2, 3)).sum(), W, LAM, EXPANSIONS)
    return [norm for operation in program.operations if (norm := norm_of(program, operation)) is not None]


@pytest.mark.parametrize(
    ("f", "scale", "epsilon", "dims"),
    [
        (lambda x: F.layer_norm(x, (3,), eps=0.25), Fraction(1, 3), Fraction(1, 4), (1,)),
        (cases._standardised, Fraction(1, 3), Fraction(1e-3), (1,)),
        (lambda x: x / torch.linalg.vector_norm(x), Fraction(1), Fraction(0), (0, 1)),
        (lambda x: x * (2 * (x**2).sum(0, keepdim=True) + 0.5) ** -0.5, Fraction(2), Fraction(1, 2), (0,)),
    ],
    ids=["layer norm", "by hand", "x/‖x‖", "power"],
)
def test_a_quotient_is_found(f: Function, scale: Fraction, epsilon: Fraction, dims: tuple[int, ...]) -> None:
    (norm,) = found_in(f)
    assert (norm.scale, norm.epsilon, norm.dims) == (scale, epsilon, dims)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x / torch.sqrt((x.flip(0) ** 2).sum() + 1),
        lambda x: x / torch.sqrt((x**3).sum() + 90),
        lambda x: x / ((x**2).sum() + 1),
        lambda x: x * torch.sqrt((x**2).sum() + 1),
        lambda x: x / torch.sqrt(9 - (x**2).mean()),
        lambda x: x[0] / torch.sqrt((x**2).sum(0) + 1),
        lambda x: (x - x.mean()) / torch.sqrt(((x - x.mean(0)) ** 2).mean() + 1),
    ],
    ids=["another", "cube", "no root", "a product", "minus", "other shapes", "another mean"],
)
def test_what_looks_like_one_is_none(f: Function) -> None:
    assert not found_in(f)


@pytest.mark.parametrize("radius", [1e-6, 0.1])
def test_layer_norm_has_close_bounds(radius: float) -> None:
    """‖∂₁Φ‖ as at the centre, and the bound of its derivative no more than thrice what is seen; by operations, 100."""

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return F.layer_norm(w.reshape(2, 3), (3,)).reshape(-1)

    bounds = MapBounds(capture(f, W, LAM, EXPANSIONS), W, LAM, radius)
    slope = torch.linalg.matrix_norm(jacrev(f)(W, LAM), 2)
    second = jacrev(jacrev(f))(W, LAM)
    assert slope <= bounds.slope <= (1 + 3 * radius) * slope
    assert second.flatten(1).norm(dim=1).max() / 3**0.5 <= bounds.bend <= 3 * torch.linalg.matrix_norm(second, 2).max()
