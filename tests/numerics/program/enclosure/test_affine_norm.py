"""Suprema of affine functions over balls, and means on the way to a point: valid and tight."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.affine_norm import affine_norm
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.farthest import farthest
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds


def numbers(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def scalar(f: Callable[[Tensor, Tensor], Tensor], w: Tensor, lam: Tensor, radius: float) -> ScalarBounds:
    return ScalarBounds(capture(f, w, lam, EXPANSIONS), w, lam, radius)


def farthest_by_ascent(f: Callable[[Tensor], Tensor], k: int, radius: float, generator: torch.Generator) -> float:
    """The largest norm of an affine function over a ball: at a maximum, its slope points outwards."""

    def norm(s: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(f(s), 2)

    def onto_sphere(s: Tensor) -> Tensor:
        return radius * s / s.norm(dim=1, keepdim=True)

    starts = torch.randn(40, k, generator=generator, dtype=torch.float64)
    for _ in range(60):
        starts = torch.func.vmap(torch.func.grad(norm))(onto_sphere(starts))
    return float(torch.func.vmap(norm)(onto_sphere(starts)).max())


@pytest.mark.parametrize("shape", [(4, 4), (7, 3), (2, 5)])
def test_the_farthest_value_of_an_affine_function(shape: tuple[int, int]) -> None:
    """Valid and tight."""
    generator = torch.Generator().manual_seed(0)
    A, b = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in (shape, shape[:1]))
    best = farthest_by_ascent(lambda s: (A @ s + b)[:, None], shape[1], 0.7, generator)
    assert best <= farthest(A, b, 0.7) <= best * (1 + 1e-3)


@pytest.mark.parametrize("size", [0.01, 0.3, 1.0, 30.0])
def test_the_norm_of_an_affine_matrix(size: float) -> None:
    """Valid, and no worse than ‖C‖ + r‖T‖; with one column it is that of a vector, and tight."""
    generator = torch.Generator().manual_seed(1)
    for n in (1, 2, 5):
        C, T = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((4, n), (3, 4, n)))
        best = farthest_by_ascent(lambda s, C=C, T=size * T: C + torch.tensordot(s, T, 1), 3, 0.7, generator)
        bound = affine_norm(C, size * T, 0.7)
        flat = min(float(torch.linalg.matrix_norm(x, 2)) for x in (T.reshape(3, -1), T.reshape(-1, n)))
        assert best <= bound <= (float(torch.linalg.matrix_norm(C, 2)) + 0.7 * size * flat) * (1 + 1e-9)
        assert n > 1 or bound <= best * (1 + 1e-3)


def test_columns_that_are_large_in_different_places_do_not_add_up() -> None:
    """C is large in its first column and T in its second: the norm is about the larger, and not the sum."""
    C, T = torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, 3, 2, dtype=torch.float64)
    C[0, 0] = 1
    T[:, :, 1] = torch.eye(3, dtype=torch.float64)
    assert 1 <= affine_norm(C, T, 1.0) <= 2
    assert affine_norm(C, T, 0.1) <= 1.05


def test_the_mean_on_the_way_to_a_point() -> None:
    """∇₂ of ½λ(w² − 2w) at w and v differs by ((w + v)/2 − 1)(w − v): with v = 1 and |w| ≤ 2, that factor is ≤ 1.5."""

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return (lam * (w**2 - 2 * w)).sum() / 2

    bounds = scalar(f, numbers(0), numbers(1), 2.0)
    assert bounds.cross == pytest.approx(3)
    assert 1.5 <= bounds.mean_cross(numbers(1), 0.0) <= 1.5 * (1 + 1e-3)
    assert bounds.mean_cross(numbers(1), 0.2) == pytest.approx(1.6, rel=1e-3)


@pytest.mark.parametrize("radius", [1e-3, 0.5, 2.0])
def test_the_mean_on_the_way_of_functions_that_bend(radius: float) -> None:
    """∇₂f(w) − ∇₂f(v) is at most the mean times ‖w − v‖, for every w of the ball and one v in it."""
    generator = torch.Generator().manual_seed(3)
    A = torch.randn(4, 3, generator=generator, dtype=torch.float64)

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(A @ w) @ (A @ (lam * w)) + (lam.exp() @ w**3) / 3

    centre, lam = numbers(0.3, -0.2, 0.5), numbers(0.1, 0.7, -0.4)
    unit = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    unit = unit / unit.norm(dim=1, keepdim=True)
    v, bounds = centre + 0.9 * radius * unit[0], scalar(f, centre, lam, radius)
    mean = bounds.mean_cross(v, 0.0)
    slope = torch.func.grad(f, argnums=1)
    for w in centre + radius * unit:
        gap = float((slope(w, lam) - slope(v, lam)).norm())
        assert gap <= mean * float((w - v).norm()) * (1 + 1e-9)
        H = torch.func.jacrev(torch.func.grad(f), argnums=1)(w, lam)
        assert float(torch.linalg.matrix_norm(H, 2)) <= bounds.cross
