"""Numbers whose products leave the range of floats: nothing is claimed of them, and messages name what was given."""

from __future__ import annotations

import pytest
import torch

import boundcheck as bc


def make(
    w_scale: float, outer_scale: float = 1.0, lam_scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> bc.Problem:
    zero = torch.zeros(1, dtype=dtype)
    return bc.Problem.from_map(
        lambda w, h: 0.5 * w + 0.3 * w_scale * torch.sin(w / w_scale) + h * (w_scale / lam_scale),
        lambda w, h: outer_scale * ((w / w_scale - 1) ** 2).sum(), zero, zero + 0.7 * lam_scale, name="mine",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (make(1e170), "Φ.params.‖ = 7.0e.169 is more than 1e.75.*scale params"),  # was q ≤ 0.39, proved; it is 0.8
        (make(1e-160), "Φ.params.‖ = 7.0e-161 is less than 1e-75.*scale params"),
        (make(1.0, 1e160), "∇₁E.params.‖ = 2.0e.160 is more than.*scale outer_loss"),
        (make(1.0, 1e-300), "∇₁E‖ = 3.1e-300 is less than.*scale outer_loss"),  # was L_E = 0, exact
        (make(1.0, lam_scale=1e160), "hparams‖ = 7.0e.159 is more than.*scale hparams"),
        (make(1.0, 1e-25, dtype=torch.float32), "∇₁E‖ = 3.1e-25 is less than 1e-19.*float32; scale outer_loss"),
        (make(1.0, 1e25, dtype=torch.float32), "∇₁E.params.‖ = 2.0e.25 is more than 2e.19.*float32"),
    ],
)
def test_what_leaves_the_range_is_refused_by_its_name(problem: bc.Problem, message: str) -> None:
    for ask in (lambda: bc.estimate_constants(problem, ball="local"), lambda: bc.check(problem, ["itd"], t=3)):
        with pytest.raises(bc.InputError, match=message) as raised:
            ask()
        assert "\n" not in str(raised.value)


def test_an_outer_loss_that_is_flat_at_the_solution_is_in_range() -> None:
    half = torch.full((1,), 0.5, dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, h: 0.5 * w + h, lambda w, h: 1e-60 * ((w - 1) ** 2).sum() ** 3, 0 * half, half
    )
    assert bc.estimate_constants(problem, ball="local", budget=12)["q"].value == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("method", ["aid-cg", "aid-cgn"])
@pytest.mark.parametrize("scale", [1e160, 1e-160, 1e300])
def test_a_run_is_that_of_the_scaled_loss(method: str, scale: float) -> None:
    """aid-cg returned 0, as the squares of ∇₁E overflow."""
    ours, theirs = (bc.hypergradient(make(1.0, s), method, t=20).value for s in (scale, 1.0))
    assert float(ours / scale) == pytest.approx(float(theirs), rel=1e-12)
