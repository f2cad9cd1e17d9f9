"""L̂ and μ̂: the variance of the gradient over all minibatches is at most L̂⟨(H−μ̂)e, e⟩ for every direction e."""

from __future__ import annotations

from itertools import combinations, product
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from boundcheck.constants import Constants
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.estimate.curvature_noise import curvature_noise
from boundcheck.side import Side

D = torch.float64
ALPHA, MU = 0.3, 0.4
SUMS = [(1, True), (2, True), (2, False), (4, False)]


def hessians(least: float) -> Tensor:
    """Four symmetric matrices with the least eigenvalue given, whose mean has MU; a rotation in 3 dimensions each."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for i in range(4):
        Q = torch.linalg.qr(torch.randn(2, 2, generator=generator, dtype=D)).Q
        H = torch.zeros(3, 3, dtype=D)
        H[:2, :2] = Q @ torch.diag(torch.tensor([1.0 + i, 2.0], dtype=D)) @ Q.T
        H[2, 2] = [least, least, 2 * MU - least, 2 * MU - least][i]
        made.append(H)
    return torch.stack(made)


def constants_of(H: Tensor, batch: int, replacement: bool, mu: float = MU, **given: object) -> Constants:
    ends = torch.linalg.eigvalsh(H)
    bounds = SimpleNamespace(low=1 - ALPHA * ends[:, -1], high=1 - ALPHA * ends[:, 0], is_symmetric=True)
    finite_sum = FiniteSum(4, batch, replacement, lambda w, ready, indices: w)
    known = Constants.given(alpha=ALPHA, mu=mu)
    problem, ball = SimpleNamespace(inner_at=object()), SimpleNamespace(bounds=bounds, radius=1.0)
    found = curvature_noise(problem, finite_sum, ball, known, str(given.get("doubt", "")))
    return Constants({constant.name: constant for constant in found})


def spare(H: Tensor, batch: int, replacement: bool, L_hat: float, apart: float) -> float:
    """The least eigenvalue of L̂(H−μ̂) − E(Ĥ−H)² over all minibatches."""
    rows = product(range(4), repeat=batch) if replacement else combinations(range(4), batch)
    mean = H.mean(0)
    each = torch.stack([H[list(row)].mean(0) - mean for row in rows])
    return float(torch.linalg.eigvalsh(L_hat * (mean - apart * torch.eye(3, dtype=D)) - (each @ each).mean(0))[0])


@pytest.mark.parametrize(("batch", "replacement"), SUMS)
@pytest.mark.parametrize("least", [-1.5, -1e-16, 0.0, 0.1, 0.4])
def test_against_all_minibatches(batch: int, replacement: bool, least: float) -> None:
    H = hessians(least)
    found = constants_of(H, batch, replacement)
    L_hat, apart = found["L_ell_hat"], found["mu_ell_hat"]
    assert spare(H, batch, replacement, L_hat.value, apart.value) >= -1e-12
    assert apart.value == pytest.approx(max(least, 0.0) if L_hat.value else 0.0)
    assert L_hat.is_safe
    assert apart.is_safe


def test_less_than_half_of_it_is_not_enough_where_curvatures_are_as_different_as_they_can_be() -> None:
    H = torch.eye(3, dtype=D) * torch.tensor([0.2, 3.0, 0.2, 3.0], dtype=D)[:, None, None]
    for batch, replacement in SUMS[:3]:
        found = constants_of(H, batch, replacement, mu=1.6)
        L_hat, apart = found["L_ell_hat"].value, found["mu_ell_hat"].value
        assert spare(H, batch, replacement, L_hat / 2, apart) == pytest.approx(0.0, abs=1e-12)
        assert spare(H, batch, replacement, 0.49 * L_hat, apart) < 0


def test_examples_that_are_not_convex_cost_more_but_not_for_rounding() -> None:
    rounded, flat, not_convex = (constants_of(hessians(x), 1, True)["L_ell_hat"].value for x in (-1e-16, 0.0, -1.5))
    assert rounded == pytest.approx(flat, rel=1e-12)
    assert not_convex == pytest.approx(flat * (1 + 1.5 / MU))


def test_a_doubt_makes_estimates_of_both() -> None:
    found = constants_of(hessians(0.1), 2, True, doubt="not proved")
    assert (found["L_ell_hat"].side, found["mu_ell_hat"].side) == (Side.LOWER, Side.UPPER)
    assert found["L_ell_hat"].provenance.no_proof == "not proved"


def test_there_is_none_without_strong_convexity() -> None:
    assert not constants_of(hessians(0.1), 2, True, mu=0.0)
