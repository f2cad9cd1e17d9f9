"""Constants on smaller balls: proved, no worse than on the ball around, and above what points of the ball show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.func import hessian, jacrev, vmap
from torch.nn.functional import softplus

import boundcheck as bc
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.estimate import smaller_balls
from boundcheck.numerics.estimate.effort import Spend
from boundcheck.numerics.estimate.setting import Setting
from boundcheck.numerics.solvers.reference import reference
from boundcheck.progress import no_progress

D, POINTS = 6, 200
GENERATOR = torch.Generator().manual_seed(3)
X, X_VAL = (2 * torch.randn(8, D, generator=GENERATOR, dtype=torch.float64) for _ in range(2))
LAM = 0.05 + torch.rand(D, generator=GENERATOR, dtype=torch.float64)


def inner(w: Tensor, lam: Tensor) -> Tensor:
    return softplus(X @ w).sum() + (lam * w * w).sum() / 2


def outer(w: Tensor, lam: Tensor) -> Tensor:
    return softplus(X_VAL @ w).sum() + (lam * w**3).sum() / 30


@cache
def logistic() -> bc.Problem:
    L = float(torch.linalg.eigvalsh(X.T @ X / 4)[-1]) + 1.05
    return bc.Problem.from_loss(inner, outer, torch.full((D,), 2.0, dtype=torch.float64), LAM, 1 / L)


@cache
def constants() -> bc.Constants:
    return bc.estimate_constants(logistic(), ball="local", smaller_balls=True)


@cache
def plain() -> bc.Constants:
    return bc.estimate_constants(logistic(), ball="local")


@cache
def setting() -> Setting:
    problem = logistic()
    solution = reference(problem, problem.lam[None])
    return Setting(problem, Prepared(problem, problem.lam[None]), solution, Spend(1e-3, 0, None), no_progress)


def test_the_map_contracts_better_near_the_solution() -> None:
    q = constants()["q"]
    assert q.side is bc.Side.UPPER
    radii, values = zip(*q.on_smaller, strict=True)
    r_0 = constants()["r_0"].value
    shares = [radius / r_0 for radius in radii]
    assert shares[:8] == pytest.approx([0.875, 0.75, 0.625, 0.5, 0.4375, 0.375, 0.3125, 0.25])
    assert shares[12:14] == pytest.approx([0.09375, 0.0625])
    assert 1 - values[-1] > 1.5 * (1 - q.value)
    assert values[-1] >= constants()["q_star"].value * (1 - 1e-12)


def at_points(w: Tensor) -> dict[str, Tensor]:
    """What each constant is at least (μ_λ at most), by many points w around w*."""
    alpha, w_star = constants()["alpha"].value, setting().w_star
    r = (w - w_star).norm(dim=1)
    H, H_star = vmap(hessian(inner), (0, None))(w, LAM), hessian(inner)(w_star, LAM)
    moves = [vmap(jacrev(outer, i), (0, None))(w, LAM) - jacrev(outer, i)(w_star, LAM) for i in (0, 1)]
    ends = torch.linalg.eigvalsh(alpha * H)
    return {
        "q": torch.linalg.matrix_norm(torch.eye(D, dtype=torch.float64) - alpha * H, 2),
        "nu_1": alpha * torch.linalg.matrix_norm(H - H_star, 2) / r,
        "nu_2": alpha * (w - w_star).abs().amax(1) / r,
        "eta_1": moves[0].norm(dim=1) / r,
        "eta_2": moves[1].norm(dim=1) / r,
        "mu_inv": ends[:, 0],
        "kappa": ends[:, -1] / ends[:, 0],
    }


@cache
def at_points_of_balls() -> dict[float, dict[str, Tensor]]:
    """The same for every ball of a table, all in one batch."""
    generator = torch.Generator().manual_seed(0)
    radii = sorted({radius for constant in constants().values() for radius, _ in constant.on_smaller})
    steps = torch.randn(len(radii), POINTS, D, generator=generator, dtype=torch.float64)
    shares = torch.rand(len(radii), POINTS, 1, generator=generator, dtype=torch.float64) ** 0.2
    r = torch.tensor(radii, dtype=torch.float64)[:, None, None] * (1 - 1e-9) * shares
    seen = at_points((setting().w_star + r * steps / steps.norm(dim=2, keepdim=True)).flatten(0, 1))
    return {radius: {name: x.reshape(-1, POINTS)[i] for name, x in seen.items()} for i, radius in enumerate(radii)}


@pytest.mark.parametrize("name", ["q", "nu_1", "nu_2", "eta_1", "eta_2", "mu_inv", "kappa"])
def test_no_point_of_a_ball_exceeds_its_constants(name: str) -> None:
    assert constants()[name].on_smaller or name == "nu_2"  # ∂₂Φ = −α diag(w)
    for radius, value in constants()[name].on_smaller:
        seen = at_points_of_balls()[radius][name]
        assert bool((seen >= value * (1 - 1e-9) if name == "mu_inv" else seen <= value * (1 + 1e-9)).all())


def test_without_being_asked_there_are_none() -> None:
    assert not any(constant.on_smaller for constant in plain().values())
    more = {name: c.value for name, c in constants().items() if name not in ("chi", "omega")}  # which are for them
    assert {name: c.value for name, c in plain().items()} == more


def test_a_centre_in_doubt_widens_every_ball() -> None:
    r_0 = plain()["r_0"].value
    sharp, vague = (
        smaller_balls.with_smaller_balls(setting(), None, plain(), r_0, off)["q"] for off in (0.0, r_0 / 900)
    )
    assert vague.on_smaller[0][1] > sharp.on_smaller[0][1]
    assert len(vague.on_smaller) < len(sharp.on_smaller)  # those no wider than a hundred times the doubt are left out
    assert not smaller_balls.with_smaller_balls(setting(), None, plain(), r_0, r_0)["q"].on_smaller


def test_an_estimate_has_no_table() -> None:
    doubtful = plain().replace(bc.Constant("q", plain()["q"].value, "lower"))
    made = smaller_balls.with_smaller_balls(setting(), None, doubtful, plain()["r_0"].value, 0.0)
    assert not made["q"].on_smaller
    assert made["nu_1"].on_smaller


def test_around_a_centre_that_is_probable_nothing_directional_is_proved() -> None:
    r_0 = plain()["r_0"]
    probable = bc.Constant("r_0", r_0.value, "high-probability", replace(r_0.provenance, delta=1e-3))
    for constants, names in ((plain(), {"chi", "omega"}), (plain().replace(probable), set())):
        made = smaller_balls.with_smaller_balls(setting(), None, constants, r_0.value, 0.0)
        assert {"chi", "omega"} & set(made) == names


def test_a_program_that_is_declined_gives_none() -> None:
    def strange(w: Tensor, lam: Tensor) -> Tensor:
        return inner(w, lam) + torch.special.i0(w).sum()

    problem = bc.Problem.from_loss(strange, outer, torch.full((D,), 0.5, dtype=torch.float64), LAM, 0.05)
    made = bc.estimate_constants(problem, ball="local", smaller_balls=True)
    assert made["q"].side is bc.Side.LOWER
    assert not made["q"].on_smaller


def test_problems_with_closed_forms_take_curvature_from_their_program() -> None:
    problem = bc.load_problem("lr", size=10, features=8)
    made = bc.estimate_constants(problem, ball="local", smaller_balls=True)
    assert made["q"].side is bc.Side.EXACT
    assert made["q"].on_smaller[-1][1] < made["q"].value
    assert made["mu_inv"].on_smaller[-1][1] > made["mu_inv"].value
    assert made["kappa"].on_smaller[-1][1] < made["kappa"].value
    assert made["eta_1"].on_smaller


def test_where_the_hessian_is_constant_only_the_rest_shrinks() -> None:
    made = bc.estimate_constants(bc.load_problem("krr", size=12, features=3), ball="local", smaller_balls=True)
    assert not made["q"].on_smaller
    assert made["eta_2"].on_smaller[-1][1] < made["eta_2"].value


def test_the_smallest_ball_is_no_worse_than_the_one_around_it() -> None:
    """It was, by rounding: the bounds then refused the table."""
    assert smaller_balls._best({"q": 0.5, "mu_inv": 2.0}, {"q": 0.5 + 1e-12, "mu_inv": 1.0}) == {
        "q": 0.5,
        "mu_inv": 2.0,
    }
