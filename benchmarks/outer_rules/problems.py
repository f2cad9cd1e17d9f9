"""Three problems on real data, written as a stranger would: plain torch, `Problem.from_loss`, no hints."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from sklearn import datasets
from torch import Tensor

import boundcheck as bc

FLOAT64 = torch.float64


def halves(X: object, y: object, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and validation data of `size` rows each, features with mean 0 and deviation 1."""
    X, y = torch.as_tensor(X, dtype=FLOAT64), torch.as_tensor(y)
    X = (X - X.mean(0)) / X.std(0).clamp(min=1e-3)
    rows = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    return X[rows[:size]], y[rows[:size]], X[rows[size : 2 * size]], y[rows[size : 2 * size]]


def lr() -> bc.Problem:
    """Logistic regression on breast cancer data, the logarithm of one penalty a feature: d = n = 30."""
    X, y, X_val, y_val = halves(*datasets.load_breast_cancer(return_X_y=True), 280)
    y, y_val = y.to(FLOAT64), y_val.to(FLOAT64)
    top = float(torch.linalg.eigvalsh(X.T @ X)[-1]) / 4 / len(X)

    def inner_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(X @ w, y) + ((lam.exp() + 1e-2) * w**2).sum() / 2

    def outer_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(X_val @ w, y_val)

    return bc.Problem.from_loss(
        inner_loss, outer_loss, torch.zeros(30, dtype=FLOAT64), torch.full((30,), -3.0, dtype=FLOAT64),
        step_size=lambda lam: 1 / (top + lam.exp().max() + 1e-2), name="lr",
    )  # fmt: skip


def krr() -> bc.Problem:
    """Kernel ridge regression on diabetes data, logarithms of a ridge and of one width a feature: d = 100, n = 11."""
    X, y, X_val, y_val = halves(*datasets.load_diabetes(return_X_y=True), 100)
    y, y_val = ((z.to(FLOAT64) - 150) / 77 for z in (y, y_val))

    def kernel(A: Tensor, B: Tensor, widths: Tensor) -> Tensor:
        return torch.exp(-(((A[:, None] - B) ** 2) @ widths))

    def prepare(lam: Tensor) -> dict[str, Tensor]:
        H = kernel(X, X, lam[1:].exp()) + lam[0].exp() * torch.eye(len(X), dtype=FLOAT64)
        return {"H": H, "K_val": kernel(X_val, X, lam[1:].exp())}

    def inner_loss(w: Tensor, ready: dict[str, Tensor]) -> Tensor:
        return w @ ready["H"] @ w / 2 - w @ y

    def outer_loss(w: Tensor, ready: dict[str, Tensor]) -> Tensor:
        return ((ready["K_val"] @ w - y_val) ** 2).mean() / 2

    return bc.Problem.from_loss(
        inner_loss, outer_loss, torch.zeros(100, dtype=FLOAT64), torch.tensor([0.0] + [-3.0] * 10, dtype=FLOAT64),
        step_size=lambda ready: 1 / torch.linalg.matrix_norm(ready["H"], ord=1), prepare=prepare, name="krr",
    )  # fmt: skip


def multinomial() -> bc.Problem:
    """Multinomial regression on handwritten digits, the logarithm of one penalty a pixel: d = 640, n = 64."""
    X, y, X_val, y_val = halves(*datasets.load_digits(return_X_y=True), 600)
    top = float(torch.linalg.eigvalsh(X.T @ X)[-1]) / 2 / len(X)

    def inner_loss(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X @ W, y) + ((lam.exp()[:, None] + 1e-2) * W**2).sum() / 2

    def outer_loss(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    return bc.Problem.from_loss(
        inner_loss, outer_loss, torch.zeros(64, 10, dtype=FLOAT64), torch.full((64,), -5.0, dtype=FLOAT64),
        step_size=lambda lam: 1 / (top + lam.exp().max() + 1e-2), name="multinomial",
    )  # fmt: skip


PROBLEMS: dict[str, Callable[[], bc.Problem]] = {"lr": lr, "krr": krr, "multinomial": multinomial}
