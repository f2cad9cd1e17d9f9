"""The door: what users may bring, and that it is used as they mean it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable

import numpy as np
import pytest
import torch
from pieces import quadratic, zeros
from torch import Tensor, nn

import boundcheck as bc

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
Pair = namedtuple("Pair", ["weights", "bias"])


def ridge(weights: Tensor, bias: Tensor, penalty: Tensor) -> Tensor:
    return ((X @ weights + bias - Y) ** 2).mean() + penalty.exp() * ((weights**2).sum() + (bias**2).sum())


BROUGHT = {
    "tuple": ((zeros(3), zeros(1)), lambda w: (w[0], w[1])),
    "list": ([zeros(3), zeros(1)], lambda w: (w[0], w[1])),
    "dict": ({"weights": zeros(3), "bias": zeros(1)}, lambda w: (w["weights"], w["bias"])),
    "named tuple": (Pair(zeros(3), zeros(1)), lambda w: (w.weights, w.bias)),
    "nested": ({"layer": [zeros(3), (zeros(1),)]}, lambda w: (w["layer"][0], w["layer"][1][0])),
    "flat": (zeros(4), lambda w: (w[:3], w[3:])),
}


@pytest.mark.parametrize("kind", BROUGHT)
def test_structures_give_the_same_hypergradient(kind: str) -> None:
    params, pieces = BROUGHT[kind]
    problem = bc.Problem.from_loss(
        lambda w, lam: ridge(*pieces(w), lam["penalty"]),
        lambda w, lam: ((X @ pieces(w)[0] - Y) ** 2).mean(),
        params,
        {"penalty": torch.tensor(-2.0, dtype=torch.float64)},
    )
    exact = bc.hypergradient(problem, "exact")
    assert set(exact.grad) == {"penalty"}
    w = torch.linalg.solve
    A = torch.cat((X, torch.ones(20, 1, dtype=torch.float64)), 1)
    penalty = torch.tensor(-2.0, dtype=torch.float64, requires_grad=True)
    solved = w(A.T @ A / 20 + penalty.exp() * torch.eye(4, dtype=torch.float64), A.T @ Y / 20)
    ((X @ solved[:3] - Y) ** 2).mean().backward()
    assert float(exact.grad["penalty"]) == pytest.approx(float(penalty.grad), rel=1e-9)


def test_a_module_holds_the_parameters_of_the_call() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    before = [p.clone() for p in module.parameters()]

    def loss(model: Callable[[Tensor], Tensor]) -> Tensor:
        return ((model(X)[:, 0] - Y) ** 2).mean()

    problem = bc.Problem.from_loss(
        lambda model, lam: (
            ((model(X)[:, 0] - Y) ** 2).mean() + lam.exp() * sum((p**2).sum() for p in model.parameters())
        ),
        lambda model, lam: ((model(X)[:, 0] - Y) ** 2).mean(),
        module,
        zeros(()),
        step_size=0.1,
    )
    assert problem.d == sum(p.numel() for p in module.parameters())
    exact = bc.hypergradient(problem, "exact")
    result = bc.hypergradient(problem, "aid-cg", t=2000, k=40)
    assert (result.value - exact.value).norm() <= 1e-8 * exact.value.norm()
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    curves = bc.error_curves(problem, ["itd", "aid-fp"], t=5)
    for method in curves:
        value = bc.hypergradient(problem, method, t=5).value
        assert curves[method][0, -1] == pytest.approx(float((value - exact.value).norm()), rel=1e-9)


def test_hyperparameters_may_be_a_module_too() -> None:
    reweight = nn.Linear(3, 1, bias=False).double()
    problem = bc.Problem.from_loss(
        lambda w, net: (torch.sigmoid(net(X)[:, 0]) * (X @ w - Y - 1) ** 2).mean() + 0.1 * (w**2).sum(),
        lambda w, net: ((X @ w - Y) ** 2).mean(),
        zeros(3),
        reweight,
    )
    result = bc.hypergradient(problem, "aid-cg", t=3000, k=10)
    assert result.grad["weight"].shape == (1, 3)
    assert (result.value - bc.hypergradient(problem, "exact").value).norm() <= 1e-9


def test_the_gradient_has_the_structure_of_the_hyperparameters() -> None:
    lam = {"a": zeros(2), "b": [zeros(())]}
    problem = bc.Problem.from_loss(
        lambda w, lam: ((w - 1) ** 2 * lam["a"].exp()).sum() + lam["b"][0].exp() * (w**2).sum(),
        lambda w, lam: (w**2).sum(),
        zeros(2),
        lam,
    )
    result = bc.hypergradient(problem, "aid-cg", t=20)
    assert result.grad["a"].shape == (2,)
    assert torch.equal(torch.cat((result.grad["a"], result.grad["b"][0][None])), result.value)
    assert torch.equal(result.hparams["a"], result.grad["a"])  # the old name, for one release
    flat = bc.hypergradient(bc.problems.scalar(), "itd", t=3)
    assert flat.grad is flat.value


def test_modules_with_parts_and_modes() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)

    problem = bc.Problem.from_loss(
        lambda net, lam: (net(X)[:, 0] - Y).square().mean() + lam.sum() * net.layer.weight.square().sum(),
        lambda net, lam: (net(X)[:, 0] - Y).square().mean(), Net().double(), zeros(1) + 1,
    )  # fmt: skip
    assert bc.hypergradient(problem, "aid-cg", t=50, k=4).residual.v <= 1e-9
    for part in (nn.Dropout(), nn.BatchNorm1d(1)):
        with pytest.raises(bc.InputError, match=r"in training mode.*call .eval\(\)"):
            bc.Problem.from_loss(lambda m, lam: m(X).sum(), quadratic, nn.Sequential(nn.Linear(3, 1), part), zeros(1))


def test_prepare_runs_at_the_start_of_a_call_and_is_differentiated_through() -> None:
    calls = []

    def prepare(lam: Tensor) -> dict[str, Tensor]:
        calls.append(1)
        return {"A": torch.diag(torch.sigmoid(lam)) / 2, "shift": lam**2}

    def plain_map(w: Tensor, lam: Tensor) -> Tensor:
        return torch.diag(torch.sigmoid(lam)) / 2 @ w + lam**2

    lam = torch.linspace(-1, 1, 3, dtype=torch.float64)
    common = (lambda w, lam: (w**3).sum(), zeros(3), lam)
    with_it = bc.Problem.from_map(lambda w, r: r["A"] @ w + r["shift"], *common, prepare=prepare)
    without = bc.Problem.from_map(plain_map, *common)
    bc.hypergradient(with_it, "itd", t=1)  # the first use records the functions
    for method in ("itd", "aid-fp", "aid-cg"):
        calls.clear()
        result = bc.hypergradient(with_it, method, t=9).value
        assert len(calls) == 2  # both functions are recorded again, and compared with the record
        assert (result - bc.hypergradient(without, method, t=9).value).norm() <= 1e-14


def test_momentum_on_a_loss_of_ones_own() -> None:
    from boundcheck.numerics.bilevel.dynamics import constant

    H = torch.diag(torch.tensor([1.0, 5.0], dtype=torch.float64))
    problem = bc.Problem.from_loss(
        lambda w, lam: w @ H @ w / 2 - lam @ w, lambda w, lam: (w**2).sum(), zeros(2), torch.ones(2).double(),
        step_size=0.2, dynamics=constant("heavy-ball", 0.2, 0.3, 0.2),
    )  # fmt: skip
    w_before = w = zeros(2)
    for _ in range(7):
        w, w_before = w - 0.3 * (H @ w - 1) + 0.2 * (w - w_before), w
    assert (bc.hypergradient(problem, "aid-fp", t=7, k=1).w - w).norm() <= 1e-15
    assert bc.hypergradient(problem, "aid-fp", t=7, k=1).dynamics == "heavy-ball"


def test_the_step_size_is_found_where_none_is_given() -> None:
    problem = bc.Problem.from_loss(lambda w, lam: 3 * quadratic(w, lam), quadratic, zeros(2), zeros(2))
    w = torch.ones(2, dtype=torch.float64)
    assert (problem.phi(w, problem.lam)).norm() <= 1e-15  # α = 2/(μ+L) = 1/6 solves 3‖w‖² in one step
    from_lam = bc.Problem.from_loss(
        lambda w, lam: lam.exp().sum() * (w**2).sum(), quadratic, zeros(2), zeros(2),
        step_size=lambda lam: 1 / (4 * lam.exp().sum()),
    )  # fmt: skip
    assert torch.equal(from_lam.phi(w, zeros(2)), w / 2)
    gradient = torch.func.grad(lambda lam: from_lam.phi(w, lam).sum())(zeros(2))
    assert gradient.norm() > 0.1  # the step is held fixed: only ∇₁ℓ moves with λ


def test_the_problems_own_seed_draws_lam() -> None:
    problem = bc.load_problem("lr", features=4, seed=5)
    assert torch.equal(problem.sample(2), problem.sample(2, seed=5))
    assert torch.equal(problem.sample(1)[0], problem.lam)


def test_lam_does_not_repeat_the_numbers_of_the_data() -> None:
    """One seed, two streams: with one, λ would be a function of the first numbers of w_true."""
    from boundcheck.problems.parts.synthetic_data import Draw

    data = Draw.seeded(0, torch.float64, "cpu").generator
    assert data.initial_seed() != torch.Generator().manual_seed(0).initial_seed()


def test_data_that_require_gradients_are_data() -> None:
    A = X.clone().requires_grad_()
    problem = bc.Problem.from_loss(
        lambda w, lam: ((A @ w - Y) ** 2).sum() + (lam * w**2).sum(), lambda w, lam: ((A @ w) ** 2).sum(), zeros(3),
        zeros(3) + 1,
    )  # fmt: skip
    for way in ("wavefront", "forward", "dense"):
        assert bc.error_curves(problem, ["itd", "aid-cg"], t=3, algorithm=way)["itd"].shape == (1, 3)
    assert not bc.hypergradient(problem, "exact").value.requires_grad
    assert not bc.hypergradient(problem, "itd", t=3).value.requires_grad


def test_dicts_in_any_order_and_numbers_of_numpy() -> None:
    problem = bc.Problem.from_map(
        lambda w, lam: {"b": w["b"] / 2, "a": w["a"] / 4 + lam}, lambda w, lam: w["a"].sum(),
        {"a": zeros(1), "b": zeros(2)}, zeros(1),
    )  # fmt: skip
    ones = torch.ones(3, dtype=torch.float64)
    assert problem.phi(ones, zeros(1)).tolist() == [0.25, 0.5, 0.5]
    assert bc.hypergradient(problem, "aid-fp", np.int64(3), np.int32(2)).k == 2
