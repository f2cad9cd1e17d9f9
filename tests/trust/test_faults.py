"""Every fault is planted on problems that strangers wrote, from dense matrices in plain torch, and is named.

A right hypergradient, a random vector and one beside the right one have no fault that can be named.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from strangers import MAKERS, Stranger, equilibrium, logistic, normal, one_number, ridge
from torch import Tensor

import boundcheck as bc
from boundcheck.compare.certified_reference import CertifiedReference, certified_reference
from boundcheck.report.audit import FAULTS as NAMES
from boundcheck.trust.diagnosis import CHANCE, SHARE, Suspect, entries_that_count, simplest


@pytest.fixture(autouse=True)
def once_for_each_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certified reference, which takes most of the time of an audit, is the same for every g."""

    def kept(problem: bc.Problem, *more: object) -> CertifiedReference:
        key = (problem.phi_at, problem.outer_at, tuple(problem.lam.tolist()))
        if key not in KEPT:
            KEPT[key] = certified_reference(problem, *more)
        return KEPT[key]

    monkeypatch.setattr("boundcheck.trust.audit.certified_reference", kept)


KEPT: dict[object, CertifiedReference] = {}
F64, F32 = torch.float64, torch.float32
THREE = ["ridge", "logistic", "equilibrium"]
LOSSES = ["ridge", "logistic", "one number"]


def eye(s: Stranger) -> Tensor:
    return torch.eye(len(s.w), dtype=F64)


def fixed_point(s: Stranger, k: int) -> Tensor:
    """c + Zᵀv_k from v_0 = 0."""
    v = torch.zeros_like(s.b)
    for _ in range(k):
        v = s.Y.T @ v + s.b
    return s.c + s.Z.T @ v


Plant = Callable[[Stranger], Tensor]
ANYWHERE: dict[str, tuple[str, Plant, str]] = {
    "sign": ("sign", lambda s: -s.gradient, "Return −g"),
    "sign of the implicit part": ("sign", lambda s: s.c - s.implicit, "implicit part ∂₂Φᵀv is wrong"),
    "sign of the direct term": ("sign", lambda s: s.implicit - s.c, "Add ∇₂E, do not subtract"),
    "no direct term": ("direct-term", lambda s: s.implicit, "Add ∇₂E"),
    "direct term twice": ("direct-term", lambda s: 2 * s.c + s.implicit, "twice"),
    "two": ("scale", lambda s: 2 * s.gradient, "Divide it by 2"),
    "half": ("scale", lambda s: s.gradient / 2, "0.5 times"),
    "samples": ("scale", lambda s: s.gradient / 40, "a sum and a mean"),
    "half of the implicit part": ("scale", lambda s: s.c + s.implicit / 2, "implicit part ∂₂Φᵀv is 0.5 times"),
    "no implicit part": ("linear-solve", lambda s: s.c, "k = 0 steps"),
    "by exp": ("lambda", lambda s: s.gradient * (-s.problem.lam.double()).exp(), "by exp"),
}


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", [*THREE, "one number"])
@pytest.mark.parametrize("plant", ANYWHERE)
def test_a_planted_fault_is_named(plant: str, name: str, dtype: torch.dtype) -> None:
    fault, g, words = ANYWHERE[plant]
    s = MAKERS[name](dtype)
    if plant == "samples" and name == "one number" and dtype is F32:
        pytest.skip("one number of seven digits: that it is 1/40 of another may be chance")
    found = bc.audit(s.problem, s.given(g(s)))
    assert (found.fault, found.fault in NAMES) == (fault, True), found.message
    assert words in found.message
    assert "may also be" not in found.message or plant == "no implicit part"
    truth = float((g(s) - s.gradient).norm() / s.gradient.norm())
    assert found.relative_error == pytest.approx(truth, rel=1e-4 if dtype is F32 else 1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_the_step_size_is_named(name: str) -> None:
    s = MAKERS[name]()
    alpha = s.alpha
    for g, words in (
        (alpha * s.gradient, f"({alpha:g} is the step size α)"),
        (s.gradient / alpha, f"({1 / alpha:g} is one over the step size α)"),
        (s.c + alpha * s.implicit, "The step α goes with both or none"),
        (s.c + s.implicit / alpha, f"({1 / alpha:g} is one over the step size α)"),
    ):
        found = bc.audit(s.problem, g)
        assert found.fault == "scale"
        assert words in found.message
    hessian_is_one = s.c + s.Z.T @ s.b / alpha
    assert "T1−T2" in bc.audit(s.problem, hessian_is_one).message


@pytest.mark.parametrize("name", THREE)
def test_any_factor_is_named_if_there_are_several_hyperparameters(name: str) -> None:
    s = MAKERS[name]()
    assert "1.7 times" in bc.audit(s.problem, 1.7 * s.gradient).message
    assert "implicit part ∂₂Φᵀv is 0.3 times" in bc.audit(s.problem, s.c + 0.3 * s.implicit).message
    assert bc.audit(s.problem, 1.01 * s.gradient).fault is None  # no slip of the pen gives 1.01


def test_with_one_hyperparameter_a_factor_is_no_evidence() -> None:
    s = one_number()
    for factor in (1.7, 0.013, -3.3, 1.01):
        found = bc.audit(s.problem, factor * s.gradient)
        assert found.fault is None
        assert f"{factor:.6g} times ∇f" in found.message


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
def test_transposes(dtype: torch.dtype) -> None:
    s = equilibrium(dtype)
    for g, words in (
        (s.c + s.Z.T @ torch.linalg.solve(eye(s) - s.Y, s.b), "∂₁Φ is not transposed"),
        (s.c + s.Z @ s.v, "∂₂Φ is not transposed"),
    ):
        found = bc.audit(s.problem, s.given(g))
        assert found.fault == "transpose"
        assert words in found.message


@pytest.mark.parametrize("scale", [0.2, 0.9])
def test_transpose_on_other_maps(scale: float) -> None:
    """A linear map, and one with more states than hyperparameters, neither symmetric."""
    A, U = scale * normal(41, 7, 7) / 5, normal(42, 7, 3)
    target = normal(43, 7)
    for nonlinear in (lambda x: x, torch.sin):
        problem = bc.Problem.from_map(
            lambda w, lam, f=nonlinear: f(A @ w) + U @ lam.sin(), lambda w, lam: ((w - target) ** 2).sum() / 2,
            torch.zeros(7, dtype=F64), 0.3 * normal(44, 3),
        )  # fmt: skip
        exact = bc.hypergradient(problem, "exact")
        w, lam = exact.w, problem.lam
        Y, Z = torch.autograd.functional.jacobian(lambda w, lam, f=nonlinear: f(A @ w) + U @ lam.sin(), (w, lam))
        g = Z.T @ torch.linalg.solve(torch.eye(7, dtype=F64) - Y, w - target)
        assert bc.audit(problem, g).fault == "transpose"


@pytest.mark.parametrize("name", THREE)
@pytest.mark.parametrize("k", [1, 3])
def test_few_steps_of_the_linear_solver(name: str, k: int) -> None:
    s = MAKERS[name]()
    found = bc.audit(s.problem, fixed_point(s, k))
    assert found.fault == "linear-solve"
    assert f"k = {k} fixed-point steps" in found.message
    solver = "aid-cgn" if name == "equilibrium" else "aid-cg"
    few = bc.hypergradient(s.problem, solver, t=5000, k=2).value
    assert "k = 2 steps of conjugate gradient" in bc.audit(s.problem, few).message


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", THREE)
def test_few_steps_of_the_lower_level(name: str, dtype: torch.dtype) -> None:
    """Of a plain loop and plain autograd, as a stranger writes it."""
    s = MAKERS[name](dtype)
    lam = s.problem.lam.clone().requires_grad_()
    w = s.problem.w0
    for _ in range(3):
        w = s.phi(w, lam)
    itd = torch.autograd.grad(s.problem.outer(w, lam), lam)[0]
    found = bc.audit(s.problem, itd)
    assert found.fault == "inner"
    assert "what ITD gives after t = 3" in found.message
    early = bc.hypergradient(s.problem, "aid-cgn", t=3, k=100)
    found = bc.audit(s.problem, early.value)
    assert found.fault == "inner"
    assert "w_t after t = 3" in found.message
    with_w = bc.audit(s.problem, early.value, w=early.w)
    assert with_w.fault == "inner"
    assert "The inner solution w is" in with_w.message


@pytest.mark.parametrize("name", THREE)
def test_w_and_v_say_which_of_them_it_is(name: str) -> None:
    s = MAKERS[name]()
    for t, k, fault in ((4, 60, "inner"), (300, 2, "linear-solve")):
        h = bc.hypergradient(s.problem, "aid-cgn", t=t, k=k)
        assert bc.audit(s.problem, h).fault == fault
        assert bc.audit(s.problem, h.value, h.w, h.v).fault == fault
        turned = bc.audit(s.problem, -h.value, h.w, h.v)
        assert turned.fault == "sign"
        assert "are left, from w and v" in turned.message
        other = bc.audit(s.problem, s.given(normal(9, s.problem.n)), h.w, h.v)
        assert other.fault is None
        assert "at the w and v that were given" in other.message


def test_v_may_solve_the_system_of_the_hessian() -> None:
    s = ridge()
    h = bc.hypergradient(s.problem, "aid-cg", t=300, k=2)
    assert bc.audit(s.problem, h.value, h.w, s.alpha * h.v).fault == "linear-solve"
    mixed = s.c + s.Z.T @ (s.alpha * s.v)  # the v of the Hessian with the ∂₂Φ of the step
    assert bc.audit(s.problem, mixed, s.w, s.alpha * s.v).fault == "scale"


@pytest.mark.parametrize("name", [*THREE, "one number"])
def test_a_stale_lambda(name: str) -> None:
    s = MAKERS[name]()
    old = s.problem.lam - 0.4
    g = bc.hypergradient(s.problem, "exact", lam=old).value
    assert bc.audit(s.problem, g, previous=old).fault == "lambda"
    assert bc.audit(s.problem, g).fault is None  # without it, nobody can know
    assert bc.audit(s.problem.at(old), g).fault is None
    assert bc.audit(s.problem.at(old), g, lam=s.problem.lam).fault == "lambda"
    at_exp = bc.hypergradient(s.problem, "exact", lam=s.problem.lam.exp()).value
    assert "at exp(λ)" in bc.audit(s.problem, at_exp).message


@pytest.mark.parametrize("name", [*THREE, "one number"])
def test_float32(name: str) -> None:
    """Computed in float32 by the same code, and only stored in it."""
    s, single = MAKERS[name](), MAKERS[name](F32)
    for g in (bc.hypergradient(single.problem, "aid-cgn", t=300, k=60).value.double(), s.gradient.float().double()):
        found = bc.audit(s.problem, g)
        assert found.relative_error < 1e-4
        assert found.fault == ("precision" if found.relative_error > 1.5e-8 else None)
        if found.fault:
            assert "float32" in found.message
    w = s.w.float().double()
    v = torch.linalg.solve((eye(s) - s.Y).T, s.b).float().double()
    h = s.c + s.Z.T @ v
    if float((h - s.gradient).norm() / s.gradient.norm()) > 2e-8:
        assert bc.audit(s.problem, h, v=v).fault == "precision"
    assert bc.audit(s.problem, -s.gradient.float().double(), w=w).fault == "sign"  # float32 is the lesser fault


@pytest.mark.parametrize("dtype", [F64, F32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", [*THREE, "one number"])
def test_nothing_is_named_without_reason(name: str, dtype: torch.dtype) -> None:
    """For right ones, random ones, and ones beside the right one at several distances."""
    s = MAKERS[name](dtype)
    right = bc.audit(s.problem, s.given(s.gradient))
    assert right.fault is None
    assert right.descent is True
    size = float(s.gradient.norm())
    for seed in range(3):
        noise = normal(110 + seed, s.problem.n) * size
        for share in (1e-3, 0.1):
            assert bc.audit(s.problem, s.given(s.gradient + share * noise)).fault is None
        for scale in (1e-4, 1.0, 1e4):
            assert bc.audit(s.problem, s.given(scale * noise)).fault is None


def test_a_hypergradient_of_other_functions_has_no_name() -> None:
    """Other data, another penalty: what is wrong is none of the faults."""
    s = logistic()
    other = bc.Problem.from_loss(
        lambda w, lam: ((w - 1) ** 2).sum() + (lam[:5] * w).sum() ** 2 + (lam**2).sum() * (w**2).sum(),
        lambda w, lam: (w**4).sum(), torch.zeros(5, dtype=F64), s.problem.lam,
    )  # fmt: skip
    assert bc.audit(s.problem, bc.hypergradient(other, "exact").value).fault is None


def test_the_error_of_a_slow_iteration_is_no_factor() -> None:
    """It is nearly parallel to ∇f here: 0.89 times ∇f up to 2 % of the error."""
    problem = bc.load_problem("br")
    assert bc.audit(problem, bc.hypergradient(problem, "aid-fp", t=300, k=300).value).fault is None


def test_a_small_vector_is_no_missing_part() -> None:
    """Where ∇₂E = 0, a hypergradient without its implicit part is 0; what is only small is something else."""
    problem = bc.load_problem("br")
    exact = bc.hypergradient(problem, "exact").value
    found = bc.audit(problem, 1e-4 * float(exact.norm()) * normal(7, problem.n))
    assert found.fault is None
    assert bc.audit(problem, torch.zeros_like(exact)).fault == "linear-solve"


def test_zero() -> None:
    s = ridge()
    found = bc.audit(s.problem, torch.zeros(5, dtype=F64))
    assert (found.fault, found.descent) == (None, False)
    assert "is the graph cut" in found.message


def explanation(fault: str, distance: float, **more: float) -> Suspect:
    return Suspect(fault, distance, f"it is {fault}", "Do something.", **more)


def test_the_simplest_of_equals_is_named_and_the_other_told() -> None:
    error = torch.ones(9, dtype=F64)
    found = simplest([explanation("sign", 1e-3), explanation("scale", 9e-4)], error, error, 1e-12)
    assert found is not None
    assert (found.best.fault, found.other and found.other.fault) == ("sign", "scale")
    found = simplest([explanation("sign", 1e-3), explanation("scale", 1e-9)], error, error, 1e-12)
    assert found is not None
    assert (found.best.fault, found.other) == ("scale", None)
    assert simplest([explanation("sign", 0.2)], error, error, 1e-12) is None


def test_few_entries_need_a_better_fit() -> None:
    one, many = explanation("scale", 0.0), explanation("scale", 0.0, tries=100)
    assert one.limit(1) == CHANCE
    assert many.limit(1) == CHANCE / 100
    assert one.limit(50) == SHARE
    assert explanation("scale", 0.0, free=1).limit(1) == 0
    assert entries_that_count(torch.tensor([1.0, 1.0, 1.0])) == pytest.approx(3)
    assert entries_that_count(torch.tensor([1.0, 1e-6, 1e-6])) == pytest.approx(1, abs=1e-5)
    assert entries_that_count(torch.zeros(3)) == 0
