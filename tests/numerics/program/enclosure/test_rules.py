"""The contract of every rule: at no point of the ball is a value or a derivative outside of what the rule encloses."""

from __future__ import annotations

import enclosure_cases as cases
import pytest
import torch
from enclosed import around, judged, recorded
from enclosure_cases import Case

from boundcheck.numerics.program.enclosure import linear_rules, product_rules, special_rules
from boundcheck.numerics.program.enclosure.elementary import ELEMENTARY
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.replay import differs

TABLES = {name: getattr(cases, name) for name in (
    "MOVES", "SUMS", "ELEMENTARY", "CHAINS", "PRODUCTS", "LOG_SUM_EXP", "NORMS", "EXPANSIONS", "LAYERS", "BACKWARD",
)}  # fmt: skip
ALL = [case for table in TABLES.values() for case in table]
LINEAR = (*cases.MOVES, *cases.SUMS)
PARTLY = {"convolution", "constant_pad_nd"}  # expanded for some arguments, to the same operation with others
BY_NAME = pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)


@BY_NAME
def test_samples_are_enclosed(case: Case) -> None:
    rounds = 1 if case in LINEAR else 2
    for verdict in judged(case, sum(map(ord, case.id)), rounds):
        assert not verdict.false


@pytest.mark.parametrize("case", [*cases.EXPANSIONS, *cases.LAYERS, *cases.BACKWARD], ids=lambda case: case.id)
def test_an_expansion_is_the_operation(case: Case) -> None:
    program, w, lam = recorded(case, 1, torch.float64, bent=False, scalar=True)
    assert differs(program, around(case, 1, torch.float64, bent=False, scalar=True), w, lam) == ""


@BY_NAME
def test_the_operation_is_the_one_of_the_row(case: Case) -> None:
    program, *_ = recorded(case, 1, torch.float64, bent=False, scalar=True)
    names = {operation.name for operation in program.operations}
    expanded = case.name in EXPANSIONS and case.name not in PARTLY
    assert (case.name in names) != (case.composite or expanded)


def test_every_operation_has_a_row() -> None:
    known = {case.name for case in ALL}
    assert known >= linear_rules.MOVES
    assert known >= linear_rules.SUMS
    assert known >= product_rules.PRODUCTS
    assert known >= linear_rules.AFFINE
    assert set(special_rules.SPECIAL) <= known
    assert set(ELEMENTARY) <= known
    assert set(EXPANSIONS) <= known
