"""Problems of users that are unusual in one way each; `PROBLEMS` by what is unusual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from user_problems import normal, zeros

import boundcheck as bc

X, X_VAL, Y, Y_VAL = normal(1, 12, 4), normal(2, 9, 4), normal(3, 12), normal(4, 9)


def squares(w: Tensor, X: Tensor = X, Y: Tensor = Y) -> Tensor:
    return ((X @ w - Y) ** 2).sum() / 2


def outer(w: Tensor, lam: Any) -> Tensor:
    return squares(w, X_VAL, Y_VAL)


def of(inner: Callable[[Any, Any], Tensor], params: Any = None, lam: Any = None, **options: Any) -> bc.Problem:
    params = zeros(4) + 0.1 if params is None else params
    lam = zeros(4) if lam is None else lam
    options = {"outer_loss": outer, "step_size": 0.02, **options}
    return bc.Problem.from_loss(inner, options.pop("outer_loss"), params, lam, options.pop("step_size"), **options)


def unused_parameters() -> bc.Problem:
    """Two entries of w are in no loss but in the penalty, one entry of λ is in none."""
    params = {"a": zeros(4) + 0.1, "idle": zeros(2) + 1}

    def inner(p: dict[str, Tensor], lam: Tensor) -> Tensor:
        return squares(p["a"]) + lam[0].exp() * (p["a"].square().sum() + p["idle"].square().sum())

    return of(inner, params, zeros(2), outer_loss=lambda p, lam: outer(p["a"], lam))


def nested() -> bc.Problem:
    """A dictionary with a list in it, an offset without axes, and penalties for each."""
    params = {"layers": [zeros(4) + 0.1, zeros()], "scale": zeros(1) + 0.5}

    def inner(p: Any, lam: Any) -> Tensor:
        w, b = p["layers"]
        fit = ((X @ w + b - Y) ** 2).mean()
        return fit + (lam["w"].exp() * w**2).sum() + lam["b"] * b**2 + (p["scale"] - lam["b"]).square().sum()

    lam = {"w": zeros(4) - 1, "b": zeros() + 0.3}
    return of(inner, params, lam, outer_loss=lambda p, lam: ((X_VAL @ p["layers"][0] + p["layers"][1]) ** 2).mean())


def module() -> bc.Problem:
    torch.manual_seed(0)
    model = nn.Linear(4, 1, dtype=torch.float64)

    def inner(model: nn.Linear, lam: Tensor) -> Tensor:
        return F.mse_loss(model(X)[:, 0], Y) + (lam.exp() * model.weight[0] ** 2).sum()

    return of(inner, model, outer_loss=lambda model, lam: F.mse_loss(model(X_VAL)[:, 0], Y_VAL))


def in_float32() -> bc.Problem:
    data, labels, few = X.float(), Y.float(), X_VAL.float()

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return F.softplus(data @ w * labels.sign()).sum() + (lam.exp() * w**2).sum()

    return of(inner, zeros(4).float() + 0.1, zeros(4).float(), outer_loss=lambda w, lam: (few @ w).square().sum())


def one_penalty() -> bc.Problem:
    return of(lambda w, lam: squares(w) + lam.exp() * w.square().sum() / 2, lam=zeros() - 1)


def sum_of_functions() -> bc.Problem:
    """Functions of w itself and of several data, one of them weighed by λ."""

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        smooth = torch.cosh(0.3 * w).sum()
        return squares(w) + F.softplus(2 * (X @ w)[:5] + 1).mean() + smooth + (torch.sigmoid(lam) * w.exp()).sum()

    return of(inner)


def weighed_examples() -> bc.Problem:
    return of(
        lambda w, lam: (torch.sigmoid(lam) * F.softplus(-(X @ w) * Y.sign())).sum() + w.square().sum(), lam=zeros(12)
    )


def moving_targets() -> bc.Problem:
    """λ is the targets, and the data are scaled by it."""
    return of(lambda w, lam: ((X * lam[:4] @ w - lam[4:]) ** 2).sum() / 2 + w.square().sum(), lam=normal(5, 16))


def quadratic_form() -> bc.Problem:
    def inner(w: Tensor, lam: Tensor) -> Tensor:
        A = lam[:, None] * X.T @ X * lam + torch.eye(4, dtype=w.dtype)
        return w @ A @ w / 2 - w @ (X.T @ Y)

    return of(inner, lam=zeros(4) + 0.5)


def matrix_of_targets() -> bc.Problem:
    targets = normal(6, 12, 3)
    return of(
        lambda W, lam: ((X @ W - targets) ** 2).sum() / 2 + (lam.exp()[:, None] * W**2).sum(), zeros(4, 3) + 0.1,
        outer_loss=lambda W, lam: (X_VAL @ W).square().mean(),
    )  # fmt: skip


def sums_by_row() -> bc.Problem:
    return of(
        lambda W, lam: F.cross_entropy(X @ W, CLASSES) + (lam.exp() * (W * W).sum(1)).sum(), zeros(4, 3) + 0.1,
        outer_loss=lambda W, lam: F.cross_entropy(X_VAL @ W, CLASSES[:9]),
    )  # fmt: skip


CLASSES = torch.arange(12) % 3


def step_of_lam(differentiate: bool) -> Callable[[], bc.Problem]:
    def make() -> bc.Problem:
        def step(lam: Tensor) -> Tensor:
            return 2 / (torch.linalg.eigvalsh(X.T @ X + torch.diag(lam.exp()))[-1] + 1)

        return of(
            lambda w, lam: squares(w) + (lam.exp() * w**2).sum() / 2, step_size=step, differentiate_step=differentiate
        )

    return make


def momentum() -> bc.Problem:
    dynamics = bc.dynamics.heavy_ball(lambda lam: (1 + 0.1 * lam.sum().tanh(), 0.3))
    return of(lambda w, lam: squares(w) + (lam.exp() * w**2).sum() / 2, dynamics=dynamics)


def own_preparation() -> bc.Problem:
    def prepare(lam: Tensor) -> dict[str, Tensor]:
        return {"penalty": lam.exp(), "data": X * torch.sigmoid(lam)}

    def inner(w: Tensor, ready: dict[str, Tensor]) -> Tensor:
        return ((ready["data"] @ w - Y) ** 2).sum() / 2 + (ready["penalty"] * w**2).sum()

    return of(inner, prepare=prepare)


# not of a form that has formulas


def product_of_functions() -> bc.Problem:
    return of(lambda w, lam: squares(w) + (w.tanh() * (X @ w)[:4]).sum() + (lam.exp() * w**2).sum())


def function_of_sum() -> bc.Problem:
    return of(lambda w, lam: squares(w) + (1 + (lam.exp() * w**2).sum()).log())


def function_of_function() -> bc.Problem:
    return of(lambda w, lam: squares(w) + (1 + w.exp()).log().sum() + (lam.exp() * w**2).sum())


def with_a_cut() -> bc.Problem:
    """A penalty whose own influence is cut off: the derivative is not that of the value."""
    weights = {}

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        weights["last"] = w.detach()  # never used in the value
        return squares(w) + (lam.exp() * w**2).sum()

    return of(inner)


def affine_map() -> bc.Problem:
    A = 0.2 * normal(7, 4, 4)
    return bc.Problem.from_map(lambda w, lam: A @ w + lam.exp(), outer, zeros(4), zeros(4))


def map_of_a_dictionary() -> bc.Problem:
    def layer(p: dict[str, Tensor], lam: Tensor) -> dict[str, Tensor]:
        return {"b": torch.tanh(0.3 * p["b"] + lam[:2]), "a": torch.sin(0.2 * p["a"] * lam[2:]) + 0.1 * p["b"].sum()}

    params = {"a": zeros(3), "b": zeros(2)}
    return bc.Problem.from_map(layer, lambda p, lam: (p["a"] ** 2).sum() + p["b"].sum(), params, zeros(5) + 0.4)


RECOGNISED: dict[str, Callable[[], bc.Problem]] = {
    "unused parameters": unused_parameters,
    "nested": nested,
    "module": module,
    "float32": in_float32,
    "one penalty": one_penalty,
    "sum of functions": sum_of_functions,
    "weighed examples": weighed_examples,
    "moving targets": moving_targets,
    "quadratic form": quadratic_form,
    "matrix of targets": matrix_of_targets,
    "sums by row": sums_by_row,
    "step of λ": step_of_lam(False),
    "step of λ, differentiated": step_of_lam(True),
    "momentum": momentum,
    "own preparation": own_preparation,
}
OTHERS: dict[str, Callable[[], bc.Problem]] = {
    "product of functions": product_of_functions,
    "function of a sum": function_of_sum,
    "function of a function": function_of_function,
    "with a cut": with_a_cut,
    "affine map": affine_map,
    "map of a dictionary": map_of_a_dictionary,
}
