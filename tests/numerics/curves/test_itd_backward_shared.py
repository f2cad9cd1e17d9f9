"""ITD backwards at shared points against the wave that knows no formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck.numerics.bilevel.derivatives import rows, rows_outer, used
from boundcheck.numerics.bilevel.formulas import Diagonal
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.curves import batch as batches
from boundcheck.numerics.curves import itd_backward, itd_backward_shared

T = 19


@pytest.mark.parametrize("dynamics", ["gradient-descent", "heavy-ball", "nesterov"])
@pytest.mark.parametrize(
    ("start", "stop", "through"), [(0, T, None), (5, 12, None), (0, T, 4), (7, T, 3), (0, 6, T), (0, T, 0)]
)
@torch.no_grad()
def test_it_equals_the_wave(dynamics: str, start: int, stop: int, through: int | None) -> None:
    problem = small("lr", dynamics=dynamics)
    batch = batches.run(problem, Prepared(problem, problem.sample(3, seed=2)), T, constant=False)
    assert itd_backward_shared.applies(batch)
    leaves = used(batch.prepared.leaves, rows(problem.psi_at), batch.z[:, :1])
    b = rows_outer(problem, batch.w, leaves.none()).w
    wave = batch.prepared.pull_back_rows(leaves, itd_backward.itd(batch, b, leaves, start, stop, through))
    for block in (1, 4, T):
        result = itd_backward_shared.itd(batch, b, start, stop, block, through)
        assert result.shape == (3, stop - start, problem.n)
        assert float((result - wave).abs().max()) <= 1e-13 * float(wave.abs().max())


def test_it_applies_where_both_formulas_are() -> None:
    problem = small("lr")
    for without in ({"d1phi_T_at": None}, {"d2phi_T_at": None}, {"symmetric": None}):
        other = replace(problem, **without)
        with torch.no_grad():
            assert not itd_backward_shared.applies(
                batches.run(other, Prepared(other, other.lam[None]), 2, constant=False)
            )
        curves = bc.error_curves(other, ["itd", "itd-truncated:3"], t=T, algorithm="wavefront")
        expected = bc.error_curves(problem, ["itd", "itd-truncated:3"], t=T, algorithm="wavefront")
        for method in curves:
            assert np.allclose(curves[method], expected[method], rtol=1e-11)


def test_iterates_that_leave_the_finite_numbers_do_no_harm_to_earlier_horizons() -> None:
    """Φ = λw³ from above 1: w_8 is finite, w_9 is not."""
    start, ones = torch.full((4,), 1.5).double(), torch.ones(4).double()
    problem = replace(
        bc.Problem.from_map(lambda w, lam: lam * w**3, lambda w, lam: (w * w).sum() / 2, start, ones, symmetric=True),
        d1phi_T_at=lambda w, lam: lambda v: 3 * lam * w * w * v,
        d2phi_T_at=lambda w, lam: Diagonal(w**3),
    )
    curves = bc.error_curves(problem, ["itd", "itd-truncated:2"], t=12, algorithm="wavefront")
    for t in range(1, 5):
        for method in curves:
            value = bc.hypergradient(problem, method, t).value
            assert curves[method][0, t - 1] == pytest.approx(float((value - curves.exact[0]).norm()), rel=1e-12)
    assert not np.isfinite(curves["itd"][0, -1])
