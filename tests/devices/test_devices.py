"""`device` and `dtype` run through everything: every problem, every solver and the curves, on a device that pretends.

Each run is compared with the same run on the CPU. Both go through kernels of the CPU, in part different ones, so they
differ by rounding, which a Krylov iteration in mid-convergence amplifies: hence a tolerance of √ε.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import (
    DTYPES,
    EVERY_ALGORITHM,
    EVERY_PROBLEM,
    EVERY_SOLVER,
    SOLVERS,
    agrees,
    applies,
    curve_methods,
    make,
    steps_of,
)
from pretend import DEVICE, pretending
from small import small
from torch import Tensor, nn

from boundcheck import error_curves, hypergradient
from boundcheck.errors import AssumptionError, InputError
from boundcheck.methods import METHODS
from boundcheck.numerics.bilevel import derivatives
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.curves import cost
from boundcheck.numerics.program import torch_modules
from boundcheck.numerics.solvers import reference
from boundcheck.numerics.solvers.hypergradient import MODES
from boundcheck.problems.conv_equilibrium import projection as convolution_projection
from boundcheck.problems.equilibrium import projection as matrix_projection


def test_every_solver_takes_part() -> None:
    assert {method.partition(":")[0] for method, _ in SOLVERS.values()} == set(METHODS)
    assert {mode for _, mode in SOLVERS.values()} == set(MODES)


def counted(run: Callable[[int], Any], steps: int) -> tuple[Any, Counter[str]]:
    with pretending() as waits:
        result = run(steps)
    return result, waits


@DTYPES
@EVERY_PROBLEM
def test_problem_functions(name: str, dtype: torch.dtype) -> None:
    """Values are where the problem is, nothing in Φ, E and ℓ waits for the device, and `prepare` asks for no number."""
    problem, same = make(name, dtype, "pretend"), make(name, dtype, "cpu")
    assert (problem.device, problem.lam.device) == (DEVICE, DEVICE)
    with pretending():
        lam = problem.sample(2, seed=1)[1]
        w = torch.linspace(-0.3, 0.4, problem.d, dtype=dtype, device=DEVICE)
    agrees(lam, same.sample(2, seed=1)[1])
    with pretending() as waits:
        ready = problem.prepare(lam)
    assert not [what for what in waits if "linalg" not in what], waits
    with pretending() as waits:
        values = [
            problem.phi_at(w, ready),
            problem.outer_at(w, ready),
            problem.psi_at(problem.dynamics.start(w), ready),
        ]
        if problem.inner_at is not None:
            values.append(problem.inner_at(w, ready))
    assert not waits
    with pretending():
        if problem.curvature is not None:
            values += [problem.curvature(ready).mu, problem.curvature(ready).L]
        values += [function(ready) for function in (problem.contraction, problem.solution) if function is not None]
    assert [(value.device, value.dtype) for value in values] == [(DEVICE, dtype)] * len(values)


@DTYPES
@EVERY_SOLVER
@EVERY_PROBLEM
def test_solvers(name: str, solver: str, dtype: torch.dtype) -> None:
    """On the device to the end, as on the CPU, and with as many waits whatever t and k are."""
    problem, same = make(name, dtype, "pretend"), make(name, dtype, "cpu")
    method, mode = SOLVERS[solver]
    few, many = steps_of(solver)
    if not applies(problem, solver):
        with pytest.raises(AssumptionError, match="not symmetric"), pretending():
            hypergradient(problem, method, few)
        return
    result, waits = counted(lambda t: hypergradient(problem, method, t, mode=mode), few)
    expected = hypergradient(same, method, few, mode=mode)
    agrees(result.value, expected.value)
    agrees(result.w, expected.w)
    if result.v is not None and expected.v is not None:
        agrees(result.v, expected.v)
    if dtype == torch.float64 and solver != "exact":
        assert counted(lambda t: hypergradient(problem, method, t, mode=mode), many)[1] == waits


@EVERY_SOLVER
def test_no_steps(solver: str) -> None:
    problem, same = make("lr", torch.float64, "pretend"), make("lr", torch.float64, "cpu")
    method, mode = SOLVERS[solver]
    with pretending():
        result = hypergradient(problem, method, 0, mode=mode)
    agrees(result.value, hypergradient(same, method, 0, mode=mode).value)


@DTYPES
@EVERY_ALGORITHM
@EVERY_PROBLEM
def test_curves(name: str, algorithm: str, dtype: torch.dtype) -> None:
    problem, same = make(name, dtype, "pretend"), make(name, dtype, "cpu")
    methods = curve_methods(problem, algorithm)
    curves, waits = counted(lambda t: error_curves(problem, methods, t, 2, seed=1, algorithm=algorithm), 3)
    expected = error_curves(same, methods, 3, 2, seed=1, algorithm=algorithm)
    agrees(curves.exact, expected.exact)
    agrees(curves.lam, expected.lam)
    scale = torch.finfo(dtype).eps ** 0.5 * expected.exact.norm(dim=-1, keepdim=True).numpy()
    for method in methods:
        assert (abs(curves[method] - expected[method]) <= scale + 10 * scale * expected[method]).all(), method
    if dtype == torch.float64:
        assert counted(lambda t: error_curves(problem, methods, t, 2, seed=1, algorithm=algorithm), 6)[1] == waits


@pytest.mark.parametrize(("name", "t"), [("lr", 5), ("br", 5), ("br", 2), ("eqm", 5)])
def test_curves_in_blocks(name: str, t: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of rows, from which finished ones are dropped; t = 2 does not pay for ∂₁Φ of br as a matrix."""
    monkeypatch.setattr(cost, "ROWS", 3)
    problem, same = make(name, torch.float64, "pretend"), make(name, torch.float64, "cpu")
    with pretending():
        curves = error_curves(problem, curve_methods(problem), t, algorithm="wavefront")
    expected = error_curves(same, curve_methods(same), t, algorithm="wavefront")
    for method in curves:
        assert curves[method] == pytest.approx(expected[method], rel=1e-6, abs=1e-9)


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lr-kappa": ("lr", {"kappa": 20.0}),
    "lr-nesterov": ("lr", {"dynamics": "nesterov", "differentiate_step": True}),
    "krr-kappa": ("krr", {"kappa": 20.0, "differentiate_step": True}),
    "br-kappa": ("br", {"kappa": 20.0, "dynamics": "nesterov"}),
    "hr-kappa": ("hr", {"kappa": 20.0, "differentiate_step": True}),
    "parkinson-standardised": ("parkinson", {"standardise": True, "differentiate_step": True}),
    "newsgroups-tfidf": ("newsgroups", {"tfidf": True, "dynamics": "heavy-ball", "momentum": 0.3}),
    "fashion-mnist-momentum": ("fashion-mnist", {"dynamics": "nesterov", "momentum": 0.3}),
    "conv-eqm-zeros": ("conv-eqm", {"padding": "zeros", "size": 1, "hidden": 1, "classes": 2}),
    "scalar-curved": ("scalar", {"kind": "curved"}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(variant: str) -> None:
    """The options of the problems, through the solvers that differ most."""
    name, options = VARIANTS[variant]
    same = small(name, **options)
    for method in ("itd", "aid-cgn", "exact"):
        with pretending():
            result = hypergradient(small(name, device=DEVICE, **options), method, 4)
        agrees(result.value, hypergradient(same, method, 4).value)


@pytest.mark.parametrize("name", ["lr", "eqm"])
def test_matrix_free_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "DENSE", 0)
    with pretending():
        result = hypergradient(make(name, torch.float64, "pretend"), "exact")
    agrees(result.value, hypergradient(make(name, torch.float64, "cpu"), "exact").value)


def test_tolerances_and_warm_starts() -> None:
    problem, same = make("lr", torch.float64, "pretend"), make("lr", torch.float64, "cpu")
    expected = hypergradient(same, "aid-cg", 1000, tol=1e-6)
    with pretending():
        first = hypergradient(problem, "aid-cg", 1000, tol=1e-6)
        again = hypergradient(problem, "aid-fp", 1000, w0=first.w, v0=first.v, tol=1e-6)
    assert (first.t, first.k, first.status) == (expected.t, expected.k, expected.status)
    assert again.t < first.t
    with pretending(), pytest.raises(InputError, match=r"lam is torch.float64 on cpu and the problem .* on lazy:0"):
        hypergradient(problem, lam=same.lam)


@pytest.mark.parametrize(
    ("name", "project"), [("eqm", matrix_projection(2, 0.5)), ("conv-eqm", convolution_projection(1, 8, 0.5))]
)
def test_projections(name: str, project: Callable[[Tensor], Tensor]) -> None:
    with pretending() as waits:
        result = project(make(name, torch.float32, "pretend").lam)
    agrees(result, project(make(name, torch.float32, "cpu").lam))
    assert set(waits) == {"_linalg_svd"}


def ridge(device: Any, dtype: torch.dtype) -> Problem:
    """A user's problem: a module, a dict of hyperparameters, a step size from the curvature."""
    X = torch.linspace(-1, 1, 12, dtype=dtype, device=device).reshape(4, 3)
    y = torch.ones(4, 1, dtype=dtype, device=device)
    model = nn.Linear(3, 1, dtype=dtype, device=device)
    for p in model.parameters():
        nn.init.constant_(p, 0.5)
    hparams = {"log": torch.zeros(2, dtype=dtype, device=device), "shift": torch.ones((), dtype=dtype, device=device)}

    def inner(model: Any, hparams: Any) -> Tensor:
        penalties = [scale.exp() * (p**2).sum() for scale, p in zip(hparams["log"], model.parameters(), strict=True)]
        loss: Tensor = ((model(X) - hparams["shift"] * y) ** 2).sum() + sum(penalties)
        return loss

    return Problem.from_loss(inner, lambda model, hparams: ((model(X) - y) ** 2).mean(), model, hparams)


@pytest.mark.usefixtures("without_program")  # tensors that pretend are not recorded
@DTYPES
@pytest.mark.parametrize("dense", [0, 2000])
def test_users_problems(dense: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the curvature from a dense Hessian, or from power iterations."""
    monkeypatch.setattr(derivatives, "DENSE", dense)
    same = ridge("cpu", dtype)
    monkeypatch.setattr(torch_modules, "as_parameter", lambda piece: piece)  # a pretend tensor can have no other class
    with pretending():
        problem = ridge(DEVICE, dtype)
    for method in ("itd", "aid-cg", "aid-cgn"):
        with pretending():
            result = hypergradient(problem, method, 3)
            assert result.hparams["log"].device == DEVICE
        agrees(result.value, hypergradient(same, method, 3).value)


REAL = [
    pytest.param("cuda", torch.float64, marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
    pytest.param(
        "mps", torch.float32, marks=pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no MPS")
    ),
]


@EVERY_SOLVER
@pytest.mark.parametrize(("device", "dtype"), REAL)
def test_on_a_real_device(device: str, dtype: torch.dtype, solver: str) -> None:
    """As on the CPU but for rounding; MPS has no float64, and not every decomposition."""
    method, mode = SOLVERS[solver]
    expected = hypergradient(small("lr", dtype=dtype), method, 6, mode=mode).value
    try:
        result = hypergradient(small("lr", dtype=dtype, device=device), method, 6, mode=mode).value
    except NotImplementedError as error:
        pytest.skip(f"{device} lacks a kernel: {error}")
    assert (result.device.type, result.dtype) == (device, dtype)
    assert (result.cpu() - expected).norm() <= torch.finfo(dtype).eps ** 0.5 * expected.norm()
