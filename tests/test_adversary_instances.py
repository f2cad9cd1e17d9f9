"""Problems of the adversary on which the library, or the judge, once said something false, each by its number."""

from __future__ import annotations

import pytest
from adversary.ask import ask
from adversary.generate import case_of

import boundcheck as bc

INSTANCES = {
    107453: "a stop-gradient in one entry of λ, beside another in which Φ is 1e6 times as steep",
    107941: "W at a computed w* that rounding moves by 1e-8, where Φ does not contract on the ball",
    112261: "q* and W at a computed w* that rounding moves by 1e-6, further than the slope that ascent sees explains",
    115243: "W claimed at a third of its value, where rounding leaves our own only an upper end",
    117776: "values that are not finite, where shares of a derivative are compared",
    118137: "a wrong backward in λ, where a hundred steps do not come close to w*",
    126362: "a stop-gradient in λ, where a hundred steps come close to w*, but not close enough to compare",
    127145: "∇₂E does not depend on w, and E is 1e36: the judge's own differences had no digit left",
    140668: "E is not defined beside w*: what rounding may do was NaN, and the judge took a right value for wrong",
    108573: "∂₁Φ declared symmetric, and not symmetric: the errors of AID are computed as if it were",
    500020: "exp(−1/w²) around 0, whose slope has no bound at all from the program",
    709930: "CG on a map that is symmetric but for 1e-40: the judge took a true bound from residuals for false",
    712272: "∂₁Φ declared symmetric, and symmetric but far from w*: a plan for CG was called proved",
    500800: "a ball around a w* whose existence is not proved, with constants proved around the computed one",
    813328: "r_0 claimed at a third of its value, where rounding of λ leaves our own three times too large",
    2018253: "a wrong backward that is nearly right at the start, and wrong at w*",
    9000345: "a product of data in a backward pass, rounded in float32, was taken for data: it is a derivative",
}


@pytest.mark.parametrize("number", INSTANCES, ids=lambda number: f"{number}")
def test_nothing_false_is_said_any_more(number: int) -> None:
    assert ask(number).lies == ()


def test_a_stop_gradient_beside_a_steep_entry_is_refused() -> None:
    with pytest.raises(bc.UserCodeError, match="by hparams along a direction"):
        case_of(107453).problem()


def test_a_false_declaration_of_symmetry_is_refused() -> None:
    with pytest.raises(bc.InputError, match="symmetric=True, and ∂₁Φ is not symmetric"):
        case_of(108573).problem()


def test_a_constant_at_w_star_is_exact_only_if_it_is_known_how_far_it_moves() -> None:
    W = bc.estimate_constants(case_of(107941).problem(), ball="local", budget=12)["W"]
    assert W.side is bc.Side.LOWER
    assert "how far it may move" in W.provenance.how
