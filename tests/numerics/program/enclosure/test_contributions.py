"""What operations add to bounds, against values by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from boundcheck.explanation import Contribution
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure import map_contributions, scalar_contributions
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds

Function = Callable[[Tensor, Tensor], Tensor]
NEAR = 1e-6  # relative: bounds are raised by more than their rounding, which is far below
CENTRE, LAM = torch.tensor([0.2, -0.1]).double(), torch.tensor([0.5, 1.0]).double()
X = torch.tensor([[3.0, 1.0], [0.0, 2.0], [1.0, -1.0]]).double()


def scalar(f: Function, radius: float = 0.5) -> ScalarBounds:
    return ScalarBounds(capture(f, CENTRE, LAM, EXPANSIONS), CENTRE, LAM, radius)


def of_map(f: Function, radius: float = 0.5) -> tuple[MapBounds, MapBounds]:
    program = capture(f, CENTRE, LAM, EXPANSIONS)
    return MapBounds(program, CENTRE, LAM, radius), MapBounds(program, CENTRE, LAM, 0.0)


def by_name(rows: list[Contribution]) -> dict[str, Contribution]:
    assert len({row.operation for row in rows}) == len(rows)
    return {row.operation: row for row in rows}


def two_parts(w: Tensor, lam: Tensor) -> Tensor:
    return torch.cosh(X @ w).sum() + 3 * (w**2).sum()


@pytest.mark.parametrize("quantity", ["smallest", "largest", "hessian", "cross", "third", "third_cross", "gradient"])
def test_an_operation_that_is_alone_adds_the_whole_bound(quantity: str) -> None:
    bounds = scalar(lambda w, lam: torch.cosh(X @ w).sum())
    (row,) = scalar_contributions.contributions(bounds, quantity)
    assert row.value == pytest.approx(getattr(bounds, quantity), rel=NEAR)
    assert row.operation == "cosh"
    assert row.line.startswith("test_contributions.py:")


def test_each_operation_has_its_own_curvature() -> None:
    bounds = scalar(two_parts)
    rows = by_name(scalar_contributions.contributions(bounds, "smallest"))
    assert rows["pow"].value == pytest.approx(6, rel=NEAR)
    assert rows["pow"].at_centre == pytest.approx(6, rel=NEAR)
    z = X @ CENTRE
    at_centre = torch.linalg.eigvalsh(X.T @ torch.diag(torch.cosh(z)) @ X)
    assert rows["cosh"].at_centre == pytest.approx(float(at_centre[0]), rel=NEAR)
    largest = by_name(scalar_contributions.contributions(bounds, "largest"))
    assert largest["cosh"].at_centre == pytest.approx(float(at_centre[1]), rel=NEAR)
    assert largest["cosh"].value > largest["cosh"].at_centre


def test_a_square_adds_nothing_to_a_third_derivative() -> None:
    bounds = scalar(two_parts)
    rows = by_name(scalar_contributions.contributions(bounds, "third", 0.1))
    assert rows["pow"].value == 0
    assert rows["cosh"].value == pytest.approx(0.1 * bounds.third, rel=NEAR)
    assert "φ''' = 0" in rows["pow"].note
    assert list(rows) == ["cosh", "pow"]  # the largest first


def test_the_range_of_the_argument_is_that_over_the_ball() -> None:
    bounds = scalar(lambda w, lam: torch.cosh(3 * w[:1]).sum())
    (row,) = scalar_contributions.contributions(bounds, "third")
    assert "z = w in [−0.3, 0.7]" in row.note


def test_parts_bound_the_whole() -> None:
    bounds = scalar(lambda w, lam: torch.cosh(X @ w).sum() + torch.exp(w).sum() + lam.exp() @ torch.tanh(w))
    for quantity in ("largest", "cross", "third", "third_cross"):
        rows = scalar_contributions.contributions(bounds, quantity)
        assert sum(row.value for row in rows) >= getattr(bounds, quantity) * (1 - 1e-9)
    rows = scalar_contributions.contributions(bounds, "smallest")
    assert sum(row.value for row in rows) <= bounds.smallest + 1e-9


def test_a_line_that_runs_often_is_one_row() -> None:
    def f(w: Tensor, lam: Tensor) -> Tensor:
        total = lam.sum()
        for i in range(3):
            total = total + torch.exp((i + 1) * w).sum()
        return total

    bounds = scalar(f)
    (row,) = scalar_contributions.contributions(bounds, "third")
    assert row.count == 3
    assert row.value == pytest.approx(bounds.third, rel=NEAR)


def test_a_kink_is_named_with_what_to_use_instead() -> None:
    bounds = scalar(lambda w, lam: w.abs().sum() + lam @ w + (w**2).sum())
    rows = by_name(scalar_contributions.contributions(bounds, "smallest"))
    assert rows["abs"].value == -math.inf
    assert "a kink of abs" in rows["abs"].hint
    assert rows["pow"].value == pytest.approx(2, rel=NEAR)
    away = scalar(lambda w, lam: w.abs().sum() + lam @ w + (w**2).sum(), radius=0.01)
    assert by_name(scalar_contributions.contributions(away, "smallest"))["abs"].hint == ""


def test_infinity_that_comes_from_elsewhere_is_traced_to_its_line() -> None:
    bounds = scalar(lambda w, lam: lam.sum() * w.abs().sum())
    rows = by_name(scalar_contributions.contributions(bounds, "third_cross"))
    assert rows["mul"].value == math.inf
    assert "infinite through abs, test_contributions.py:" in rows["mul"].hint


def test_a_wide_range_gets_a_hint() -> None:
    bounds = scalar(lambda w, lam: torch.exp(10 * w).sum(), radius=1.0)
    (row,) = scalar_contributions.contributions(bounds, "third")
    assert "times its value at the centre" in row.hint
    (row,) = scalar_contributions.contributions(bounds, "smallest")
    assert "at the centre and falls over the ball" in row.hint
    bounds = scalar(lambda w, lam: (torch.exp(4 * w) * (torch.exp(3 * w.flip(0)) * lam)).sum(), radius=1.0)
    product = [row for row in scalar_contributions.contributions(bounds, "hessian") if row.operation == "mul"]
    assert any("a product of two tensors that vary" in row.hint for row in product)


def test_log_sum_exp_says_how_far_groups_move() -> None:
    bounds = scalar(lambda w, lam: torch.logsumexp(X @ w, 0), radius=2.0)
    (row,) = scalar_contributions.contributions(bounds, "largest")
    assert row.value == pytest.approx(bounds.largest, rel=NEAR)
    assert "groups of 3 entries of z = mv move by up to" in row.note
    assert "1 of 1 so far that only 0 ⪯ φ'' ⪯ 0.5 is used" in row.note


A = torch.tensor([[0.2, 0.3], [-0.1, 0.4]]).double()


@pytest.mark.parametrize("quantity", ["slope", "lam_slope", "bend", "lam_bend"])
def test_an_operation_of_a_map_that_is_alone_adds_the_whole_bound(quantity: str) -> None:
    bounds, at = of_map(lambda w, lam: 0.5 * torch.tanh(A @ w + lam))
    (row,) = map_contributions.contributions(bounds, at, quantity)
    assert row.operation == "tanh"
    assert row.value == pytest.approx(getattr(bounds, quantity), rel=NEAR)
    assert row.at_centre == pytest.approx(getattr(at, quantity), rel=NEAR)


def test_the_parts_of_a_map_are_those_of_its_operations() -> None:
    bounds, at = of_map(lambda w, lam: torch.tanh(A @ torch.tanh(w)) + 0.3 * torch.sigmoid(w) + lam)
    bends = map_contributions.contributions(bounds, at, "bend")
    assert sorted(row.operation for row in bends) == ["sigmoid", "tanh"]  # both tanh stand on one line
    assert by_name(bends)["tanh"].count == 2
    alone, _ = of_map(lambda w, lam: torch.tanh(A @ torch.tanh(w)) + lam)
    assert by_name(bends)["tanh"].value == pytest.approx(alone.bend, rel=NEAR)
    assert sum(row.value for row in bends) >= bounds.bend * (1 - 1e-9)
    slopes = by_name(map_contributions.contributions(bounds, at, "slope"))
    assert slopes["sigmoid"].value == pytest.approx(0.3 * 0.25, rel=NEAR)
    assert sum(row.value for row in slopes.values()) >= bounds.slope * (1 - 1e-9)


def test_one_of_two_layers_bends_alone() -> None:
    """D² of exp(A tanh(w)) has a part of exp, with the slope of tanh, and a part of tanh, with the slope of exp."""

    def layers(w: Tensor, lam: Tensor) -> Tensor:
        inner = torch.tanh(w)
        return torch.exp(A @ inner) + lam

    bounds, at = of_map(layers)
    rows = by_name(map_contributions.contributions(bounds, at, "bend"))
    z = A @ torch.tanh(CENTRE)
    s = 1 - torch.tanh(CENTRE) ** 2
    of_exp = torch.einsum("i,ij,j,ik,k->ijk", torch.exp(z), A, s, A, s)
    of_tanh = torch.zeros(2, 2, 2).double()
    for i in range(2):
        for j in range(2):
            of_tanh[i, j, j] = torch.exp(z[i]) * A[i, j] * (-2 * torch.tanh(CENTRE[j]) * s[j])
    for name, tensor in (("exp", of_exp), ("tanh", of_tanh)):
        true = _norm(tensor)
        assert true * (1 - 1e-9) <= rows[name].at_centre <= 1.5 * true
        assert rows[name].value >= rows[name].at_centre


def _norm(tensor: Tensor) -> float:
    """The norm of a trilinear form on the plane, by a fine grid."""
    angles = torch.linspace(0, math.pi, 2001).double()
    units = torch.stack([angles.cos(), angles.sin()])
    both = torch.einsum("ijk,jb,kb->ib", tensor, units, units)  # it is symmetric in the last two
    return float(both.norm(dim=0).max())


def test_an_input_that_passes_through_is_a_row() -> None:
    bounds, at = of_map(lambda w, lam: w - 0.1 * (X.T @ torch.sigmoid(X @ w)) + lam)
    rows = by_name(map_contributions.contributions(bounds, at, "slope"))
    assert rows["w"].value == pytest.approx(1, rel=NEAR)
    assert rows["w"].note == "w itself"
    assert set(rows) == {"w", "sigmoid"}
