"""Bounds without matrices: no point of a ball contradicts them, and they are those of the closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap
from user_problems import PAIRS, cleaning, multinomial, normal, step_of, zeros

import boundcheck as bc
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.estimate.separable_bounds import SeparableBounds
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.separable.recogniser import recognise
from boundcheck.problems.parts.newsgroups_documents import load_documents

SPEND = Spend(1e-3, 0)
X, LABELS = normal(1, 9, 6), torch.arange(9) % 3
SPARSE = bc.SparseMatrix.from_scipy(scipy.sparse.csr_matrix((X * (X.abs() > 0.6)).numpy()), dtype=torch.float64)


def penalty(w: Tensor, lam: Tensor) -> Tensor:
    return (lam.exp() * w**2).sum() / 2


@dataclass(frozen=True)
class Case:
    f: Callable[[Tensor, Tensor], Tensor]
    d: int
    n: int


CASES = {
    "logistic": Case(lambda w, lam: -F.logsigmoid(X @ w).sum() + penalty(w, lam), 6, 6),
    "softplus, sparse": Case(lambda w, lam: F.softplus(-(SPARSE @ w) / 3).mean() + penalty(w, lam), 6, 6),
    "least squares": Case(lambda w, lam: ((X @ w - 1) ** 2).mean() / 7 + 0.5 * (lam * w * w).sum(), 6, 6),
    "multinomial": Case(
        lambda w, lam: F.cross_entropy(SPARSE @ w.reshape(6, 3), LABELS) + penalty(w.reshape(6, 3), lam[:, None]), 18, 6
    ),
    "turned": Case(lambda w, lam: F.cross_entropy(X @ w.reshape(3, 6).T, LABELS) + w.dot(w) * 0.1, 18, 1),
    "cleaning": Case(
        lambda w, lam: (
            torch.sigmoid(lam) * F.cross_entropy(X @ w.reshape(6, 3), LABELS, reduction="none")
        ).sum() + 0.1 * (w**2).sum(), 18, 9,
    ),
    "not convex": Case(lambda w, lam: torch.tanh(X @ w).sum() + (5 * w).sigmoid().sum() + (lam[0] * w**4).sum(), 6, 1),
    "one penalty": Case(lambda w, lam: torch.sqrt(1 + (X @ w) ** 2).sum() + (lam.exp() * (w**2).sum()).sum(), 6, 1),
    "sums of rows": Case(lambda w, lam: (lam * (w.reshape(6, 3) ** 2).sum(-1)).sum() + (w**3).mean(), 18, 6),
}  # fmt: skip


def bounds_of(case: Case, centre: Tensor, lam: Tensor, radius: float) -> SeparableBounds:
    return SeparableBounds(capture(case.f, centre, lam, EXPANSIONS), centre, lam, radius, SPEND)


def unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")  # logsigmoid in a batch
@pytest.mark.parametrize("radius", [1e-8, 0.1, 3.0])
@pytest.mark.parametrize("name", CASES)
def test_no_point_contradicts_a_bound(name: str, radius: float) -> None:
    case = CASES[name]
    f, centre, lam = case.f, 0.3 * normal(2, case.d), 0.5 + 0.1 * normal(3, case.n).abs()
    bounds = bounds_of(case, centre, lam, radius)
    slope = torch.func.grad(f)
    hessian = torch.func.hessian(f)
    mixed = torch.func.jacfwd(slope, argnums=1)
    room = 1 + 1e-9  # of autograd's own rounding
    step, x, y = (torch.stack([normal(start + seed, case.d) for seed in range(12)]) for start in (10, 40, 80))
    share = torch.tensor([0.5, 1.0], dtype=torch.float64).repeat(6)
    w = centre + radius * unit(step) * share[:, None]
    values = torch.linalg.eigvalsh(vmap(lambda w: hessian(w, lam))(w))
    assert bool((bounds.smallest <= values[:, 0] + 1e-9 * (1 + values.abs().amax(1))).all())
    assert bounds.largest * room >= float(values[:, -1].max())
    assert bounds.gradient * room >= float(vmap(lambda w: slope(w, lam))(w).norm(dim=1).max())
    cross = torch.linalg.matrix_norm(vmap(lambda w: mixed(w, lam))(w), 2)
    assert bounds.cross * room + 1e-12 >= float(cross.max())
    x = unit(x)
    for _ in range(3):  # alternately along what is largest
        y = unit(y)
        third = vmap(lambda w, x, y: torch.func.jvp(lambda v: hessian(v, lam), (w,), (y,))[1] @ x)(w, x, y)
        assert bounds.third * room + 1e-12 >= float(third.norm(dim=1).max())
        x, y = y, third + 1e-30
    by_lam = vmap(lambda w, x: torch.func.jacfwd(lambda v: mixed(v, lam))(w) @ x)(w, x)
    assert bounds.third_cross * room + 1e-12 >= float(torch.linalg.matrix_norm(by_lam, 2).max())


@pytest.mark.parametrize("name", ["lr, logsigmoid", "multinomial", "multinomial, nn.Linear"])
def test_they_are_close_to_the_closed_forms(name: str) -> None:
    pair = PAIRS[name]()
    problem, proof = pair.user, ProgramProof.of(pair.user)
    region = Region("0", torch.zeros_like(problem.w0), 5.0)
    closed, step = pair.closed(region), step_of(pair.shipped)
    assert proof.lower is not None
    assert proof.outer is not None
    lower = SeparableBounds(proof.lower, region.point, problem.lam, 5.0, SPEND)
    outer = SeparableBounds(proof.outer, region.point, problem.lam, 5.0, SPEND)
    assert lower.smallest == pytest.approx(closed["mu"], rel=1e-9)
    assert closed["L"] <= lower.largest * (1 + 1e-9) <= 1.01 * closed["L"]
    assert step * lower.cross == pytest.approx(closed["L_Phi"], rel=1e-9)
    assert step * lower.third_cross == pytest.approx(closed["nu_2"], rel=1e-9)
    assert step * lower.third <= 1.6 * closed["nu_1"]
    assert outer.hessian <= 1.05 * closed["eta_1"]


def sparse_problem(p: int, c: int) -> tuple[Problem, Problem]:
    """Multinomial regression with a sparse matrix, as a user would write it, and the shipped one."""
    sizes = {"size": 60, "features": p, "classes": c}
    shipped, parts = multinomial.make(synthetic=True, **sizes), load_documents(synthetic=True, **sizes)
    y, y_val = parts.Y.argmax(1), parts.Y_val.argmax(1)

    def inner(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(parts.X @ W, y) + (lam.exp()[:, None] * W**2).sum() / (2 * c * p)

    def outer(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(parts.X_val @ W, y_val)

    return bc.Problem.from_loss(inner, outer, zeros(p, c), shipped.lam, step_of(shipped), name="my-sparse"), shipped


@pytest.mark.parametrize("p", [20, 700])
def test_a_sparse_matrix_of_the_users_own_is_proved(p: int) -> None:
    """With d = 60 by matrices, with d = 2100 without."""
    user, shipped = sparse_problem(p, 3)
    ours, theirs = bc.estimate_constants(user), bc.estimate_constants(shipped)
    assert isinstance(shipped.known, ClosedForms)
    for name in ("q", "mu", "L", "nu_1", "nu_2", "L_E", "L_Phi", "eta_1", "eta_2", "D", "r_0"):
        assert ours[name].is_safe, f"{name}: {ours[name].provenance.no_proof}"
    for name in ("q", "L", "L_Phi", "nu_2"):
        assert ours[name].value == pytest.approx(theirs[name].value, rel=1e-6), name
    assert ours["mu"].value == pytest.approx(theirs["mu"].value, rel=1e-9)
    assert ours["eta_1"].value <= theirs["eta_1"].value * (1 + 1e-9)
    explained = bc.explain_constant(user, "L", constants=ours)
    assert ("too many unknowns for matrices" in explained.remark) == (user.d > 2000)


def test_data_of_both_signs_are_right_with_high_probability() -> None:
    d = 2100
    A, B = normal(5, 20, d), normal(6, 20, d)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return -F.logsigmoid(A @ w).sum() + 0.5 * lam.exp() * (w**2).sum()

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return -F.logsigmoid(B @ w).mean()

    L = float(torch.linalg.matrix_norm(A, 2)) ** 2 / 4 + 1
    problem = bc.Problem.from_loss(inner, outer, zeros(d), zeros(1), 1 / L)
    constants = bc.estimate_constants(problem, delta=1e-4)
    assert constants["mu"].side.value == "lower"
    assert constants["mu"].value == pytest.approx(1, rel=1e-9)
    for name in ("L", "q", "nu_1", "L_Phi", "eta_1", "L_E"):
        assert constants[name].side.value == "high-probability", name
        assert 0 < constants[name].provenance.delta <= 1e-4  # type: ignore[operator]
    assert L * (1 - 1e-9) <= constants["L"].value <= 1.01 * L


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda w, lam: torch.tanh(torch.tanh(w).sum()), "a function of one number of a sum of others"),
        (lambda w, lam: (w[:-1] * w[1:]).sum(), "aten.mul of two tensors that vary with w"),
        (lambda w, lam: (X @ (2 * w)).sum() + (X @ (w + 1)).exp().sum(), "more than entries of w"),
        (lambda w, lam: w.cumsum(0).exp().sum(), "aten.cumsum leaves a sum of functions of one number"),
        (lambda w, lam: F.softplus(w + 30).sum(), "beyond its threshold of 20"),
        (lambda w, lam: w.half().double().exp().sum(), "to torch.float16, which is not the identity"),
        (lambda w, lam: (lam * (lam * w)).sum(), "more than one function of λ"),
    ],
)
def test_another_form_is_declined_with_its_line(f: Callable[[Tensor, Tensor], Tensor], why: str) -> None:
    with pytest.raises(Declined, match=why) as declined:
        bounds_of(Case(f, 6, 6), zeros(6), zeros(6), 1.0)
    assert "threshold" in why or "test_separable_bounds.py" in str(declined.value)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda w, lam: (w.view(2, 2) @ w.view(2, 2)).sum() * lam.sum(), "aten.mm of tensors that vary"),
        (lambda w, lam: F.pad(torch.cosh(w), (40, 0)).sum() * lam.sum(), "aten.constant_pad_nd leaves a sum"),
        (
            lambda w, lam: torch.slice_scatter(torch.cosh(w), torch.ones(2).double(), 0, 0, 2).sum() * lam.sum(),
            "aten.slice_scatter",
        ),
    ],
    ids=["a matrix with itself", "padding", "data put in"],
)
def test_what_was_taken_for_a_sum_of_squares_or_of_other_entries(
    f: Callable[[Tensor, Tensor], Tensor], why: str
) -> None:
    """`W @ W` was read as Σw², and a number that is put in as the first entry."""
    program = capture(f, torch.ones(4).double(), torch.ones(1).double(), EXPANSIONS)
    with pytest.raises(Declined, match=why):
        recognise(program, 4, 1, torch.float64)


def test_what_is_too_large_and_not_separable_says_both() -> None:
    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return (w[:-1] * w[1:]).sum() + lam * (w**2).sum()

    problem = bc.Problem.from_loss(inner, inner, zeros(9000), torch.ones(1, dtype=torch.float64), 0.1)
    proof = ProgramProof.of(problem)
    proof.on(Region("0", problem.w0, 1.0), None)
    assert "d = 9000 is too large for matrices, and without them aten.mul of two" in proof.declined["lower"]


def test_an_infinite_range_is_no_bound() -> None:
    bounds = bounds_of(Case(lambda w, lam: torch.log(w + 1).sum(), 3, 1), zeros(3), zeros(1), 2.0)
    assert math.isinf(bounds.largest)
    assert math.isinf(bounds.third)


def test_cleaning_of_the_users_own_is_separable() -> None:
    problem = cleaning()
    proof = ProgramProof.of(problem)
    assert proof.lower is not None
    bounds = SeparableBounds(proof.lower, problem.w0, problem.lam, 1.0, SPEND)
    assert bounds.smallest == pytest.approx(0.1, rel=1e-9)
    assert math.isfinite(bounds.cross + bounds.third + bounds.third_cross)
