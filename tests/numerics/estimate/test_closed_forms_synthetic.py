"""Closed forms of LR, KRR, BR, HR and Parkinson: never below what ascent finds, and not far above it.

LIMITS are on bound / best found. Below 2, no constant can lose a factor 2 unseen; the cubic bound of LR, which is not,
has an instance of its own on which it is attained.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from ascent import Ascent, regions
from cases import make
from pretend import DEVICE, pretending
from small import small

import boundcheck as bc
from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import CATALOGUE
from boundcheck.problems.kernel_ridge import generate
from boundcheck.side import Side

EVERYWHERE = {"mu", "L", "kappa", "alpha", "grad_alpha", "q", "D"}
ON = {"L_E", "L_Phi", "nu_1", "nu_2", "eta_1", "eta_2", "hat_rho_1", "hat_rho_2"}
OF_THE_STEP = {"L_Phi", "nu_2"}  # change when the step is differentiated
TIGHT = 1.02  # what ascent may miss of an exact value

LIMITS: dict[str, dict[str, float]] = {
    "lr": {"L_E": 1.5, "nu_1": 2.4, "hat_rho_1": 2.4, "eta_1": 1.55},
    "krr": {"L_Phi": 1.5, "nu_2": 1.15, "hat_rho_2": 1.15, "eta_2": 1.25},
    "br": {},
    "hr": {"L_Phi": 1.5, "eta_2": 1.5},
    "parkinson": {"L_Phi": 1.3, "nu_2": 1.3, "hat_rho_2": 1.3, "eta_2": 1.25},
}
DIFFERENTIATED: dict[str, dict[str, float]] = {  # limits of L_Phi and nu_2 where the step is differentiated
    "lr": {"L_Phi": 1.95, "nu_2": 1.7},
    "krr": {"L_Phi": 1.8, "nu_2": 1.8},
    "br": {"L_Phi": TIGHT, "nu_2": TIGHT},
    "hr": {"L_Phi": 1.8, "nu_2": 1.5},
    "parkinson": {"L_Phi": 2.4, "nu_2": 2.4},  # small and real data: 1.3; here slices nearly cancel
}
SHAPES: dict[str, dict[str, Any]] = {  # as many equations as unknowns or more, where `small` has fewer
    "lr": {"size": 5, "features": 9},
    "br": {"size": 9, "features": 5},
    "hr": {"size": 9, "features": 6, "represented": 5},
}
NAMES = tuple(LIMITS)
PAPER, CENTRED, NEAR = "‖w‖ ≤ 2D", "‖w − w*‖ ≤ r₀", "‖w − w*‖ ≤ r₀/20"

SMALL = [(name, f"small-{seed}", ball) for name in NAMES for seed in (0, 1) for ball in (PAPER, CENTRED)]
SMALL += [(name, "small-0", NEAR) for name in NAMES]
SMALL += [(name, "shape-3", ball) for name in SHAPES for ball in (PAPER, CENTRED)]
LARGE = [(name, "paper-0", ball) for name in NAMES for ball in (PAPER, CENTRED)]
CASES = pytest.mark.parametrize(("name", "size", "ball"), SMALL + LARGE)
EVERY = pytest.mark.parametrize("name", NAMES)
BOTH = pytest.mark.parametrize("differentiate_step", [False, True], ids=["frozen", "differentiated"])


@cache
def made(name: str, size: str, differentiate_step: bool = False, dtype: torch.dtype = torch.float64) -> Problem:
    kind, seed = size.split("-")
    options: dict[str, Any] = {"seed": int(seed), "differentiate_step": differentiate_step, "dtype": dtype}
    if kind == "paper":
        if name == "parkinson":  # the size of the real data, wherever they are not
            options |= {"synthetic": True, "size": 65, "features": 22}
        return CATALOGUE[name].make(**options)
    return small(name, **(SHAPES[name] if kind == "shape" else {}), **options)


@cache
def ascent(name: str, size: str, differentiate_step: bool = False) -> Ascent:
    return Ascent.of(made(name, size, differentiate_step))


def everywhere(problem: Problem) -> dict[str, Constant]:
    assert isinstance(problem.known, ClosedForms)
    return {constant.name: constant for constant in problem.known.everywhere(problem.lam)}


def on(problem: Problem, region: Region) -> dict[str, Constant]:
    assert isinstance(problem.known, ClosedForms)
    return {constant.name: constant for constant in problem.known.on(problem.lam, region)}


def the_ball(name: str, size: str, ball: str) -> Region:
    return regions(ascent(name, size).w_star, everywhere(made(name, size))["D"].value)[ball]


def holds(constant: Constant, found: float, limit: float) -> None:
    slack = 1 + 1e-9  # of an exact value, which is not raised for rounding
    assert constant.value * slack >= found, f"{constant.name} = {constant.value}, found {found}"
    assert constant.value <= limit * found, f"{constant.name} = {constant.value}, only {found} found"


@CASES
def test_no_constant_is_below_what_ascent_finds(name: str, size: str, ball: str) -> None:
    region = the_ball(name, size, ball)
    for constant in on(made(name, size), region).values():
        found = ascent(name, size).best(constant.name, region, steps=1 if constant.value == 0 else 40)
        holds(constant, found, LIMITS[name].get(constant.name, TIGHT))


@CASES
def test_no_constant_is_below_what_ascent_finds_with_the_step_differentiated(name: str, size: str, ball: str) -> None:
    region = the_ball(name, size, ball)
    frozen, constants = on(made(name, size), region), on(made(name, size, True), region)
    for key, constant in constants.items():
        if key in OF_THE_STEP:
            found = ascent(name, size, True).best(key, region, steps=1 if constant.value == 0 else 40)
            holds(constant, found, DIFFERENTIATED[name][key])
        else:
            assert constant == frozen[key]


@EVERY
@BOTH
@pytest.mark.parametrize("size", ["small-0", "small-1", "shape-3", "paper-0"])
def test_constants_of_lam_alone(name: str, size: str, differentiate_step: bool) -> None:
    if size == "shape-3" and name not in SHAPES:
        size = "small-3"
    problem, found = made(name, size, differentiate_step), everywhere(made(name, size, differentiate_step))
    at, ready = ascent(name, size), problem.prepare(problem.lam)
    assert at.w_star.norm() <= found["D"].value <= 1.001 * at.w_star.norm()
    assert found["kappa"].value == pytest.approx(found["L"].value / found["mu"].value)
    assert found["q"].value == pytest.approx((found["kappa"].value - 1) / (found["kappa"].value + 1))
    holds(found["q"], at.best("q", the_ball(name, size, PAPER), steps=20), 1.2)  # LR: 1.1, where ascent stops early
    assert found["alpha"].value == pytest.approx(2 / (found["mu"].value + found["L"].value))
    for w in (torch.zeros_like(at.w_star), at.w_star, 30 * torch.ones_like(at.w_star)):
        H = torch.func.hessian(lambda w: problem.inner_at(w, ready))(w)
        eigenvalues = torch.linalg.eigvalsh(H)
        assert eigenvalues[0] >= found["mu"].value - 1e-12 * found["L"].value
        assert eigenvalues[-1] <= (1 + 1e-12) * found["L"].value
        if problem.affine or w.norm() == 0:  # elsewhere LR is flatter
            assert float(eigenvalues[-1]) == pytest.approx(found["L"].value)
        if problem.affine:
            assert float(eigenvalues[0]) == pytest.approx(found["mu"].value)


def test_mu_of_lr_is_the_infimum() -> None:
    """Where all |uᵀw| are large, ψ'' is 0 and min λ is left."""
    problem = made("lr", "small-0")
    H = torch.func.hessian(lambda w: problem.inner(w, problem.lam))(1e4 * torch.ones(problem.d, dtype=torch.float64))
    assert float(torch.linalg.eigvalsh(H)[0]) == pytest.approx(everywhere(problem)["mu"].value)


@EVERY
@pytest.mark.parametrize("size", ["small-0", "small-1", "small-2", "paper-0"])
def test_the_gradient_of_the_step(name: str, size: str) -> None:
    """Against autograd, from Φ: where ∇₁ℓ is not 0, ∂₂Φ of the two problems differs by ∇₁ℓ∇αᵀ."""
    frozen, problem = made(name, size), made(name, size, True)
    w = 1 + torch.arange(problem.d, dtype=torch.float64) / problem.d
    g = torch.func.grad(lambda w: problem.inner(w, problem.lam))(w)
    slopes = [torch.func.grad(lambda lam, p=p: p.phi(w, lam) @ g)(problem.lam) for p in (frozen, problem)]
    expected = float((slopes[0] - slopes[1]).norm() / (g @ g))
    assert everywhere(frozen)["grad_alpha"].value == 0
    assert everywhere(problem)["grad_alpha"].value == pytest.approx(expected, rel=1e-8, abs=1e-12 * float(g.norm()))


def test_the_gradient_of_the_step_with_more_equations_than_unknowns() -> None:
    """Of HR, where μ has a gradient as well."""
    test_the_gradient_of_the_step("hr", "shape-3")


@EVERY
@BOTH
def test_what_is_promised(name: str, differentiate_step: bool) -> None:
    problem = made(name, "small-0", differentiate_step)
    found = everywhere(problem)
    region = the_ball(name, "small-0", PAPER)
    ball = on(problem, region)
    assert set(found) == EVERYWHERE
    assert set(ball) == ON
    for constant in (*found.values(), *ball.values()):
        assert constant.provenance.how
        assert constant.side in (Side.EXACT, Side.UPPER)
    assert all(constant.provenance.ball == region.ball for constant in ball.values())
    assert found["grad_alpha"].side is (Side.EXACT if name == "br" or not differentiate_step else Side.UPPER)


@EVERY
@BOTH
@pytest.mark.parametrize("size", ["small-0", "paper-0"])
def test_single_precision_is_on_the_same_side(name: str, size: str, differentiate_step: bool) -> None:
    """Bounds are raised by 1000ε ≈ 1.2e-4; D also by ε κ ‖H‖_F/‖H‖, at most 0.3 % here."""
    double, single = (made(name, size, differentiate_step, dtype) for dtype in (torch.float64, torch.float32))
    known = {**everywhere(double), **on(double, the_ball(name, size, CENTRED))}
    region = the_ball(name, size, CENTRED)
    region = Region(region.centre, region.point.float(), region.radius)
    for key, constant in {**everywhere(single), **on(single, region)}.items():
        assert constant.side is known[key].side
        if constant.side is Side.UPPER:
            assert known[key].value <= constant.value <= 1.005 * known[key].value, key
        else:
            assert constant.value == pytest.approx(known[key].value, rel=2e-4), key


def test_the_cubic_bound_is_attained_by_one_example() -> None:
    """LR with one number: at uᵀw* = −log(2 + √3), |σ''| has its maximum 1/(6√3), so that ρ̂₁ = |u|³/(6√3)."""
    problem = CATALOGUE["lr"].make(size=1, features=1, noise=0.0)
    w, lam = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    u = 2 * torch.func.grad(lambda w: problem.inner(w, lam))(w)  # ∇₁ℓ(0) = u/2
    peak = math.log(2 + math.sqrt(3))
    lam = u**2 / peak / (1 + math.exp(peak))
    at = Ascent.of(problem.at(lam))
    assert float(u @ at.w_star) == pytest.approx(-peak)
    region = Region("w_star", at.w_star, 1e-3)
    constants = on(problem.at(lam), region)
    assert constants["hat_rho_1"].value == pytest.approx(float(u.abs()) ** 3 / (6 * math.sqrt(3)))
    for key in ("nu_1", "hat_rho_1", "eta_1", "L_E", "L_Phi", "nu_2"):
        holds(constants[key], at.best(key, region), 1.005)


def test_constants_of_a_small_ball_are_local() -> None:
    """Far from the decision boundary the logistic loss is flat, and a small ball knows."""
    problem = made("lr", "small-0")
    w = ascent("lr", "small-0").w_star
    large, little = (on(problem, Region("w_star", 20 * w, r)) for r in (1e3, 1e-3))
    assert little["eta_1"].value < 0.5 * large["eta_1"].value
    assert little["nu_1"].value < 0.5 * large["nu_1"].value


@EVERY
def test_a_ball_without_extent(name: str) -> None:
    """Suprema at one point are values there."""
    at, problem = ascent(name, "small-1"), made(name, "small-1")
    region = Region("w_star", at.w_star, 0.0)
    a = torch.ones_like(at.w_star)
    w = at.w_star.clone().requires_grad_()
    assert on(problem, region)["L_E"].value == pytest.approx(float(at.fields["L_E"](w, a).detach().norm()))
    J = torch.func.jacrev(lambda lam: problem.phi(at.w_star, lam))(problem.lam)
    assert on(problem, region)["L_Phi"].value == pytest.approx(float(torch.linalg.matrix_norm(J, ord=2)), rel=1e-6)


@pytest.mark.parametrize("size", ["small-0", "small-1", "small-2", "shape-3"])
def test_nu_2_of_lr_bounds_the_frobenius_norm(size: str) -> None:
    """It is proved for that norm, which is larger than the spectral norm and sees every term of the formula."""
    problem = made("lr", size, True)
    d2phi = torch.func.jacrev(problem.phi, argnums=1)
    T = torch.func.jacrev(d2phi)(torch.zeros_like(problem.w0), problem.lam)  # ∇²₁ℓ is largest at 0
    found = float(torch.linalg.matrix_norm(T.flatten(0, 1), ord=2))
    holds(on(problem, the_ball("lr", size, PAPER))["nu_2"], found, 1.25)


def test_nu_2_of_lr_where_the_step_counts_as_much_as_the_weights() -> None:
    """One example far steeper than the ridge, in many directions: αL = 2 and ‖G‖ = α²/2, so that L‖G‖ = α."""
    problem = CATALOGUE["lr"].make(size=1, features=100, kappa=1e5, differentiate_step=True)
    steps = everywhere(problem)
    alpha, L, G = (steps[name].value for name in ("alpha", "L", "grad_alpha"))
    assert pytest.approx(alpha, rel=0.1) == L * G
    w = torch.zeros_like(problem.w0)
    g = torch.func.grad(lambda w: problem.inner(w, problem.lam))(w)
    d2phi = torch.func.jacrev(problem.phi, argnums=1)
    along = torch.func.jvp(lambda w: d2phi(w, problem.lam), (w,), (g / g.norm(),))[1]
    found = float(torch.linalg.matrix_norm(along))  # of Frobenius, for which it is proved
    holds(on(problem, Region("0", w, 1.0))["nu_2"], found, 1.1)


@EVERY
def test_constants_of_a_problem_on_another_device(name: str) -> None:
    here, there = (make(name, torch.float64, device) for device in ("cpu", DEVICE))
    expected = everywhere(here)
    region = Region("0", torch.zeros_like(here.w0), 2 * expected["D"].value)
    expected |= on(here, region)
    with pretending():
        found = everywhere(there) | on(there, Region("0", torch.zeros_like(there.w0), region.radius))
    for key, constant in found.items():
        assert constant.value == pytest.approx(expected[key].value), key


def test_mu_of_a_kernel_in_float32_is_that_of_the_stored_data() -> None:
    """With κ = 1e5 the smallest eigenvalue of a kernel computed in float32 is off by parts of a thousand.

    The truth: the kernel of the stored data by its definition in double precision, whose own rounding is 1e-16·κ.
    """
    problem = bc.load_problem("krr", dtype=torch.float32, kappa=1e5)
    data = generate(seed=0, dtype=torch.float32, device="cpu", size=50, features=100, noise=0.1)
    X, lam = data.X.double().numpy(), problem.lam.double().numpy()
    apart = X[:, None, :] - X[None, :, :]
    K = np.exp(-(apart**2 * lam[1:]).sum(axis=-1)) + lam[0] * np.eye(len(X))
    truth = np.linalg.eigvalsh(K)
    single = problem.prepare(problem.lam).steps.mu
    constants = bc.estimate_constants(problem)
    assert abs(float(single) / truth[0] - 1) > 1e-5
    assert constants["mu"].value == pytest.approx(truth[0], rel=1e-9)
    assert constants["L"].value == pytest.approx(truth[-1], rel=1e-9)
