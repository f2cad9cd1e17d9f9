"""What is measured on a run: against the algorithms written out in numpy, autograd through the loop, and proofs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import runs
import torch
from instances import bilinear, descent, saturating
from observed_runs import Observed, Q, T, observed_runs
from pieces import normal
from runs import Instance
from small import small
from torch import Tensor

from boundcheck.errors import InputError, UnknownNameError
from boundcheck.methods import Method
from boundcheck.numerics.bilevel.derivatives import DENSE
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves.observables import NAMES, NEED_MATRICES, OF_AID, OF_FP, OF_ITD, OF_PATH, observe
from boundcheck.numerics.solvers.reference import reference
from boundcheck.theory.symbols import MEANS, OBSERVABLES

SOLVER_OF = {"aid-fp": "fixed-point", "aid-cg": "cg", "aid-cgn": "cgn"}


def inside(function: Callable) -> dict[str, Tensor]:
    """The numbers that a formula of `instances.py` is made of."""
    result = inspect.getclosurevars(function).nonlocals
    return {
        name: torch.as_tensor(x, dtype=torch.float64)
        for name, x in result.items()
        if isinstance(x, (np.ndarray, float))
    }


def phi_of(instance: Instance) -> Callable[[Tensor, Tensor], Tensor]:
    """Φ of a bilinear, saturating or descent instance, in torch."""
    x = inside(instance.phi)
    if instance.name.startswith("bilinear"):
        return lambda w, lam: (x["A"] + torch.einsum("j,jab", lam, x["A_j"])) @ w + x["b"] + x["B"] @ lam
    if instance.name.startswith("saturating"):
        return lambda w, lam: (
            x["U"].T @ (x["a"] * torch.sin(x["V"] @ w + x["phase"] + x["F"] @ (lam - x["lam"])))
            + torch.einsum("j,jab,b", lam - x["lam"], x["A_j"], w)
            + x["B"] @ lam
        )
    y = inside(inspect.getclosurevars(instance.phi).nonlocals["grad"])

    def descends(w: Tensor, lam: Tensor) -> Tensor:
        off = lam - x["lam"]
        gradient = y["H"] @ w + torch.einsum("j,jab,b", off, y["H_j"], w) - y["b"] - y["B"] @ lam
        gradient = gradient + y["U"].T @ (y["c"] * torch.tanh(y["U"] @ w))
        return w - (x["alpha"] + x["slope"] @ off) * gradient

    return descends


def in_torch(instance: Instance) -> Problem:
    E = inspect.getclosurevars(instance.outer).nonlocals["self"]
    Q, p, R = (torch.as_tensor(x) for x in (E.Q, E.p, E.R))
    made = Problem.from_map(
        phi_of(instance),
        lambda w, lam: w @ Q @ w / 2 + p @ w + lam @ R @ w,
        torch.as_tensor(instance.w_0),
        torch.as_tensor(instance.lam),
        symmetric=True if instance.name.startswith("descent") else None,
    )
    c = inside(instance.d1phi).get("c")
    return replace(made, affine=instance.name.startswith("bilinear") or (c is not None and not bool(c.any())))


def expected(instance: Instance, method: Method) -> dict[str, np.ndarray]:
    """The observables of `runs.py` at t = 1 … T and the k of the method."""
    path = runs.iterate(instance, instance.w_0, T)
    most = max(T, method.k or 0)
    aid = runs.observe(instance, path.w, most, SOLVER_OF.get(method.name, "exact"))
    t = np.arange(1, T + 1)
    k = np.array([method.steps(i) for i in t])
    result = {name: np.broadcast_to(x, (T + 1, most + 1))[t, k] for name, x in aid.items()}
    if method.name == "itd":
        result = {name: x for name, x in result.items() if name not in OF_AID}
        result |= {name: x[1:] for name, x in runs.observe_itd(instance, path, Q).items()}
    return {name: x for name, x in result.items() if name != "error"}


INSTANCES = {
    f"{instance.name}{'-curved' if curved else ''}": instance
    for seed in (1, 2, 3, 6, 7, 10, 11, 14)
    for instance, curved in (
        (bilinear(seed), False),
        (saturating(seed), False),
        (descent(seed), False),
        (descent(seed, log_cosh=True), True),
    )
}


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", INSTANCES)
def test_every_observable_equals_what_numpy_finds(name: str, affine: bool) -> None:
    """Measured are differences of numbers no larger than the largest, with condition numbers up to 10²: 10⁻¹² of it."""
    instance = INSTANCES[name]
    problem = in_torch(instance)
    if not affine:
        problem = replace(problem, affine=False)
    elif not problem.affine:
        pytest.skip("∂₁Φ depends on w")
    methods = [
        "itd",
        "aid-fp",
        "aid-fp:5",
        "aid-fp:0",
        "aid-cgn",
        *(["aid-cg", "aid-cg:2"] if problem.symmetric else []),
    ]
    for method, result in observed_runs(problem, methods).items():
        truth = expected(instance, method)
        assert result.keys() == truth.keys(), method
        scale = max(1.0, *(float(x.max()) for x in truth.values()))
        for observable, values in result.items():
            assert values.shape == (T,)
            assert values.dtype == np.float64
            squared = 10 if method.name == "aid-cgn" else 1  # its system has the square of the condition number
            np.testing.assert_allclose(
                values, truth[observable], rtol=1e-9, atol=squared * 1e-12 * scale, err_msg=f"{method} {observable}"
            )


def test_the_names_are_the_observables_of_the_theory() -> None:
    rest = {"error", "rho", "sigma", "Delta_t", "gap_t", "R_t", "U_t"}  # rates, and what recursions carry
    rest |= {"eps_0", "r_prev", "W_path", "lam_step"}  # of a run over several λ, which `follow` observes
    rest |= {"M_t"} | {mean.name for mean in MEANS}  # of stochastic methods, which `check_stochastic` measures
    # sums along the proofs of stochastic iterations, which no run shows
    rest |= {"start_t", "noise_t", "moves_t", "averaged_t", "squares_t", "roots_t", "curved_t", "curved_roots_t"}
    assert {*NAMES} == {quantity.name for quantity in OBSERVABLES} - rest


@pytest.mark.parametrize("name", ["gradient-descent", "heavy-ball", "nesterov"])
@pytest.mark.parametrize("problem", ["lr", "krr", "hr"])
def test_the_derivative_of_the_iterate_is_that_of_the_loop(problem: str, name: str) -> None:
    made = small(problem, dynamics=name, differentiate_step=True)
    result = reference(made, made.lam[None])

    def w_t(lam: Tensor, t: int) -> Tensor:
        ready, z = made.prepare(lam), made.dynamics.start(made.w0)
        for _ in range(t):
            z = made.psi_at(z, ready)
        return made.dynamics.iterate(z)

    jacobian = torch.autograd.functional.jacobian
    Y, Z = jacobian(made.phi, (result.w[0], made.lam))
    w_prime = torch.linalg.solve(torch.eye(made.d, dtype=made.dtype) - Y, Z)
    values = observed_runs(made, ["itd"], 9, OF_ITD)[Method("itd")]
    for t in (1, 2, 5, 9):
        apart = jacobian(lambda lam, t=t: w_t(lam, t), made.lam) - w_prime
        b = jacobian(lambda w: made.outer(w, made.lam), w_t(made.lam, t))
        assert values["dw"][t - 1] == pytest.approx(float(torch.linalg.matrix_norm(apart, 2)), rel=1e-9)
        assert values["dwT_g"][t - 1] == pytest.approx(float((b @ apart).norm()), rel=1e-9)


def close(a: Observed, b: Observed, pick: slice | np.ndarray = slice(None)) -> None:
    """Up to rounding, by which other blocks of products differ."""
    assert a.keys() == b.keys()
    for method in a:
        assert a[method].keys() == b[method].keys()
        scale = max(1.0, *(float(x.max()) for x in a[method].values()))
        for name, x in a[method].items():
            np.testing.assert_allclose(x[pick], b[method][name], rtol=1e-9, atol=1e-13 * scale, err_msg=name)


METHODS = ["itd", "aid-fp", "aid-fp:3", "aid-cg", "aid-cg:2", "aid-cgn"]


@pytest.mark.parametrize("name", ["lr", "krr", "hr", "eqm"])
def test_pieces_do_not_change_the_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(name)
    methods = METHODS if problem.symmetric else [m for m in METHODS if not m.startswith("aid-cg:") and m != "aid-cg"]
    whole = observed_runs(problem, methods)
    close(whole, observed_runs(problem, methods, memory=1))
    close(whole, observed_runs(problem, methods, memory=20 * problem.d * (problem.n + problem.d) * 8))
    monkeypatch.setattr(
        "boundcheck.numerics.curves.observed_matrix_norms.CACHE", 1
    )  # as few columns at once as there are rows
    close(whole, observed_runs(problem, methods))


@pytest.mark.parametrize("name", ["lr", "krr", "eqm"])
def test_some_times_have_the_numbers_of_all(name: str) -> None:
    problem = small(name)
    methods = METHODS if problem.symmetric else [m for m in METHODS if not m.startswith("aid-cg:") and m != "aid-cg"]
    whole = observed_runs(problem, methods)
    for ts in ([3, 4, 11], [T], [1], [9, 2, 2]):
        some = np.array(ts)
        for memory in (1 << 28, 1):
            close(whole, observed_runs(problem, methods, ts=some, memory=memory), some - 1)


def test_no_times_and_times_that_are_none() -> None:
    problem = small("lr")
    assert observed_runs(problem, ["itd"], ts=np.array([], dtype=int), names=("r_t",))[Method("itd")]["r_t"].shape == (
        0,
    )
    for wrong in (np.array([0, 1]), np.array([T + 1])):
        with pytest.raises(InputError, match=f"outside 1 … {T}; give times from 1 to {T}"):
            observed_runs(problem, ["itd"], ts=wrong)
    with pytest.raises(InputError, match="vector of integers"):
        observed_runs(problem, ["itd"], ts=np.array([1.5]))
    with pytest.raises(UnknownNameError, match="error"):
        observed_runs(problem, ["itd"], names=("error",))


@pytest.mark.parametrize("name", ["r_t", "Z_t", "dw", "A_inv", "v_star", "v_t", "eps_v", "du", "duT_g", "dZT_v"])
def test_one_name_alone(name: str) -> None:
    problem = small("lr")
    whole, alone = observed_runs(problem, ["itd", "aid-fp"]), observed_runs(problem, ["itd", "aid-fp"], names=(name,))
    for method, values in alone.items():
        assert [*values] == ([name] if name in whole[method] else [])
        for x in values.values():
            np.testing.assert_allclose(x, whole[method][name], rtol=1e-12)


def test_a_large_problem_has_vectors_only() -> None:
    """Φ = a∘w + Σ_j λ_j x_j and E = ½‖w‖² + (Σλ)Σw: everything in closed form."""
    d = DENSE + 1000
    a, X = torch.linspace(-0.3, 0.9, d, dtype=torch.float64), normal(d, 3)
    problem = Problem.from_map(
        lambda w, lam: a * w + X @ lam,
        lambda w, lam: w @ w / 2 + lam.sum() * w.sum(),
        torch.zeros(d, dtype=torch.float64),
        normal(3, seed=1),
        symmetric=True,
    )
    result = observed_runs(problem, ["itd", "aid-fp", "aid-cg:3"], 6)
    assert {*result[Method("itd")]} == {"r_t", "g_t", "eps_w", "dE_1", "dE_2", *OF_PATH}
    for method in (Method("aid-fp"), Method("aid-cg", 3)):
        assert {*result[method]} == {*NAMES} - NEED_MATRICES - {*OF_ITD, *OF_PATH, *OF_FP}
    lam, t = problem.lam, 4
    w_star = (X @ lam) / (1 - a)
    w = w_star * (1 - a**t)
    b, v = w + lam.sum(), (w_star + lam.sum()) / (1 - a)
    v_t = b * (1 - a**t) / (1 - a)
    truth = {
        "r_t": (w - w_star).norm(),
        "g_t": b.norm(),
        "eps_w": (w - a * w - X @ lam).norm(),
        "dE_1": (w - w_star).norm(),
        "dE_2": (w - w_star).sum().abs() * 3**0.5,
        "v_star": v.norm(),
        "dv_k": (v_t - v).norm(),
        "eps_v": (v_t - a * v_t - b).norm(),
        "ZT_dv": (X.T @ (v_t - v)).norm(),
    }
    for name, value in truth.items():
        assert result[Method("aid-fp")][name][t - 1] == pytest.approx(float(value), rel=1e-9), name
    assert result[Method("aid-fp")]["dZT_v"].max() <= 1e-12 * float(v.norm() * X.norm())


def test_float32_stays_float32_until_it_is_handed_over() -> None:
    double, single = (
        observed_runs(small("krr", dtype=dtype), ["itd", "aid-fp"]) for dtype in (torch.float64, torch.float32)
    )
    for method, values in single.items():
        for name, x in values.items():
            truth = double[method][name]
            assert x.dtype == np.float64
            assert np.abs(x - truth).max() <= 1e-3 * max(truth.max(), 1e-3), name
            assert not truth.max() or not np.array_equal(x, truth) or name == "dY"


def test_a_run_that_diverges_is_infinite_and_no_crash() -> None:
    problem = Problem.from_map(
        lambda w, lam: 2 * w**3 + lam, lambda w, lam: (w * w).sum(), normal(2) + 9, 0.1 * normal(2, seed=1)
    )
    start = replace(problem, w0=0 * problem.w0)
    result = reference(start, problem.lam[None])
    values = observe(problem, result, [Method("itd"), Method("aid-fp")], 8, NAMES)
    assert not np.isfinite(values[Method("itd")]["dw"][-1])
    assert not np.isfinite(values[Method("aid-fp")]["du"][-1])
    assert np.isfinite(values[Method("itd")]["dw"][0])
