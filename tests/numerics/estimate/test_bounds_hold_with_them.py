"""The constants in the bounds: no real error exceeds what they say."""

from __future__ import annotations

import numpy as np
import pytest
from small import small

import boundcheck as bc
from boundcheck.side import Side

T = 60
CASES = {"itd": ("itd", "itd-local"), "aid-fp": ("aid-fp", "aid-fp-local"), "aid-cg": ("aid-cg",)}


@pytest.mark.parametrize("name", ["lr", "krr", "br", "hr"])
@pytest.mark.parametrize("seed", [0, 1])
def test_with_closed_forms(name: str, seed: int) -> None:
    problem = small(name, seed=seed, dynamics="gradient-descent")
    curves = bc.error_curves(problem, list(CASES), t=T)
    sets = {ball: bc.estimate_constants(problem, ball=ball) for ball in ("paper", "local")}
    noise = 1e-10 * (1 + float(curves.exact.norm()))
    for method, bounds in CASES.items():
        for bound in bounds:
            constants = sets["local" if bound.endswith("local") else "paper"]
            rates = {"rho": "contraction"} if "rho" in {str(s) for s in bc.bounds[bound].symbols} else {}
            values = bc.bounds[bound].evaluate(constants, t=np.arange(1, T + 1), **rates)
            assert values.side in (Side.EXACT, Side.UPPER), (bound, values.weakest)
            assert (curves[method][0] <= values.values + noise).all(), bound
