"""The schedule of the curves: inside the budget, quick within it, and refusals that say what is enough."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from small import small

import boundcheck as bc
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.curves import cost
from boundcheck.numerics.curves.sizes import FEW_DATA, D1Formula, measure
from boundcheck.problems.parts import largest_eigenvalue

METHODS = ["itd", "aid-fp", "aid-cg", "aid-fp:10", "aid-cg:10"]


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
@pytest.mark.parametrize("algorithm", [*cost.ALGORITHMS, "auto"])
def test_the_plan_keeps_to_the_budget(name: str, algorithm: str) -> None:
    problem = small(name)
    sizes = measure(problem, Prepared(problem, problem.lam[None]), 1000)
    for memory in (4_000_000, 20_000_000, 1 << 30):
        schedule = cost.choose(sizes, 20, METHODS, algorithm, memory)
        assert cost.bytes_needed(sizes, schedule, METHODS) <= memory
        assert algorithm in (schedule.algorithm, "auto")


def test_fewer_lam_at_once_before_fewer_columns() -> None:
    """Products of matrices with a few columns would be slow, and more λ at once are no gain then."""
    problem = bc.problems.logistic_regression(features=1000)
    sizes = measure(problem, Prepared(problem, problem.lam[None]), 200)
    assert sizes.few_data
    assert sizes.shared_backward
    other = small("krr")
    assert not measure(other, Prepared(other, other.lam[None]), 200).few_data
    with_matrices = replace(sizes, map=replace(sizes.map, d1=D1Formula.GENERAL))  # which the budget is to hold
    schedule = cost.choose(sizes, 1, METHODS, "wavefront", 1 << 31)
    assert (
        cost.bytes_needed(with_matrices, schedule, METHODS) > cost.bytes_needed(sizes, schedule, METHODS) + 8 * 1000**2
    )
    schedules = [cost.choose(sizes, 16, METHODS, "wavefront", memory) for memory in (1 << 27, 1 << 28, 1 << 31)]
    assert [schedule.samples for schedule in schedules] == sorted(schedule.samples for schedule in schedules)
    assert schedules[0].samples < schedules[-1].samples == 16
    for schedule in schedules:
        assert schedule.samples * min(schedule.rows, schedule.horizons) >= cost.COLUMNS // 2


@pytest.mark.parametrize("methods", [["itd", "aid-fp"], ["aid-fp"], ["aid-cg", "itd-truncated"]])
@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
def test_what_is_said_to_be_enough_is_enough_and_more_than_was_given(name: str, methods: list[str]) -> None:
    problem = small(name)
    for T in (1, 30, 100):
        sizes = measure(problem, Prepared(problem, problem.lam[None]), T)
        for algorithm in (*cost.ALGORITHMS, "auto"):
            for memory in (1000, 10_000, 30_000, 100_000, 300_000):
                try:
                    cost.choose(sizes, 3, methods, algorithm, memory)
                except bc.InputError as refused:
                    enough = int(re.search(r"give memory=(\d+) ", str(refused))[1])  # type: ignore[index]
                    assert enough > memory
                    cost.choose(sizes, 3, methods, algorithm, enough)


def test_a_formula_that_passes_over_matrices_is_not_called_for_each_t() -> None:
    """KRR with d = 400: `forward` would do less arithmetic, and take minutes."""
    problem = small("krr")
    sizes = measure(problem, Prepared(problem, problem.lam[None]), 200)
    assert sizes.lam_by_formula
    assert not sizes.leaves_like_lam
    larger = replace(
        sizes,
        problem=replace(sizes.problem, d=400),
        map=replace(sizes.map, copies=2, phi=2 * 400**2),
        lam=replace(sizes.lam, n=101, leaves=2 * 400**2, largest_leaf=400**2),
    )
    by_autograd = replace(larger, lam=replace(larger.lam, d2outer=False))
    assert cost.choose(larger, 2, METHODS, "auto", 1 << 30).matrices
    assert not cost.choose(by_autograd, 2, METHODS, "auto", 1 << 30).matrices


def test_matrices_are_counted_where_lam_or_the_reference_needs_them() -> None:
    """Many data for w, or a step that is differentiated, for which ¼XᵀX + diag λ is formed; for few, their inverse."""
    few = bc.problems.logistic_regression(size=20, features=100)
    for problem, matrices in (
        (few, False),
        (bc.problems.logistic_regression(size=30, features=100), True),
        (bc.problems.logistic_regression(size=20, features=100, differentiate_step=True), True),
    ):
        sizes = measure(problem, Prepared(problem, problem.lam[None]), 3)
        assert sizes.few_data is not matrices
        counted = cost.bytes_needed(sizes, cost.choose(sizes, 1, ["aid-cg"], "auto", 1 << 30), ["aid-cg"])
        assert counted > 8 * (2 * 100**2 if matrices else 2 * 20 * 100)
    assert FEW_DATA >= largest_eigenvalue.FEW  # from which on λ needs none


def test_too_little_memory_says_how_much_is_needed() -> None:
    problem = small("lr")
    with pytest.raises(bc.InputError, match=r"memory must be at least .* for t = 300 and d = 8 \(got 1kB\)") as caught:
        bc.error_curves(problem, METHODS, t=300, memory=1000)
    enough = int(re.search(r"give memory=(\d+) ", str(caught.value))[1])  # type: ignore[index]
    assert bc.error_curves(problem, METHODS, t=300, memory=enough)["itd"].shape == (1, 300)
