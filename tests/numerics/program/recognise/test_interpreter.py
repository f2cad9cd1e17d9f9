"""What a program is as an expression of w: its parts by name, and what is declined with its reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from user_problems import normal

from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.recognise import stage as stages
from boundcheck.numerics.program.recognise.algebra import Algebra, Total
from boundcheck.numerics.program.recognise.expression import Expression, Poly
from boundcheck.numerics.program.recognise.interpreter import Interpreter
from boundcheck.numerics.program.recognise.linear_maps import Rows, Selection
from boundcheck.numerics.program.recognise.point_program import PointProgram
from boundcheck.numerics.program.recognise.stage import Held, Stage, Unknown
from boundcheck.numerics.program.recognise.staged_program import StagedProgram

X, W, LAM = normal(1, 5, 6), normal(2, 6), normal(3, 3).abs()
Function = Callable[[Tensor, Tensor], Tensor]


def stage() -> Stage:
    made = Stage(LAM, torch.tensor(0.1, dtype=torch.float64), None)
    made.follow(Algebra(made, LAM, exact=True))
    return made


def expression(function: Function) -> Expression | Total:
    result = Interpreter(Algebra(stage(), W)).output(capture(function, W, LAM, {}))
    assert isinstance(result, Expression | Total)
    return result


def parts(function: Function) -> list[tuple[str, str]]:
    result = expression(function)
    assert isinstance(result, Total)
    return [(type(part).__name__, type(part.linear).__name__) for part, _ in result.terms]


KNOWN: dict[str, tuple[Function, list[tuple[str, str]]]] = {
    "squares": (lambda w, lam: ((X @ w - 1) ** 2).sum(), [("Poly", "Rows")]),
    "of two maps": (lambda w, lam: ((X @ w)[:3] * w[:3]).sum(), [("Pair", "Rows")]),
    "logistic": (lambda w, lam: F.softplus(lam[0] * (X @ w) + 1).mean(), [("FunctionOfMap", "Rows")]),
    "by rows": (lambda w, lam: (lam * (w.view(3, 2) ** 2).sum(1)).sum(), [("Poly", "Selection")]),
    "joined": (lambda w, lam: torch.cat((w[3:], 2 * w[:3])).square().sum(), [("Poly", "Selection")]),
    "of a matrix": (
        lambda w, lam: F.cross_entropy(X[:, :3] @ w.view(3, 2) + 1, torch.tensor([0, 1, 0, 1, 1])),
        [("CrossEntropy", "Combination")],
    ),
    "integers": (lambda w, lam: (torch.arange(6) * w**2).sum(), [("Poly", "Selection")]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_parts_of_a_sum(name: str) -> None:
    function, expected = KNOWN[name]
    assert parts(function) == expected


DECLINED: dict[str, tuple[Function, str]] = {
    "a sum that is moved": (
        lambda w, lam: (w.view(2, 3)[:, :, None].expand(2, 3, 2).square().sum(1).mT * torch.ones(2, 2)).sum(),
        "a sum",
    ),
    "a function of a sum": (lambda w, lam: w.square().sum().sqrt(), "sqrt of a function of a function of w"),
    "a product": (lambda w, lam: (w.exp() * w).sum(), "mul of a product of two functions of w"),
    "a power that varies": (lambda w, lam: (w.abs() ** lam[0]).sum(), "abs of a function of w"),
    "another precision": (lambda w, lam: (w.float() ** 2).sum(), "_to_copy of numbers in torch.float32"),
    "a larger precision": (lambda w, lam: F.relu(w).sum(), "relu of a function of w"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_declined_says_why(name: str) -> None:
    function, why = DECLINED[name]
    with pytest.raises(Unknown, match=why):
        expression(function)


def test_a_value_of_lam_is_known_as_an_expression() -> None:
    D = normal(4, 4, 4, 3)
    made = stage()
    program = capture(lambda w, lam: w[:4] @ torch.exp(-(D * lam).sum(-1)) @ w[:4], W, LAM, {})
    values: list[Held] = []
    compute = made.compute

    def watched(function: Callable[..., Tensor], *args: object) -> object:
        value = compute(function, *args)
        values.extend([value] if isinstance(value, Held) else [])
        return value

    made.compute = watched  # type: ignore[method-assign]
    Interpreter(Algebra(made, W)).output(program)
    kernel = torch.exp(-(D * LAM).sum(-1))
    assert any(isinstance(value.example, Tensor) and torch.equal(value.example, kernel) for value in values)
    rows = made.algebra.sum(made.algebra.scale(made.lam.of_lam, D), (2,), False)  # type: ignore[union-attr, arg-type]
    assert isinstance(rows, Expression)
    (part,) = rows.parts
    assert isinstance(part, Poly)
    assert isinstance(part.linear, Rows)
    assert isinstance(part.linear.matrix, Tensor)
    assert torch.allclose(part.linear.matrix.view(4, 4, 3), D)


def test_large_data_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST_NUMBERS", 20)
    with pytest.raises(Unknown, match="36 numbers of data, too many for a copy"):
        expression(lambda w, lam: (X @ (X.T @ (X @ w))).sum())


def test_entries_that_are_repeated_stay_apart() -> None:
    result = expression(lambda w, lam: w.view(2, 3).t().expand(3, 2))
    assert isinstance(result, Expression)
    (part,) = result.parts
    assert isinstance(part.linear, Selection)
    assert torch.equal(part.linear.index, torch.arange(6).view(2, 3).t())


def test_a_staged_program_is_the_function() -> None:
    def function(w: Tensor, lam: Tensor) -> Tensor:
        a, b = torch.linalg.eigh(torch.outer(lam, lam) + torch.diag(lam))
        return torch.tanh(w.view(2, 3) @ b).split([1, 1])[1] * a + lam.sum()

    made = stage()
    held: list[Held] = []

    def slot(value: Held) -> int:
        held.append(value)
        return len(held) - 1

    run = StagedProgram(capture(function, W, LAM, {}), made).function(slot)
    ready = made.function(held)(2 * LAM, torch.tensor(0.1))
    assert torch.allclose(run(W + 1, ready), function(W + 1, 2 * LAM), rtol=1e-14)
    assert all(value.example.numel() <= 9 for value in held)  # the eigenvectors, not λ


def test_products_of_a_point_are_those_of_autograd() -> None:
    def phi_at(w: Tensor, ready: tuple[Tensor, ...]) -> Tensor:
        return torch.tanh(ready[0].view(6, 6) @ w * ready[1]) + w**3

    ready, v = (normal(5, 36), normal(6, 6)), normal(7, 6)
    products = PointProgram(phi_at, W, ready)
    others, point = (normal(8, 36), normal(9, 6)), normal(10, 6)
    x = point.clone().requires_grad_()
    (right,) = torch.autograd.grad(phi_at(x, others), x, v)
    assert torch.allclose(products(point, others)(v), right, rtol=1e-14)
    with pytest.raises(Unknown, match="does not depend on v"):
        PointProgram(lambda w, ready: w + ready[0], W, (W,))
