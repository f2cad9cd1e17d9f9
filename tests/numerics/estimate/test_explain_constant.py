"""Explanations of constants, and the reason where one is not proved."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.estimate.explain_constant import EXPLAINED, explain_constants, explain_report

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0]]).double()
W, LAM = torch.zeros(2).double(), torch.ones(2).double()
Loss = Callable[[Tensor, Tensor], Tensor]


def logistic(w: Tensor, lam: Tensor) -> Tensor:
    return F.softplus(-(X @ w)).sum() + (torch.exp(lam) * w**2).sum()


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return ((X @ w) ** 2).mean()


def problem_of(inner: Loss = logistic, outer_loss: Loss = outer, alpha: float | None = 0.1) -> bc.Problem:
    return bc.Problem.from_loss(inner, outer_loss, W, LAM, alpha)


def equilibrium() -> bc.Problem:
    A = torch.tensor([[0.2, 0.3], [-0.1, 0.4]]).double()
    return bc.Problem.from_map(lambda w, lam: torch.tanh(A @ w + lam), outer, W, LAM)


def with_steep_outer_loss() -> bc.Problem:
    """∇²₁E is far larger over the ball than on average between w* and its points."""

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return F.softplus(-(X @ w)).sum() + ((w - lam) ** 2).sum()

    return problem_of(inner, lambda w, lam: torch.exp(X @ w + lam.sum()).mean())


@pytest.mark.parametrize("ball", ["paper", "local"])
@pytest.mark.parametrize("make", [problem_of, equilibrium, with_steep_outer_loss])
def test_the_value_is_the_constant_wherever_the_program_proves_it(make: Callable[[], bc.Problem], ball: str) -> None:
    problem = make()
    constants = bc.estimate_constants(problem, ball=ball)
    explanations = explain_constants(problem, constants, [n for n in EXPLAINED if n in constants], ball)
    proved = 0
    for name, explanation in explanations.items():
        if constants[name].provenance.reference == "program" and not (name == "q" and make is not equilibrium):
            proved += 1
            assert explanation.value == pytest.approx(constants[name].value, rel=1e-6), name
            assert explanation.ball == constants[name].provenance.ball
            alone = [part for part in explanation.contributions if part.value]
            if len(alone) == 1:  # then it makes the constant, and no less
                assert alone[0].value == pytest.approx(constants[name].value, rel=0.3), name
                assert alone[0].value >= constants[name].value * (1 - 1e-6) or name in ("mu", "L_E")
    assert proved >= 4


def test_nu_1_is_the_step_times_the_third_derivative_of_one_operation() -> None:
    explanation = bc.explain_constant(problem_of(), "nu_1", ball="local")
    assert [part.operation for part in explanation.contributions if part.value] == ["softplus"]
    first = explanation.contributions[0]
    assert first.value == pytest.approx(explanation.constant.value, rel=1e-9)
    assert first.line == f"test_explain_constant.py:{logistic.__code__.co_firstlineno + 1}"
    assert "z = mv in [" in first.note
    assert "|φ'''| ≤" in first.note
    assert explanation.quantity == "α‖D³ℓ‖ by w (α = 0.1)"


def test_q_of_a_gradient_step_is_explained_by_mu_or_by_L() -> None:
    by_mu = bc.explain_constant(problem_of(alpha=0.01), "q")
    assert by_mu.quantity == "the smallest eigenvalue of ∇²₁ℓ"
    assert "1 − αμ with α = 0.01, so the rows are those of mu" in by_mu.remark
    assert 1 - 0.01 * by_mu.value == pytest.approx(by_mu.constant.value, rel=1e-9)
    by_L = bc.explain_constant(problem_of(alpha=0.21), "q")
    assert "so the rows are those of L" in by_L.remark


def test_a_kink_leaves_an_estimate_with_its_reason() -> None:
    def kinked(w: Tensor, lam: Tensor) -> Tensor:
        return w.abs().sum() + 5 * ((w - lam) ** 2).sum()

    problem = problem_of(kinked, alpha=0.05)
    constants = bc.estimate_constants(problem)
    line = f"test_explain_constant.py:{kinked.__code__.co_firstlineno + 1}"
    reason = f"inner_loss: aten.abs is not smooth on all of the ball, {line}"
    assert constants["L"].provenance.no_proof == reason
    assert constants["L"].side is bc.Side.LOWER
    assert constants["L_E"].provenance.no_proof == ""
    explanation = bc.explain_constant(problem, "L", constants=constants)
    assert explanation.no_proof == reason
    assert explanation.contributions[0].value == math.inf
    json.dumps(explanation.as_json(), allow_nan=False)


def test_an_operation_without_a_rule_is_named() -> None:
    def with_gamma(w: Tensor, lam: Tensor) -> Tensor:
        return torch.lgamma(w + 9).sum() + 3 * ((w - lam) ** 2).sum()

    problem = problem_of(with_gamma, alpha=0.05)
    constants = bc.estimate_constants(problem)
    line = with_gamma.__code__.co_firstlineno + 1
    reason = f"inner_loss: aten.lgamma has no rule, test_explain_constant.py:{line}"
    assert {n for n, c in constants.items() if c.provenance.no_proof == reason} >= {"q", "mu", "L", "nu_1"}
    explanation = bc.explain_constant(problem, "nu_1", constants=constants)
    assert explanation.no_proof == reason
    assert explanation.contributions == ()
    assert explanation.value is None


def test_a_function_that_cannot_be_recorded_says_where() -> None:
    def in_place(w: Tensor, lam: Tensor) -> Tensor:
        twice = w.clone()
        twice.detach()  # another view of its memory, without a derivative
        twice *= 2
        return (twice**2).sum() + F.softplus(w).sum() - lam @ w

    constants = bc.estimate_constants(problem_of(in_place, alpha=0.05))
    line = in_place.__code__.co_firstlineno + 3
    reason = constants["q"].provenance.no_proof
    assert reason.startswith("inner_loss: aten.mul_.Tensor writes in place, into")
    assert reason.endswith(f", test_explain_constant.py:{line}")


def test_a_proof_of_no_contraction_is_a_reason() -> None:
    def wide(w: Tensor, lam: Tensor) -> Tensor:
        return torch.exp(3 * w).sum() + ((w - lam) ** 2).sum()

    constants = bc.estimate_constants(problem_of(wide, alpha=0.11))
    assert (
        " follows from inner_loss on the ball, and a contraction needs q < 1" in constants["nu_1"].provenance.no_proof
    )


def test_what_does_not_come_from_operations_gets_a_remark() -> None:
    problem = problem_of()
    constants = bc.estimate_constants(problem)
    for name in ("kappa", "mu_inv", "D", "r_0", "q_star", "alpha"):
        explanation = bc.explain_constant(problem, name, constants=constants)
        assert explanation.contributions == ()
        assert explanation.remark


def test_bad_arguments_are_named() -> None:
    problem = problem_of()
    with pytest.raises(bc.UnknownNameError, match="unknown ball 'round'"):
        bc.explain_constant(problem, "q", ball="round")
    with pytest.raises(bc.UnknownNameError, match="unknown constant 'nu'"):
        bc.explain_constant(problem, "nu")
    with pytest.raises(bc.InputError, match="constants is a dict"):
        bc.explain_constant(problem, "q", constants={})


def test_reasons_survive_a_file() -> None:
    constants = bc.Constants({"q": bc.Constant("q", 0.9, "lower", bc.Provenance("tried", no_proof="inner_loss: why"))})
    assert bc.Constants.from_json(json.loads(json.dumps(constants.as_json()))) == constants


def test_a_built_in_problem_is_not_explained_on_its_page() -> None:
    problem = bc.problems.scalar(q=0.5)
    assert explain_report(problem, {"paper": bc.estimate_constants(problem)}) == {}


def test_an_explanation_prints_as_lines_that_name_the_operations() -> None:
    lines = str(bc.explain_constant(problem_of(), "nu_1")).splitlines()
    assert lines[0].startswith("nu_1 = ")
    assert ", proved upper bound: " in lines[0]
    assert any(f"{Path(__file__).name}:" in line for line in lines[1:])


def test_code_that_was_typed_is_named_as_such() -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(compile("def layer(w, lam):\n    return torch.tanh(w / 2 + lam)", "<typed>", "exec"), names)
    zeros = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_map(names["layer"], lambda w, lam: (w**2).sum(), zeros, zeros + 1)
    explanation = bc.explain_constant(problem, "nu_1")
    assert [part.line for part in explanation.contributions if part.operation == "tanh"] == ["<typed>:2"]
