"""A rule that is wrong by a tenth is caught: the contracts of the enclosures are not empty."""

from __future__ import annotations

import pytest
from mutations import Mutation, OfTable, caught_by, mutations
from tight_programs import FORMULAS, PROGRAMS, Formula, TightProgram


@pytest.mark.parametrize("program", [*PROGRAMS, *FORMULAS], ids=lambda program: program.name)
def test_nothing_is_false_as_it_is(program: TightProgram | Formula) -> None:
    assert not program.false()


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_a_wrong_rule_is_caught(mutation: Mutation | OfTable) -> None:
    assert caught_by(mutation)
