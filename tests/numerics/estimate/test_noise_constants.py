"""Constants of the noise: proved ones against brute force over all examples, all minibatches and points of the ball."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from itertools import combinations

import pytest
import torch

import boundcheck as bc
from boundcheck.constants import Constants
from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.finite_sum import FiniteSum
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate import example_programs, noise_estimates
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.example_bounds import ExampleBounds
from boundcheck.numerics.estimate.example_source import ExampleSource
from boundcheck.numerics.estimate.iterate_ball import largest_distance
from boundcheck.numerics.estimate.noise_constants import Noise, noise_constants
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.solvers.reference import reference
from boundcheck.problems.parts.synthetic_data import DataSplit
from boundcheck.progress import no_progress
from boundcheck.side import Side
from boundcheck.step_schedule import StepSchedule
from tests.numerics.estimate import noisy_problems as noisy

D = torch.float64
SPEND = Spend(1e-3, 0, budget=20)
NEAR = 1 + 1e-9  # rounding of brute force
# the least share of each bound that points of the ball of radius 0.5 reach: low and high, m_1, m_2
REACHED = {
    "ridge": (0.999, 0.999, 1.0),
    "lr": (0.99, 0.9, 1.0),
    "multinomial": (0.9, 0.6, 1.0),
    "cleaning": (0.85, 0.45, 0.35),
    "tanh": (0.95, 0.6, 0.2),
    "apart": (0.95, 0.55, 1.0),
}


def setting_of(p: Problem) -> Setting:
    return Setting(p, Prepared(p, p.lam[None]), reference(p, p.lam[None]), SPEND, no_progress)


def noise_of(p: Problem, eta: float = 0.2, t: int = 30, k: int = 20, known: Constants | None = None) -> Noise:
    steps = StepSchedule.constant(eta)
    return noise_constants(p, reference(p, p.lam[None]), t=t, steps=steps, k=k, steps_v=steps, known=known, spend=SPEND)


@pytest.mark.parametrize("name", noisy.NAMES)
def test_bounds_of_examples_hold_on_the_ball_and_are_reached(name):
    p = noisy.problem(name)
    setting, radius = setting_of(p), 0.5
    bounds = ExampleSource.of(setting).on(setting.w_star, radius)
    assert isinstance(bounds, ExampleBounds), bounds
    values, _, _ = noisy.of_every(p, setting.w_star)
    moves = (values - setting.w_star).norm(dim=1)
    assert (moves <= bounds.moves).all()
    assert (bounds.moves <= moves * NEAR + 1e-14).all()
    variance = float(((values - values.mean(0)) ** 2).sum(1).mean())
    assert variance <= bounds.variance_above * (1 + 1e-15)
    assert bounds.variance_above <= variance * NEAR
    _, Y, Z = noisy.of_every(p, noisy.points(setting.w_star, radius, 40))
    if name in noisy.LOSSES:
        ends = torch.linalg.eigvalsh(Y)
        assert (ends[..., 0] >= bounds.low - 1e-12).all()
        assert (ends[..., -1] <= bounds.high + 1e-12).all()
        size = ends.abs().amax()
    else:
        size = torch.linalg.matrix_norm(Y, 2).max()
        assert (torch.linalg.matrix_norm(Y, 2) <= bounds.high * NEAR).all()
    assert (torch.linalg.matrix_norm(Z, 2) <= bounds.by_lam * NEAR).all()
    reached = float(size), noisy.spread(Y, both=True), noisy.spread(Z)
    limits = float(torch.maximum(bounds.low.abs(), bounds.high.abs()).max()), bounds.m_1, bounds.m_2
    for value, limit, share in zip(reached, limits, REACHED[name], strict=True):
        assert value <= limit * NEAR + 1e-25, name
        assert value >= share * limit - 1e-25, (name, value / limit)


def overflowing(step):
    """exp(−xw) is above every double where log1p(exp(−xw)) is about −xw, and its derivative is not a number."""

    def inner(w, lam, x):
        return torch.log1p(torch.exp(-x @ w)).mean() + 0.1 * lam.exp() @ w**2

    one, x = torch.ones(1, dtype=D), torch.tensor([[800.0], [1.0], [-1.5]], dtype=D)
    return bc.Problem.from_loss(inner, lambda w, lam: ((w - 1) ** 2).sum(), 0 * one, one, step, data=x, batch=1)


def test_a_ball_on_which_a_derivative_overflows_is_replaced_by_that_of_the_start():
    """Steps so large that nothing keeps the iterates where the function can be computed: estimates, and no error."""
    p = overflowing(0.5)
    noise = noise_of(p, eta=1.0, t=3, k=3)
    assert noise.doubt
    assert noise.radius == pytest.approx(float(reference(p, p.lam[None]).w[0].norm()))
    assert not noise.constants["m_1"].is_safe


def test_points_at_which_a_derivative_overflows_are_left_out():
    bounds = noise_estimates.measured(setting_of(overflowing(1e-4)), 4.0, "far")
    assert bounds.low.isfinite().all()
    assert bounds.doubt == "far"


@pytest.mark.parametrize("batch", [1, 3])
def test_the_noise_of_the_mixed_derivative_of_a_loss_is_reached(batch):
    """ℓ_i = ½‖w‖² − s_i λᵀw: ∂₂Φ_i = α s_i I, so that m₂ is α² times the variance of the s_i, over the batch."""

    def inner(w, lam, s):
        return (w**2).sum() / 2 - s.mean() * (lam * w).sum()

    start, s = torch.ones(2, dtype=D), torch.tensor([3.0, -1.0, 0.5, 1.0], dtype=D)
    p = bc.Problem.from_loss(inner, lambda w, lam: (w**2).sum(), start, start, 0.5, data=s, batch=batch)
    m_2 = noise_of(p).constants["m_2"]
    truth = 0.25 * float(s.var(correction=0)) / batch
    assert m_2.is_safe
    assert truth <= m_2.value <= truth * NEAR


def test_the_noise_of_the_derivative_by_closed_form_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """lr with xᵢ = ±2 and 0, 0, so w* = 0: ∇²ℓ_i is λ + Nσ'(0)xᵢ² = λ + 4, twice, or λ, so that m₁ is α²·(4/2)²."""
    X = torch.tensor([[2.0], [-2.0], [0.0], [0.0]], dtype=D)
    split = DataSplit(X, torch.ones(4, dtype=D), X, torch.ones(4, dtype=D))
    monkeypatch.setattr(sys.modules["boundcheck.problems.logistic_regression"], "generate", lambda **options: split)
    p = bc.problems.logistic_regression(size=4, features=1, low=1.0, batch=1)
    setting = setting_of(p)
    source = ExampleSource.of(setting)
    assert source.step is not None
    assert source.programs is None  # the closed form, and not the program
    bounds = source.on(setting.w_star, 0.5)
    assert isinstance(bounds, ExampleBounds), bounds
    each = [partial(noisy.phi, p, index=torch.tensor([i])) for i in range(4)]
    truth = noisy.spread(torch.stack([torch.func.jacrev(one)(setting.w_star) for one in each]), both=True)
    assert truth == pytest.approx(4 * source.step.alpha**2, rel=1e-9)
    assert truth <= bounds.m_1 <= truth * NEAR


def test_noise_relative_to_the_residual_is_reached() -> None:
    """Φ_i = ±(w/2 + 1) with q = 0: at w = 2 the variance 4 is σ₁ + σ₂‖Φ(w) − w‖², and half of either is too little."""
    a, c = torch.tensor([[0.5, 1.0], [-0.5, -1.0]], dtype=D).T

    def fp_map(w, lam, rows):
        return (rows[0][:, None] * w + rows[1][:, None] * lam).mean(0)

    start = torch.ones(1, dtype=D)
    p = bc.Problem.from_map(fp_map, lambda w, lam: (lam * w).sum(), start, start, data=(a, c), batch=1)
    constants = noise_of(p, eta=1.0).constants
    sigma_1, sigma_2 = constants["sigma_1"], constants["sigma_2"]
    assert 4 <= (sigma_1.value + sigma_2.value * 2**2) <= 4 * NEAR
    assert sigma_1.is_safe
    assert sigma_2.is_safe


@pytest.mark.parametrize("replacement", [True, False])
def test_constants_are_those_of_all_minibatches(replacement):
    p = noisy.problem("cleaning", replacement=replacement)
    w = reference(p, p.lam[None]).w[0]
    noise = noise_of(p, eta=0.1)
    assert not noise.doubt
    assert noise.constants["V_star"].side is Side.EXACT
    values, _, _ = noisy.of_minibatches(p, w)
    V = float(((values - values.mean(0)) ** 2).sum(1).mean())
    assert noise.constants["V_star"].value == pytest.approx(V, rel=1e-9)
    assert torch.allclose(values.mean(0), w, atol=1e-12)
    found = {name: noise.constants[name] for name in ("m_1", "m_2", "L_Phi_hat")}
    assert all(constant.side is Side.UPPER for constant in found.values())
    for x in noisy.points(w, noise.radius, 6):
        values, Y, Z = noisy.of_minibatches(p, x)
        assert noisy.spread(Y, both=True) <= found["m_1"].value
        assert noisy.spread(Z) <= found["m_2"].value
        assert float(torch.linalg.matrix_norm(Y, 2).max()) <= found["L_Phi_hat"].value
        V = float(((values - values.mean(0)) ** 2).sum(1).mean())  # of Φ̂(x), against σ₁ + σ₂‖Φ(x) − x‖²
        sigma_1, sigma_2 = (noise.constants[name].value for name in ("sigma_1", "sigma_2"))
        assert sigma_1 + sigma_2 * float((values.mean(0) - x).norm()) ** 2 >= V
    alpha = noise.constants["alpha"].value
    assert noise.constants["sigma_1_grad"].value == pytest.approx(2 * noise.constants["V_star"].value / alpha**2)


def test_the_noise_of_minibatches_is_that_of_examples_times_the_factor():
    """With no steps at all the ball is the same, so that the constants differ by the factor alone."""
    one, two = (noise_of(noisy.problem("cleaning", b, b == 1), t=0, k=0).constants for b in (1, 2))
    factor = (noisy.EXAMPLES - 2) / (2 * (noisy.EXAMPLES - 1))
    for name in ("V_star", "m_1", "m_2", "sigma_1", "sigma_2"):
        assert two[name].value == pytest.approx(factor * one[name].value, rel=1e-9), name


def test_worst_draws_stay_in_the_ball_and_come_near_its_edge():
    """Always the example that leads farthest from w*, and always the same one; likewise for v and the error."""
    p, eta, t, k = noisy.problem("ridge", batch=1), 0.2, 30, 20
    solution = reference(p, p.lam[None])
    w_star, noise = solution.w[0], noise_of(p, 0.2, t, k)
    assert not noise.doubt
    farthest, w = 0.0, p.w0
    runs = [w.clone() for _ in range(noisy.EXAMPLES)]
    for _ in range(t):
        values, _, _ = noisy.of_every(p, w)
        steps = w + eta * (values - w)
        w = steps[(steps - w_star).norm(dim=1).argmax()]
        runs = [x + eta * (noisy.phi(p, x, torch.tensor([i])) - x) for i, x in enumerate(runs)]
        farthest = max(farthest, *(float((x - w_star).norm()) for x in (w, *runs)))
    assert noise.radius / 8 <= farthest <= noise.radius
    largest_v, largest_error = 0.0, 0.0
    for x in (w, *runs):
        of_w, of_lam = torch.func.grad(lambda w, lam: p.outer(w, lam), (0, 1))(x, p.lam)
        _, Y, Z = noisy.of_every(p, x)
        v = torch.zeros_like(x)
        for _ in range(k):
            steps = v + eta * (Y.mT @ v + of_w - v)
            v = steps[steps.norm(dim=1).argmax()]
        largest_v = max(largest_v, float(v.norm()))
        errors = of_lam + Z.mT @ v - solution.value[0]
        largest_error = max(largest_error, float(errors.norm(dim=1).max()))
    assert noise.largest_v.value / 8 <= largest_v <= noise.largest_v.value
    assert largest_error <= noise.largest_error.value
    assert noise.largest_error.side is Side.UPPER


@pytest.mark.parametrize(
    "steps",
    [StepSchedule.constant(0.3), StepSchedule.decreasing(2.0, 4.0), StepSchedule(0.1, 50, 3.0, 10.0)],
    ids=str,
)
def test_the_largest_distance_is_that_of_every_step(steps):
    """The early end of the recursion returns no less than all steps give, and no more than 1.2 times as much."""
    sums = FiniteSum(3, 2, False, lambda w, ready, index: w)
    low, high, pushes = torch.tensor([[-3.0, 0.2, 0.5], [0.6, 0.9, 0.7], [1.0, 0.2, 3.0]], dtype=D)

    def factors(eta: float) -> torch.Tensor:
        return torch.maximum((1 - eta + eta * low).abs(), (1 - eta + eta * high).abs())

    for start in (0.0, 3.0, 50.0):
        value = largest_distance(start, steps, 400, factors, pushes, sums, 1.0, D)
        r = most = start
        for i in range(400):
            r = float((factors(steps.at(i)) * r + steps.at(i) * pushes).topk(2).values.mean())
            most = max(most, r)
        assert most * (1 - 1e-14) <= value <= 1.2 * most
    assert largest_distance(1.0, StepSchedule.constant(1.0), 400, factors, pushes, sums, 1.0, D) == float("inf")


def test_a_minibatch_contracts_though_its_examples_do_not():
    """Full steps on single examples lead away from w*, and those on all examples do not: there is no noise at all."""
    some, every = (noisy.problem("ridge", batch=batch, replacement=False) for batch in (1, noisy.EXAMPLES))
    assert "so large" in noise_of(some, eta=1.0, t=200).doubt
    noise = noise_of(every, eta=1.0, t=200)
    assert noise.doubt == ""
    assert noise.radius == pytest.approx(noise.constants["r_0"].value, rel=1e-6)
    assert noise.largest_error.side is Side.UPPER


def test_the_factor_of_a_minibatch_is_the_largest_of_all():
    low, high = torch.tensor([[-3.0, 0.2, -1.5, -0.4], [0.9, 0.95, -1.0, 0.7]], dtype=D)
    sums, none = FiniteSum(4, 2, False, lambda w, ready, index: w), torch.zeros(4, dtype=D)
    bounds = ExampleBounds(none, low, high, True, none, 0.0, 0.0, 0.0, 0.0, "", "")
    for eta in (0.3, 1.0):
        means = (ends[list(pair)].mean() for ends in (low, high) for pair in combinations(range(4), 2))
        worst = max(abs(1 - eta + eta * float(mean)) for mean in means)
        assert worst <= bounds.factor_of_batch(eta, sums) <= worst * (1 + 1e-12)
        steeper = replace(bounds, high=high.abs(), low=-high.abs(), is_symmetric=False)
        largest = 1 - eta + eta * float(high.abs().topk(2).values.mean())
        assert largest <= steeper.factor_of_batch(eta, sums) <= largest * (1 + 1e-12)


def test_estimates_are_below_what_is_proved():
    p = noisy.problem("multinomial")
    setting = setting_of(p)
    proved, estimate = ExampleSource.of(setting).on(setting.w_star, 0.5), noise_estimates.measured(setting, 0.5, "why")
    assert isinstance(proved, ExampleBounds)
    assert estimate.doubt == "why"
    assert estimate.m_1 <= proved.m_1
    assert (estimate.high <= proved.high).all()
    assert (estimate.low >= proved.low).all()
    assert estimate.variance == pytest.approx(proved.variance, rel=1e-12)


def test_what_all_examples_share_is_split_off():
    programs = example_programs.record(noisy.problem("multinomial"), has_step=True)
    assert len(programs.common) == 1
    assert programs.lam_apart
    assert {len(terms) for terms in programs.own} == {1}
    assert not example_programs.record(noisy.problem("cleaning"), has_step=True).lam_apart


def test_too_large_steps_leave_estimates_with_the_reason():
    noise = noise_of(noisy.problem("ridge", batch=1), eta=1.0, t=200)
    assert "so large" in noise.doubt
    assert noise.largest_error.side is Side.LOWER
    for name in ("m_1", "L_Phi_hat", "sigma_2", "L_E", "L_Phi"):
        assert noise.constants[name].side is Side.LOWER, name
    assert "so large" in noise.constants["m_1"].provenance.no_proof
    assert noise.constants["m_2"].side is Side.EXACT  # λ and the data are apart, wherever the iterates are


def test_doubts_leave_estimates_with_the_reason():
    p = noisy.problem("ridge")
    assert p.finite_sum is not None
    doubtful = replace(p, finite_sum=replace(p.finite_sum, doubt="nobody knows"))
    noise = noise_of(doubtful)
    assert noise.doubt == "nobody knows"
    assert all(noise.constants[name].side is Side.LOWER for name in ("V_star", "m_1", "m_2", "L_Phi_hat", "sigma_1"))


def test_operations_without_a_rule_leave_estimates_with_the_reason():
    X = noisy._data()[0]

    def inner(w, lam, rows):
        return torch.lgamma(rows @ w + 9).mean() + lam.exp() * (w**2).sum() / 2

    one = torch.tensor(0.0, dtype=D)
    p = Problem.from_loss(inner, noisy._outer, torch.zeros(3, dtype=D), one, data=X, batch=2)
    noise = noise_of(p, t=5, k=5)
    assert "lgamma" in noise.doubt
    assert noise.constants["V_star"].side is Side.LOWER
    assert "lgamma" in noise.constants["L_Phi_hat"].provenance.no_proof


def test_claims_are_used_unless_refuted():
    p = noisy.problem("ridge")
    V = noise_of(p, t=2, k=2).constants["V_star"].value
    known = Constants.given(side="upper", V_star=V / 2, m_1=1e-3, L_Phi_hat=50.0, sigma_2=1.5)
    noise = noise_of(p, t=2, k=2, known=known)
    assert noise.constants["V_star"].provenance.refuted
    assert noise.constants["V_star"].value >= V * (1 - 1e-9)
    assert noise.constants["m_1"].provenance.refuted
    assert noise.constants["L_Phi_hat"].value == 50.0
    assert noise.constants["sigma_2"].value == 1.5


def test_a_problem_without_a_finite_sum_is_refused():
    with pytest.raises(InputError, match=r"scalar: the lower level is not a mean over examples.*data="):
        noise_of(bc.problems.scalar())


def test_minibatches_of_all_examples_have_no_noise():
    p = noisy.problem("lr", batch=noisy.EXAMPLES, replacement=False)
    noise = noise_of(p, t=5, k=5)
    assert [noise.constants[name].value for name in ("V_star", "m_1", "m_2")] == [0.0, 0.0, 0.0]
    assert noise.constants["L_Phi_hat"].value == noise.constants["q"].value
    assert not noise.doubt


def test_closed_forms_of_a_built_in_problem_hold():
    p = bc.problems.logistic_regression(size=6, features=4, batch=2)
    noise = noise_of(p, eta=0.05)
    assert not noise.doubt
    assert noise.constants["m_2"].side is Side.EXACT
    w = reference(p, p.lam[None]).w[0]
    for x in noisy.points(w, noise.radius, 10):
        _, Y, _ = noisy.of_minibatches(p, x)
        assert noisy.spread(Y, both=True) <= noise.constants["m_1"].value
        assert float(torch.linalg.matrix_norm(Y, 2).max()) <= noise.constants["L_Phi_hat"].value
    values, _, _ = noisy.of_minibatches(p, w)
    V = float(((values - values.mean(0)) ** 2).sum(1).mean())
    assert V * (1 - 1e-12) <= noise.constants["V_star"].value <= V * (1 + 1e-6)
