"""A user's problem with formulas gives what autograd gives, and never what its functions were before."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import odd_problems
import pytest
import torch
import user_problems
from odd_problems import X, of, outer, squares
from torch import Tensor
from user_problems import zeros

import boundcheck as bc
from boundcheck.numerics.bilevel.formulas import DataMatrix, Diagonal, FullMatrices, OnePoint, OuterProducts
from boundcheck.numerics.bilevel.quick import step_functions
from boundcheck.numerics.bilevel.quick.agreement import SUMMATION_ROUNDINGS
from boundcheck.numerics.bilevel.quick.quick_problem import quick

SMALL: dict[str, dict[str, Any]] = {
    "lr, softplus": {"size": 8, "features": 5}, "lr, logsigmoid": {"size": 8, "features": 5},
    "lr, bce": {"size": 8, "features": 5}, "br": {"size": 8, "features": 5}, "krr": {"size": 7, "features": 4},
    "hr": {"size": 6, "features": 4, "represented": 5}, "multinomial": {"size": 8, "features": 6, "classes": 3},
    "multinomial, nn.Linear": {"size": 8, "features": 6, "classes": 3}, "eqm": {"size": 4, "hidden": 3},
}  # fmt: skip
PAIRS: dict[str, Callable[[], bc.Problem]] = {
    name: lambda name=name: user_problems.PAIRS[name](**SMALL[name]).user for name in user_problems.PAIRS
}
EVERY = {**PAIRS, **user_problems.ALONE, **odd_problems.RECOGNISED, **odd_problems.OTHERS}
RECOGNISED = {**PAIRS, "ridge": user_problems.ridge, **odd_problems.RECOGNISED}


def by_autograd(problem: bc.Problem) -> bc.Problem:
    """The same problem, as one that was not made from a user's functions."""
    return replace(problem, w_layout=None)


def tolerance(problem: bc.Problem) -> float:
    """`SUMMATION_ROUNDINGS` roundings in a step, of which a contraction keeps at most 1/(1 − q), here about ten."""
    return 10 * SUMMATION_ROUNDINGS * torch.finfo(problem.dtype).eps


def methods(problem: bc.Problem) -> list[str]:
    return ["itd", "aid-fp", "aid-cg" if problem.symmetric else "aid-cgn"]


@pytest.mark.parametrize("name", EVERY)
def test_single_calls_are_those_of_autograd(name: str) -> None:
    problem = EVERY[name]()
    assert quick(problem) is not problem
    plain = by_autograd(problem)
    assert quick(plain) is plain
    for method in methods(problem):
        k = None if method == "itd" else 3
        result, right = (bc.hypergradient(each, method, t=15, k=k) for each in (problem, plain))
        assert (result.value - right.value).norm() <= tolerance(problem) * right.value.norm()
        assert (result.w - right.w).norm() <= tolerance(problem) * (1 + right.w.norm())


@pytest.mark.parametrize("name", EVERY)
def test_curves_are_those_of_autograd(name: str) -> None:
    problem = EVERY[name]()
    lams = problem.lam * torch.tensor([[1.0], [1.05], [0.95]], dtype=problem.dtype)
    asked = ["itd", "aid-fp", "aid-fp:2"]
    result, right = (bc.error_curves(each, asked, t=12, lam=lams) for each in (problem, by_autograd(problem)))
    scale = float(right.exact.norm()) + max(float(abs(right[m]).max()) for m in asked)
    for method in asked:
        assert abs(result[method] - right[method]).max() <= tolerance(problem) * scale
    assert (result.reference.w - right.reference.w).norm() <= tolerance(problem) * (1 + right.reference.w.norm())


def formula(problem: bc.Problem) -> tuple[type, type]:
    """What ∂₁Φᵀv and ∂₂Φᵀv are by formula."""
    made = quick(problem)
    ready = made.prepare(made.lam)
    d1 = made.d1phi_T_at
    d2 = None if made.d2phi_T_at is None else made.d2phi_T_at(made.w0[None], ready)
    return type(d1 if isinstance(d1, OnePoint) else d1 and d1(made.w0, ready)), type(d2)


def test_formulas_are_those_of_the_shelf() -> None:
    expected = {
        "lr, softplus": (DataMatrix, Diagonal),
        "lr, logsigmoid": (DataMatrix, Diagonal),
        "lr, bce": (DataMatrix, Diagonal),
        "br": (DataMatrix, Diagonal),
        "krr": (step_functions.SquareMatrix, FullMatrices),
        "hr": (DataMatrix, OuterProducts),
    }
    assert {name: formula(PAIRS[name]()) for name in expected} == expected
    assert quick(PAIRS["hr"]()).d2outer_at is not None
    assert quick(PAIRS["krr"]()).d2outer_at is not None


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_loss_of_known_form_is_recognised(name: str, caplog: pytest.LogCaptureFixture) -> None:
    problem = RECOGNISED[name]()
    with caplog.at_level(logging.DEBUG, logger="boundcheck"):
        quick(problem)
    assert "no formulas" not in caplog.text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("product of functions", r"mul of a product of two functions of w, odd_problems.py:\d+"),
        ("function of a sum", r"log of a function of a function of w, odd_problems.py:\d+"),
        ("function of a function", r"log of a function of a function of w, odd_problems.py:\d+"),
    ],
)
def test_what_has_no_formula_is_said_with_the_line(name: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="boundcheck"):
        quick(odd_problems.OTHERS[name]())
    (line,) = (line for line in caplog.messages if "no formulas, as" in line)
    assert re.search(why, line)


def test_what_depends_on_lam_only_is_computed_once_for_each_lam() -> None:
    calls = []

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    def layer(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(torch.linalg.inv(torch.diag(2 + lam.exp())) @ w + lam)

    problem = bc.Problem.from_map(layer, outer, zeros(4), zeros(4))
    bc.hypergradient(problem, "aid-fp", t=1)
    with Counted():
        bc.hypergradient(problem, "aid-fp", t=50)
    inverses = sum("linalg_inv_ex" in call for call in calls)
    assert inverses == 2  # for the call, and to compare with the function as it is now
    assert sum("tanh" in call for call in calls) > 50


class Changing:
    """A loss that reads things which may change after it was recorded."""

    def __init__(self) -> None:
        self.weight, self.data, self.cut, self.power = 1.0, X.clone(), False, 2

    def inner(self, w: Tensor, lam: Tensor) -> Tensor:
        penalty = (lam.detach() if self.cut else lam).exp()
        return squares(w, self.data) + self.weight * (penalty * w**self.power).sum() / 2


def scale_data(loss: Changing) -> None:
    loss.data.mul_(1.1)


def other_data(loss: Changing) -> None:
    loss.data = X + 0.1


def cut(loss: Changing) -> None:
    loss.cut = True


def other_weight(loss: Changing) -> None:
    loss.weight = 1.0 + 1e-9


def other_power(loss: Changing) -> None:
    loss.power = 4


@pytest.mark.parametrize("change", [scale_data, other_data, cut, other_weight, other_power])
def test_a_function_that_changed_is_recorded_again(change: Callable[[Changing], None]) -> None:
    loss = Changing()
    problem = of(loss.inner, lam=zeros(4) + 0.5)
    before = bc.hypergradient(problem, "itd", t=12).value
    change(loss)
    result, right = (bc.hypergradient(each, "itd", t=12).value for each in (problem, by_autograd(problem)))
    assert (result - right).norm() <= tolerance(problem) * right.norm()
    assert (result - before).norm() > tolerance(problem) * before.norm()


def test_a_module_in_another_mode_is_recorded_again() -> None:
    model = torch.nn.Linear(4, 1, dtype=torch.float64)
    gate = torch.nn.Module().eval()

    def inner(model: torch.nn.Linear, lam: Tensor) -> Tensor:
        fit = squares(model.weight[0]) if not gate.training else squares(2 * model.weight[0])
        return fit + (lam.exp() * model.weight[0] ** 2).sum() + model.bias.square().sum()

    problem = of(inner, model, outer_loss=lambda model, lam: outer(model.weight[0], lam))
    bc.hypergradient(problem, "itd", t=5)
    gate.train()
    result, right = (bc.hypergradient(each, "itd", t=5).value for each in (problem, by_autograd(problem)))
    assert (result - right).norm() <= tolerance(problem) * right.norm()


def test_a_wrong_formula_is_not_used(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    right = step_functions.phi

    def wrong(*args: Any) -> Callable[[Tensor, Any], Tensor]:
        phi_at = right(*args)
        return lambda w, ready: (1 + 1e-9) * phi_at(w, ready)

    problem = of(lambda w, lam: squares(w) + (lam.exp() * w**2).sum())
    monkeypatch.setattr(step_functions, "phi", wrong)
    with caplog.at_level(logging.DEBUG, logger="boundcheck"):
        made = quick(problem)
    assert "the formula has another Φ than the function" in caplog.text
    assert isinstance(made.d1phi_T_at, OnePoint)  # the operations of autograd instead
    value = bc.hypergradient(problem, "itd", t=12).value
    expected = bc.hypergradient(by_autograd(problem), "itd", t=12).value
    assert (value - expected).norm() <= tolerance(problem) * expected.norm()


@pytest.mark.parametrize("name", ["d1phi_T", "phi"])
def test_a_wrong_derivative_is_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(step_functions, name)

    def wrong(*args: Any) -> Any:
        function = right(*args)
        if name == "phi":
            return lambda w, ready: function(w, tuple(x.detach() for x in ready))  # no derivative by λ
        return lambda w, ready: lambda v: function(w, ready)(v) + 1e-9 * v

    monkeypatch.setattr(step_functions, name, wrong)
    assert isinstance(quick(of(lambda w, lam: squares(w) + (lam.exp() * w**2).sum())).d1phi_T_at, OnePoint)


class Doubled(torch.autograd.Function):
    """Twice its argument, with a backward of its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * slope


def test_what_cannot_be_recorded_is_left_to_autograd(caplog: pytest.LogCaptureFixture) -> None:
    problem = of(lambda w, lam: squares(Doubled.apply(w) / 2) + (lam.exp() * w**2).sum())
    with caplog.at_level(logging.DEBUG, logger="boundcheck"):
        assert quick(problem) is problem
    assert "autograd.Function" in caplog.text


def test_problems_of_the_shelf_are_as_they_were() -> None:
    problem = bc.load_problem("lr", size=6, features=4)
    assert quick(problem) is problem
