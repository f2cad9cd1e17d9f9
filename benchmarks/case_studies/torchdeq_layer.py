"""A DEQ layer of TorchDEQ at its settings: `python benchmarks/case_studies/torchdeq_layer.py`.

The calls are those of the README's quick start, `deq = get_deq(args)` and `z_out, info = deq(…)`, without arguments.
The layer is z = tanh(Wz + Ux + b), the loss cross-entropy, the data 16 of scikit-learn's digits.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rows import row, title
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torchdeq import get_deq

import boundcheck as bc

IMAGES, LABELS = load_digits(return_X_y=True)
X, Y = torch.from_numpy(IMAGES[:16]) / 16, torch.from_numpy(LABELS[:16])


class Model(nn.Module):
    """PyTorch's own initial weights."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.state = nn.Linear(12, 12, dtype=torch.float64)
        self.inject = nn.Linear(64, 12, bias=False, dtype=torch.float64)
        self.head = nn.Linear(12, 10, dtype=torch.float64)
        self.deq = get_deq(**options)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        injected = self.inject(x)

        def f(z: Tensor) -> Tensor:
            return torch.tanh(self.state(z) + injected)

        z_out, _ = self.deq(f, torch.zeros(len(x), 12, dtype=x.dtype))
        logits: Tensor = self.head(z_out[-1])
        return logits


def loss(model: nn.Module) -> Tensor:
    """What the parameters are trained by."""
    return F.cross_entropy(model(X), Y)


def main() -> None:
    """The gradient by the parameters, with more and more of it solved."""
    title("TorchDEQ, z = tanh(Wz + Ux + b), cross-entropy", "torchdeq", "scikit-learn")
    solved = {"f_tol": 1e-10, "b_tol": 1e-10, "f_max_iter": 500, "b_max_iter": 500}
    settings: dict[str, dict[str, Any]] = {
        "get_deq(), all defaults": {},
        "get_deq(grad=5)": {"grad": 5},
        "get_deq(grad=5, tau=0.5)": {"grad": 5, "tau": 0.5},
        "get_deq(ift=True)": {"ift": True},
        "get_deq(ift=True, f_stop_mode='rel', f_tol=0.05)": {"ift": True, "f_stop_mode": "rel", "f_tol": 0.05},
        "get_deq(ift=True, …_tol=1e-10, …_max_iter=500)": {"ift": True, **solved},
    }
    for label, options in settings.items():
        model = Model(**options)
        problem = bc.adapters.torchdeq.problem(model, loss)
        loss(model).backward()
        row(label, problem, bc.adapters.torchdeq.gradients(model))


if __name__ == "__main__":
    main()
