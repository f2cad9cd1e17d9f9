"""χ and ω: above what points of the ball show, next to it close to w*, and worth having in the bounds that use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, vmap
from torch.nn.functional import softplus

import boundcheck as bc
from boundcheck.numerics.estimate import directional_constants, program_proof
from boundcheck.numerics.estimate.program_proof import ProgramProof
from boundcheck.numerics.program.enclosure.forms import WORTH
from boundcheck.numerics.program.enclosure.special_rules import CUT_OFF
from boundcheck.numerics.program.enclosure.value import LAM, W
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.solvers.reference import reference

FLOAT64 = torch.float64
LOSS = 1.001 / WORTH  # a norm that two parts share is computed as one only where that gains more than WORTH
Loss = Callable[[Tensor, Tensor], Tensor]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=FLOAT64)


@dataclass(frozen=True, eq=False)
class Case:
    """A gradient step on a loss, and what χ and ω are about, by autograd."""

    inner: Loss
    outer: Loss
    start: Tensor
    lam: Tensor
    step: float

    @cached_property
    def problem(self) -> bc.Problem:
        return bc.Problem.from_loss(self.inner, self.outer, self.start, self.lam, self.step)

    @cached_property
    def constants(self) -> bc.Constants:
        return bc.estimate_constants(self.problem, ball="local", smaller_balls=True)

    @cached_property
    def w_star(self) -> Tensor:
        return reference(self.problem, self.lam[None]).w[0]

    def cross(self, w: Tensor) -> Tensor:
        return jacfwd(grad(self.inner), 1)(w, self.lam)

    @cached_property
    def directions(self) -> tuple[Tensor, Tensor]:
        """u and w' at w*."""
        H = hessian(self.inner)(self.w_star, self.lam)
        b = grad(self.outer)(self.w_star, self.lam)
        return torch.linalg.solve(H, b), -torch.linalg.solve(H, self.cross(self.w_star))

    def slope(self, w: Tensor) -> Tensor:
        """∇₁E − Hu."""
        H = hessian(self.inner)(w, self.lam)
        return grad(self.outer)(w, self.lam) - H @ self.directions[0]

    def G(self, w: Tensor) -> Tensor:
        """∇₂E − Cᵀu + w'ᵀ(∇₁E − Hu)."""
        u, of_w = self.directions
        return jacrev(self.outer, 1)(w, self.lam) - self.cross(w).T @ u + of_w.T @ self.slope(w)

    def turned_cross(self, w: Tensor) -> Tensor:
        """C + Hw'."""
        return self.cross(w) + hessian(self.inner)(w, self.lam) @ self.directions[1]

    def on(self, radius: float, off: float = 0.0) -> dict[str, float]:
        """χ and ω on one ball, around a point that may be `off` w*."""
        proof = ProgramProof.of(self.problem)
        ball = directional_constants.OnBall.of(proof, self.w_star, radius, radius + off)
        made = directional_constants.constants_of(proof, self.w_star, off, [ball], ())
        return {constant.name: constant.value for constant in made}

    def second(self, w: Tensor) -> Tensor:
        """(w'(w) − w')ᵀ(∇₁E − Hu)."""
        H = hessian(self.inner)(w, self.lam)
        return (-torch.linalg.solve(H, self.cross(w)) - self.directions[1]).T @ self.slope(w)

    def seen(self, name: str, w: Tensor) -> Tensor:
        """What χ or ω is at least, by this point."""
        r = (w - self.w_star).norm()
        return (self.G(w) - self.G(self.w_star)).norm() / r if name == "chi" else self.second(w).norm() / r**2

    def most(self, name: str, radii: list[float], points: int = 60) -> Tensor:
        """The largest of many points of each ball, half of them at its edge."""
        g = torch.Generator().manual_seed(0)
        steps = torch.randn(points, len(self.start), generator=g, dtype=FLOAT64)
        shares = torch.rand(points, 1, generator=g, dtype=FLOAT64).mul(2).clamp(max=1)
        moves = (1 - 1e-9) * shares * steps / steps.norm(dim=1, keepdim=True)
        w = self.w_star + torch.tensor(radii, dtype=FLOAT64)[:, None, None] * moves
        return vmap(lambda x: self.seen(name, x))(w.flatten(0, 1)).reshape(len(radii), points).amax(1)


@cache
def logistic(d: int = 5, scale: float = 2.0) -> Case:
    """With an E that is cubic in w and depends on λ."""
    X, X_val, lam = scale * normal(3, 8, d), scale * normal(4, 8, d), 0.1 + normal(5, d).abs()

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return softplus(X @ w).sum() + (lam * w * w).sum() / 2

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return softplus(X_val @ w).sum() + (lam * w**3).sum() / 30

    L = float(torch.linalg.eigvalsh(X.T @ X / 4)[-1] + lam.max())
    return Case(inner, outer, torch.ones(d, dtype=FLOAT64), lam, 1 / L)


@cache
def hidden() -> Case:
    """A smooth layer between w and the loss, so that parts of the derivatives are no rows; λ inside of it."""
    X, y, mix = normal(6, 7, 4), normal(7, 7), 0.3 * normal(8, 4, 4)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return ((torch.tanh((X * lam.exp()) @ w) - y) ** 2).mean() / 4 + (torch.sin(mix @ w) ** 2).sum() / 20 + w @ w

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return torch.tanh(X @ w).sum() + torch.cos(lam @ w)

    return Case(inner, outer, 0.3 * torch.ones(4, dtype=FLOAT64), 0.2 * normal(9, 4), 0.25)


CASES = {"logistic": logistic, "hidden": hidden, "one": lambda: logistic(1, 1.0)}


@pytest.mark.parametrize("name", ["chi", "omega"])
@pytest.mark.parametrize("case", CASES)
def test_no_point_of_a_ball_exceeds_them(case: str, name: str) -> None:
    problem = CASES[case]()
    constant, r_0 = problem.constants[name], problem.constants["r_0"].value
    assert constant.side is bc.Side.UPPER
    radii, values = zip((r_0, constant.value), *constant.on_smaller, strict=True)
    most = torch.tensor(values, dtype=FLOAT64) * (1 + 1e-7)  # solves with H, at distances from 1e-3 on
    assert bool((problem.most(name, list(radii)) <= most).all())


@pytest.mark.parametrize("case", CASES)
def test_chi_is_the_norm_of_a_derivative_next_to_the_solution(case: str) -> None:
    """So that no factor can be left out of it; on a ball of 1e-6 it moves by 1e-6 times some third derivatives."""
    problem = CASES[case]()
    at_w_star = float(torch.linalg.matrix_norm(jacfwd(problem.G)(problem.w_star), 2))
    assert at_w_star * (1 - 1e-9) <= problem.on(1e-6)["chi"] <= LOSS * at_w_star


def test_omega_is_a_product_of_derivatives_next_to_the_solution() -> None:
    """With one unknown and one λ there is nothing to lose."""
    problem = CASES["one"]()
    P, rho = (float(jacfwd(f)(problem.w_star)) for f in (problem.turned_cross, problem.slope))
    at_w_star = abs(P * rho / float(hessian(problem.inner)(problem.w_star, problem.lam)))
    assert at_w_star * (1 - 1e-9) <= problem.on(1e-6)["omega"] <= LOSS**2 * at_w_star  # a product of two norms


@cache
def report_of(case: str) -> bc.Report:
    return bc.check(CASES[case]().problem, ["aid-fp", "aid-cg"], t=80)


@pytest.mark.parametrize("method", ["aid-fp", "aid-cg"])
@pytest.mark.parametrize("case", ["logistic", "hidden"])
def test_the_bounds_hold_and_are_sharper(case: str, method: str) -> None:
    report = report_of(case)
    bounds = report.curve(method).bounds
    directional, shrinking = (bounds[f"{method}-{word}"] for word in ("directional", "shrinking"))
    assert directional.verdict is bc.Verdict.HOLDS
    assert directional.trace is not None
    assert directional.trace.first_broken is None
    last = np.flatnonzero(report.curve(method).errors[0] > 100 * np.max(report.curve(method).floor))[-1]
    assert directional.values[0, last] < 0.5 * shrinking.values[0, last]


def test_directions_in_doubt_make_them_larger() -> None:
    sharp, vague = (logistic().on(0.1, off) for off in (0.0, 1e-5))
    assert all(vague[name] > sharp[name] for name in ("chi", "omega"))


def test_a_step_that_depends_on_lam_has_none() -> None:
    problem = logistic()

    def step(lam: Tensor) -> Tensor:
        return problem.step / (1 + lam.sum())

    moving = bc.Problem.from_loss(
        problem.inner, problem.outer, problem.start, problem.lam, step, differentiate_step=True
    )
    constants = bc.estimate_constants(moving, ball="local", smaller_balls=True)
    assert not {"chi", "omega"} & set(constants)


def test_without_derivatives_by_lam_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more λ than `MOST_LAM` they are not formed; they would count as 0."""
    monkeypatch.setattr(program_proof, "MOST_LAM", 4)
    case = logistic.__wrapped__()
    assert len(case.lam) > program_proof.MOST_LAM
    assert not {"chi", "omega"} & set(case.constants)


def test_derivatives_that_are_not_formed_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_proof, "MOST_LAM", 4)
    case = logistic()
    loss = ProgramProof.of(case.problem).lower_bounds(case.w_star, 0.1).over
    step = bc.Problem.from_map(lambda w, lam: 0.5 * torch.sin(lam * w), case.outer, case.start, case.lam)
    of_map = ProgramProof.of(step).lower_bounds(case.start, 0.1)
    for ask in (
        lambda: loss.curvature((W, LAM)),
        lambda: loss.third((W, W, LAM)),
        lambda: of_map.lam_slope,
        lambda: of_map.lam_bend,
    ):
        with pytest.raises(Declined, match="λ has 5 entries, and derivatives by so many are not formed"):
            ask()


def test_they_say_that_softplus_is_cut_off_and_on_which_ball() -> None:
    X, lam = torch.eye(2, dtype=FLOAT64), torch.ones(2, dtype=FLOAT64)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return softplus(X @ w).sum() + (lam * w * w).sum()

    problem = bc.Problem.from_loss(inner, lambda w, lam: (w * w).sum(), 30 * torch.ones(2, dtype=FLOAT64), lam, 0.4)
    constants = bc.estimate_constants(problem, ball="local", smaller_balls=True)
    assert CUT_OFF in constants["nu_1"].provenance.how
    for name in ("chi", "omega"):
        assert CUT_OFF in constants[name].provenance.how
        assert constants[name].provenance.ball is not None
        assert constants[name].provenance.ball.radius >= constants["r_0"].value
