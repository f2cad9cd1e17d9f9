"""Bounds on minibatch hypergradients: constants that are attained, orderings, and one draw used for everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from exact_moments import AffineSum, Means, ScalarSum
from hypothesis import given, settings
from hypothesis import strategies as st
from stochastic_instances import T, affine, affine_runs

from boundcheck import bounds
from boundcheck.step_schedule import StepSchedule
from boundcheck.theory.stochastic_recursion import mean_square_distance
from boundcheck.theory.symbols import CONSTANTS, QUANTITIES


def scalar(A: tuple[float, ...], B: tuple[float, ...], c: tuple[float, ...], w_0: float) -> AffineSum:
    """One dimension, E = w and λ = 1."""
    column = [np.array(x).reshape(-1, 1, 1) for x in (A, B)]
    zero, one = np.zeros((1, 1)), np.ones(1)
    return AffineSum(*column, np.array(c)[:, None], zero, one, zero, 0 * one, one, np.array([w_0]))


@dataclass(frozen=True)
class Sharp:
    """A bound, the instance on which it is the mean itself, with these steps, and the constant that is halved."""

    constant: str
    bound: str
    instance: AffineSum
    eta: float
    t: int
    k: int


# V* alone from w*; m₁ alone where all draws agree at w* = 0; m₂ alone from w* with ∂₁Φ̂ the same for every draw
SHARP = [
    Sharp("V_star", "stochastic-recursive", scalar((0.5, 0.5), (0, 0), (1.0, -1.0), 0.0), 0.7, 1, 0),
    Sharp("sigma_1", "stochastic-constant", scalar((0.5, 0.5), (0, 0), (1.0, -1.0), 0.0), 0.7, 1, 0),
    Sharp("sigma_1_grad", "sgd-constant", scalar((0.5, 0.5), (0, 0), (1.0, -1.0), 0.0), 0.7, 1, 0),
    Sharp("m_1", "stochastic-recursive", scalar((0.9, -0.9), (0, 0), (0, 0), 1.0), 0.8, 6, 0),
    Sharp("L_Phi_hat", "stochastic-recursive", scalar((0.9, -0.9), (0, 0), (0, 0), 1.0), 0.8, 6, 0),
    Sharp("mse_0", "stochastic-recursive", scalar((0.5, 0.5), (0, 0), (0, 0), 1.0), 1.0, 5, 0),
    Sharp("m_2", "sid-orthogonal", scalar((0.5, 0.5), (3.0, -3.0), (3.0, -3.0), 0.0), 1.0, 0, 60),
    Sharp("L_Phi_star", "sid-bias", scalar((0.5, 0.5), (3.0, 3.0), (0.0, 0.0), 6.0), 1.0, 0, 4),
]


def sharp_value(case: Sharp, constants: dict[str, float]) -> float:
    """The bound at the t and k of the case; L_Φ̂² stands for m₁, which it bounds."""
    steps, known = StepSchedule.constant(case.eta), dict(constants)
    if case.constant == "L_Phi_hat":
        known["m_1"] = known["L_Phi_hat"] ** 2
    if bounds[case.bound].bounds.name == "mse_w":
        return float(bounds[case.bound].evaluate(known, case.t, eta=case.eta).values)
    rho = mean_square_distance(steps, case.t, **{x: known[x] for x in ("q", "m_1", "V_star", "mse_0")}, rigorous=False)
    size = (known["L_E"] / (1 - known["q"])) ** 2
    sigma = mean_square_distance(steps, case.k, q=known["q"], m_1=known["m_1"], V_star=0, mse_0=size, rigorous=False)
    return float(bounds[case.bound].evaluate(known, mse_w=rho[-1], mse_v=sigma[-1]).values)


@pytest.mark.parametrize("case", SHARP, ids=lambda case: case.constant)
def test_a_constant_is_attained_and_half_of_it_is_not_enough(case: Sharp) -> None:
    means: Means = case.instance.means([case.eta] * case.t, [case.eta] * case.k)
    name = bounds[case.bound].bounds.name
    truth = means.mse_w[case.t] if name == "mse_w" else getattr(means, name)[case.t, case.k]
    constants = dict(case.instance.constants)
    # where all draws have the same ∂₁Φ̂ the variance is V* at every w, so that σ₁ = V* and σ₂ = 0 do
    constants |= {"sigma_1": constants["V_star"], "sigma_2": 0.0}
    constants |= {"sigma_1_grad": constants["V_star"], "sigma_2_grad": 0.0, "mu": 0.5, "L": 0.5, "alpha": 1.0}
    assert sharp_value(case, constants) == pytest.approx(truth, rel=1e-12)
    assert sharp_value(case, constants | {case.constant: constants[case.constant] / 2}) < 0.9 * truth


def one_draw(B: float) -> tuple[ScalarSum, float]:
    """Φ̂ = ±Bλ + 1/4 and E = w²/2 at λ = 1: the draws cancel in ∂₂Φ = 0, so ∇f = 0."""
    problem = ScalarSum(
        lambda j, w: (-1) ** j * B + 0.25, lambda j, w: 0.0, lambda j, w: (-1) ** j * B, lambda w: w, lambda w: 0.0, 2
    )
    return problem, 0.25


def test_one_draw_for_everything_is_biased_beyond_theorem_3_1() -> None:
    """t = k = 1, two examples: with independent draws the bias is 0, as the bound says; with one draw it is B²."""
    problem, w_star = one_draw(0.5)
    means = problem.means(0.0, w_star, lambda w: w, 0.0, [1.0], [1.0])
    constants = dict.fromkeys(("q", "nu_1", "nu_2", "eta_2", "L_Phi_star"), 0.0) | {"eta_1": 1.0, "L_E": 0.75}
    bound = bounds["sid-bias"].evaluate(constants, mse_w=means.mse_w, mse_v=0.0).values
    assert means.bias == bound == 0
    assert problem.mean_with_one_draw(0.0, [1.0], [1.0]) == 0.25 > bound


NUMBER = st.floats(0, 10).map(lambda x: x if x > 1e-6 else 0.0)
NAMES = ("nu_1", "nu_2", "eta_1", "eta_2", "L_E", "L_Phi_star", "m_2")


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBER)), st.floats(0, 0.99), NUMBER, NUMBER)
@settings(max_examples=200)
def test_the_orthogonal_bound_is_never_above_theorem_3_4(
    constants: dict[str, float], q: float, rho: float, sigma: float
) -> None:
    ours, paper = (
        bounds[name].evaluate(constants | {"q": q}, mse_w=rho, mse_v=sigma).values
        for name in ("sid-orthogonal", "sid-mse")
    )
    assert ours <= paper * (1 + 1e-13)


def test_the_floor_of_the_orthogonal_bound_is_half_of_that_of_theorem_3_4() -> None:
    constants = dict.fromkeys(NAMES, 0.7) | {"q": 0.8}
    ours, paper = (bounds[x].evaluate(constants, mse_w=0, mse_v=0).values for x in ("sid-orthogonal", "sid-mse"))
    assert ours == pytest.approx(paper / 2, rel=1e-15)


@pytest.mark.parametrize("seed", range(12))
def test_the_solver_for_v_has_a_smaller_bias_than_its_distance(seed: int) -> None:
    """E[v_k|w] is the iteration without noise: ‖E[v_k|w]−v(w)‖ ≤ Π(1−η_i(1−q))‖v(w)‖, where √σ_k has a floor."""
    instance, runs = affine(seed), affine_runs(seed)
    constants = instance.constants
    for run in runs:
        shrinks = np.cumprod([1.0, *(1 - run.steps.at(i) * (1 - constants["q"]) for i in range(T))])
        of_mean = shrinks * constants["L_E"] / (1 - constants["q"])
        bound = bounds["sid-bias"].evaluate(constants, mse_w=run.mse_w[:, None], mse_v=of_mean[None, :] ** 2).values
        assert (run.means.bias <= bound * (1 + 1e-12) + 1e-12 * (1 + np.linalg.norm(run.hypergradient))).all()


VARIANCES: dict[str, Callable[[dict[str, float]], tuple[float, float]]] = {
    "sigma_2 of the paper": lambda c: (2 * c["V_star"], 2 * (c["L_Phi_hat"] ** 2 + c["q"] ** 2) / (1 - c["q"]) ** 2),
    "without q²": lambda c: (2 * c["V_star"], 2 * c["L_Phi_hat"] ** 2 / (1 - c["q"]) ** 2),
    "with m_1": lambda c: (2 * c["V_star"], 2 * c["m_1"] / (1 - c["q"]) ** 2),
}


@pytest.mark.parametrize("name", VARIANCES)
def test_theorem_4_3_and_its_sharper_forms(name: str) -> None:
    """V[Φ̂(w)] ≤ σ₁ + σ₂‖Φ(w)−w‖² at many w; and m₁ ≤ L_Φ̂², so that each form is sharper than the one before."""
    rng = np.random.default_rng(0)
    for seed in range(24):
        instance, constants = affine(seed), affine(seed).constants
        sigma_1, sigma_2 = VARIANCES[name](constants)
        for _ in range(20):
            w = instance.w_star + rng.normal(size=len(instance.w_0)) * 10.0 ** rng.uniform(-2, 2)
            draws = instance.A @ w + instance.offsets
            residual = draws.mean(0) - w
            assert draws.var(axis=0).sum() <= (sigma_1 + sigma_2 * residual @ residual) * (1 + 1e-9)
        assert constants["m_1"] <= constants["L_Phi_hat"] ** 2 * (1 + 1e-12)


def test_the_noise_relative_to_the_residual_is_attained_and_half_of_it_is_not_enough() -> None:
    """One dimension, Φ̂(w) = ±(w/2 + 1) with q = 0, V* = 1 and m₁ = 1/4: at w = 2 V[Φ̂] is σ₁ + σ₂‖Φ(w)−w‖²."""
    constants = scalar((0.5, -0.5), (0, 0), (1.0, -1.0), 2.0).constants
    sigma_1, sigma_2 = VARIANCES["with m_1"](constants)
    variance = (0.5 * 2 + 1) ** 2
    assert variance == pytest.approx(sigma_1 + sigma_2 * 2**2, rel=1e-14)
    assert variance > sigma_1 + sigma_2 / 2 * 2**2


@pytest.mark.parametrize(
    ("bound", "name", "A", "more"),
    [
        ("stochastic-constant", "sigma_2", (0.8, -0.4), {"sigma_1": 0.0}),
        ("sgd-constant", "sigma_2_grad", (0.5, -0.5), {"sigma_1_grad": 0.0, "alpha": 1.0, "mu": 1.0, "L": 1.0}),
    ],
)
def test_sigma_2_is_attained_at_the_largest_step_and_half_of_it_allows_one_that_is_too_large(
    bound: str, name: str, A: tuple[float, float], more: dict[str, float]
) -> None:
    """All draws agree at w* = 0, and V[Φ̂(w)] = σ₂‖Φ(w)−w‖² with σ₂ = m₁/(1−q)² at every w."""
    instance, t = scalar(A, (0, 0), (0, 0), 1.0), 5
    sigma_2 = instance.constants["m_1"] / (1 - instance.constants["q"]) ** 2
    for share, ratio in ((1.0, 1.0), (0.5, 1.2)):
        known = {**instance.constants, **more, name: share * sigma_2}
        eta = 1 / (1 + known[name]) * (1 - 1e-15)
        value = float(bounds[bound].evaluate(known, t, eta=eta).values)
        truth = instance.means([eta] * t, []).mse_w[t]
        assert truth == pytest.approx(value, rel=1e-12) if share == 1 else truth > ratio * value


ELSEWHERE = {
    **dict.fromkeys(("sigma_2", "sigma_2_grad"), "attained at the largest step, the test above"),
    **dict.fromkeys(("L_ell_hat", "mu_ell_hat"), "tests/theory/test_convex_recursion.py"),
    **dict.fromkeys(("q", "nu_1", "nu_2", "eta_1", "eta_2", "L_E", "W", "mu", "L"), "test_wrong_constants.py"),
    **dict.fromkeys(("alpha", "eta", "beta", "gamma"), "chosen, not bounded: it has no wrong side"),
}


def test_every_constant_of_a_stochastic_bound_has_an_instance() -> None:
    of_means = [bound for bound in bounds.values() if bound.stochastic]
    used = {c.name for c in CONSTANTS if any(bound.mentions(c.symbol) for bound in of_means)}
    names = {name for bound in of_means for name in (*bound.symbols, *map(str, bound.defaults))}
    used |= {name for name in names if QUANTITIES[name].kind == "constant"}
    assert {case.constant for case in SHARP} | set(ELSEWHERE) == used


def test_the_steps_that_halve_the_distance_where_only_the_derivative_is_noisy() -> None:
    """Φ̂ = (0.99±1)w, the figures of docs/tightness.md; E w_t² itself is (m₁/((1−q)²+m₁))^t with the best step."""
    q, m_1, longest = 0.99, 1.0, 1.99
    known = {"q": q, "m_1": m_1, "V_star": 0.0, "mse_0": 1.0, "sigma_1": 0.0}
    best = (1 - q) / ((1 - q) ** 2 + m_1)
    assert bounds["stochastic-recursive"].iterations(known, 0.5, eta=best).t == 6932
    exact = ((1 - best + best * (q + 1)) ** 2 + (1 - best + best * (q - 1)) ** 2) / 2
    assert exact**6932 <= 0.5 < exact**6931
    for growth, steps in ((2 * (longest**2 + q**2), 3_441_528), (2 * m_1, 696_665)):
        sigma_2 = growth / (1 - q) ** 2
        eta = 1 / (1 + sigma_2)
        assert bounds["stochastic-constant"].iterations(known, 0.5, eta=eta, sigma_2=sigma_2).t == steps
