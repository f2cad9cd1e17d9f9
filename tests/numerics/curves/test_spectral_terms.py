"""What the spectrum foretells of a run: the terms that the run then has, and bounds within ten times the error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
import user_problems as users
from small import small

import boundcheck as bc
from boundcheck.numerics.bilevel.dynamics import GRADIENT_DESCENT
from boundcheck.numerics.curves.error_curves import methods_of
from boundcheck.numerics.curves.observables import observe
from boundcheck.numerics.curves.spectral_terms import _chebyshev, _conjugate, foresee
from boundcheck.numerics.solvers.reference import reference
from boundcheck.report.verdict import Verdict

T = 30
KIND = "a priori, from the spectrum"
QUADRATIC = ("krr", "br", "hr")


@pytest.mark.parametrize("dynamics", ["gradient-descent", "heavy-ball", "nesterov"])
@pytest.mark.parametrize("name", QUADRATIC)
def test_the_run_has_the_terms_that_were_foretold(name: str, dynamics: str) -> None:
    """To what rounding does to differences of vectors with condition numbers up to 10⁴."""
    problem, ts = small(name, dynamics=dynamics), np.array([1, 2, 5, 13, T])
    result = reference(problem, problem.lam[None])
    methods = methods_of(problem, ["itd", "aid-fp", "aid-fp:3", "aid-cg", "aid-cg:2"])
    message = foresee(problem, result, methods, ts)
    names = {name for terms in message.values() for name in terms}
    seen = observe(problem, result, methods, T, names, ts=ts)
    for m in methods:
        for term, values in message[m].items():
            rounding = 1e-9 * (abs(seen[m][term]).max() + float(result.value.norm()))
            if m.name == "aid-cg" and term in ("ZT_dv", "duT_g"):  # bounded, from some step on
                assert (values >= seen[m][term] - rounding).all(), (str(m), term)
            else:
                np.testing.assert_allclose(values, seen[m][term], atol=rounding, rtol=1e-7, err_msg=f"{m} {term}")


@pytest.mark.parametrize("dynamics", ["gradient-descent", "heavy-ball"])
@pytest.mark.parametrize("name", QUADRATIC)
def test_within_ten_times_the_error_at_every_t_before_anything_is_run(name: str, dynamics: str) -> None:
    """At small sizes here, at the paper's in docs/tightness.md."""
    report = bc.check(small(name, dynamics=dynamics), ["itd", "aid-fp", "aid-fp:10"], t=40)
    for curve in report.curves.values():
        bound = curve.bounds["itd-spectral" if curve.method == "itd" else "aid-spectral"]
        assert bound.verdict is Verdict.HOLDS
        assert bound.kind == KIND
        assert bound.worst < 10
        assert np.nanmax(curve.certified(KIND) / curve.errors) < 10


def test_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the dynamics nor a linear solver take a step."""
    problem = small("krr", dynamics="heavy-ball")
    result = reference(problem, problem.lam[None])

    def many(*args: object) -> Iterator[torch.Tensor]:
        assert args[-1] == 0, "a step was taken"
        return iter(())

    monkeypatch.setattr("boundcheck.numerics.solvers.lower_level.many", many)
    monkeypatch.setattr("boundcheck.numerics.curves.aid.iterates", None)
    assert foresee(problem, result, methods_of(problem, ["itd", "aid-fp", "aid-cg"]), np.array([1, 9]))


def _is_batch(x: torch.Tensor) -> bool:
    """Is a batch among what `torch.func` has wrapped it in?"""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            return True
        x = functorch.get_unwrapped(x)
    return False


def test_the_function_of_a_user_is_not_called_for_every_t() -> None:
    """It is computed by formula, as that of a built-in problem; batches of it would be rows of t."""
    pair = users.kernel_pair(size=12, features=3)
    shipped = users.kernel_ridge.make(size=12, features=3, dynamics="gradient-descent")
    step, batches = users.step_of(shipped), []
    loss, outer = pair.user.inner_at, pair.user.outer_at
    assert loss is not None

    def watched(w: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        batches.append(_is_batch(w))
        return loss(w, lam)

    problem = bc.Problem.from_loss(watched, outer, shipped.w0, shipped.lam, step)
    result, ts = reference(problem, problem.lam[None]), np.array([1, 5, T])
    methods = methods_of(problem, ["itd", "aid-fp", "aid-cg"])
    batches.clear()
    terms = foresee(problem, result, methods, ts)
    assert batches
    assert not any(batches)
    for m, of_shipped in foresee(shipped, result, methods, ts).items():
        for name, values in of_shipped.items():
            np.testing.assert_allclose(terms[m][name], values, rtol=1e-7, err_msg=f"{m} {name}")


def test_it_is_refused_where_there_is_no_spectrum() -> None:
    curve = bc.check(small("lr"), ["itd", "aid-fp"], t=3).curves["itd"]
    assert curve.bounds["itd-spectral"].verdict is Verdict.NOT_APPLICABLE
    assert "one symmetric matrix" in curve.bounds["itd-spectral"].reason
    turning = replace(small("krr", dynamics="gradient-descent"), symmetric=None, dynamics=GRADIENT_DESCENT)
    result = bc.check(turning, ["aid-fp"], t=3).curves["aid-fp"].bounds["aid-spectral"]
    assert result.verdict is Verdict.NOT_APPLICABLE


def test_chosen_alone_and_without_proofs() -> None:
    result = bc.check(small("br"), ["aid-cg"], t=5, bounds=["aid-spectral"], proofs=False)
    assert result.verdict is Verdict.HOLDS
    alone = bc.check(small("lr"), ["aid-fp"], t=5, bounds=["aid-newton"], proofs=False)
    assert ("aid-fp", "aid-newton") in alone.verdicts


def test_conjugate_gradient_is_followed_while_it_is_what_it_is_in_exact_arithmetic() -> None:
    A = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    b = torch.tensor([[1.0, -1.0, 2.0]] * 5, dtype=torch.float64)
    result = _conjugate(A, b, torch.arange(5))
    assert torch.equal(result[0], torch.zeros_like(A))
    torch.testing.assert_close(result[1], b[1] * (b[1] @ b[1]) / (b[1] @ (A * b[1])))
    residual = b[2] - A * result[2]
    assert abs(float(residual @ b[2])) < 1e-14
    assert abs(float(residual @ (A * b[2]))) < 1e-13
    assert torch.isnan(result[3:]).all()  # it is done, and what is left is rounding


def test_the_polynomial_of_chebyshev() -> None:
    """On [1, 9]: T_k((5 − a)/4) over its value at 0."""
    A = torch.linspace(1, 9, 50, dtype=torch.float64)
    result = _chebyshev(A, torch.arange(6))
    torch.testing.assert_close(result[0], torch.ones_like(A))
    torch.testing.assert_close(result[1], 1 - A / 5)
    torch.testing.assert_close(result[2], (2 * (1 - (A - 1) / 4) ** 2 - 1) / (2 * 1.25**2 - 1))
    assert torch.equal(_chebyshev(torch.full((3,), 0.5, dtype=torch.float64), torch.tensor([1, 2])), torch.zeros(2, 3))
