"""What an audit says of how far off a hypergradient is, against the truth; and what it says where little is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import audit_truth
import pytest
import torch
from strangers import MAKERS, equilibrium, normal, ridge

import boundcheck as bc
from boundcheck.side import Side

F64 = torch.float64


@pytest.mark.parametrize("piece", range(2))
def test_it_says_nothing_false_of_problems_with_70_digits(piece: int) -> None:
    """`benchmarks/audit_truth.py` asks the same of as many problems as one likes."""
    tally = audit_truth.run(range(20 * piece, 20 * piece + 20))
    assert not tally.lies, tally.text()
    assert not tally.accusations, tally.text()
    assert tally.asked["answered"] >= 12
    assert tally.judged["error, proved"] >= 10


@pytest.mark.parametrize("name", MAKERS)
def test_numbers_against_dense_matrices(name: str) -> None:
    s = MAKERS[name]()
    g = s.gradient + 0.3 * normal(7, s.problem.n) * s.gradient.norm() / math.sqrt(s.problem.n)
    found = bc.audit(s.problem, g)
    error, size = float((g - s.gradient).norm()), float(s.gradient.norm())
    assert found.error.lower <= error * (1 + 1e-12)
    assert error <= found.error.upper * (1 + 1e-12)
    assert found.relative_error == pytest.approx(error / size, rel=1e-9)
    cosine = float(g @ s.gradient / g.norm() / s.gradient.norm())
    assert found.angle == pytest.approx(math.degrees(math.acos(min(1.0, cosine))), abs=1e-5)
    assert found.descent is (cosine > 0)
    assert found.proved
    assert str(found) == found.message


def test_structures_arrays_and_results_are_the_same_to_it() -> None:
    s = ridge()
    h = bc.hypergradient(s.problem, "aid-cg", t=5, k=2)
    flat = bc.audit(s.problem, h.value, h.w, h.v)
    for other in (
        bc.audit(s.problem, h),
        bc.audit(s.problem, {"log_l2": h.value}, {"w": h.w}, v={"w": h.v}),
        bc.audit(s.problem, h.value.numpy(), h.w.numpy(), h.v.numpy()),
    ):
        assert (other.message, other.relative_error) == (flat.message, flat.relative_error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"g": torch.ones(5, dtype=F64)}, r"g has shape \(5,\); give shape \(6,\)"),
        ({"g": torch.ones(6)}, "g is torch.float32 on cpu and the problem torch.float64 on cpu; convert"),
        ({"g": torch.full((6,), math.nan, dtype=F64)}, "g has entries that are not finite"),
        ({"g": None}, "g is None; give the hypergradient"),
        ({"g": [1.0]}, r"g\[0\] is a float"),
        ({"g": torch.ones(6, dtype=F64), "w": torch.ones(2, dtype=F64)}, r"w has shape \(2,\)"),
        ({"g": torch.ones(6, dtype=F64), "v": torch.full((6,), math.inf, dtype=F64)}, "v has entries that are not"),
        ({"g": torch.ones(6, dtype=F64), "lam": torch.ones(3, dtype=F64)}, r"lam has shape \(3,\)"),
        (
            {"g": torch.ones(6, dtype=F64), "previous": torch.ones(3, dtype=F64)},
            r"previous as lam: lam has shape \(3,\)",
        ),
    ],
)
def test_bad_input_gets_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(bc.InputError, match=message) as caught:
        bc.audit(equilibrium().problem, **arguments)
    assert "\n" not in str(caught.value)


def test_another_device_gets_one_line() -> None:
    with pytest.raises(bc.InputError, match=r"g is torch\.float64 on meta and the problem torch\.float64 on cpu"):
        bc.audit(equilibrium().problem, torch.ones(6, dtype=F64, device="meta"))
    with pytest.raises(bc.InputError, match=r"g has shape \(6,\)"):
        bc.audit("lr", torch.ones(6))


def four(function: Callable[..., torch.Tensor], outer: Callable[..., torch.Tensor]) -> bc.Problem:
    return bc.Problem.from_map(function, outer, torch.zeros(4, dtype=F64), torch.linspace(0.1, 1, 4, dtype=F64))


def test_a_map_that_does_not_contract_has_an_answer() -> None:
    """w = −2w + sin w + λ has one solution, which iterates run away from."""
    problem = four(lambda w, lam: -2 * w + w.sin() + lam, lambda w, lam: (w**2).sum() + (lam * w).sum())
    g = bc.hypergradient(problem, "exact").value
    assert bc.audit(problem, g).descent is True
    assert bc.audit(problem, -g).fault == "sign"


def test_a_kink_at_the_solution_makes_it_an_estimate() -> None:
    """relu at 0, where w* is for λ = 0; a kink that is elsewhere does not matter."""
    lam = torch.linspace(0, 1, 4, dtype=F64)
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w.relu() + lam, lambda w, lam: (w - 1).abs().sum(), torch.zeros(4, dtype=F64), lam
    )
    assert bc.audit(problem.at(lam + 0.1), bc.hypergradient(problem, "exact", lam=lam + 0.1)).proved
    g = bc.hypergradient(problem, "exact").value
    found = bc.audit(problem, 2 * g)
    assert (found.fault, found.error.side, found.proved) == ("scale", Side.LOWER, False)
    assert "These numbers are estimates" in found.message


def test_what_nothing_certifies_is_an_estimate(without_program: None) -> None:
    """`enclose` refuses this; an audit compares with the reference all the same, and says so."""
    one = torch.ones(1, dtype=F64)
    problem = bc.Problem.from_map(lambda w, lam: torch.cos(w * 1.1) + lam, lambda w, lam: w.sum(), 0 * one, 0 * one)
    g = bc.hypergradient(problem, "exact").value
    with pytest.raises(bc.AssumptionError):
        bc.enclose(problem, g)
    found = bc.audit(problem, -g)
    assert (found.fault, found.descent, found.error.side) == ("sign", False, Side.LOWER)
    assert "nothing certifies the reference" in found.message
    assert float(found.error.upper) == pytest.approx(2 * float(g.abs()), rel=1e-9)


def test_whatever_keeps_it_from_a_proof_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where ∂₁Φ is not finite at some point of a ball, and the reference is all right."""

    def refuses(*arguments: object) -> None:
        raise bc.InputError("∂₁Φ is not finite somewhere")

    monkeypatch.setattr("boundcheck.trust.audit.certified_reference", refuses)
    s = ridge()
    found = bc.audit(s.problem, s.gradient / 2)
    assert (found.fault, found.error.side) == ("scale", Side.LOWER)


def test_the_digits_of_a_w_that_g_does_not_come_from_are_no_fault() -> None:
    """A module holds float32 numbers at the start, whatever g was computed with."""
    s = ridge()
    g = s.gradient * (1 + 2e-7 * normal(3, s.problem.n))
    start = normal(5, s.problem.d).float().double()
    assert bc.audit(s.problem, g, w=start).fault != "precision"


@pytest.mark.parametrize("scale", [1e-320, 1e308, 1e200])
def test_a_g_whose_squares_are_no_numbers_is_not_accused_of_a_sign(scale: float) -> None:
    s = ridge()
    found = bc.audit(s.problem, s.gradient * scale)
    assert found.fault in (None, "scale")
    assert found.error.upper >= float(s.gradient.abs().max()) * min(scale, 1)


def test_noise_is_told() -> None:
    problem = four(lambda w, lam: 0.5 * w + lam + 1e-3 * torch.randn_like(w), lambda w, lam: (w**2).sum())
    with pytest.raises(bc.InputError, match="it is stochastic; fix its random numbers"):
        bc.audit(problem, torch.ones(4, dtype=F64))


def test_no_fixed_point_is_told() -> None:
    problem = four(lambda w, lam: w + 1 + lam, lambda w, lam: (w**2).sum())
    with pytest.raises(bc.DivergenceError, match=r"no fixed point|singular"):
        bc.audit(problem, torch.ones(4, dtype=F64))


def test_where_the_gradient_is_zero_there_is_no_relative_error() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: 0.5 * w + lam, lambda w, lam: (w**2).sum(), torch.zeros(2, dtype=F64), torch.zeros(2, dtype=F64)
    )
    found = bc.audit(problem, torch.ones(2, dtype=F64))
    assert found.relative_error == math.inf
    assert (found.descent, found.fault) == (None, None)
    assert "∇f may be 0" in found.message
    assert float(found.error.upper) == pytest.approx(math.sqrt(2))


def test_more_states_than_dense_matrices_are_for() -> None:
    d = 2500
    data = normal(3, d)
    problem = bc.Problem.from_loss(
        lambda w, lam: ((w - data) ** 2).sum() / 2 + 0.5 * (lam.exp().repeat(d // 5) * w**2).sum(),
        lambda w, lam: ((w - 0.5) ** 2).sum() / d + 0.1 * (lam**2).sum(),
        torch.zeros(d, dtype=F64), torch.linspace(-1, 1, 5, dtype=F64), step_size=0.2,
    )  # fmt: skip
    h = bc.hypergradient(problem, "exact")
    assert bc.audit(problem, h).fault is None
    assert bc.audit(problem, -h.value).fault == "sign"
    assert bc.audit(problem, bc.hypergradient(problem, "itd", t=4).value).fault == "inner"


def test_assert_hypergradient() -> None:
    s = ridge()
    found = bc.assert_hypergradient(s.problem, s.gradient, rtol=1e-9)
    assert found is not None
    assert found.fault is None
    with pytest.raises(AssertionError, match=r"ridge: not within rtol = 0.01. g is 200% off .*Return −g") as caught:
        bc.assert_hypergradient(s.problem, -s.gradient)
    assert "\n" not in str(caught.value)
    assert bc.assert_hypergradient(s.problem, -s.gradient, raise_exception=False) is None
    off = s.gradient + 0.005 * s.gradient.norm() * torch.eye(5, dtype=F64)[0]
    assert bc.assert_hypergradient(s.problem, off)
    with pytest.raises(AssertionError, match=r"not within rtol = 0\.001"):
        bc.assert_hypergradient(s.problem, off, rtol=1e-3)
    assert bc.assert_hypergradient(s.problem, off, rtol=0, atol=float(s.gradient.norm()) * 0.0051)
    old = s.problem.lam - 0.3
    assert bc.assert_hypergradient(s.problem, bc.hypergradient(s.problem, "exact", lam=old), lam=old)
    for bad in (-1.0, math.nan, "1", True):
        with pytest.raises(bc.InputError, match=r"rtol = .* is not a tolerance"):
            bc.assert_hypergradient(s.problem, off, rtol=bad)  # type: ignore[arg-type]
