"""The steps t = k that a bound of ρ_t and σ_k guarantees: the first ones, kept by exact means, or where it stays."""

from __future__ import annotations

import numpy as np
import pytest
from stochastic_instances import affine

from boundcheck import InputError, MissingConstantError, bounds
from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory import rate_inversion
from boundcheck.theory.rate_inversion import doubled
from boundcheck.theory.stochastic_recursion import mean_square_distance

TAKE_RATES = [name for name in bounds if "mse_w" in bounds[name].symbols]
KNOWN = {"q": 0.5, "m_1": 0.1, "m_2": 0.0, "V_star": 0.1, "mse_0": 1.0, "L_E": 1.0, "L_Phi_star": 1.0}
KNOWN |= {"nu_1": 0.1, "nu_2": 0.2, "eta_1": 0.3, "eta_2": 0.4}
SLOW, FALLING = StepSchedule.constant(0.1), StepSchedule.decreasing(4.0, 20.0)
SWITCHING = StepSchedule(0.3, 40, 4.0, 20.0)


def test_every_theorem_of_section_3_takes_rates() -> None:
    section_3 = {"sid-bias", "sid-variance-given-w", "sid-variance-of-mean", "sid-mse"}
    assert set(TAKE_RATES) == section_3 | {"sid-orthogonal"}


def along(name: str, steps: StepSchedule, steps_v: StepSchedule, n: int) -> np.ndarray:
    """The bound at t = k = 0 … n; the bias and the variance of the mean need the mean of v_k only."""
    c, size = KNOWN, (KNOWN["L_E"] / (1 - KNOWN["q"])) ** 2
    m_1 = 0.0 if name in ("sid-bias", "sid-variance-of-mean") else c["m_1"]
    rho = mean_square_distance(steps, n, q=c["q"], m_1=c["m_1"], V_star=c["V_star"], mse_0=c["mse_0"])
    sigma = mean_square_distance(steps_v, n, q=c["q"], m_1=m_1, V_star=m_1 * size, mse_0=size)
    return bounds[name].evaluate(c, mse_w=rho, mse_v=sigma).values


@pytest.mark.parametrize("name", TAKE_RATES)
@pytest.mark.parametrize(("steps", "steps_v"), [(FALLING, FALLING), (SLOW, FALLING), (SWITCHING, SLOW)])
def test_it_is_the_first_t_at_which_the_bound_is_small_enough(
    name: str, steps: StepSchedule, steps_v: StepSchedule
) -> None:
    values = along(name, steps, steps_v, 300)
    eps = 1.05 * float(values.min())
    found = bounds[name].iterations(KNOWN, eps, steps=steps, steps_v=steps_v, cost_t=2.0, cost_k=3.0)
    assert found.t == found.k == int(np.argmax(values <= eps)) > 0
    assert found.value == pytest.approx(values[found.t], rel=1e-12)
    assert found.cost == 5.0 * found.t
    assert found.side is Side.EXACT


@pytest.mark.parametrize("name", TAKE_RATES)
def test_what_is_promised_is_kept_by_exact_means(name: str) -> None:
    for seed in range(6):
        instance = affine(seed)
        steps = StepSchedule.constant(0.2)
        names = (x for x in (*KNOWN, *("alpha", "mu", "L", "mu_ell_hat", "L_ell_hat")) if x in instance.constants)
        known = {x: instance.constants[x] for x in names}
        start = bounds[name].evaluate(known, mse_w=known["mse_0"], mse_v=(known["L_E"] / (1 - known["q"])) ** 2).values
        for share in (1.0, 0.9, 0.7):
            try:
                n = bounds[name].iterations(known, share * float(start), steps=steps).t
            except InputError:
                continue
            if n < 60:
                means = instance.means([0.2] * n, [0.2] * n)
                assert getattr(means, bounds[name].bounds.name)[n, n] <= share * start * (1 + 1e-9)


def test_what_cannot_be_reached_says_where_the_bound_stays() -> None:
    mse = bounds["sid-mse"]
    limit = along("sid-mse", SLOW, SLOW, 2000)[-1]
    with pytest.raises(InputError, match=rf"from t = k = \d+ on it stays at {limit:g}; take steps that decrease"):
        mse.iterations(KNOWN, 0.99 * limit, steps=SLOW)
    assert mse.iterations(KNOWN, 1.01 * limit, steps=SLOW).value <= 1.01 * limit
    floor = 2 * 0.1 * 4  # 2m₂L_E²/(1−q)²
    with pytest.raises(InputError, match=rf"with ρ_t = σ_k = 0 it is {floor:g}; take a larger batch"):
        mse.iterations(KNOWN | {"m_2": 0.1}, 0.99 * floor, steps=FALLING)
    assert mse.iterations(KNOWN | {"m_2": 0.1}, 1.1 * floor, steps=FALLING).value <= 1.1 * floor


def test_where_it_stays_when_steps_decrease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_inversion, "LONGEST", 100)
    least = along("sid-mse", FALLING, FALLING, 100)[-1]
    with pytest.raises(InputError, match=rf"its least value up to t = k = 100 is {least:g}, at t = k = 100"):
        bounds["sid-mse"].iterations(KNOWN, 1e-6, steps=FALLING)


def test_a_constant_of_a_rate_that_is_only_an_estimate_makes_the_answer_one() -> None:
    known = Constants.given(**KNOWN).replace(Constant("V_star", 0.1, Side.LOWER, Provenance("sampled")))
    assert bounds["sid-orthogonal"].iterations(known, 0.5, steps=FALLING).side is Side.LOWER
    assert bounds["sid-orthogonal"].iterations(KNOWN, 0.5, steps=FALLING).side is Side.EXACT


def test_refusals() -> None:
    mse, itd = bounds["sid-mse"], bounds["itd"]
    with pytest.raises(InputError, match="sid-mse takes ρ_t and σ_k; give the steps"):
        mse.iterations(KNOWN, 0.1)
    with pytest.raises(InputError, match="mse_w and steps= are both given"):
        mse.iterations(KNOWN, 0.1, steps=SLOW, mse_w=0.1)
    with pytest.raises(InputError, match="itd has steps of its own; leave out steps="):
        itd.iterations(KNOWN, 0.1, steps=SLOW)
    for name, sizes in (("stochastic-constant", "eta"), ("stochastic-decreasing", "beta and gamma")):
        with pytest.raises(
            InputError, match=rf"has steps of its own; leave out steps=.*; give {sizes} with the constants"
        ):
            bounds[name].iterations(KNOWN, 0.1, steps=SLOW)
    with pytest.raises(InputError, match="itd has steps of its own"):
        itd.iterations(KNOWN, 0.1, steps_v=SLOW)
    with pytest.raises(MissingConstantError, match=r"sid-mse needs m_1 .*; give m_1="):
        mse.iterations({x: value for x, value in KNOWN.items() if x != "m_1"}, 0.1, steps=SLOW)


def test_doubling_ends_at_the_most() -> None:
    assert [doubled(lambda n, least=least: n >= least, 100) for least in (1, 5, 65, 101)] == [1, 8, 100, None]
