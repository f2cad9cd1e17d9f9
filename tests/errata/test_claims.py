"""Errata 7 to 10: what the paper reads into its bounds, and its misprints, on small instances.

Arithmetic is rational unless a test says otherwise, so an inequality that holds by equality is tested as such.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as Q
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sympy as sp
from problems import AFFINE, HALF, HyperRepresentation, Problem, affine, exact

from boundcheck.theory.geometric_sum import GeometricSum
from boundcheck.theory.step_sizes import gradient_descent, heavy_ball

Vector = np.ndarray  # of Fractions, or of floats where a test says so; a matrix too
Operator = Callable[[Vector], Vector]


def conjugate_gradient(A: Operator, b: Vector, k: int) -> Vector:
    """k steps from 0."""
    v, r, p = 0 * b, b, b
    for _ in range(k):
        if not r.any():
            break
        A_p = A(p)
        a = (r @ r) / (p @ A_p)
        v, r, old = v + a * p, r - a * A_p, r
        p = r + (r @ r) / (old @ old) * p
    return v


def fixed_point_steps(A: Operator, b: Vector, k: int) -> Vector:
    v = 0 * b
    for _ in range(k):
        v = v - A(v) + b
    return v


def test_erratum_07_with_k_equal_t_conjugate_gradient_is_no_faster() -> None:
    """ℓ = ½λ wᵀHw − bᵀw with H = diag(1, 4), b = (1, 1) at λ = 1, and E = ½‖w‖²: κ = 4, q = 3/5, s = 1/3."""
    H, w_star = np.diag([Q(1), Q(4)]), np.array([Q(1), Q(1, 4)])
    alpha, q, s = Q(2, 5), Q(3, 5), Q(1, 3)
    D = Q(33, 32)  # ‖w*‖ = √17/4 = 1.0308 ≤ 1.03125
    assert w_star @ w_star <= D**2
    constants = {"q": q, "kappa": 4, "nu_1": 0, "nu_2": 4 * alpha, "eta_1": 1, "eta_2": 0}
    constants |= {"D": D, "L_E": 2 * D, "L_Phi": 4 * alpha * 2 * D}

    def system(v: Vector) -> Vector:
        return alpha * H @ v

    def error(w: Vector, v: Vector) -> Q:
        return abs(-alpha * (H @ w) @ v + w_star @ w_star)  # ∇₂E = 0, ∂₂Φ = −αHw and ∇f = −‖w*‖²

    cg_errors, fp_errors, w = [], [], 0 * w_star
    for i in range(41):
        cg_errors.append(error(w, conjugate_gradient(system, w, i)))
        fp_errors.append(error(w, fixed_point_steps(system, w, i)))
        assert cg_errors[-1] <= exact("aid-cg", i, i, **constants)
        w = w - alpha * (H @ w - 1)
        # in k alone, at the solution, the claim is right
        cg_alone = error(w_star, conjugate_gradient(system, w_star, i))
        assert cg_alone <= exact("aid-cg", k=i, **constants, rho=0)
        assert cg_alone == 0 or i < 2
        assert error(w_star, fixed_point_steps(system, w_star, i)) >= Q(15, 16) * q**i

    # at k = t both errors lie within a constant factor of q^t, and two steps gain q² (one alone alternates in sign)
    for errors in (cg_errors, fp_errors):
        assert all(1 < e / q**i < 4 for i, e in enumerate(errors) if i >= 3)
        assert abs(errors[40] / errors[38] / q**2 - 1) < 4 * q**38  # what follows q^t in the error is O(q^2t)
    assert cg_errors[40] / s**40 > 10**10
    # the bound does the same: divided by q^t it tends to c₁ + c₂/(1−q), and the gap shrinks by s/q
    limit = exact("aid-contraction", **constants, rho=1, sigma=0)
    gap = [exact("aid-cg", i, i, **constants) / q**i - limit for i in range(41)]
    assert limit > 0
    assert all(later == s / q * earlier for earlier, later in pairwise(gap))


def test_erratum_08_itd_can_beat_aid_fp_for_long() -> None:
    q = HALF
    problem = affine(q, b=HALF, s=-21)
    D = problem.w_star
    constants = {"q": q, **AFFINE, "D": D, "L_Phi": 21 + 2 * D}
    wins = []
    for steps in range(1, 51):
        itd_error, fp_error = problem.itd_error(steps), problem.fp_error(steps, steps)
        itd_bound, fp_bound = exact("itd", steps, **constants), exact("aid-fp", steps, steps, **constants)
        assert itd_error <= itd_bound
        assert fp_error <= fp_bound
        assert fp_bound < itd_bound
        wins.append(itd_error < fp_error)
    assert wins == [steps <= 39 for steps in range(1, 51)]


def test_erratum_08_itd_can_beat_aid_fp_for_ever() -> None:
    """Φ = ½w + ½ + λ(2 + h(w−1)) with h(x) = x²/(1+x²), at λ = 0: a contraction for small λ, and smooth."""
    q, w_star = HALF, Q(1)
    problem = Problem(
        w_star, lambda w: q * w + HALF, lambda w: q, lambda w: 2 + (w - w_star) ** 2 / (1 + (w - w_star) ** 2)
    )
    nu_2 = Q(2, 3)  # sup |h'| = √27/8
    assert nu_2**2 >= Q(27, 64)
    constants = {"q": q, **AFFINE, "nu_2": nu_2, "D": 1, "L_Phi": problem.d2phi(Q(-2))}
    for steps in range(1, 41):
        itd_error, fp_error = problem.itd_error(steps), problem.fp_error(steps, steps)
        itd_bound, fp_bound = exact("itd", steps, **constants), exact("aid-fp", steps, steps, **constants)
        assert itd_error < fp_error <= fp_bound < itd_bound
    assert Q("3.2") < fp_error / itd_error < Q("3.3")


def growth(errors: list[Any]) -> Any:
    return max(errors) / errors[0]


def exact_solve_errors(problem: Problem, steps: int) -> list[Q]:
    """AID with an exact linear solve."""
    return [problem.aid_error(w, problem.solve(w)) for w in map(problem.iterate, range(steps))]


def test_erratum_09_growth_without_heavy_ball() -> None:
    instance = HyperRepresentation(y=Q(2), y_val=Q(-1))
    problem, steps = instance.problem, 25
    distances = [abs(problem.iterate(i) - problem.w_star) for i in range(steps)]
    assert all(later < earlier for earlier, later in pairwise(distances))  # gradient descent: no divergence

    errors, without_nu_2 = (exact_solve_errors(p, steps) for p in (problem, instance.with_constant_d2phi))
    assert growth(errors) == Q("5.5")
    assert growth(without_nu_2) == 1
    assert all(later < earlier for earlier, later in pairwise(without_nu_2))

    constants = {
        "eta_1": instance.lam**2,
        "eta_2": instance.calmness_of_d2E(Q(0), 2 * problem.w_star),
        "W": problem.W,
        "nu_1": 0,
        "solve_error": 0,
    }
    for i in range(steps):
        run = {"r_t": distances[i], "v_t": abs(problem.solve(problem.iterate(i)))}
        assert errors[i] <= exact("aid-local", i, **constants, **run, nu_2=2 * instance.alpha * instance.lam)
        assert without_nu_2[i] <= exact("aid-local", i, **constants, **run, nu_2=0)


def test_erratum_09_the_derivatives_of_E_can_cause_it_too() -> None:
    instance = HyperRepresentation(y=Q(3), y_val=Q(1))
    assert growth(exact_solve_errors(instance.problem, 25)) == 1
    assert growth(exact_solve_errors(instance.with_constant_d2phi, 25)) == Q("14.5")


def test_erratum_09_on_hyper_representation_itself() -> None:
    """The paper's HR at its sizes and k = t. In floats: the factors below are far above κu = 2000·10⁻¹⁶."""
    rng = np.random.default_rng(0)
    X, X_val, H_data = (rng.standard_normal(shape) for shape in ((50, 100), (50, 100), (100, 200)))
    w_data = rng.standard_normal(200)
    y, y_val = (inputs @ H_data @ w_data + 0.1 * rng.standard_normal(50) for inputs in (X, X_val))
    H, beta = rng.uniform(-1, 1, (100, 200)), 10.0
    spectrum, basis = np.linalg.eigh((X @ H).T @ (X @ H) + beta * np.eye(200))
    A, B = X @ H @ basis, X_val @ H @ basis  # in this basis the Hessian is diagonal, and no norm changes
    w_star = A.T @ y / spectrum
    gd, hb = gradient_descent(beta, spectrum[-1]), heavy_ball(beta, spectrum[-1])

    def hessian(w: Vector) -> Vector:
        return spectrum * w

    def d1E(w: Vector) -> Vector:
        return B.T @ (B @ w - y_val)

    def hypergradient(w: Vector, v: Vector, w_in_d2phi: Vector) -> Vector:
        """∇₂E(w) + ∂₂Φᵀv; the step size cancels against that of v."""
        d2phi_T_v = -np.outer(X.T @ (A @ w_in_d2phi - y), v) - np.outer(X.T @ (A @ v), w_in_d2phi)
        return np.outer(X_val.T @ (B @ w - y_val), w) + d2phi_T_v

    gradient = hypergradient(w_star, d1E(w_star) / spectrum, w_star)

    def fixed_point(b: Vector, k: int) -> Vector:
        return fixed_point_steps(lambda v: gd.alpha * hessian(v), gd.alpha * b, k)

    def run(step: float, momentum: float) -> dict[str, float]:
        """How much the distance and the errors grow above their first values in 30 steps; k = t."""
        w = previous = np.zeros(200)
        result: dict[str, list[Vector]] = {"distance": [], "cg": [], "cg with ∂₂Φ(w*)": [], "fp": []}
        for k in range(30):
            v = conjugate_gradient(hessian, d1E(w), k)
            result["distance"].append(w - w_star)
            result["cg"].append(hypergradient(w, v, w) - gradient)
            result["cg with ∂₂Φ(w*)"].append(hypergradient(w, v, w_star) - gradient)
            result["fp"].append(hypergradient(w, fixed_point(d1E(w), k), w) - gradient)
            w, previous = w + momentum * (w - previous) - step * (hessian(w) - A.T @ y), w
        return {name: growth([np.linalg.norm(x) for x in list_of]) for name, list_of in result.items()}

    plain, heavy = run(gd.alpha, 0.0), run(hb.alpha, hb.beta)
    assert plain["distance"] == 1
    assert plain["cg"] > 60
    assert plain["cg with ∂₂Φ(w*)"] < 5  # so most of it, though not all, is the change of ∂₂Φ
    assert plain["fp"] < 2
    assert heavy["distance"] > 1.2  # heavy ball is not needed for growth, but it multiplies it
    assert heavy["cg"] > 30 * plain["cg"]
    assert heavy["fp"] > 30 * plain["fp"]


def test_erratum_10_T_needs_a_transpose() -> None:
    """Φ = Yw + λ(0,1) with Y = [[0, ½], [0, 0]] and E = w₁: Y² = 0, so both iterations stop after two steps."""
    Y, d2phi, b = np.array([[0, HALF], [0, 0]]), np.array([0, 1]), np.array([1, 0])
    gradient = HALF  # w = (λ/2, λ)
    v_printed = v = np.array([Q(0), Q(0)])
    for k in range(8):
        error, printed_error = (abs(d2phi @ x - gradient) for x in (v, v_printed))
        bound = exact("aid-fp", k=k, q=HALF, nu_1=0, nu_2=0, eta_1=0, eta_2=0, D=1, L_E=1, L_Phi=1, rho=0)
        assert error <= bound
        assert (printed_error <= bound) == (k <= 2)
        v, v_printed = Y.T @ v + b, Y @ v_printed + b
    assert (v - Y.T @ v == b).all()
    assert (v_printed == Y @ v_printed + b).all()
    assert not (v_printed - Y.T @ v_printed == b).all()


def test_erratum_10_the_implicit_function_theorem_needs_a_minus() -> None:
    lam, b = sp.Symbol("lam"), sp.Rational(1, 2)
    w = b / (1 - lam)  # the fixed point of Φ = λw + b, and G = w − Φ
    d1G, d2G = 1 - lam, -w
    assert sp.simplify(w.diff(lam) - (-d2G / d1G)) == 0
    problem, printed = affine(HALF, Q(1, 2)), Q(int((d2G / d1G).subs(lam, b)))
    assert printed == -problem.w_prime
    for steps in range(1, 20):
        bound = exact("itd-derivative", steps, q=HALF, nu_1=0, nu_2=1, D=problem.w_star, L_Phi=2 * problem.w_star)
        assert abs(problem.derivative(steps) - problem.w_prime) <= bound
        assert (abs(problem.derivative(steps) - printed) <= bound) == (steps <= 1)


@pytest.mark.parametrize("factor", [Q(0), HALF, Q(1), Q(2)])
def test_erratum_10_lemma_sequence_at_q_one(factor: Q) -> None:
    u_0, tau, u = Q(3), Q(2), Q(3)
    x = sp.Symbol("x")
    for k in range(6):
        if factor == 1:
            with pytest.raises(ZeroDivisionError):
                factor**k * u_0 + tau * (1 - factor**k) / (1 - factor)
            assert u == u_0 + k * tau
            assert sp.limit(GeometricSum(1 - x, k).doit(), x, 1) == k
        else:
            assert u == factor**k * u_0 + tau * (1 - factor**k) / (1 - factor)
        u = factor * u + tau  # the recursion with equality
