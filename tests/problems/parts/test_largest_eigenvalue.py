"""The largest eigenvalue of few data beside a diagonal, against all eigenvalues."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from pieces import normal
from torch import Tensor
from torch.func import vmap

from boundcheck.problems.parts import largest_eigenvalue
from boundcheck.problems.parts.largest_eigenvalue import newton, top_beside

EPS = torch.finfo(torch.float64).eps


def dense(a: Tensor, V: Tensor) -> Tensor:
    return torch.linalg.eigvalsh(torch.diag_embed(a) + V.T @ V)[:, -1]


def diagonals(kind: str, d: int) -> Tensor:
    a = 10 * torch.rand(3, d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return {"spread": a, "ties": a.round(), "one number": torch.full_like(a, 3.0), "none": 0 * a, "negative": -a}[kind]


@pytest.mark.parametrize("kind", ["spread", "ties", "one number", "none", "negative"])
@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-2, 1e-5, 1e-12, 0.0])
@pytest.mark.parametrize(("rows", "d"), [(1, 30), (5, 30), (5, 200)])
def test_it_is_the_largest_eigenvalue_to_rounding(rows: int, d: int, scale: float, kind: str) -> None:
    """Whether the data weigh more than the diagonal, or as little as rounding."""
    a, V = diagonals(kind, d), scale * normal(rows, d)
    found, expected = vmap(lambda a: top_beside(a, V))(a), dense(a, V)
    size = a.abs().amax(1) + V.square().sum()
    assert bool(((found - expected).abs() <= 100 * EPS * size + 1e-300).all())
    assert torch.allclose(top_beside(a[1], V), found[1], rtol=4 * EPS, atol=1e-300)


def test_under_vmap_of_vmap_and_without_a_derivative() -> None:
    a, V = diagonals("spread", 40), normal(3, 40)
    nested = vmap(vmap(lambda a: top_beside(a, V)), in_dims=1)(a.expand(2, 3, 40))
    assert torch.equal(nested, top_beside_each(a, V)[:, None].expand(3, 2))
    leaf = a[0].clone().requires_grad_()
    assert not top_beside(leaf, V).requires_grad


def top_beside_each(a: Tensor, V: Tensor) -> Tensor:
    return torch.stack([top_beside(one, V) for one in a])


def test_where_the_largest_entry_of_the_diagonal_has_next_to_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newton starts at the pole then, and leaves it slowly: it doubles its way, or gives up for the large problem."""
    a, V = diagonals("spread", 100), normal(3, 100)
    V[:, a[0].argmax()] *= 1e-14
    expected = dense(a, 0.1 * V)
    assert torch.allclose(newton(a, 0.1 * V), expected, rtol=1e-14)
    monkeypatch.setattr(largest_eigenvalue, "ROUNDS", 1)
    assert torch.allclose(newton(a, 0.1 * V), expected, rtol=1e-14)


def test_it_rises_and_never_goes_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round is a Rayleigh quotient."""
    a, V = diagonals("spread", 200), 0.1 * normal(5, 200)
    expected = dense(a, V)
    seen: list[Tensor] = []
    eigh = torch.linalg.eigh

    def watched(M: Tensor) -> object:
        values, _ = found = eigh(M)
        if M.dim() == 3:
            seen.append(values[:, -1])  # above 1 as long as μ is below
        return found

    monkeypatch.setattr(torch.linalg, "eigh", watched)
    assert torch.allclose(newton(a, V), expected, rtol=1e-14)
    assert 3 <= len(seen) <= 12
    assert all(bool((f >= 1 - 1e-12).all()) for f in seen)
    assert all(bool((later <= before + 1e-12).all()) for before, later in pairwise(seen))
