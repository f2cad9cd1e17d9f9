"""Constants of a loss with so many λ that derivatives are kept without their zeros, against the closed forms."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from user_problems import representation_pair

from boundcheck.constants import Constants
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.estimate_constants import on_balls
from boundcheck.numerics.program.enclosure import bilinear, bilinear_sizes
from boundcheck.numerics.program.enclosure.sparse_derivative import LARGE
from boundcheck.numerics.solvers.reference import reference
from boundcheck.progress import no_progress
from boundcheck.side import Side

NAMES = ("L_E", "L_Phi", "nu_2", "eta_2", "hat_rho_2")
ROUNDING = 1e-9  # what an exact constant may be off by, relative
PAIR = representation_pair(size=6, features=30, represented=40)


def constants() -> Constants:
    solution = reference(PAIR.user, PAIR.user.lam[None])
    return on_balls(PAIR.user, solution, ("local",), spend=Spend(1e-3, 0), tell=no_progress)["local"]


# with none of the single products of a bilinear form, its norm as a whole is used: ‖X‖‖XH‖ in place of that of XᵀXH
@pytest.mark.parametrize(("products", "limit"), [(bilinear_sizes.MOST_IN_PARTS, 1.05), (0, 1.15)])
def test_constants_are_those_of_the_closed_forms(products: int, limit: float) -> None:
    assert PAIR.user.n**2 >= LARGE
    limits = (patch.object(module, "MOST_IN_PARTS", products) for module in (bilinear, bilinear_sizes))
    with next(limits), next(limits):
        ours = constants()
    closed = PAIR.shipped.known
    assert isinstance(closed, ClosedForms)
    region = Region("w_star", reference(PAIR.user, PAIR.user.lam[None]).w[0], ours["r_0"].value)
    found = [*closed.everywhere(PAIR.shipped.lam), *closed.on(PAIR.shipped.lam, region)]
    for constant in found:
        if constant.name in NAMES:
            own = ours[constant.name]
            assert own.side in (Side.UPPER, Side.EXACT)
            assert own.value <= limit * constant.value, own.name
            if constant.side is Side.EXACT:
                assert own.value >= constant.value * (1 - ROUNDING), own.name
