"""Problems of `benchmarks/user_code` that PyTorch or a missing rule once kept from a proof: a bound holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from user_code import equilibria, linear_models, networks

import boundcheck as bc


@pytest.mark.parametrize(
    "make",
    [
        linear_models.multinomial,
        linear_models.groups,
        networks.in_place,
        networks.normalised_body,
        partial(equilibria.normalised_equilibrium, 0.1),  # with 0.3 only q ≤ 1.9 is proved, where it is 0.05
    ],
    ids=("multinomial", "groups", "in place", "normalised body", "normalised equilibrium"),
)
def test_bounds_hold_and_all_constants_are_proved(make: Callable[[], bc.Problem]) -> None:
    report = bc.check(make(), ["itd", "aid-fp"], t=15)
    assert report.verdicts["itd", "itd-local"] is bc.Verdict.HOLDS
    every = [constant for some in report.constants.values() for constant in some.values()]
    assert not [constant.provenance.no_proof for constant in every if constant.provenance.no_proof]
