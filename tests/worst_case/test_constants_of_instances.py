"""The constants of random instances against dense samples of the ball: never exceeded, and reached where exact."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from boundcheck.worst_case.family import Family
from boundcheck.worst_case.instance import Instance
from boundcheck.worst_case.target import checked_parts, names, target

ROWS, POINTS = 60, 4000


def family(name: str, d: int, *, saturating: bool = True, q: float = 0.9) -> Family:
    attacked = target(name)
    return Family(attacked, d, q, checked_parts(None, attacked), saturating)


def drawn(name: str, d: int, *, saturating: bool = True, seed: int = 0, rows: int = ROWS) -> Instance:
    made = family(name, d, saturating=saturating)
    return made.instance(made.random(rows, torch.Generator().manual_seed(seed)))


def points(instance: Instance, ball: str, d: int) -> Tensor:
    """x = w − w* over the ball, on its surface too: (points, rows, d)."""
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(POINTS, 1, d, generator=generator, dtype=torch.float64)
    radius = torch.linspace(0, 1, POINTS, dtype=torch.float64)[torch.randperm(POINTS, generator=generator)]
    radius[:400] = 1
    unit = direction / direction.norm(dim=-1, keepdim=True) * radius[:, None, None]
    return instance.start + 2 * unit if ball == "paper" else unit.expand(-1, ROWS, -1)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("saturating", [True, False])
@pytest.mark.parametrize("ball", ["paper", "local"])
def test_no_point_of_the_ball_exceeds_them(d: int, saturating: bool, ball: str) -> None:
    instance = drawn("itd", d, saturating=saturating)
    constants, x = instance.constants(ball), points(instance, ball, d)
    apart = x.norm(dim=-1).clamp(min=1e-3)
    slopes = instance.phi(instance.ops, x)  # of ∂₁Φ = U diag φ'
    seen = {
        "q": slopes.abs().amax(-1),
        "nu_1": instance.phi.change(instance.ops, x).abs().amax(-1) / apart,
        "nu_2": instance.change_of_d2phi(x).norm(dim=-1) / apart,
        "eta_1": instance.change_of_grad_w(x).norm(dim=-1) / apart,
        "eta_2": instance.change_of_grad_lam(x).abs() / apart,
        "L_Phi": instance.d2phi(x).norm(dim=-1),
        "L_E": instance.grad_w(x).norm(dim=-1),
    }
    for name, values in seen.items():
        largest = values.amax(0)
        assert (largest <= constants[name] * (1 + 1e-12)).all(), name
        reached = largest / constants[name].clamp(min=1e-300)
        if d == 1 and name in ("L_Phi", "L_E"):  # exact there
            assert (reached > 1 - 1e-3).all(), name
        if saturating or name != "nu_1":  # which is 0 where nothing saturates
            assert float(reached.median()) > (0.95 if d == 1 else 0.3), name


def test_q_is_the_one_asked_for() -> None:
    for name in ("itd", "aid-cg", "heavy-ball"):
        torch.testing.assert_close(drawn(name, 2).constants("local")["q"], torch.full((ROWS,), 0.9).double())


def test_the_derivatives_are_those_of_phi_and_E() -> None:
    """By automatic differentiation of Φ and E as they are written."""
    instance, x = drawn("itd", 3, rows=1), torch.randn(1, 3, dtype=torch.float64)

    def outer(x: Tensor) -> Tensor:
        return instance.gamma.integral(instance.ops, (instance.V_g @ x[..., None])[..., 0]).sum()

    Y = torch.func.jacrev(lambda x: instance.step(x)[0])(x)[:, 0]
    torch.testing.assert_close(torch.eye(3, dtype=torch.float64) - Y, instance.system(x)[0])
    torch.testing.assert_close(torch.func.grad(outer)(x), instance.grad_w(x))
    v = torch.randn(1, 3, dtype=torch.float64)
    torch.testing.assert_close((Y @ v[0])[None], instance.linearised_at(x).d1phi(v))


@pytest.mark.parametrize("name", [name for name in names() if not target(name).claim])
def test_true_bounds_hold_on_random_instances(name: str) -> None:
    """A thousand instances of each family, in dimensions 1 to 3, at several q, t and k."""
    attacked = target(name)
    for d, saturating, q in ((1, True, 0.9), (2, True, 0.5), (3, False, 0.9), (1, False, 0.99), (2, False, 0.1)):
        made = family(name, d, saturating=saturating, q=q)
        instance = made.instance(made.random(1000, torch.Generator().manual_seed(d)))
        for t, k in ((1, 1), (3, 8), (12, 4)):
            solves = min(k, t) if attacked.method == "itd-truncated" else k
            outcome = attacked.outcome(instance, t, solves)
            error = attacked.error(instance, outcome)
            bound = attacked.right(instance, outcome, t, attacked.expression(t, solves))
            assert (error <= bound * (1 + 1e-11) + 1e-13).all(), (d, saturating, t, k)
            assert torch.isfinite(error).all()
