"""A problem of your own from a loss: ridge regression with an nn.Module, one penalty for each weight.

Problem: ℓ = mean squared error of a linear module plus Σ e^λ_i w_i²/2, E = mean squared error on other data.
Method: ITD, AID-FP and AID-CG, compared with every bound that applies. No constants are given.
"""

import torch

import boundcheck as bc

generator = torch.Generator().manual_seed(0)
X, X_val = (torch.randn(40, 5, generator=generator, dtype=torch.float64) for _ in range(2))
truth = torch.tensor([1.0, -2.0, 0.0, 0.5, 0.0], dtype=torch.float64)
model = torch.nn.Linear(5, 1, bias=False, dtype=torch.float64)
torch.nn.init.zeros_(model.weight)  # the theorems of the paper assume a start at 0


def mean_squared_error(module, X, noise):
    return ((module(X)[:, 0] - X @ truth - noise) ** 2).mean()


def inner_loss(module, lam):
    return mean_squared_error(module, X, 0.1) + (lam.exp() * module.weight[0] ** 2).sum() / 2


def outer_loss(module, lam):
    return mean_squared_error(module, X_val, 0.0)


problem = bc.Problem.from_loss(inner_loss, outer_loss, model, torch.full((5,), -2.0, dtype=torch.float64), name="ridge")

if __name__ == "__main__":
    print(bc.check(problem, ["itd", "aid-fp", "aid-cg"], t=60).table())
