"""Modules as a PyTorch user writes them: the same numbers as with plain tensors, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pieces import normal, zeros
from ridge_modules import LAM, Ridge, X, Y, Z, plain_ridge, same_as
from torch import Tensor, nn
from torch.nn.functional import linear

import boundcheck as bc


def penalties() -> dict[str, Callable[[Ridge], Tensor]]:
    def of_all(tensors: Any) -> Tensor:
        return sum((p**2).sum() for p in tensors)  # type: ignore[return-value]

    return {
        "own method": lambda m: m.l2(),
        "parameters": lambda m: of_all(m.parameters()),
        "those that require gradients": lambda m: of_all(p for p in m.parameters() if p.requires_grad),
        "those that are parameters": lambda m: of_all(p for p in vars(m.layer)["_parameters"].values()
                                                       if isinstance(p, nn.Parameter)),
        "named parameters": lambda m: of_all(p for name, p in m.named_parameters() if "weight" in name),
        "children": lambda m: of_all(child.weight for child in m.children()),
        "modules": lambda m: of_all(part.weight for part in m.modules() if isinstance(part, nn.Linear)),
        "get_parameter": lambda m: of_all([m.get_parameter("layer.weight")]),
        "state_dict": lambda m: of_all(m.state_dict(keep_vars=True).values()),
        "vector": lambda m: nn.utils.parameters_to_vector(m.parameters()).square().sum(),
        "forward": lambda m: m.l2() + 0 * m.forward(X).sum(),
        "functional_call": lambda m: m.l2() + 0 * torch.func.functional_call(m, dict(m.named_parameters()), X).sum(),
    }  # fmt: skip


@pytest.mark.parametrize("way", penalties())
def test_whatever_a_user_does_with_a_module_sees_the_weights_of_the_call(way: str) -> None:
    penalty, start = penalties()[way], torch.tensor([0.5, 0.0, 1.0], dtype=torch.float64)
    module = Ridge(start)
    problem = bc.Problem.from_loss(
        lambda m, h: ((m(X) - Y) ** 2).mean() + h.exp().sum() * penalty(m),
        lambda m, h: ((m(X) - Y - 1) ** 2).mean(), module, LAM,
    )  # fmt: skip
    same_as(problem, plain_ridge(start))
    assert isinstance(module.layer.weight, nn.Parameter)
    assert torch.equal(module.layer.weight[0], start)


def test_the_hypergradient_of_the_issue() -> None:
    """Once 0.0, with *holds*: the module's own method had seen the weights of the start."""
    problem = bc.Problem.from_loss(
        lambda m, h: ((m(X) - Y) ** 2).mean() + h.exp().sum() * m.l2(), lambda m, h: ((m(Z) - 1) ** 2).mean(),
        Ridge(zeros(3)), LAM,
    )  # fmt: skip
    lam = LAM.clone().requires_grad_()
    w = torch.linalg.solve(X.T @ X / 20 + lam.exp() * torch.eye(3, dtype=torch.float64), X.T @ Y / 20)
    ((Z @ w - 1) ** 2).mean().backward()
    assert bc.hypergradient(problem, "exact").value == pytest.approx(lam.grad, rel=1e-10)
    plain = bc.Problem.from_loss(
        lambda w, h: ((X @ w - Y) ** 2).mean() + h.exp().sum() * (w**2).sum(), lambda w, h: ((Z @ w - 1) ** 2).mean(),
        zeros(3), LAM,
    )  # fmt: skip
    reports = [bc.check(p, ["itd"], t=5) for p in (problem, plain)]
    assert reports[0].verdicts == reports[1].verdicts


class Autoencoder(nn.Module):
    """Two layers that share one weight; the second uses its transpose."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 3, bias=False).double()
        self.encoder.weight = nn.Parameter(start.clone())
        self.decoder = nn.Linear(3, 3, bias=False).double()
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return linear(torch.tanh(self.encoder(x)), self.decoder.weight.T)


def tied_loss(W: Tensor, h: Tensor) -> Tensor:
    return ((torch.tanh(X @ W.T) @ W - X) ** 2).mean() + h.exp().sum() * (W**2).sum()


@pytest.mark.parametrize("parts", [False, True])
def test_tied_weights_are_one_parameter(parts: bool) -> None:
    start = torch.eye(3, dtype=torch.float64) / 2 + normal(3, 3, seed=4) / 10
    net = Autoencoder(start)
    brought = {"encoder": net.encoder, "decoder": net.decoder} if parts else net
    problem = bc.Problem.from_loss(
        lambda w, h: ((net(X) - X) ** 2).mean() + h.exp().sum() * (net.encoder.weight * net.decoder.weight).sum(),
        lambda w, h: ((net(Z) - Z) ** 2).mean(), brought, LAM, step_size=0.3,
    )  # fmt: skip
    plain = bc.Problem.from_loss(
        tied_loss, lambda W, h: ((torch.tanh(Z @ W.T) @ W - Z) ** 2).mean(), start, LAM, step_size=0.3
    )
    assert problem.d == 9
    same_as(problem, plain, ("itd", "aid-fp", "aid-cgn"))
    assert net.decoder.weight is net.encoder.weight


def test_a_sequential_is_indexed_and_a_backbone_stays_frozen() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1, bias=False)).double()
    for p in net[0].parameters():
        p.requires_grad_(False)
    features = net[:2](X).clone()
    problem = bc.Problem.from_loss(
        lambda m, h: ((m(X)[:, 0] - Y) ** 2).mean() + h.exp().sum() * m[2].weight.square().sum(),
        lambda m, h: (m[2](m[1](m[0](X)))[:, 0] - Y - 1).square().mean(), net, LAM,
    )  # fmt: skip
    plain = bc.Problem.from_loss(
        lambda w, h: ((features @ w - Y) ** 2).mean() + h.exp().sum() * (w**2).sum(),
        lambda w, h: ((features @ w - Y - 1) ** 2).mean(), net[2].weight.detach()[0], LAM,
    )  # fmt: skip
    assert problem.d == 3
    same_as(problem, plain)
    with pytest.raises(bc.InputError, match="params: no parameter of the module requires gradients"):
        bc.Problem.from_loss(lambda m, h: h.sum(), lambda m, h: h.sum(), net[0], LAM)


@pytest.mark.parametrize("holder", [lambda m: m, lambda m: {"net": m}, lambda m: [m], lambda m: (m,)])
def test_a_module_in_a_closure_or_in_a_structure(holder: Callable[[nn.Module], Any]) -> None:
    module = Ridge(zeros(3))
    problem = bc.Problem.from_loss(
        lambda _, h: ((module(X) - Y) ** 2).mean() + h.exp().sum() * module.l2(),
        lambda _, h: ((module(X) - Y - 1) ** 2).mean(), holder(module), LAM,
    )  # fmt: skip
    same_as(problem, plain_ridge(zeros(3)))


def test_hyperparameters_in_a_module_also_one_that_holds_the_parameters_too() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lower = Ridge(zeros(3))
            self.upper = nn.Module()
            self.upper.log_penalty = nn.Parameter(LAM.clone())

        def loss(self) -> Tensor:
            return ((self.lower(X) - Y) ** 2).mean() + self.upper.log_penalty.exp().sum() * self.lower.l2()

    both = Both()
    problem = bc.Problem.from_loss(
        lambda w, h: both.loss(), lambda w, h: ((w(X) - Y - 1) ** 2).mean(), both.lower, both.upper
    )
    same_as(problem, plain_ridge(zeros(3)))
    assert set(bc.hypergradient(problem, "aid-cg", 5, 3).hparams) == {"log_penalty"}
    with pytest.raises(bc.InputError, match=r"hparams\.log_penalty and params\.upper\.log_penalty are one parameter"):
        bc.Problem.from_loss(lambda w, h: both.loss(), lambda w, h: w.lower(X).sum(), both, both.upper)


RESULTS: dict[str, Callable[[Ridge, Tensor], Any]] = {
    "dict": lambda m, next_w: {name: next_w.reshape(1, 3) for name, _ in m.named_parameters()},
    "list": lambda m, next_w: [next_w.reshape(1, 3)],
    "tuple": lambda m, next_w: (next_w.reshape(1, 3),),
    "module": lambda m, next_w: Moved(next_w),
}


class Moved(nn.Module):
    """Another module with parameters of the same names."""

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.layer = nn.Module()
        self.layer._parameters["weight"] = w.reshape(1, 3)  # type: ignore[assignment]


@pytest.mark.parametrize("kind", RESULTS)
def test_what_a_map_may_return_for_a_module(kind: str) -> None:
    def fp_map(m: Ridge, h: Tensor) -> Any:
        return RESULTS[kind](m, m.layer.weight[0] / 2 + h.exp() * m(X).tanh().mean() / 9)

    problem = bc.Problem.from_map(fp_map, lambda m, h: ((m(X) - Y) ** 2).mean(), Ridge(zeros(3) + 1), LAM)
    plain = bc.Problem.from_map(
        lambda w, h: w / 2 + h.exp() * (X @ w).tanh().mean() / 9, lambda w, h: ((X @ w - Y) ** 2).mean(), zeros(3) + 1,
        LAM,
    )  # fmt: skip
    same_as(problem, plain, ("itd", "aid-fp", "aid-cgn"))


def test_a_map_may_return_frozen_parameters_too() -> None:
    net = nn.Linear(1, 1).double()
    net.bias.requires_grad_(False)
    for result in (lambda m, w: [w, m.bias], lambda m, w: {"bias": m.bias, "weight": w}, lambda m, w: [w]):
        problem = bc.Problem.from_map(
            lambda m, h, result=result: result(m, m.weight / 2 + h), lambda m, h: m.weight.square().sum(), net, LAM
        )
        assert problem.phi(torch.ones(1).double(), LAM).tolist() == [-1.0]


def test_the_module_is_put_back_whatever_happens() -> None:
    module = Ridge(zeros(3))
    weight, stop = module.layer.weight, False

    def inner(m: Ridge, h: Tensor) -> Tensor:
        if stop:
            raise KeyboardInterrupt
        return ((m(X) - Y) ** 2).mean() + h.exp().sum() * m.l2()

    problem = bc.Problem.from_loss(inner, lambda m, h: inner(m, h) + m(X).sum(), module, LAM)
    bc.hypergradient(problem, "itd", 3)  # the outer loss calls the inner one
    assert module.layer.weight is weight
    stop = True
    with pytest.raises(KeyboardInterrupt):
        bc.hypergradient(problem, "itd", 3)
    assert module.layer.weight is weight


def test_calls_inside_of_calls_put_back_what_was_there() -> None:
    """A user's function that evaluates the problem itself, at other weights."""
    module, seen = Ridge(zeros(3)), []

    def outer(m: Ridge, h: Tensor) -> Tensor:
        before = m.l2()
        if seen:
            seen[0].inner(torch.ones(3, dtype=torch.float64), LAM)
        assert torch.equal(m.l2(), before)
        return m.l2()

    seen.append(bc.Problem.from_loss(lambda m, h: (m(X) - Y).square().mean() + h.exp() * m.l2(), outer, module, LAM))
    assert float(seen[0].outer(zeros(3) + 2, LAM)) == 12
