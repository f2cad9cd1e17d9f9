"""How far derivatives move from one point, and the blocks of inputs that entries depend on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import jacrev

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.dependence import depends_on
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.value import LAM, W

SAMPLES, HIDDEN, POINTS = 4, 3, 200
GENERATOR = torch.Generator().manual_seed(1)
X = torch.randn(SAMPLES, HIDDEN, generator=GENERATOR, dtype=torch.float64)
A = torch.randn(HIDDEN * HIDDEN, generator=GENERATOR, dtype=torch.float64) / 2
ORIGIN = torch.zeros(SAMPLES * HIDDEN, dtype=torch.float64)


def layer(w: Tensor, lam: Tensor) -> Tensor:
    return torch.tanh(w.reshape(SAMPLES, HIDDEN) @ lam.reshape(HIDDEN, HIDDEN).T + X).reshape(-1)


def test_from_a_point_derivatives_move_less_than_along_the_way() -> None:
    """∂₂Φ of a layer, far from 0: along the way w is as large as it gets, from the point it is that of the point."""
    v, radius = torch.full_like(ORIGIN, 0.1), 6.0
    program = capture(layer, ORIGIN, A, EXPANSIONS)
    bounds, at = MapBounds(program, ORIGIN, A, radius), MapBounds(program, v, A, 0.0)
    proved = bounds.calm(at, 0.0, (W, LAM))
    assert proved < bounds.lam_bend / 2
    steps = torch.randn(POINTS, len(v), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    steps *= (
        torch.logspace(-6, 0, POINTS, dtype=torch.float64)[:, None]
        * (radius - v.norm())
        / steps.norm(dim=1, keepdim=True)
    )
    J = jacrev(layer, argnums=1)
    seen = max(float(torch.linalg.matrix_norm(J(v + s, A) - J(v, A), 2) / s.norm()) for s in steps)
    assert seen <= proved <= 4 * seen


def test_a_point_that_is_known_roughly_costs_as_much() -> None:
    program = capture(layer, ORIGIN, A, EXPANSIONS)
    bounds, at = MapBounds(program, ORIGIN, A, 1.0), MapBounds(program, ORIGIN, A, 0.0)
    exact, rough = (bounds.calm(at, distance, (W, LAM)) for distance in (0.0, 0.1))
    assert exact < rough <= bounds.lam_bend


def test_an_entry_depends_on_its_example_and_its_row() -> None:
    """Also on entries of λ whose derivative is 0 at the centre, where w is."""
    value = MapBounds(capture(layer, ORIGIN, A, EXPANSIONS), ORIGIN, A, 1.0).output
    of_w, of_lam = depends_on(value, W), depends_on(value, LAM)
    assert of_w is not None
    assert of_lam is not None
    entry = torch.arange(SAMPLES * HIDDEN)
    assert of_w.equal(entry[:, None] // HIDDEN == entry // HIDDEN)
    assert of_lam.equal(torch.arange(HIDDEN**2)[:, None] // HIDDEN == entry % HIDDEN)


def test_norms_and_sums_join_what_they_read() -> None:
    def f(w: Tensor, lam: Tensor) -> Tensor:
        x = w.reshape(SAMPLES, HIDDEN)
        return torch.cat([F.layer_norm(x, (HIDDEN,)).reshape(-1), torch.logsumexp(x, 0) * lam[0], torch.tanh(w)])

    value = MapBounds(capture(f, X.reshape(-1), A, EXPANSIONS), X.reshape(-1), A, 0.01).output
    sets = depends_on(value, W)
    assert sets is not None
    count = SAMPLES * HIDDEN
    entry = torch.arange(count)
    assert sets[:, :count].equal(entry[:, None] // HIDDEN == entry // HIDDEN)
    assert sets[:, count : count + HIDDEN].equal(entry[:, None] % HIDDEN == torch.arange(HIDDEN))
    assert sets[:, count + HIDDEN :].equal(torch.eye(count, dtype=torch.bool))
