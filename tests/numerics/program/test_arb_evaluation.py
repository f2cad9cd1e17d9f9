"""Programs evaluated with arb balls, against autograd for every operation and against mpmath with 50 digits."""

from __future__ import annotations

from collections.abc import Callable

import enclosure_cases as cases
import mpmath
import pytest
import torch
from enclosed import around
from enclosure_cases import Case
from torch import Tensor

from boundcheck.numerics.program import arb_evaluation as evaluation
from boundcheck.numerics.program import arb_numbers
from boundcheck.numerics.program.arb_evaluation import Gradient
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.recorded_program import Declined

Function = Callable[[Tensor, Tensor], Tensor]
TABLES = (cases.MOVES, cases.SUMS, cases.ELEMENTARY, cases.CHAINS, cases.PRODUCTS, cases.LOG_SUM_EXP, cases.EXPANSIONS)
ALL = [case for table in TABLES for case in table]
NO_RULE = {"cumsum", "trace", "avg_pool2d", "_adaptive_avg_pool2d", "convolution", "huber_loss", "smooth_l1_loss"}
NO_RULE |= {"binary_cross_entropy", "leaky_relu", "hardtanh", "elu", "celu"}
NO_RULE |= {"max", "amax", "min", "amin", "index_add", "scatter_add", "im2col", "index_put sum"}
RECORDED_AS = {"max": "amax", "min": "amin", "index_put": "index_add"}


def random(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def numbers(jet_array: object) -> Tensor:
    return torch.tensor([float(ball) for ball in jet_array.reshape(-1)], dtype=torch.float64)  # type: ignore[attr-defined]


def evaluated(f: Function, w: Tensor, lam: Tensor, along: Tensor | None = None, every: bool = True) -> Gradient:
    with arb_numbers.precision():
        return evaluation.gradient(capture(f, w, lam, EXPANSIONS, every=every), w, lam, seed=None, along=along)


@pytest.mark.parametrize("case", [case for case in ALL if not {case.name, case.id} & NO_RULE], ids=lambda case: case.id)
def test_derivatives_are_those_of_autograd(case: Case) -> None:
    """Up to the rounding of autograd, which adds a few hundred numbers of size below 1000."""
    f = around(case, 3, torch.float64, bent=True, scalar=True)
    w, lam, v = random(1, 3), random(2, 2), random(4, 3)
    result = evaluated(f, w, lam, v, every=False)
    (by_w, by_lam), (w_along, lam_along) = torch.func.jvp(
        lambda w: torch.func.grad(f, argnums=(0, 1))(w, lam), (w,), (v,)
    )
    pairs = (
        (result.output.value, f(w, lam)), (result.by_w.value, by_w), (result.by_lam.value, by_lam),
        (result.by_w.tangent, w_along), (result.by_lam.tangent, lam_along),
    )  # fmt: skip
    for ours, theirs in pairs:
        assert float((numbers(ours) - theirs.reshape(-1)).norm()) <= 1e-9 * (1 + float(theirs.norm()))


@pytest.mark.parametrize("case", [case for case in ALL if {case.name, case.id} & NO_RULE], ids=lambda case: case.id)
def test_an_operation_without_a_rule_is_named(case: Case) -> None:
    f = around(case, 3, torch.float64, bent=False, scalar=True)
    with pytest.raises(Declined, match=f"aten.{RECORDED_AS.get(case.name, case.name)}.* rule.* for balls"):
        evaluated(f, random(1, 3), random(2, 2), every=False)


X, y = random(5, 6, 3), random(6, 6).sign()


def logistic(w: Tensor, lam: Tensor) -> Tensor:
    return torch.nn.functional.softplus(-y * (X @ w)).sum() + (lam.exp() * w**2).sum() / 2


def logistic_slope(w: Tensor, lam: Tensor) -> list[mpmath.mpf]:
    """∇₁ of it, in the precision of mpmath."""
    w_, lam_ = ([mpmath.mpf(x) for x in t.tolist()] for t in (w, lam))
    slope = [mpmath.exp(b) * x for b, x in zip(lam_, w_, strict=True)]
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        margin = mpmath.fsum(mpmath.mpf(a) * b for a, b in zip(row, w_, strict=True))
        weight = -label / (1 + mpmath.exp(label * margin))
        slope = [s + weight * mpmath.mpf(a) for s, a in zip(slope, row, strict=True)]
    return slope


def holds(ball: object, truth: mpmath.mpf, width: float) -> bool:
    """Is the truth in the ball, and the ball narrow? A ball is written exactly as m·2^e."""
    (mid, exponent), (rad, at) = ball.mid().man_exp(), ball.rad().man_exp()  # type: ignore[attr-defined]
    middle = mpmath.ldexp(mpmath.mpf(int(mid)), int(exponent))
    radius = mpmath.ldexp(mpmath.mpf(int(rad)), int(at))
    return bool(abs(truth - middle) <= radius <= width)


def test_a_gradient_has_thirty_digits() -> None:
    w, lam = random(7, 3), random(8, 3)
    result = evaluated(logistic, w, lam)
    with mpmath.workdps(50):
        truth = logistic_slope(w, lam)
        assert result.by_w is not None
        assert all(holds(ball, t, 1e-30) for ball, t in zip(result.by_w.value, truth, strict=True))


def test_numbers_that_are_computed_from_data_are_exact() -> None:
    """0.1·X is the product of two stored numbers, and not what float64 makes of it."""
    w, lam = random(7, 3), random(8, 3)
    result = evaluated(lambda w, lam: (w * (0.1 * X[0] / 3) * lam).sum(), w, lam)
    with mpmath.workdps(50):
        truth = [
            mpmath.mpf(0.1) * mpmath.mpf(x) / 3 * mpmath.mpf(b)
            for x, b in zip(X[0].tolist(), lam.tolist(), strict=True)
        ]
        assert result.by_w is not None
        assert all(holds(ball, t, 1e-35) for ball, t in zip(result.by_w.value, truth, strict=True))


def test_a_map_and_its_products_from_the_left() -> None:
    w, lam, v = random(7, 3), random(8, 3), random(9, 6)

    def f(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(X @ (lam * w))

    with arb_numbers.precision():
        result = evaluation.gradient(capture(f, w, lam, EXPANSIONS, every=True), w, lam, seed=v, along=None)
    with mpmath.workdps(50):
        w_, lam_, v_ = ([mpmath.mpf(x) for x in t.tolist()] for t in (w, lam, v))
        inner = [
            mpmath.fsum(mpmath.mpf(a) * b * x for a, b, x in zip(row, lam_, w_, strict=True)) for row in X.tolist()
        ]
        assert all(holds(ball, mpmath.tanh(u), 1e-34) for ball, u in zip(result.output.value, inner, strict=True))
        assert result.by_w is not None
        for j, ball in enumerate(result.by_w.value):
            slopes = [mpmath.mpf(X[i, j].item()) * (1 - mpmath.tanh(u) ** 2) for i, u in enumerate(inner)]
            assert holds(ball, lam_[j] * mpmath.fsum(s * x for s, x in zip(slopes, v_, strict=True)), 1e-33)


def test_kinks_thresholds_and_domains_are_declined() -> None:
    one = torch.ones(1, dtype=torch.float64)
    for f, why in (
        (lambda w, lam: (w - 1).abs().sum(), "abs at its kink"),
        (lambda w, lam: torch.relu(w - 1).sum(), "relu at its kink"),
        (lambda w, lam: torch.nn.functional.softplus(30 * w).sum(), "softplus beyond its threshold"),
        (lambda w, lam: ((w - 1) ** 0.5).sum(), "may not be positive"),
    ):
        with pytest.raises(Declined, match=why):
            evaluated(f, one, one)


def test_an_argument_that_a_rule_does_not_know_is_declined() -> None:
    """A quotient that is rounded down is not the quotient."""
    one = torch.ones(1, dtype=torch.float64)
    with pytest.raises(Declined, match=r"aten.div: the rule for balls does not take these arguments"):
        evaluated(lambda w, lam: (w * torch.div(lam, 0.3, rounding_mode="floor")).sum(), one, one)
    with pytest.raises(Declined, match=r"to torch.float32, which is not the identity"):
        evaluated(lambda w, lam: (w * w.float().double()).sum(), one, one)


def test_too_many_numbers_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MOST", 5)
    with pytest.raises(Declined, match="too many for balls"):
        evaluated(logistic, random(7, 3), random(8, 3))


def test_a_norm_is_no_less_than_that_of_any_point() -> None:
    with arb_numbers.precision():
        ball = arb_numbers.number(3.0, 0.5)
        assert 3.5 <= arb_numbers.norm([ball]) <= 3.5 * (1 + 1e-9)
        with pytest.raises(Declined, match="radius of a number is not finite"):
            arb_numbers.number(1.0, float("inf"))
