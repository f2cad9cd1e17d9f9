"""Networks, meta-learning, and losses that are not convex, as papers, tutorials and repositories have them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes, load_digits, load_iris
from torch import Tensor, nn

import boundcheck as bc
from user_code.linear_models import FLOAT64, halves, normal


def factorisation() -> bc.Problem:
    """Ratings ≈ UVᵀ on the known entries, with a penalty on either factor."""
    R, known = normal(1, 6, 2) @ normal(2, 5, 2).T, normal(3, 6, 5) > -0.5

    def train_loss(params: dict[str, Tensor], lam: Tensor) -> Tensor:
        U, V = params["U"], params["V"]
        error = (U @ V.T - R)[known]
        return 0.5 * (error**2).mean() + lam[0].exp() * (U**2).sum() + lam[1].exp() * (V**2).sum()

    def val_loss(params: dict[str, Tensor], lam: Tensor) -> Tensor:
        return 0.5 * ((params["U"] @ params["V"].T - R)[~known] ** 2).mean()

    params = {"U": 0.5 * normal(4, 6, 2), "V": 0.5 * normal(5, 5, 2)}
    return bc.Problem.from_loss(train_loss, val_loss, params, torch.full((2,), -2.0, dtype=FLOAT64), name="factors")


def proximal() -> bc.Problem:
    """iMAML: the inner loop stays near the meta-parameters θ = λ, with ½‖w − θ‖²."""
    X, y, X_val, y_val = halves(load_iris, 60)

    def train_loss(params: dict[str, Tensor], theta: dict[str, Tensor]) -> Tensor:
        logits = F.linear(X, params["weight"], params["bias"])
        prox = sum(((params[name] - theta[name]) ** 2).sum() for name in params)
        return F.cross_entropy(logits, y) + 0.5 * prox

    def val_loss(params: dict[str, Tensor], theta: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(F.linear(X_val, params["weight"], params["bias"]), y_val)

    theta = {"weight": 0.1 * normal(6, 3, 4), "bias": torch.zeros(3, dtype=FLOAT64)}
    params = {name: x.clone() for name, x in theta.items()}
    return bc.Problem.from_loss(train_loss, val_loss, params, theta, name="proximal")


def ridge_head() -> bc.Problem:
    """R2D2: a ridge regression on features tanh(Ax) that are learnt, λ = (A, log penalty)."""
    X, y, X_val, y_val = halves(load_diabetes, 60)
    y, y_val = (y - 150) / 75, (y_val - 150) / 75

    def train_loss(head: Tensor, lam: dict[str, Tensor]) -> Tensor:
        features = torch.tanh(X @ lam["A"])
        return F.mse_loss(features @ head, y) + lam["penalty"].exp() * head.pow(2).sum()

    def val_loss(head: Tensor, lam: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(torch.tanh(X_val @ lam["A"]) @ head, y_val)

    lam = {"A": normal(7, 10, 6) / 3, "penalty": torch.tensor(-2.0, dtype=FLOAT64)}
    return bc.Problem.from_loss(train_loss, val_loss, torch.zeros(6, dtype=FLOAT64), lam, name="ridge head")


def network() -> bc.Problem:
    """A network with one hidden layer and weight decay."""
    X, y, X_val, y_val = normal(1, 20, 3), normal(2, 20), normal(3, 20, 3), normal(4, 20)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()

    def train_loss(model: nn.Module, log_decay: Tensor) -> Tensor:
        decay = sum(p.pow(2).sum() for p in model.parameters())
        return F.mse_loss(model(X).squeeze(-1), y) + log_decay.exp() * decay

    def val_loss(model: nn.Module, log_decay: Tensor) -> Tensor:
        return F.mse_loss(model(X_val).squeeze(-1), y_val)

    return bc.Problem.from_loss(train_loss, val_loss, model, torch.tensor(-2.0, dtype=FLOAT64), name="network")


def normalised_network() -> bc.Problem:
    """A network with nn.LayerNorm before its last layer, and weight decay on all that is trained; the body is given."""
    X, y, X_val, y_val = normal(1, 20, 3), normal(2, 20), normal(3, 20, 3), normal(4, 20)
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.GELU()).double()
    head = nn.Sequential(nn.Linear(6, 3), nn.LayerNorm(3), nn.Linear(3, 1)).double()
    for parameter in body.parameters():
        parameter.requires_grad_(False)

    def train_loss(head: nn.Module, log_decay: Tensor) -> Tensor:
        decay = sum(p.square().sum() for p in head.parameters())
        return F.mse_loss(head(body(X)).squeeze(-1), y) + log_decay.exp() * decay

    def val_loss(head: nn.Module, log_decay: Tensor) -> Tensor:
        return F.mse_loss(head(body(X_val)).squeeze(-1), y_val)

    return bc.Problem.from_loss(train_loss, val_loss, head, torch.tensor(0.0, dtype=FLOAT64), name="layer norm")


def normalised_body() -> bc.Problem:
    """ANIL: the inner loop trains the head alone, and λ is the body, with nn.LayerNorm and GELU."""
    X, y, X_val, y_val = halves(load_iris, 60)
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.GELU()).double()
    head = nn.Linear(5, 3).double()

    def train_loss(head: nn.Linear, body: nn.Module) -> Tensor:
        decay = sum(p.square().sum() for p in head.parameters())
        return F.cross_entropy(head(body(X)), y) + 0.05 * decay

    def val_loss(head: nn.Linear, body: nn.Module) -> Tensor:
        return F.cross_entropy(head(body(X_val)), y_val)

    return bc.Problem.from_loss(train_loss, val_loss, head, body, name="anil")


def in_place() -> bc.Problem:
    """Two digits, with code that writes in place: a buffer that is filled, `+=`, `mul_`."""
    X, y = (torch.as_tensor(x) for x in load_digits(return_X_y=True, n_class=2))
    X = (X / 16).reshape(-1, 8, 8)[:, ::2, ::2].reshape(-1, 16).double()
    X, y, X_val, y_val = X[:80:2], y[:80:2], X[1:80:2], y[1:80:2]

    def scores(w: Tensor, X: Tensor) -> Tensor:
        out = torch.zeros(len(X), 2, dtype=w.dtype)
        for k in range(2):
            out[:, k] = X @ w[k]
        out -= out.mean(1, keepdim=True)
        out += 0.1
        return out

    def train_loss(w: Tensor, lam: Tensor) -> Tensor:
        penalty = (w**2).sum(0)
        penalty.mul_(lam.exp())
        loss = F.cross_entropy(scores(w, X), y)
        loss += penalty.sum()
        return loss

    def val_loss(w: Tensor, lam: Tensor) -> Tensor:
        return F.cross_entropy(scores(w, X_val), y_val)

    w, lam = torch.zeros(2, 16, dtype=FLOAT64), torch.full((16,), -3.0, dtype=FLOAT64)
    return bc.Problem.from_loss(train_loss, val_loss, w, lam, name="in place")
