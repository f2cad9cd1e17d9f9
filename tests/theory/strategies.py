"""Random constants for any bound, related to each other as the theory relates them."""

from __future__ import annotations

from hypothesis import strategies as st

from boundcheck.theory.bound import Bound
from boundcheck.theory.symbols import QUANTITIES

PLAIN = st.floats(0, 10, allow_subnormal=False).map(lambda x: x if x > 1e-6 else 0.0)
UNIT = st.floats(0, 0.999).map(lambda x: x if x > 1e-6 else 0.0)


@st.composite
def constants_for(draw: st.DrawFn, bound: Bound) -> dict[str, float]:
    """A value for every constant and observable the bound needs; mu ≤ L, alpha·L ≤ 1/2, rho ≤ 1, q_star ≤ q."""
    mu = draw(st.floats(1e-3, 1))
    L = mu * draw(st.floats(1, 1e4))
    q = draw(UNIT)
    special = {
        "q": q,
        "q_star": q * draw(UNIT),
        "q_P": draw(UNIT),
        "rho": draw(UNIT),
        "sigma": draw(UNIT),
        "mu_inv": 1 - q,
        "kappa": draw(st.floats(1, 1e6)),
        "mu": mu,
        "L": L,
        "mu_ell_hat": mu * draw(st.sampled_from((0.0, 0.3, 1.0))),
        "L_ell_hat": L * draw(st.floats(0, 2)),
        "alpha": draw(st.floats(0.01, 0.5)) / L,
    }
    names = [name for name in bound.symbols if QUANTITIES[name].kind != "index"]
    made = {name: special[name] if name in special else draw(PLAIN) for name in names}
    if "newton_t" in made:  # near enough to w* for the theorem to speak, and for anything three times as large
        curved = 27 * max(made["A_t_inv"] * made["nu_1"], 0.1)
        made |= {"newton_t": draw(UNIT) / (6 * curved), "eps_w": draw(UNIT) * (1 - q) / (3 * curved)}
    made |= steps_for(draw, made)
    if "v_k" in made:  # likewise
        made["eps_w"] = draw(UNIT) * (1 - q) ** 2 / (2 * max(made["nu_1"], 0.1))
    return made


def steps_for(draw: st.DrawFn, made: dict[str, float]) -> dict[str, float]:
    """Steps of stochastic iterations that the theorems allow, and do so while the noise grows by a quarter.

    β(1−q²) is at least 3/2: at 1 the second number of Theorem 4.2 is infinite, and near 1 as inexact as the β given.
    """
    q = made.get("q", 0.0)
    gap = (1 - q) * (1 + q)
    if "alpha" in made:
        gap = 1 - max(1 - made["alpha"] * made["mu"], made["alpha"] * made["L"] - 1) ** 2 if "mu" in made else gap
    growth = made.get("sigma_2", made.get("sigma_2_grad", 0.0))
    growth = max(
        growth, 2 * (made.get("L_Phi_hat", 0.0) ** 2 + q**2) / (1 - q) ** 2, 2 * made.get("m_1", 0.0) / (1 - q) ** 2
    )
    beta = draw(st.floats(1.5, 10)) / gap
    special = {
        "eta": draw(st.floats(0.01, 0.8)) / (1 + growth),
        "beta": beta,
        "gamma": beta * (1 + growth) * draw(st.floats(1.25, 10)),
    }
    return {name: value for name, value in special.items() if name in made}
