"""hypertorch's calling convention; the library itself where BOUNDCHECK_HYPERTORCH names a clone, else a stand-in."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from itertools import count, repeat
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import grad

import boundcheck as bc
from boundcheck.errors import InputError, UserCodeError

ADAPTER = bc.adapters.hypertorch
X = torch.tensor([[1.0, 0.5], [0.0, 2.0], [1.0, -1.0]], dtype=torch.float64)
Y = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
STEP = 0.1
HALF = 1e-8  # half of the digits of float64: all that is compared is of size 1


def inner_loss(params: list[Tensor], hparams: list[Tensor]) -> Tensor:
    return ((X @ params[0] - Y) ** 2).sum() / 2 + (hparams[0] * params[0] ** 2).sum() / 2


def outer_loss(params: list[Tensor], hparams: list[Tensor]) -> Tensor:
    return ((params[0] - 1) ** 2).sum() / 2


def fp_map(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
    """As in hypertorch's notebook: the gradient is taken inside."""
    return [params[0] - STEP * grad(inner_loss(params, hparams), params, create_graph=True)[0]]


def start() -> tuple[list[Tensor], list[Tensor]]:
    w, lam = torch.zeros(2, dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    return [w.requires_grad_()], [lam.requires_grad_()]


def exact(lam: Tensor) -> Tensor:
    """∇f(λ) of the ridge above by its formula: w = H⁻¹Xᵀy and ∂w/∂λᵢ = −H⁻¹eᵢwᵢ."""
    H = X.T @ X + torch.diag(lam)
    w = torch.linalg.solve(H, X.T @ Y)
    return -torch.linalg.solve(H, w - 1) * w


class StandIn:
    """What hypertorch's `fixed_point` does for its caller: K steps of v ← ∂₁Φᵀv + ∇₁E, added to `hparam.grad`."""

    @staticmethod
    def fixed_point(params: Any, hparams: Any, K: int, fp_map: Any, outer_loss: Any) -> list[Tensor]:
        params = [w.detach().requires_grad_() for w in params]
        by_w = grad(outer_loss(params, hparams), params)[0]
        mapped, v = fp_map(params, hparams)[0], torch.zeros_like(by_w)
        for _ in range(K):
            v = grad(mapped, params, v, retain_graph=True)[0] + by_w
        value = grad(mapped, hparams, v)[0]
        hparams[0].grad = value if hparams[0].grad is None else hparams[0].grad + value
        return [value]


def hypergrad() -> Any:
    """hypertorch's package from the clone that BOUNDCHECK_HYPERTORCH names."""
    if not (path := os.environ.get("BOUNDCHECK_HYPERTORCH")):
        pytest.skip("hypertorch is in no registry: set BOUNDCHECK_HYPERTORCH to a clone of prolearner/hypertorch")
    if path not in sys.path:
        sys.path.insert(0, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a backslash in a docstring
        return importlib.import_module("hypergrad")


def iterate(params: list[Tensor], hparams: list[Tensor], t: int) -> list[Tensor]:
    for _ in range(t):
        params = [w.detach().requires_grad_() for w in fp_map(params, hparams)]
    return params


@pytest.mark.parametrize("library", [lambda: StandIn, hypergrad], ids=["stand-in", "hypertorch"])
def test_the_error_of_a_truncated_hypergradient_is_what_the_formula_says(library: Callable[[], Any]) -> None:
    hg, (params, hparams) = library(), start()
    problem = ADAPTER.problem(params, hparams, fp_map, outer_loss)
    last = iterate(params, hparams, 200)
    for K in (3, 200):
        hparams[0].grad = None
        hg.fixed_point(last, hparams, K, fp_map, outer_loss)
        g = ADAPTER.gradients(hparams)
        error = float((g[0] - exact(hparams[0].detach())).norm())
        enclosure = bc.enclose(problem, g)
        assert enclosure.lower - HALF <= error <= enclosure.upper + HALF
        assert error > 0.01 if K == 3 else error < HALF


def test_cg_that_converges_at_once_returns_the_start() -> None:
    """hypertorch's CG leaves its loop before it stores the step that reached the tolerance."""
    hg, (params, hparams) = hypergrad(), start()

    def isotropic(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
        return [0.5 * params[0] + hparams[0]]

    problem = ADAPTER.problem(params, hparams, isotropic, outer_loss)
    g = hg.CG([2 * hparams[0].detach()], hparams, 10, isotropic, outer_loss)
    assert float(g[0].norm()) == 0
    true = 2 * (2 * hparams[0].detach() - 1)  # w = 2λ
    assert bc.enclose(problem, g).lower == pytest.approx(float(true.norm()), rel=HALF)


@pytest.mark.parametrize("given", ["fp_map", "inner_loss", "object", "object with data"])
def test_every_form_of_the_lower_level_is_the_same_problem(given: str) -> None:
    params, hparams = start()

    def with_data(params: list[Tensor], hparams: list[Tensor], data: tuple[Tensor, Tensor]) -> Tensor:
        return ((data[0] @ params[0] - data[1]) ** 2).sum() / 2 + (hparams[0] * params[0] ** 2).sum() / 2

    step = {"dim_mult": 1, "step_size_f": lambda hparams: STEP}
    lower: Any = {
        "fp_map": fp_map,
        "inner_loss": None,
        "object": SimpleNamespace(loss_f=inner_loss, data_iterator=None, **step),
        "object with data": SimpleNamespace(loss_f=with_data, data_iterator=repeat((X, Y)), **step),
    }[given]
    options = {"inner_loss": inner_loss} if given == "inner_loss" else {}
    problem = ADAPTER.problem(params, hparams, lower, outer_loss, **options)
    enclosure = bc.enclose(problem, [exact(hparams[0].detach())])
    assert enclosure.upper < HALF
    assert enclosure.side is bc.Side.UPPER
    assert (problem.inner_at is None) == (given == "fp_map")


def test_a_gradient_inside_of_the_map_works_in_batches() -> None:
    params, hparams = start()
    problem = ADAPTER.problem(params, hparams, fp_map, outer_loss)
    w = torch.stack([params[0].detach(), params[0].detach() + 1])
    batched = torch.func.vmap(lambda w: problem.phi(w, problem.lam))(w)
    one_by_one = torch.stack([fp_map([x.requires_grad_()], hparams)[0] for x in w.unbind()])
    torch.testing.assert_close(batched, one_by_one.detach(), rtol=1e-14, atol=1e-14)


def test_a_map_without_a_graph_is_refused() -> None:
    def cut(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
        return [params[0] - STEP * grad(inner_loss(params, hparams), params)[0]]

    with pytest.raises((InputError, UserCodeError)):
        ADAPTER.problem(*start(), cut, outer_loss)


def test_what_cannot_be_used_is_named() -> None:
    params, hparams = start()
    with pytest.raises(InputError, match="got inner_loss= and fp_map=; give one of inner_loss=, fp_map="):
        ADAPTER.problem(params, hparams, fp_map, outer_loss, inner_loss=inner_loss)
    with pytest.raises(InputError, match="got no lower level"):
        ADAPTER.problem(params, hparams, None, outer_loss)
    batches = SimpleNamespace(loss_f=inner_loss, data_iterator=count(), dim_mult=1, step_size_f=lambda hparams: STEP)
    with pytest.raises(InputError, match="another batch in each call"):
        ADAPTER.problem(params, hparams, batches, outer_loss)  # type: ignore[arg-type]

    def logs(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
        inner_loss(params, hparams).detach().numpy()
        return fp_map(params, hparams)

    with pytest.raises(UserCodeError, match=r"may not use numpy, \.item\(\)"):
        ADAPTER.problem(params, hparams, logs, outer_loss)


def test_gradients_are_copies_and_zero_where_there_is_none() -> None:
    lam, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    with pytest.raises(InputError, match=r"no hparam has a \.grad"):
        ADAPTER.gradients([lam, unused])
    (lam**2).sum().backward()
    g = ADAPTER.gradients([lam, unused])
    assert g[0].tolist() == [2, 2]
    assert g[1].tolist() == [0, 0, 0]
    assert lam.grad is not None
    lam.grad.zero_()
    assert g[0].tolist() == [2, 2]
