"""`hypergradient(problem, rtol=…)` on problems as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
import user_problems
from torch import Tensor

import boundcheck as bc
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.side import Side

SLACK = 1 + 1e-9  # the reference of this test is a float64 computation, whose own error is about 1e-12 of it

USERS: dict[str, Callable[[], Problem]] = {
    "dict ridge": user_problems.ridge,
    "data cleaning": user_problems.cleaning,
    "network": user_problems.network,
    "map, not symmetric": user_problems.convolution,
    "nn.Linear": lambda: user_problems.multinomial_pair(True, size=20, features=4, classes=3).user,
}


@cache
def problem_of(name: str) -> Problem:
    return USERS[name]()


@cache
def truth_of(name: str) -> Tensor:
    value: Tensor = bc.hypergradient(problem_of(name), "exact").value
    return value


@pytest.mark.parametrize("name", USERS)
@pytest.mark.parametrize("rtol", [0.3, 1e-3])
def test_the_error_is_proved_from_both_sides(name: str, rtol: float) -> None:
    truth = truth_of(name)
    g = bc.hypergradient(problem_of(name), rtol=rtol)
    error, size = float((g.value - truth).norm()), float(truth.norm())
    assert g.how == "proved", g.why_not_proved
    assert g.error.lower <= error * SLACK
    assert error <= g.error.upper * SLACK
    assert error <= g.relative_error * size * SLACK
    assert g.relative_error <= rtol * SLACK
    assert g.descent is True
    cosine = float(g.value @ truth / g.value.norm() / truth.norm())
    assert math.degrees(math.acos(min(cosine, 1.0))) <= g.angle + 1e-5  # arccos loses half of the digits
    assert float((g.corrected - truth).norm()) <= g.corrected_error * SLACK + 1e-11 * size


@pytest.mark.parametrize("name", USERS)
def test_the_estimate_is_close_and_says_that_it_is_one(name: str) -> None:
    g = bc.hypergradient(problem_of(name), rtol=0.01, prove=False)
    error = float((g.value - truth_of(name)).norm())
    assert g.how == "estimated"
    assert g.error.side is bc.Side.LOWER
    assert g.why_not_proved == "no proof was asked for"
    assert g.error.upper / 3 <= error <= 3 * g.error.upper  # measured: 0.8 to 1.4


def test_the_parts_of_the_error_add_up_to_first_order() -> None:
    problem = problem_of("dict ridge")
    g = bc.hypergradient(problem, rtol=1e-3)
    whole = float((g.value - truth_of("dict ridge")).norm())
    assert g.lower_level_part + g.linear_part >= 0.9 * whole
    assert g.spend == ("t" if g.lower_level_part >= g.linear_part else "k")


def test_atol_is_absolute_and_added_to_rtol() -> None:
    problem, truth = problem_of("dict ridge"), truth_of("dict ridge")
    atol = 1e-3 * float(truth.norm())
    g = bc.hypergradient(problem, atol=atol)
    assert float(g.error.upper) <= atol
    both = bc.hypergradient(problem, rtol=0.5, atol=atol)
    assert float(both.error.upper) > atol  # it stops earlier


def test_a_warm_start_costs_less() -> None:
    problem = problem_of("nn.Linear")
    cold = bc.hypergradient(problem, rtol=1e-4, prove=False)
    warm = bc.hypergradient(problem, rtol=1e-4, prove=False, w0=cold.w, v0=cold.v)
    assert warm.products < cold.products


def test_at_another_lam() -> None:
    problem = problem_of("dict ridge")
    lam = problem.lam - 0.5
    g = bc.hypergradient(problem, rtol=1e-3, lam=lam)
    truth = bc.hypergradient(problem, "exact", lam=lam).value
    assert float((g.value - truth).norm()) <= 1e-3 * float(truth.norm())
    assert g.how == "proved"


def test_a_shipped_problem_with_closed_forms_is_proved_by_them() -> None:
    problem = bc.problems.kernel_ridge(size=10, features=4)
    g = bc.hypergradient(problem, rtol=0.1)
    truth = bc.hypergradient(problem, "exact").value
    assert g.how == "proved"
    assert float((g.value - truth).norm()) <= g.relative_error * float(truth.norm()) * SLACK


def test_a_function_without_a_rule_gets_an_estimate_with_the_reason() -> None:
    ones = torch.ones(3, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, h: torch.lgamma(w + 3).sum() + ((w - h) ** 2).sum(), lambda w, h: (w**2).sum(), ones, ones, 0.2
    )
    g = bc.hypergradient(problem, rtol=0.1)
    assert g.how == "estimated"
    assert "lgamma" in g.why_not_proved


def test_an_operation_that_cannot_be_batched_is_no_reason_to_end() -> None:
    X = torch.tensor([[1.0, 0, 2], [0, 1, 0], [0, 0, 1]], dtype=torch.float64).to_sparse()
    y = torch.arange(3, dtype=torch.float64)
    for product in (lambda w: X @ w, lambda w: torch.sparse.mm(X, w[:, None])[:, 0]):
        problem = bc.Problem.from_loss(
            lambda w, h, product=product: ((product(w) - y) ** 2).sum() / 2 + h.exp() * (w**2).sum() / 2,
            lambda w, h: (w**2).sum(), torch.zeros(3, dtype=torch.float64), torch.zeros((), dtype=torch.float64), 0.1,
        )  # fmt: skip
        g = bc.hypergradient(problem, rtol=0.1)
        assert (g.how, bool(g.why_not_proved)) == ("estimated", True)
        with pytest.raises(bc.UserCodeError, match=r"sparse tensors of torch .* use X = bc\.SparseMatrix"):
            bc.audit(problem, g)
        minimum = bc.minimise(problem, tol=1.0)
        assert minimum.converged
        assert not minimum.proved


def random_map(scale: float) -> bc.Problem:
    zeros = torch.zeros(3, dtype=torch.float64)
    return bc.Problem.from_map(
        lambda w, h: torch.tanh(w / 2 + h) + scale * torch.randn_like(w), lambda w, h: ((w - 1) ** 2).sum(),
        zeros, zeros + 0.3,
    )  # fmt: skip


def random_loss() -> bc.Problem:
    zeros = torch.zeros(3, dtype=torch.float64)
    return bc.Problem.from_map(
        lambda w, h: torch.tanh(w / 2 + h), lambda w, h: ((w - 1) ** 2).sum() + 1e-6 * torch.randn_like(w) @ w,
        zeros, zeros + 0.3,
    )  # fmt: skip


def every_seventh_call() -> bc.Problem:
    zeros, calls = torch.zeros(3, dtype=torch.float64), [0]

    def fp_map(w: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return torch.tanh(w / 2 + h) + 0.01 * (calls[0] // 7 % 11)

    return bc.Problem.from_map(fp_map, lambda w, h: ((w - 1) ** 2).sum(), zeros, zeros + 0.3)


@pytest.mark.parametrize("make", [lambda: random_map(0.1), lambda: random_map(1e-6), random_loss, every_seventh_call])
@pytest.mark.parametrize("prove", [True, False])
def test_noise_is_told(make: Callable[[], bc.Problem], prove: bool) -> None:
    """Two values of a random function say nothing of an error, so there is no estimate either."""
    torch.manual_seed(0)
    for run in (lambda: bc.hypergradient(make(), rtol=0.1, prove=prove, t=1000), lambda: descent(make(), prove)):
        with pytest.raises(bc.InputError, match="so it is stochastic; fix its random numbers"):
            run()


def descent(problem: bc.Problem, prove: bool) -> bc.Minimum:
    return bc.minimise(problem, tol=1e-2, prove=prove, steps=5)


def test_where_w_has_no_derivative_it_says_so() -> None:
    zeros = torch.zeros(3, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, h: (w[0] - 1) ** 2 / 2 + h * w[0], lambda w, h: ((w - 1) ** 2).sum(), zeros, zeros[0], 0.1
    )
    for run in (lambda: bc.hypergradient(problem, rtol=0.1, t=100), lambda: bc.minimise(problem, tol=1e-3)):
        with pytest.raises(bc.DivergenceError, match="I − ∂₁Φ is singular at the fixed point"):
            run()


def test_a_lower_level_without_rest_ends_soon() -> None:
    ones = torch.ones(3, dtype=torch.float64)
    problem = bc.Problem.from_map(lambda w, h: w + 1 + 0 * h, lambda w, h: ((w - h) ** 2).sum(), ones, ones)
    with pytest.raises(bc.ToleranceError, match=r"does not come to rest.* after \d{4} products"):
        bc.hypergradient(problem, rtol=0.1, t=2000)
    with pytest.raises(bc.DivergenceError, match="no fixed point found"):
        bc.minimise(problem, tol=1e-3)


def test_what_rounding_does_not_allow_is_not_claimed() -> None:
    with pytest.raises(bc.ToleranceError, match="the tolerance is not reached: the error stays at about") as raised:
        bc.hypergradient(problem_of("dict ridge"), rtol=1e-18, t=1000)
    best = raised.value.best
    assert isinstance(best, bc.AccurateHypergradient)
    assert float((best.value - truth_of("dict ridge")).norm()) <= 1e-9 * float(truth_of("dict ridge").norm())


@pytest.mark.parametrize("step", [0.01, 0.1])
@pytest.mark.parametrize("start", [1.4, 1.55])
def test_of_several_fixed_points_it_is_the_one_that_the_steps_lead_to(start: float, step: float) -> None:
    """A Newton step from here leads to a maximum of the loss, far away."""
    problem = bc.Problem.from_loss(
        lambda w, h: (1 - torch.cos(w)).sum() - (h * w).sum(),
        lambda w, h: ((w - 1) ** 2).sum() / 2,
        torch.tensor([start], dtype=torch.float64),
        torch.tensor([0.05], dtype=torch.float64),
        step,
    )
    g = bc.hypergradient(problem, rtol=0.1)
    truth = bc.hypergradient(problem, "exact").value
    assert g.how == "proved"
    assert float((g.value - truth).norm()) <= 0.1 * float(truth.norm())


def test_the_estimate_counts_what_the_linear_solver_leaves() -> None:
    """One step of w solves the lower level, and the first v is good enough for the first tolerances."""
    c = torch.logspace(0, -4, 6, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, h: (c * (w - h) ** 2).sum() / 2, lambda w, h: ((w - 1) ** 2).sum() / 2, 0 * c, 0 * c
    )
    truth = bc.hypergradient(problem, "exact").value
    for prove in (True, False):
        g = bc.hypergradient(problem, rtol=1e-6, prove=prove)
        assert float((g.value - truth).norm()) <= 1e-6 * float(truth.norm())


def test_a_kink_at_the_fixed_point_is_not_a_fixed_point_beside_it() -> None:
    one = torch.ones(1, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, h: ((w - h) ** 2).sum() / 2 + 0.3 * torch.maximum(w, one).pow(2).sum(),
        lambda w, h: (w**2).sum(), 0 * one, 1.2 * one,
    )  # fmt: skip
    with pytest.raises(bc.ToleranceError, match="the lower level does not come to rest"):
        bc.hypergradient(problem, rtol=0.1, t=100)


@pytest.mark.parametrize("scale", [1e-170, 1e160])
def test_an_outer_loss_whose_squares_are_no_numbers_is_refused(scale: float) -> None:
    zeros = torch.zeros(2, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, h: ((w - h) ** 2).sum() / 2, lambda w, h: scale * ((w - 1) ** 2).sum(), zeros, zeros + 0.3, 0.5
    )
    with pytest.raises(bc.InputError, match="scale outer_loss"):
        bc.hypergradient(problem, rtol=0.1)


def test_a_hypergradient_that_is_zero_has_no_relative_error() -> None:
    """At λ = 1 the solution is w = 1, where the outer loss is smallest."""
    one = torch.ones(3, dtype=torch.float64)
    problem = Problem.from_loss(
        lambda w, lam: ((w - lam) ** 2).sum() / 2 + ((w - lam) ** 4).sum() / 10,
        lambda w, lam: ((w - 1) ** 2).sum(),
        0 * one,
        one,
    )
    for prove in (True, False):
        with pytest.raises(bc.ToleranceError, match="so there is no relative error; give atol"):
            bc.hypergradient(problem, rtol=0.01, prove=prove)
        g = bc.hypergradient(problem, atol=1e-6, prove=prove)
        assert float(g.error.upper) <= 1e-6
        assert float(g.value.norm()) <= float(g.error.upper)
        assert g.descent is not True


def test_a_lower_level_that_diverges_says_so() -> None:
    ones = torch.ones(2, dtype=torch.float64)
    problem = bc.Problem.from_map(lambda w, h: 1.5 * w + h, lambda w, h: (w**2).sum(), ones, ones)
    with pytest.raises(bc.DivergenceError, match="left the finite numbers"):
        bc.hypergradient(problem, rtol=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rtol": -1}, "rtol = -1 is not a tolerance; give a positive number"),
        ({"rtol": math.nan}, "rtol = nan is not a tolerance"),
        ({"rtol": True}, "rtol = True is not a tolerance"),
        ({"rtol": torch.tensor(0.1)}, r"rtol = tensor\(0.1000\) is not a tolerance"),
        ({"rtol": 0.1, "w0": torch.zeros(5).to_sparse()}, "w0 is a sparse tensor; give a dense one"),
        ({"atol": "small"}, "atol = 'small' is not a tolerance"),
        ({"rtol": 0.0}, "rtol and atol are both 0"),
        ({"rtol": 0.1, "method": "itd"}, "method = 'itd' cannot be used with rtol"),
        ({"rtol": 0.1, "k": 3}, "k = 3 cannot be used with rtol"),
        ({"rtol": 0.1, "tol": 0.1}, "tol = 0.1 cannot be used with rtol"),
        ({"rtol": 0.1, "mode": "forward"}, "mode = 'forward' cannot be used with rtol"),
        ({"rtol": 0.1, "t": -3}, "t must be at least 0"),
        ({"rtol": 0.1, "t": 0}, "t = 0 leaves no step"),
        ({"rtol": 0.1, "w0": torch.zeros(99)}, "w0"),
    ],
)
def test_bad_input(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(bc.InputError, match=message) as raised:
        bc.hypergradient(problem_of("dict ridge"), **arguments)
    assert "\n" not in str(raised.value)


def test_it_shows_itself_in_one_line() -> None:
    text = repr(bc.hypergradient(problem_of("dict ridge"), rtol=0.1))
    assert "relative error ≤" in text
    assert "(proved)" in text
    assert "\n" not in text


def test_how_the_error_is_known_is_said_in_the_words_of_all_tables() -> None:
    g = bc.hypergradient(problem_of("dict ridge"), rtol=0.1)
    assert g.how == "proved"
    error = replace(g.error, side=Side.HIGH_PROBABILITY, delta=1e-3)
    likely = replace(g, accuracy=replace(g.accuracy, error=error))
    assert likely.how == "probable (probability 0.999)"
    assert likely.how in str(likely)
    assert likely.how in repr(likely)


@pytest.mark.parametrize("prove", [True, False])
def test_a_newton_step_to_another_fixed_point_is_noticed_without_a_proof(prove: bool) -> None:
    """From 1.2 the steps lead to 2.1; a Newton step near 1.57, where Φ' = 1, jumps to 9.41."""
    start = torch.tensor([1.2], dtype=torch.float64)
    problem = bc.Problem.from_map(
        lambda w, h: w - 0.3 * torch.sin(3 * w) + 0.01 * h,
        lambda w, h: (w**2).sum() / 2 + w.sum(),
        start,
        0 * start + 1,
    )
    g = bc.hypergradient(problem, rtol=0.01, prove=prove)
    assert g.how == ("proved" if prove else "estimated")
    assert 2 < float(g.w) < 2.2
