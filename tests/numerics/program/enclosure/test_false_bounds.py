"""Programs of which a bound was false once, with the true values by hand."""

from collections.abc import Callable

import mpmath
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.cholesky_certificate import frobenius, spectral_norm
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY, power
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.farthest import farthest
from boundcheck.numerics.program.enclosure.intervals import Interval, norm, row_norms
from boundcheck.numerics.program.enclosure.log_sum_exp import softmax
from boundcheck.numerics.program.enclosure.map import MapBounds
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.recorded_program import Declined

Function = Callable[[Tensor, Tensor], Tensor]


def numbers(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def scalar(f: Function, w: Tensor, lam: Tensor, radius: float) -> ScalarBounds:
    return ScalarBounds(capture(f, w, lam, EXPANSIONS), w, lam, radius)


def of_map(f: Function, w: Tensor, lam: Tensor, radius: float) -> MapBounds:
    return MapBounds(capture(f, w, lam, EXPANSIONS), w, lam, radius)


def test_the_range_of_an_absolute_value_holds_its_kink() -> None:
    """|w| on [−1, 2] reaches 0, and e^(−|w|) reaches 1."""
    box = of_map(lambda w, lam: torch.exp(-w.abs()), numbers(0.5), numbers(1), 1.5).output.box
    assert float(box.hi) >= 1
    assert float(of_map(lambda w, lam: w.abs(), numbers(0.5), numbers(1), 1.5).output.box.lo) <= 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.float32])
def test_a_cast_that_rounds_or_cuts_off_is_declined(dtype: torch.dtype) -> None:
    """It was taken for the identity, so that w·trunc(w) was w²."""
    with pytest.raises(Declined, match=f"_to_copy to {dtype}"):
        scalar(lambda w, lam: (w.to(dtype).double() * w).sum(), numbers(1.5), numbers(1), 0.2)


def test_casts_between_float32_and_float64_are_taken_where_w_is_float32() -> None:
    w = torch.tensor([1.5])
    assert scalar(lambda w, lam: (w.double() * w).float().sum(), w, w, 0.2).largest == pytest.approx(2)


def test_the_matrix_of_softmax_joins_entries() -> None:
    """∂²/∂w∂λ of log(e^w + e^λ) is −¼ at 0, though no entry depends on both."""
    both = scalar(lambda w, lam: torch.logsumexp(torch.cat([w, lam]), 0), numbers(0), numbers(0), 8.0)
    assert both.cross >= 0.25


def test_the_row_of_one_entry_meets_the_remainder_of_another() -> None:
    """Of log(e^(u/10) + e^(v²/2)), ∂²/∂u∂v = −v/40 next to 0, though ∂/∂v is 0 at the centre."""
    w, lam = numbers(0, 0), numbers(1)

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return torch.logsumexp(torch.stack([w[0] / 10, w[1] ** 2 / 2]), 0)

    over = scalar(f, w, lam, 1e-3).over.curvature(("w", "w"))
    lo, slack = sum(part.lo for part in over), sum(part.slack for part in over)
    H = torch.func.hessian(f)(numbers(0, 1e-3), lam)
    assert float(torch.linalg.eigvalsh(H - lo)[0]) >= -slack


def test_softmax_of_a_wide_entry_among_small_ones() -> None:
    """Where x₁ may be 0, Σ e^x − e^(x₁) was 0 beside e^(−46); the least of the first entry is 0.018, not 1."""
    box = softmax(Interval(numbers(-50, -46), numbers(0, -46)))
    for x in (numbers(-50, -46), numbers(0, -46), numbers(-46, -46)):
        assert bool(((box.lo <= x.softmax(0)) & (x.softmax(0) <= box.hi)).all())


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e3])
def test_softmax_over_a_box(k: int, size: float) -> None:
    generator = torch.Generator().manual_seed(k)
    for _ in range(50):
        lo = size * torch.randn(k, generator=generator, dtype=torch.float64)
        hi = lo + size * torch.rand(k, generator=generator, dtype=torch.float64)
        box = softmax(Interval(lo, hi))
        for at in torch.rand(20, k, generator=generator, dtype=torch.float64).round(decimals=0):
            s = torch.softmax(lo + (hi - lo) * at, 0)
            assert bool(((box.lo <= s) & (s <= box.hi)).all())


def test_a_group_of_one_entry_bends_nothing() -> None:
    """log e^w = w; the bound of its third derivative, taken with its sign, made less of that of −w³."""
    one = scalar(lambda w, lam: torch.logsumexp(w[None], 0).sum() - (w**3).sum(), numbers(0), numbers(1), 1.0)
    assert one.third >= 6
    two = of_map(lambda w, lam: torch.logsumexp(w[None], 0) - w**2 / 4, numbers(0), numbers(1), 2.0)
    assert two.bend >= 0.5


def test_a_third_derivative_that_overflows_is_not_zero() -> None:
    bounds = scalar(lambda w, lam: ((1e110 * w) ** 3).sum(), numbers(1e-110), numbers(1), 1e-110)
    assert bounds.third == float("inf")


def test_numbers_whose_squares_vanish_have_a_norm() -> None:
    assert norm(numbers(1e-170, 1e-170)) >= 1.4e-170
    assert float(row_norms(numbers(1e-170, 0)[:, None])) >= 1e-170
    assert frobenius(numbers(1e-170, 1e-170)[:, None]) >= 1.4e-170


def test_numbers_next_to_overflow_are_no_error() -> None:
    assert scalar(lambda w, lam: (1e308 * w**2).sum(), numbers(0.1), numbers(1), 0.1).largest == float("inf")
    assert spectral_norm(numbers(1.5e308)[:, None]) >= 1.5e308


@pytest.mark.parametrize("x", [8.0, 11.3, 24.80039724079494])
def test_the_rounding_of_an_exponent_is_in_the_range(x: float) -> None:
    """e^(−x²) rounds by x² units of its value."""
    with mpmath.workdps(40):
        slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(mpmath.mpf(x) ** 2))
        for order, true in enumerate((slope, -2 * x * slope), 1):
            found = ELEMENTARY["erf"].jet(Interval(numbers(x), numbers(x)))[order]
            assert float(found.lo) <= true <= float(found.hi)


def test_softplus_beyond_its_threshold() -> None:
    """PyTorch returns x beyond 20: declined at the centre, and said where the ball reaches there."""

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return torch.nn.functional.softplus(w).sum()

    with pytest.raises(Declined, match="softplus beyond its threshold of 20"):
        scalar(f, numbers(20.5), numbers(1), 0.1)
    assert not scalar(f, numbers(19), numbers(1), 0.5).over.enclosures.notes
    assert scalar(f, numbers(19), numbers(1), 1.5).over.enclosures.notes
    with pytest.raises(Declined, match="threshold of 5"):
        scalar(lambda w, lam: torch.nn.functional.softplus(w, 2.0, 5.0).sum(), numbers(3), numbers(1), 0.1)


def test_softplus_with_a_low_threshold_is_declined_where_it_jumps() -> None:
    """With threshold 1 value and slope jump by 0.3 there, which is not rounding."""
    with pytest.raises(Declined, match="crosses its threshold of 1"):
        scalar(lambda w, lam: torch.nn.functional.softplus(10 * w, 1.0, 1.0).sum(), numbers(0.05), numbers(1), 0.5)


def test_binary_cross_entropy_next_to_its_edges() -> None:
    """PyTorch bounds x(1 − x) by 1e-12 in the derivative: at σ(−40) it is 4e-6, and not 1."""
    y = torch.ones(1, dtype=torch.float64)

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy(torch.sigmoid(w), y)

    with pytest.raises(Declined, match="next to 0 or 1"):
        scalar(f, numbers(-40), numbers(1), 1.0)
    assert scalar(f, numbers(-2), numbers(1), 1.0).gradient >= float(torch.sigmoid(numbers(3)))


@pytest.mark.parametrize("y", [[0.0, 1.0], [0.1, 0.7]])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_binary_cross_entropy_has_its_derivatives(y: list[float], reduction: str) -> None:
    target, weight = numbers(*y), numbers(0.3, 2)

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy(torch.sigmoid(w), target, weight, reduction=reduction)

    w = numbers(0.4, -0.3)
    bounds, H = scalar(f, w, numbers(1), 0.0), torch.func.hessian(f)(w, numbers(1))
    assert bounds.gradient == pytest.approx(float(torch.func.grad(f)(w, numbers(1)).norm()), rel=1e-9)
    assert bounds.largest == pytest.approx(float(torch.linalg.eigvalsh(H)[-1]), rel=1e-9)


def test_numbers_of_an_expansion_are_not_rounded_to_float32() -> None:
    """1 − y and the sum of weights are in float64: in float32 they change bounds by 1e-8."""
    w, y, weight = torch.tensor([0.4, -0.3]), torch.tensor([0.1, 0.7]), torch.tensor([0.1, 0.7])

    def bce(w: Tensor, lam: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(w, y, pos_weight=weight)

    def nll(w: Tensor, lam: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(torch.stack([w, -w]), torch.tensor([0, 1]), weight)

    for f in (bce, nll):
        bounds = scalar(f, w, w, 0.0)
        y, weight, exact = y.double(), weight.double(), w.double()
        slope = torch.func.grad(f)(exact, exact)
        y, weight = y.float(), weight.float()
        assert bounds.gradient == pytest.approx(float(slope.norm()), rel=1e-12)


@pytest.mark.parametrize("index", [[0, 2], [True, False, True]])
def test_selections_by_data_are_recorded(index: list[int] | list[bool]) -> None:
    """A shape that depends on data is the same at every w; one that depends on w is declined."""
    bounds = scalar(lambda w, lam: (w[torch.tensor(index)] ** 2).sum(), numbers(1, 5, 2), numbers(1), 0.0)
    assert bounds.gradient == pytest.approx(2 * 5**0.5)
    with pytest.raises(Declined, match="index"):
        scalar(lambda w, lam: w[w.argsort()].sum(), numbers(1, 5, 2), numbers(1), 0.0)


def test_a_factor_that_is_given_by_its_place_counts() -> None:
    """`rsub` with a number takes alpha as its third argument, and it was left out: (2 − 3w)³ was (2 − w)³."""
    bounds = scalar(lambda w, lam: (torch.rsub(w, 2.0, alpha=3) ** 3).sum(), numbers(0), numbers(1), 0.0)
    assert bounds.third == pytest.approx(162)


@pytest.mark.parametrize("join", [torch.cat, torch.stack, lambda xs: torch.where(torch.tensor([True, False]), *xs)])
def test_whole_numbers_beside_w_are_numbers(join: Callable[[list[Tensor]], Tensor]) -> None:
    """They entered the derivatives as if they were multiplied with w."""
    bounds = of_map(lambda w, lam: join([w, torch.tensor([3, 4])]), numbers(1, 2), numbers(1), 0.5)
    assert bounds.slope == pytest.approx(1)


def test_the_rounding_of_an_exponent_of_a_power_is_no_matter() -> None:
    """0.3 − 1 rounds, and x^(0.3 − 1) with it: by 200 units at 1e-200."""
    assert not power(0.3).jet(Interval(numbers(1e-200), numbers(1e-200)))[1].hi.isfinite()
    assert power(0.5).jet(Interval(numbers(1e-200), numbers(1e-200)))[1].hi.isfinite()


def test_no_error_of_arithmetic_reaches_the_user() -> None:
    with pytest.raises(Declined, match=r"aten.pow"):
        scalar(lambda w, lam: (w ** float("inf")).sum(), numbers(0.5), numbers(1), 0.1)


def test_a_hessian_that_is_rounding_of_zero_divides_nothing() -> None:
    """‖H‖² was 0 where ‖H‖ was 1e-200, and the least τ above it 0 as well."""
    H, g = 1e-200 * torch.eye(2, dtype=torch.float64), numbers(3, 4)
    assert 5 <= farthest(H, g, 1.0) <= 5 * (1 + 1e-9)


def test_the_square_of_a_norm_is_smooth_at_zero() -> None:
    bounds = scalar(lambda w, lam: w.norm() ** 2 * lam.sum(), numbers(0, 0), numbers(1), 1.0)
    assert bounds.largest == pytest.approx(2)
    assert bounds.third <= 1e-9


@pytest.mark.parametrize("f", [lambda w: w.norm() ** 3, lambda w: w.norm(1) ** 2, lambda w: w.sum().sqrt() ** 2])
def test_what_looks_like_the_square_of_a_norm_is_not_taken_for_it(f: Callable[[Tensor], Tensor]) -> None:
    assert scalar(lambda w, lam: f(w) * lam.sum(), numbers(0, 0), numbers(1), 1.0).largest == float("inf")


def test_an_entry_that_may_cease_to_be_the_largest_is_declined() -> None:
    """max(w₁, w₂) is w₁ at (1, 0), and bends as soon as the ball reaches the other."""
    near = scalar(lambda w, lam: w.amax() ** 2 * lam.sum(), numbers(1, 0), numbers(1), 0.4)
    assert near.largest == pytest.approx(2)
    with pytest.raises(Declined, match="largest or least entry changes"):
        scalar(lambda w, lam: w.amax() ** 2 * lam.sum(), numbers(1, 0), numbers(1), 0.6)
    with pytest.raises(Declined, match=r"aten.argmax has no rule"):
        scalar(lambda w, lam: (w.max(0)[1] * w).sum(), numbers(1, 0), numbers(1), 0.1)


def test_waves_over_many_periods() -> None:
    """sin over an interval that holds a maximum or a minimum between its ends."""
    for lo, hi in ((1.0, 2.0), (4.0, 5.0), (0.1, 100.0), (1e5, 1e5 + 1), (-2.0, -1.0)):
        for name, f in (("sin", mpmath.sin), ("cos", mpmath.cos)):
            box = ELEMENTARY[name].jet(Interval(numbers(lo), numbers(hi)))[0]
            values = [float(f(lo + (hi - lo) * i / 999)) for i in range(1000)]
            assert float(box.lo) <= min(values)
            assert float(box.hi) >= max(values)
            assert float(box.hi) - float(box.lo) <= max(values) - min(values) + 1e-2


@pytest.mark.parametrize("alpha", [-2.0, 0.5])
def test_a_factor_of_index_add_is_declined(alpha: float) -> None:
    """Sizes would go through it with its sign."""
    with pytest.raises(Declined, match="index_add with alpha"):
        scalar(lambda w, lam: w.index_add(0, torch.tensor([0]), w[1:], alpha=alpha).sum(), numbers(1, 2), numbers(1), 0)


def test_a_mask_of_minus_infinity_is_not_bounded_by_nonsense() -> None:
    """The rules have no finite numbers for −∞; what they say is infinite."""
    mask = torch.full((2, 2), -torch.inf, dtype=torch.float64).triu(1)
    bounds = scalar(lambda w, lam: torch.softmax(torch.outer(w, w) + mask, 1)[1, 0], numbers(1, 2), numbers(1), 0.1)
    assert bounds.largest == float("inf")


def test_a_slope_without_any_bound_is_infinite() -> None:
    """Of e^(−1/w²) around 0 every way to bound it ends in no number, and that was an error."""
    assert of_map(lambda w, lam: torch.exp(-1 / w**2), numbers(0, 0.1), numbers(1), 0.5).slope == float("inf")


def test_softplus_of_a_negative_beta_is_cut_off_at_its_lower_end() -> None:
    with pytest.raises(Declined, match="crosses its threshold"):
        scalar(lambda w, lam: F.softplus(w, beta=-1.0, threshold=1.0).sum(), numbers(0), numbers(1), 2.0)
    with pytest.raises(Declined, match="at the centre"):
        scalar(lambda w, lam: F.softplus(w, beta=-1.0, threshold=1.0).sum(), numbers(-2), numbers(1), 0.1)
