"""Problems as a stranger would write them: plain torch, no hints, on the data and with the step of the shipped ones.

`PAIRS` are those with a shipped problem whose constants have closed forms; `ALONE` have none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import boundcheck as bc
from boundcheck.numerics.bilevel.closed_forms import ClosedForms, Region
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.problems import CATALOGUE
from boundcheck.problems.parts.newsgroups_documents import load_documents
from boundcheck.problems.parts.synthetic_data import DataSplit, Draw

logistic, biased_regularisation, kernel_ridge, hyper_representation, equilibrium, multinomial = (
    sys.modules[f"boundcheck.problems.{CATALOGUE[name].file}"]
    for name in ("lr", "br", "krr", "hr", "eqm", "newsgroups")
)
FLOAT64 = torch.float64
HOW: dict[str, Any] = {"seed": 0, "dtype": FLOAT64, "device": "cpu"}


@dataclass(frozen=True)
class Pair:
    """A user's problem and the shipped one; `turned` takes a flat w of the user's to one of the shipped problem's."""

    user: Problem
    shipped: Problem
    turned: Callable[[Tensor], Tensor] = lambda w: w

    def closed(self, region: Region) -> dict[str, float]:
        """The closed forms on a region of the user's w."""
        closed = self.shipped.known
        assert isinstance(closed, ClosedForms)
        there = Region(region.centre, self.turned(region.point), region.radius)
        constants = [*closed.everywhere(self.shipped.lam), *closed.on(self.shipped.lam, there)]
        return {constant.name: constant.value for constant in constants}


def step_of(shipped: Problem) -> float:
    """α of a shipped problem at its λ."""
    closed = shipped.known
    assert isinstance(closed, ClosedForms)
    return next(constant.value for constant in closed.everywhere(shipped.lam) if constant.name == "alpha")


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=FLOAT64)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=FLOAT64)


# three spellings of the logistic loss of labels −1 and 1


def soft_plus(margin: Tensor, label: Tensor) -> Tensor:
    return F.softplus(-label * margin).sum()


def log_sigmoid(margin: Tensor, label: Tensor) -> Tensor:
    return -F.logsigmoid(label * margin).sum()


def bce(margin: Tensor, label: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(margin, (label + 1) / 2, reduction="sum")


def logistic_pair(loss: Callable[[Tensor, Tensor], Tensor], **sizes: Any) -> Pair:
    """One ℓ₂ penalty a weight."""
    shipped = logistic.make(**sizes)
    data: DataSplit = logistic.generate(**HOW, **{k: v for k, v in sizes.items() if k in ("size", "features")})

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        return loss(data.X @ w, data.y) + 0.5 * (lam * w**2).sum()

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return loss(data.X_val @ w, data.y_val)

    w0 = zeros(data.X.shape[1])
    return Pair(bc.Problem.from_loss(inner, outer, w0, shipped.lam, step_of(shipped), name="my-lr"), shipped)


def biased_pair(**sizes: Any) -> Pair:
    """Ridge regression towards λ."""
    shipped = biased_regularisation.make(**sizes)
    data = biased_regularisation.generate(**HOW, **sizes)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        residual = data.X @ w - data.y
        return 0.5 * residual.dot(residual) + 0.5 * torch.sum((w - lam) ** 2)

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return 0.5 * F.mse_loss(data.X_val @ w, data.y_val, reduction="sum")

    w0 = zeros(data.X.shape[1])
    return Pair(bc.Problem.from_loss(inner, outer, w0, shipped.lam, step_of(shipped), name="my-br"), shipped)


def kernel_pair(**sizes: Any) -> Pair:
    """Kernel ridge regression with one width a feature."""
    shipped = kernel_ridge.make(**sizes)
    data = kernel_ridge.generate(**HOW, **sizes)
    X, X_val = data.X, data.X_val

    def gram(A: Tensor, B: Tensor, gamma: Tensor) -> Tensor:
        return torch.exp(-((A[:, None, :] - B[None, :, :]) ** 2 * gamma).sum(-1))

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        K = gram(X, X, lam[1:]) + lam[0] * torch.eye(len(X), dtype=X.dtype)
        return 0.5 * w @ K @ w - w @ data.y

    def outer(w: Tensor, lam: Tensor) -> Tensor:
        return 0.5 * ((data.y_val - gram(X_val, X, lam[1:]) @ w) ** 2).sum()

    w0 = zeros(len(X))
    return Pair(bc.Problem.from_loss(inner, outer, w0, shipped.lam, step_of(shipped), name="my-krr"), shipped)


def representation_pair(size: int = 15, features: int = 20, represented: int = 25) -> Pair:
    """Ridge regression on learnt features; λ is the matrix H."""
    shipped = hyper_representation.make(size=size, features=features, represented=represented)
    data = hyper_representation.generate(
        **HOW, size=size, features=features,
        weights=lambda draw, features: hyper_representation.weights(draw, features, represented),
    )  # fmt: skip

    def inner(w: Tensor, H: Tensor) -> Tensor:
        return 0.5 * ((data.X @ H @ w - data.y) ** 2).sum() + 5 * (w**2).sum()

    def outer(w: Tensor, H: Tensor) -> Tensor:
        return 0.5 * ((data.X_val @ H @ w - data.y_val) ** 2).sum()

    H = shipped.lam.reshape(features, represented)
    w0 = zeros(represented)
    return Pair(bc.Problem.from_loss(inner, outer, w0, H, step_of(shipped), name="my-hr"), shipped)


def multinomial_pair(linear: bool, **sizes: Any) -> Pair:
    """Multinomial regression with exp(λ) penalties, one a feature; with nn.Linear or a matrix."""
    shipped = multinomial.make(synthetic=True, **sizes)
    parts = load_documents(synthetic=True, **sizes)
    (_, p), c = parts.X.shape, parts.Y.shape[1]
    eye = torch.eye(p, dtype=FLOAT64)
    X, X_val = parts.X @ eye, parts.X_val @ eye
    y, y_val = parts.Y.argmax(1), parts.Y_val.argmax(1)
    step = step_of(shipped)

    def inner(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X @ W, y) + (lam.exp()[:, None] * W**2).sum() / (2 * c * p)

    def outer(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    def inner_of_module(model: nn.Linear, lam: Tensor) -> Tensor:
        return (
            F.cross_entropy(model(X), y) + 0.5 * (torch.exp(lam) * model.weight.square()).sum() / model.weight.numel()
        )

    def outer_of_module(model: nn.Linear, lam: Tensor) -> Tensor:
        return F.cross_entropy(model(X_val), y_val)

    if not linear:
        user = bc.Problem.from_loss(inner, outer, zeros(p, c), shipped.lam, step, name="my-multinomial")
        return Pair(user, shipped)
    model = nn.Linear(p, c, bias=False, dtype=FLOAT64)
    nn.init.zeros_(model.weight)
    user = bc.Problem.from_loss(inner_of_module, outer_of_module, model, shipped.lam, step, name="my-linear")
    return Pair(user, shipped, lambda w: w.reshape(c, p).T.reshape(-1))


def equilibrium_pair(**sizes: int) -> Pair:
    """w = tanh(Aw + Bx + c), λ a dictionary."""
    shipped = equilibrium.make(**sizes)
    draw = Draw.seeded(0, FLOAT64, "cpu")
    count, features, classes = sizes.get("size", 20), sizes.get("features", 8), sizes.get("classes", 3)
    examples = equilibrium.gaussian_examples(draw, count, features, classes)
    X, y, h = examples.X, examples.Y.argmax(1), sizes.get("hidden", 10)
    shapes = {"A": (h, h), "B": (h, features), "c": (h,), "theta": (classes, h), "b": (classes,)}
    pieces = torch.split(shipped.lam, [int(torch.tensor(shape).prod()) for shape in shapes.values()])
    lam = {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}

    def layer(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return torch.tanh(w @ lam["A"].T + X @ lam["B"].T + lam["c"])

    def outer(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(F.linear(w, lam["theta"], lam["b"]), y)

    return Pair(bc.Problem.from_map(layer, outer, zeros(count, h), lam, name="my-eqm"), shipped)


# problems without a closed form


def ridge() -> Problem:
    """Ridge regression with weights and an offset in a dictionary, and exp(λ) penalties."""
    X, X_val = normal(1, 30, 6), normal(2, 30, 6)
    truth = normal(3, 6)

    def error(params: dict[str, Tensor], X: Tensor) -> Tensor:
        return ((X @ params["weight"] + params["bias"] - X @ truth) ** 2).mean()

    def inner(params: dict[str, Tensor], lam: dict[str, Tensor]) -> Tensor:
        penalty = (lam["weight"].exp() * params["weight"] ** 2).sum() + lam["bias"].exp() * params["bias"] ** 2
        return error(params, X) + penalty

    def outer(params: dict[str, Tensor], lam: dict[str, Tensor]) -> Tensor:
        return error(params, X_val)

    params = {"weight": zeros(6), "bias": zeros()}
    lam = {"weight": torch.full((6,), -2.0, dtype=FLOAT64), "bias": torch.tensor(-3.0, dtype=FLOAT64)}
    return bc.Problem.from_loss(inner, outer, params, lam, name="my-ridge")


def cleaning() -> Problem:
    """Data hyper-cleaning: λ weighs every example, some of which have a wrong label."""
    X, X_val = normal(4, 24, 5), normal(5, 24, 5)
    truth = normal(6, 5, 3)
    y, y_val = (X @ truth).argmax(1), (X_val @ truth).argmax(1)
    y = torch.where(torch.arange(24) < 6, (y + 1) % 3, y)

    def inner(W: Tensor, lam: Tensor) -> Tensor:
        losses = F.cross_entropy(X @ W, y, reduction="none")
        return (torch.sigmoid(lam) * losses).mean() + 0.05 * W.pow(2).sum()

    def outer(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    return bc.Problem.from_loss(inner, outer, zeros(5, 3), zeros(24), name="my-cleaning")


def network(penalty: float = 1.0) -> Problem:
    """A network with one hidden layer of tanh and a penalty λ on every weight."""
    X, X_val = normal(7, 20, 3), normal(8, 20, 3)
    y, y_val = torch.sin(X.sum(1)), torch.sin(X_val.sum(1))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()

    def inner(model: nn.Sequential, lam: Tensor) -> Tensor:
        weights = torch.cat([p.reshape(-1) for p in model.parameters()])
        return F.mse_loss(model(X).squeeze(1), y) + penalty * (lam.exp() * weights**2).sum() / 2

    def outer(model: nn.Sequential, lam: Tensor) -> Tensor:
        return F.mse_loss(model(X_val).squeeze(1), y_val)

    return bc.Problem.from_loss(inner, outer, model, zeros(21), name="my-mlp")


def convolution() -> Problem:
    """w = tanh(K ⋆ w + K' ⋆ x + c) on images of 5 × 5, and a linear classifier of the states."""
    images, y = normal(9, 3, 1, 5, 5), torch.tensor([0, 1, 2])
    K = normal(10, 2, 2, 3, 3)
    lam = {
        "K": K * (0.6 / K.abs().sum((1, 2, 3)).max()),
        "K_in": normal(11, 2, 1, 3, 3) / 3,
        "c": 0.1 * normal(12, 2),
        "theta": normal(13, 3, 50) / 7,
    }

    def layer(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        drive = torch.conv2d(images, lam["K_in"], lam["c"], padding=1)
        return torch.tanh(torch.conv2d(w, lam["K"], padding=1) + drive)

    def outer(w: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(w.flatten(1) @ lam["theta"].T, y)

    return bc.Problem.from_map(layer, outer, zeros(3, 2, 5, 5), lam, name="my-conv-eqm")


PAIRS: dict[str, Callable[..., Pair]] = {
    "lr, softplus": lambda **sizes: logistic_pair(soft_plus, **sizes),
    "lr, logsigmoid": lambda **sizes: logistic_pair(log_sigmoid, **sizes),
    "lr, bce": lambda **sizes: logistic_pair(bce, **sizes),
    "br": biased_pair,
    "krr": kernel_pair,
    "hr": representation_pair,
    "multinomial": lambda **sizes: multinomial_pair(False, **sizes),
    "multinomial, nn.Linear": lambda **sizes: multinomial_pair(True, **sizes),
    "eqm": equilibrium_pair,
}
ALONE: dict[str, Callable[[], Problem]] = {
    "ridge": ridge,
    "cleaning": cleaning,
    "mlp": network,
    "conv eqm": convolution,
}
