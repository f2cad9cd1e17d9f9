"""Linear models as papers, tutorials and repositories have them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from torch import Tensor, nn

import boundcheck as bc

FLOAT64 = torch.float64


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=FLOAT64)


def halves(load: Callable[..., tuple[object, object]], most: int = 10**6) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and validation data of scikit-learn, with standardised features, in a random order."""
    X, y = (torch.as_tensor(x) for x in load(return_X_y=True))
    X = (X - X.mean(0)) / X.std(0)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:most]
    train, val = order[::2], order[1::2]
    return X[train], y[train], X[val], y[val]


def logistic() -> bc.Problem:
    """Breast cancer, with one penalty exp(λ) for each feature."""
    X, y, X_val, y_val = halves(load_breast_cancer)
    y, y_val = y.double(), y_val.double()

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(X @ w, y) + 0.5 * (torch.exp(lam) * w**2).sum()

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(X_val @ w, y_val)

    w = torch.zeros(30, dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, torch.full((30,), -3.0, dtype=FLOAT64), name="logistic")


def ridge() -> bc.Problem:
    """Diabetes, with weights and an offset in a dictionary and a penalty exp(λ) for each."""
    X, y, X_val, y_val = halves(load_diabetes)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75

    def predict(params: dict[str, Tensor], X: Tensor) -> Tensor:
        return X @ params["weight"] + params["bias"]

    def train_loss(params: dict[str, Tensor], lam: dict[str, Tensor]) -> Tensor:
        penalty = sum(lam[name].exp() * params[name].pow(2).sum() for name in params)
        return F.mse_loss(predict(params, X), y) + penalty

    def val_loss(params: dict[str, Tensor], lam: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(predict(params, X_val), y_val)

    params = {"weight": torch.zeros(10, dtype=FLOAT64), "bias": torch.zeros((), dtype=FLOAT64)}
    lam = {name: torch.tensor(-2.0, dtype=FLOAT64) for name in params}
    return bc.Problem.from_loss(train_loss, val_loss, params, lam, name="ridge")


def elastic_net() -> bc.Problem:
    """Diabetes, with √(w² + ε) in place of |w| and a square; λ has the logarithm of both factors."""
    X, y, X_val, y_val = halves(load_diabetes)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        l1, l2 = lam.exp()
        return 0.5 * ((X @ w - y) ** 2).mean() + l1 * torch.sqrt(w**2 + 1e-2).sum() + 0.5 * l2 * w.dot(w)

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return 0.5 * ((X_val @ w - y_val) ** 2).mean()

    w, lam = torch.zeros(10, dtype=FLOAT64), torch.tensor([-3.0, -1.0], dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, lam, name="elastic net")


def multinomial() -> bc.Problem:
    """Iris with nn.Linear, label smoothing and weight decay."""
    X, y, X_val, y_val = halves(load_iris)
    model = nn.Linear(4, 3).double()
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def train_loss(model: nn.Linear, log_decay: Tensor) -> Tensor:
        return criterion(model(X), y) + log_decay.exp() * sum((p**2).sum() for p in model.parameters())

    def val_loss(model: nn.Linear, log_decay: Tensor) -> Tensor:
        return F.cross_entropy(model(X_val), y_val)

    return bc.Problem.from_loss(train_loss, val_loss, model, torch.tensor(-3.0, dtype=FLOAT64), name="multinomial")


def cleaning() -> bc.Problem:
    """Data hyper-cleaning: a fifth of the labels of wine is wrong, and σ(λ) weighs each example."""
    X, y, X_val, y_val = halves(load_wine, 120)
    y = torch.where(torch.arange(len(y)) % 5 == 0, (y + 1) % 3, y)

    def train_loss(W: Tensor, lam: Tensor) -> Tensor:
        losses = F.cross_entropy(X @ W, y, reduction="none")
        return (torch.sigmoid(lam) * losses).mean() + 0.05 * W.norm() ** 2

    def val_loss(W: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    W = 0.01 * normal(1, 13, 3)  # at 0 the norm has no second derivative
    return bc.Problem.from_loss(train_loss, val_loss, W, torch.zeros(len(X), dtype=FLOAT64), name="cleaning")


def groups() -> bc.Problem:
    """Diabetes in four groups by age, whose losses have the weights softmax(λ)."""
    X, y, X_val, y_val = halves(load_diabetes)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75
    group = torch.bucketize(X[:, 0].contiguous(), torch.tensor([-0.7, 0.0, 0.7], dtype=FLOAT64))

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        weights = torch.softmax(lam, 0)
        errors = (torch.einsum("nd,d->n", X, w) - y).square()
        losses = torch.zeros(4, dtype=w.dtype).index_add(0, group, errors) / torch.bincount(group)
        return (weights * losses).sum() + 0.1 * w.square().sum()

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return (torch.einsum("nd,d->n", X_val, w) - y_val).square().mean()

    w = torch.zeros(10, dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, torch.zeros(4, dtype=FLOAT64), name="groups")


def distillation() -> bc.Problem:
    """Dataset distillation: λ are six examples of wine, on which a linear classifier is trained."""
    X, y, X_val, y_val = halves(load_wine)
    labels = torch.arange(6) % 3
    start = torch.stack([X[y == label][i // 3] for i, label in enumerate(labels)])

    def train_loss(W: Tensor, images: Tensor) -> Tensor:
        return F.cross_entropy(images @ W, labels) + 0.05 * (W**2).sum()

    def val_loss(W: Tensor, images: Tensor) -> Tensor:
        return F.cross_entropy(X_val @ W, y_val)

    return bc.Problem.from_loss(train_loss, val_loss, torch.zeros(13, 3, dtype=FLOAT64), start, name="distillation")


def kernel_ridge() -> bc.Problem:
    """Diabetes, with the kernel exp(−γ‖x − x'‖²) by cdist; λ has log γ and the logarithm of the penalty."""
    X, y, X_val, y_val = halves(load_diabetes, 60)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75

    def kernel(A: Tensor, B: Tensor, log_gamma: Tensor) -> Tensor:
        return torch.exp(-log_gamma.exp() * torch.cdist(A, B) ** 2)

    def train_loss(a: Tensor, lam: Tensor) -> Tensor:
        K = kernel(X, X, lam[0])
        return 0.5 * ((K @ a - y) ** 2).mean() + 0.5 * lam[1].exp() * a @ a

    def val_loss(a: Tensor, lam: Tensor) -> Tensor:
        return 0.5 * ((kernel(X_val, X, lam[0]) @ a - y_val) ** 2).mean()

    lam = torch.tensor([-3.0, -3.0], dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, torch.zeros(30, dtype=FLOAT64), lam, name="kernel ridge")


def poisson() -> bc.Problem:
    """Counts with the rate exp(Xw), by F.poisson_nll_loss."""
    X, X_val, truth = 0.3 * normal(1, 40, 5), 0.3 * normal(2, 40, 5), normal(3, 5)
    y, y_val = (X @ truth).exp().round(), (X_val @ truth).exp().round()

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.poisson_nll_loss(X @ w, y) + 0.5 * (lam.exp() * w**2).sum()

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.poisson_nll_loss(X_val @ w, y_val)

    w, lam = torch.zeros(5, dtype=FLOAT64), torch.full((5,), -1.0, dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, lam, name="poisson")


def huber() -> bc.Problem:
    """Diabetes by F.huber_loss, the second derivative of which jumps."""
    X, y, X_val, y_val = halves(load_diabetes)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.huber_loss(X @ w, y, delta=0.5) + 0.5 * (lam.exp() * w.square()).sum()

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.huber_loss(X_val @ w, y_val, delta=0.5)

    w, lam = torch.zeros(10, dtype=FLOAT64), torch.full((10,), -2.0, dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, lam, name="huber")


def quantile() -> bc.Problem:
    """The 0.8 quantile of diabetes, with the pinball loss, the slope of which jumps."""
    X, y, X_val, y_val = halves(load_diabetes)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75

    def pinball(error: Tensor) -> Tensor:
        return torch.maximum(0.8 * error, -0.2 * error).mean()

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        return pinball(y - X @ w) + 0.5 * lam.exp() * (w**2).sum()

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return pinball(y_val - X_val @ w)

    w = torch.zeros(10, dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, torch.tensor(0.0, dtype=FLOAT64), name="quantile")
