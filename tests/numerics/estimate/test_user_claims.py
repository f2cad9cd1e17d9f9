"""Constants that the user vouches for: kept and used, unless what is found contradicts them."""

from __future__ import annotations

import pytest
import torch
from black_boxes import quadratic, tanh

import boundcheck as bc
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.numerics.estimate import user_claims
from boundcheck.side import Side


def test_claims_are_kept_unless_they_are_refuted() -> None:
    problem = quadratic()
    claimed = Constants.given(q=0.5, L=10.0, side="upper")
    found = bc.estimate_constants(problem, known=claimed)
    assert found["q"].value == pytest.approx(0.6)
    assert found["q"].side is Side.EXACT
    assert "given as at most 0.5, but 0.6 was found" in found["q"].provenance.how
    assert (found["L"].value, found["L"].side) == (10.0, Side.UPPER)


def test_claims_from_below_and_exact_ones_are_checked_too() -> None:
    """μ = 1 and η₁ = 1: more convex than it is, and an exact value that is not."""
    claimed = Constants.given(mu=1.5, eta_1=0.9, L=4.0, sides={"mu": "lower"})
    found = bc.estimate_constants(quadratic(), known=claimed)
    assert found["mu"].value == pytest.approx(1)
    assert "given as at least 1.5, but 1 was found" in found["mu"].provenance.how
    assert found["eta_1"].value == pytest.approx(1)
    assert "given as 0.9, but 1 was found" in found["eta_1"].provenance.how
    assert found["L"].provenance.how == "given by the user"


def test_with_high_probability_is_a_claim_too() -> None:
    """From above for q = 0.6, from below for μ = 1; neither is so."""
    likely = Provenance("a paper", delta=0.01)
    claimed = Constants({c.name: c for c in (Constant("q", 0.5, "high-probability", likely),
                                             Constant("mu", 1.5, "high-probability", likely),
                                             Constant("L", 4.5, "high-probability", likely))})  # fmt: skip
    found = bc.estimate_constants(quadratic(), known=claimed)
    assert "given as at most 0.5, but 0.6 was found" in found["q"].provenance.how
    assert "given as at least 1.5, but 1 was found" in found["mu"].provenance.how
    assert found["L"].provenance.how == "a paper"


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("side", ["upper", "exact", "high-probability"])
def test_distances_are_as_good_as_the_q_that_is_given(side: str) -> None:
    """Ascent alone would not certify them; a q that is too small, or only a lower bound, does not either."""
    claim = Constant("q", 0.9, side, Provenance("by hand", delta=0.01))
    found = bc.estimate_constants(tanh(), budget=300, known=Constants({"q": claim}))
    expected = Side.HIGH_PROBABILITY if side == "high-probability" else Side.UPPER
    assert found["D"].side is found["r_0"].side is expected
    assert found["D"].provenance.delta == (0.01 if side == "high-probability" else found["D"].provenance.delta)


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("known", [Constants.given(q=0.8, side="upper"), Constants.given(q=0.9, side="lower")])
def test_no_distance_follows_from_a_q_that_is_refuted_or_a_lower_bound(known: Constants) -> None:
    found = bc.estimate_constants(tanh(), budget=300, known=known)
    assert found["D"].side is found["r_0"].side is Side.LOWER


def test_a_step_that_float32_rounds_is_enclosed() -> None:
    """The Hessian is 4 whatever the step, which (h + 1e6) − 1e6 makes 0.125 instead of 0.156 in float32."""
    start = torch.tensor([3.0])
    problem = bc.Problem.from_loss(
        lambda w, h: ((2 * w - h) ** 2).sum() / 2, lambda w, h: ((w - 1) ** 2).sum() / 2, start,
        torch.tensor([0.156]), step_size=lambda h: ((h + 1e6) - 1e6).sum(),
    )  # fmt: skip
    found = bc.estimate_constants(problem, known=Constants.given(mu=4.0, L=4.0), budget=50)
    assert found["mu"].value == found["L"].value == 4
    assert not found["mu"].provenance.refuted
    assert found["alpha"].side is not Side.EXACT


@pytest.mark.parametrize("side", ["upper", "exact"])
def test_a_value_at_one_point_that_rounding_hides_is_not_believed(side: str) -> None:
    """r_0 is proved to be at most 0.63, and nothing that was computed says whether it is at most 0.066."""
    ours = {name: Constant(name, 0.63, "upper", Provenance("a proof")) for name in ("r_0", "q")}
    claimed = Constants.given(r_0=0.066, q=0.066, side=side)
    found = user_claims.settle(ours, claimed, (), 1e-9, ("r_0",))
    assert (found["r_0"].value, found["r_0"].side) == (0.63, Side.UPPER)
    assert "0.066, which cannot be confirmed: rounding leaves at most 0.63" in found["r_0"].provenance.refuted
    assert found["q"] == claimed["q"]  # a supremum, of which samples have the say


def test_a_claim_within_rounding_of_a_proof_is_kept() -> None:
    ours = {"r_0": Constant("r_0", 0.63, "upper", Provenance("a proof"))}
    claimed = Constants.given(r_0=0.63 * (1 - 1e-10))
    assert user_claims.settle(ours, claimed, (), 1e-9, ("r_0",)) == dict(claimed)


def test_mu_and_L_are_held_against_the_hessian_at_w_star() -> None:
    """ℓ'' = 2 + cos w is 3 at w* = 0; the program proves 1 ≤ ℓ'' ≤ 3 on the ball, which contradicts neither claim."""
    problem = bc.Problem.from_loss(
        lambda w, lam: (w * w - torch.cos(w) - lam * w).sum(), lambda w, lam: ((w - 1) ** 2).sum(),
        torch.full((1,), 3.0, dtype=torch.float64), torch.zeros(1, dtype=torch.float64), step_size=0.25,
    )  # fmt: skip
    known = Constants.given(mu=3.5, L=2.5, sides={"mu": "lower", "L": "upper"})
    found = bc.estimate_constants(problem, ball="local", known=known, budget=12)
    assert "given as at least 3.5, but 3 was found" in found["mu"].provenance.refuted
    assert "given as at most 2.5, but 3 was found" in found["L"].provenance.refuted


def test_known_must_be_constants() -> None:
    with pytest.raises(bc.InputError, match=r"known is a dict; give bc\.Constants\.given"):
        bc.Problem.from_map(
            lambda w, lam: w / 2 + lam, lambda w, lam: w.sum(), torch.zeros(1), torch.ones(1), known={"q": 0.6}
        )
