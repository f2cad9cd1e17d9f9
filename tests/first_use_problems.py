"""Five problems as a first-time user writes them: plain torch, no hints, no step size, small.

`boundcheck check tests/first_use_problems.py:imaml` loads one by its name; `WITH_LOSS` names those with a loss.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import boundcheck as bc

DOUBLE = torch.float64


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def wd(step_size: float | None = None, dtype: torch.dtype = DOUBLE) -> bc.Problem:
    """Weight decay of multinomial logistic regression, as an `nn.Module` with its random start."""
    X, X_val = 3 * _normal(1, 40, 6).to(dtype), 3 * _normal(2, 20, 6).to(dtype)
    labels = (X @ _normal(3, 6, 3).to(dtype)).argmax(1)
    labels_val = (X_val @ _normal(3, 6, 3).to(dtype)).argmax(1)
    torch.manual_seed(0)
    model = nn.Linear(6, 3).to(dtype)

    def inner_loss(params, lam):
        logits = torch.func.functional_call(model, params, (X,))
        penalty = sum((w**2).sum() for w in params.values())
        return F.cross_entropy(logits, labels) + lam.exp() * penalty / 2

    def outer_loss(params, lam):
        return F.cross_entropy(torch.func.functional_call(model, params, (X_val,)), labels_val)

    lam = torch.tensor(-3.0, dtype=dtype)
    return bc.Problem.from_loss(inner_loss, outer_loss, dict(model.named_parameters()), lam, step_size, name="wd")


def clean(step_size: float | None = None, dtype: torch.dtype = DOUBLE) -> bc.Problem:
    """Hyper-cleaning: a weight for each training example, some of whose labels are wrong."""
    X, X_val = _normal(4, 30, 8).to(dtype), _normal(5, 20, 8).to(dtype)
    truth = _normal(6, 8).to(dtype)
    y, y_val = torch.sign(X @ truth), torch.sign(X_val @ truth)
    y[::4] = -y[::4]

    def inner_loss(w, lam):
        return (torch.sigmoid(lam) * F.softplus(-y * (X @ w))).mean() + 0.01 * (w**2).sum()

    def outer_loss(w, lam):
        return F.softplus(-y_val * (X_val @ w)).mean()

    return bc.Problem.from_loss(
        inner_loss, outer_loss, 0.1 * _normal(7, 8).to(dtype), torch.zeros(30, dtype=dtype), step_size, name="clean"
    )


def imaml(step_size: float | None = None, dtype: torch.dtype = DOUBLE) -> bc.Problem:
    """Implicit MAML: a small network with a proximal term towards the meta-parameters."""
    x, x_val = torch.linspace(-2, 2, 10, dtype=dtype)[:, None], torch.linspace(-1.9, 1.9, 10, dtype=dtype)[:, None]
    y, y_val = torch.sin(2 * x), torch.sin(2 * x_val)
    meta = {"W1": _normal(8, 8, 1), "b1": _normal(9, 8), "W2": _normal(10, 1, 8) / 8**0.5, "b2": _normal(11, 1)}
    meta = {name: value.to(dtype) for name, value in meta.items()}

    def network(params, x):
        return torch.tanh(x @ params["W1"].T + params["b1"]) @ params["W2"].T + params["b2"]

    def inner_loss(params, meta):
        proximal = sum(((params[name] - meta[name]) ** 2).sum() for name in params)
        return ((network(params, x) - y) ** 2).mean() + 0.1 * proximal / 2

    def outer_loss(params, meta):
        return ((network(params, x_val) - y_val) ** 2).mean()

    start = {name: value.clone() for name, value in meta.items()}
    return bc.Problem.from_loss(inner_loss, outer_loss, start, meta, step_size, name="imaml")


def graph(dtype: torch.dtype = DOUBLE) -> bc.Problem:
    """A graph layer at equilibrium: a tanh map whose derivative is not symmetric."""
    nodes, width = 6, 3
    A = torch.softmax(_normal(12, nodes, nodes), dim=1).to(dtype)
    X, target = _normal(13, nodes, width).to(dtype), _normal(14, nodes, width).to(dtype)
    W = 0.3 * _normal(15, width, width).to(dtype)

    def fp_map(Z, W):
        return torch.tanh(A @ Z @ W + X)

    def outer_loss(Z, W):
        return ((Z - target) ** 2).mean()

    return bc.Problem.from_map(fp_map, outer_loss, torch.zeros(nodes, width, dtype=dtype), W, name="graph")


def ridge(step_size: float | None = None, dtype: torch.dtype = DOUBLE) -> bc.Problem:
    """Ridge regression with a penalty exp(λ) for each feature."""
    X, X_val = _normal(16, 40, 5).to(dtype), _normal(17, 20, 5).to(dtype)
    truth = _normal(18, 5).to(dtype)
    y, y_val = X @ truth + _normal(19, 40).to(dtype), X_val @ truth + _normal(20, 20).to(dtype)

    def inner_loss(w, lam):
        return ((X @ w - y) ** 2).mean() / 2 + (lam.exp() * w**2).sum() / 2

    def outer_loss(w, lam):
        return ((X_val @ w - y_val) ** 2).mean() / 2

    zeros = torch.zeros(5, dtype=dtype)
    return bc.Problem.from_loss(inner_loss, outer_loss, zeros, zeros - 2, step_size, name="ridge")


FIRST_USE = {"wd": wd, "clean": clean, "imaml": imaml, "graph": graph, "ridge": ridge}
WITH_LOSS = ("wd", "clean", "imaml", "ridge")  # whose step size boundcheck chooses
