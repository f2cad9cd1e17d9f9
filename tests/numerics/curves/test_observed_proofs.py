"""Every proof holds link by link with what is observed on real runs."""

from __future__ import annotations

import numpy as np
import pytest
from observed_runs import T, observed_runs
from small import NAMES as PROBLEMS
from small import small

import boundcheck as bc
from boundcheck.methods import Method


def rates(
    method: Method, bound: str, constants: dict[str, float], t: np.ndarray, k: np.ndarray
) -> dict[str, np.ndarray]:
    """ρ and σ as the bound has them, where it has its own."""
    q, kappa = constants["q"], constants["kappa"]
    s = (np.sqrt(kappa) - 1) / (np.sqrt(kappa) + 1)
    sigma = {
        "aid-cg": 2 * np.sqrt(kappa) * s**k,
        "aid-cg-chebyshev": np.minimum(1, np.sqrt(kappa) * 2 * s**k / (1 + s ** (2 * k))),
        "aid-cgn": 2 * kappa * ((kappa - 1) / (kappa + 1)) ** k,
        "aid-fp": q**k,
    }
    return {"rho": q**t, "sigma": sigma.get(bound, sigma.get(method.name, 1.0))}


MOMENTUM = ("heavy-ball", "nesterov")  # of these tests/compare/test_check.py and tests/test_chains_hold.py see to it
UNLIKE = (*MOMENTUM, "enclosure")  # other iterates, or nothing that is observed
CHAINED = [
    n
    for n in bc.bounds
    if bc.bounds[n].chain and bc.bounds[n].methods and n not in UNLIKE and not bc.bounds[n].recursion
]


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_link_of_a_proof_falls(name: str) -> None:
    problem = small(name)
    if problem.dynamics.copies > 1:
        problem = small(name, dynamics="gradient-descent")
    T = 30
    methods = ["itd", "aid-fp", "aid-fp:4", "aid-cgn", *(["aid-cg"] if problem.symmetric else [])]
    errors = bc.error_curves(problem, methods, T)
    t = np.arange(1, T + 1)
    checked = set()
    for ball in ("paper", "local"):
        estimated = bc.estimate_constants(problem, ball=ball)
        constants = {x: constant.value for x, constant in estimated.items()}
        observed = observed_runs(problem, methods, T, q=constants["q"])
        constants = {"mu_inv": 1 - constants["q"], "kappa": (1 + constants["q"]) / (1 - constants["q"])} | constants
        if "alpha" in constants:
            constants["L_ell"] = constants["L_Phi_star"] / constants["alpha"]
        for method, values in observed.items():
            k = np.array([method.steps(i) for i in t])
            known = {**constants, **values, "error": errors[str(method)][0], "t": t, "k": k}
            for bound in CHAINED:
                if (
                    bc.bounds[bound].not_run
                    or (bound.endswith("-gd") and "L_ell" not in constants)
                    or (bound == "itd-quadratic" and constants["nu_1"] > 0)
                ):
                    continue
                if method.name in bc.bounds[bound].methods and bound.endswith(("-local", "-path")) == (ball == "local"):
                    links = bc.bounds[bound].chain.evaluate(known | rates(method, bound, constants, t, k))
                    rounding = 1e-11 * (1 + links.values[:, 0].max())
                    before, after = links.values[:-1], links.values[1:]
                    low = np.argwhere(after < before * (1 - 1e-9) - rounding)
                    assert not low.size, f"{method} {bound}: {links.links[low[0][0] + 1].name} at t = {t[low[0][1]]}"
                    checked.add(bound)
    assert {"itd", "itd-local", "aid", "aid-fp", "aid-fp-local", "aid-local", "aid-cgn", "aid-posteriori"} <= checked
    assert ({"itd-gd", "aid-fp-gd"} <= checked) == (problem.inner_at is not None)


def test_a_wrong_observable_breaks_a_proof() -> None:
    """The slacks above have something to say: half of what is measured, and a link falls."""
    problem = small("lr")
    t = np.arange(1, T + 1)
    constants = {x: constant.value for x, constant in bc.estimate_constants(problem).items()}
    values = (
        observed_runs(problem, ["itd"])[Method("itd")]
        | constants
        | {"t": t, "error": bc.error_curves(problem, ["itd"], T)["itd"][0]}
    )
    chain = bc.bounds["itd"].chain
    assert (chain.evaluate(values).slacks >= 1 - 1e-9).all()
    for name in ("dwT_g", "dw"):
        assert (chain.evaluate({**values, name: values[name] / 2}).slacks < 1 - 1e-9).any(), name
