"""What is known of an error from both sides, of hypergradients from anywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from small import small

import boundcheck as bc
from boundcheck.compare.enclose import enclosed
from boundcheck.constants import Constant, Provenance
from boundcheck.report import report_json
from boundcheck.side import Side

METHODS = ["itd", "aid-fp", "aid-cg"]


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_it_is_within_ten_times_the_error_at_every_t(name: str) -> None:
    """At small sizes here, at the paper's in docs/tightness.md."""
    report = bc.check(small(name), METHODS, t=40)
    for method, curve in report.curves.items():
        result = report.enclosure(method)
        assert result.side is Side.UPPER
        assert (result.lower <= curve.errors).all()
        assert (curve.errors <= result.upper).all()
        above = curve.errors > 10 * curve.floor
        assert above.sum() >= 15
        assert (result.ratio[above] < 10).all()


def test_several_lambdas_have_their_own_certificates() -> None:
    report = bc.check(small("lr"), ["itd"], t=5, samples=3, seed=1)
    eps = [c.value for c in report.certificates if c is not None]
    assert len(set(eps)) == 3
    np.testing.assert_allclose(report.enclosure("itd").upper, report.curve("itd").errors + np.array(eps)[:, None])
    assert report_json.from_json(json.loads(json.dumps(report.to_json()))).certificates == report.certificates


def test_of_a_vector_from_elsewhere() -> None:
    """Central differences of f, to the accuracy that they have."""
    problem = small("krr")
    f = []
    for sign in (1, -1):
        moved = problem.lam.clone()
        moved[0] += sign * 1e-4
        w = bc.hypergradient(problem, "exact", lam=moved).w
        f.append(float(problem.outer_at(w, problem.prepare(moved))))
    g = bc.hypergradient(problem, "exact").value.clone()
    assert bc.enclose(problem, g).upper < 1e-6
    g[0] = (f[0] - f[1]) / 2e-4
    assert bc.enclose(problem, g).upper < 1e-3 * float(g.norm())
    g[0] += 1
    result = bc.enclose(problem, g)
    assert result.lower == pytest.approx(1, abs=1e-2)
    assert result.upper == pytest.approx(1, abs=1e-2)
    assert result.lower <= result.upper


def test_of_a_hypergradient_at_another_lambda() -> None:
    problem = small("br")
    lam = problem.lam + 1.0
    g = bc.hypergradient(problem, "itd", t=10, lam=lam)
    exact = bc.hypergradient(problem, "exact", lam=lam).value
    result = bc.enclose(problem, g, lam=lam)
    assert result.lower <= float((g.value - exact).norm()) <= result.upper
    assert bc.enclose(problem, g).lower > 2 * result.upper  # it belongs to the other one


def test_structures_of_the_user() -> None:
    problem = bc.Problem.from_map(
        lambda w, h: [0.5 * w[0] + h["a"]], lambda w, h: (w[0] ** 2).sum() / 2, [torch.zeros(2, dtype=torch.float64)],
        {"a": torch.ones(2, dtype=torch.float64)}, symmetric=True,
    )  # fmt: skip
    result = bc.enclose(problem, {"a": torch.tensor([4.0, 4.0], dtype=torch.float64)})  # w = 2a, ∇f = 4a
    assert result.upper < 1e-12
    with pytest.raises(bc.InputError, match="g has shape"):
        bc.enclose(problem, bc.hypergradient(bc.load_problem("scalar"), "itd", t=2))
    with pytest.raises(bc.InputError, match="known = 3"):
        bc.enclose(problem, problem.lam, known=3)
    with pytest.raises(bc.InputError, match="g has"):
        bc.enclose(problem, {"b": torch.ones(2, dtype=torch.float64)})


def test_without_a_certificate(without_program: None) -> None:
    """Of a map that does not contract by what is known, nothing certifies the reference."""
    one = torch.ones(1, dtype=torch.float64)
    problem = bc.Problem.from_map(lambda w, lam: torch.cos(w * 1.1) + lam, lambda w, lam: w.sum(), 0 * one, 0 * one)
    g = bc.hypergradient(problem, "exact")
    with pytest.raises(bc.AssumptionError, match="cannot be certified"):
        bc.enclose(problem, g)


def test_what_is_not_known_is_said() -> None:
    gaps = np.array([[1.0, np.inf], [1.0, 2.0]])
    result = enclosed(gaps, [Constant("eps_g", 0.5, Side.HIGH_PROBABILITY, Provenance("", delta=0.1)), None])
    np.testing.assert_array_equal(result.lower, [[0.5, np.inf], [0, 0]])
    np.testing.assert_array_equal(result.upper, [[1.5, np.inf], [np.inf, np.inf]])
    assert result.side is Side.LOWER


def test_it_is_no_bound_to_choose() -> None:
    with pytest.raises(bc.InputError, match="part of every report"):
        bc.check(small("br"), ["itd"], t=2, bounds=["enclosure"])
