"""TorchOpt's implicit gradients at their settings: `python benchmarks/case_studies/torchopt_implicit.py`.

The solver is the example in the docstring of `ImplicitMetaGradientModule.solve`; objective and model are those of
`tests/test_implicit.py` in TorchOpt's source distribution (iMAML: a linear model, cross-entropy, ½‖θ − φ‖²).
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
import torchopt
from rows import row, title
from sklearn.datasets import load_digits
from torch import Tensor, nn

import boundcheck as bc

warnings.filterwarnings("ignore", "We've integrated functorch")  # TorchOpt still calls it by its old name


def batches() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """40 digits to learn from and 40 to be judged by: the first of scikit-learn's 8 × 8 images, five classes."""
    images, labels = load_digits(n_class=5, return_X_y=True)
    x, y = torch.from_numpy(images) / 16, torch.from_numpy(labels)
    return x[:40], y[:40], x[40:80], y[40:80]


def inner_net(steps: int, linear_solve: Any) -> type:
    """The module with this many steps of Adam."""

    class InnerNet(torchopt.nn.ImplicitMetaGradientModule, linear_solve=linear_solve):
        def __init__(self, meta_model: nn.Module) -> None:
            super().__init__()
            self.meta_model = meta_model
            self.model = torchopt.module_clone(meta_model, by="deepcopy", detach_buffers=True)

        def forward(self, x: Tensor) -> Tensor:
            value: Tensor = self.model(x)
            return value

        def objective(self, x: Tensor, y: Tensor) -> Tensor:
            pairs = zip(self.parameters(), self.meta_parameters(), strict=True)
            return F.cross_entropy(self(x), y) + sum(0.5 * torch.sum(torch.square(p - q)) for p, q in pairs)

        def solve(self, x: Tensor, y: Tensor) -> Any:
            parameters = tuple(self.parameters())
            optimizer = torch.optim.Adam(parameters, lr=1e-3)
            with torch.enable_grad():
                for _ in range(steps):
                    loss = self.objective(x, y)
                    optimizer.zero_grad()
                    loss.backward(inputs=parameters)
                    optimizer.step()
            return self

    return InnerNet


def imaml() -> None:
    """The hypergradient by the meta-model, for more and more steps of the solver."""
    title("TorchOpt, iMAML on a linear model", "torchopt", "scikit-learn")
    x, y, x_val, y_val = batches()
    torch.manual_seed(0)
    meta_model = nn.Linear(64, 5, dtype=torch.float64)
    tight = torchopt.linear_solve.solve_normal_cg(rtol=1e-10)
    for label, steps, linear_solve in (
        ("Adam, lr = 1e-3, 100 steps (the docstring)", 100, None),
        ("Adam, lr = 1e-3, 1000 steps", 1000, None),
        ("Adam, lr = 1e-3, 1000 steps, normal CG with rtol = 1e-10", 1000, tight),
    ):
        net = inner_net(steps, linear_solve)(meta_model)

        def outer_loss(net: nn.Module) -> Tensor:
            return F.cross_entropy(net(x_val), y_val)

        problem = bc.adapters.torchopt.module_problem(net, outer_loss, x, y)
        net.solve(x, y)
        grads = torch.autograd.grad(outer_loss(net), tuple(net.meta_parameters()))
        w = {name: value.detach() for name, value in net.named_parameters()}
        row(label, problem, bc.adapters.torchopt.gradients(net, grads), w)


def scalar() -> None:
    """One number as the unknown: torchopt#222."""

    def objective(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - 2) ** 2 + lam.exp() * w**2).sum() / 2

    def outer_loss(w: Tensor, lam: Tensor) -> Tensor:
        return ((w - 1) ** 2).sum()

    title("TorchOpt, a lower level in one number, custom_root(grad(objective), argnums=1)", "torchopt")
    lam = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    for label, shape, options in (
        ("w of shape (), default solver", (), {}),
        (
            "w of shape (), solve_normal_cg(maxiter=10)",
            (),
            {"solve": torchopt.linear_solve.solve_normal_cg(maxiter=10)},
        ),
        ("w of shape (1,), default solver", (1,), {}),
    ):

        @torchopt.diff.implicit.custom_root(torch.func.grad(objective), argnums=1, **options)
        def solver(w: Tensor, lam: Tensor) -> Tensor:
            return (2 / (1 + lam.detach().exp())).reshape(w.shape)

        w0 = torch.zeros(shape, dtype=torch.float64)
        (g,) = torch.autograd.grad(outer_loss(solver(w0, lam), lam), lam)
        row(label, bc.adapters.torchopt.problem(w0, lam, outer_loss, objective=objective), g, solver(w0, lam).detach())


if __name__ == "__main__":
    imaml()
    scalar()
