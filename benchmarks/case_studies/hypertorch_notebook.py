"""hypertorch's notebook on logistic regression: `python benchmarks/case_studies/hypertorch_notebook.py`.

BOUNDCHECK_HYPERTORCH names a clone of prolearner/hypertorch. The notebook is examples/logistic_regression.ipynb there.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rows import row, title
from sklearn.model_selection import train_test_split
from torch import Tensor

import boundcheck as bc

if not (clone := os.environ.get("BOUNDCHECK_HYPERTORCH")):
    sys.exit("set BOUNDCHECK_HYPERTORCH to a clone of prolearner/hypertorch, which no registry has")
sys.path.insert(0, clone)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a backslash in a docstring
    hypergrad: Any = importlib.import_module("hypergrad")

STEP, T, K = 0.1, 100, 10  # as in the notebook


def split() -> list[Tensor]:
    """Training inputs, validation inputs, training labels, validation labels, in float32."""
    np.random.seed(1)  # the numbers of the notebook
    oracle = np.random.randn(20)
    x = np.random.randn(1000, 20)
    y = (x @ oracle + 0.1 * np.random.randn(1000) > 0).astype(float)
    return [torch.from_numpy(part).float() for part in train_test_split(x, y, test_size=0.5)]


X, X_VAL, Y, Y_VAL = split()


def losses(dtype: torch.dtype) -> tuple[Any, Any]:
    """The lower and the upper loss, on the same numbers in float32 or float64."""
    x, x_val, y, y_val = (part.to(dtype) for part in (X, X_VAL, Y, Y_VAL))

    def inner_loss(params: list[Tensor], hparams: list[Tensor]) -> Tensor:
        w = params[0]
        penalty = 0.5 * (w.unsqueeze(0) @ torch.diag(hparams[0]) @ w.unsqueeze(1)).sum()
        return F.binary_cross_entropy_with_logits(x @ w, y) + penalty

    def val_loss(params: list[Tensor], hparams: list[Tensor]) -> Tensor:
        return F.binary_cross_entropy_with_logits(x_val @ params[0], y_val)

    return inner_loss, val_loss


inner_loss, val_loss = losses(torch.float32)


def fp_map(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
    """The notebook's map, without the line that logs the loss."""
    loss = inner_loss(params, hparams)
    return [params[0] - STEP * torch.autograd.grad(loss, params, create_graph=True)[0]]


def iterates(hparams: list[Tensor], steps: int) -> list[list[Tensor]]:
    """The iterates of the lower level, with their graph."""
    history = [[torch.zeros(20).requires_grad_()]]
    for _ in range(steps):
        history.append(fp_map(history[-1], hparams))
    return history


def minimised(hparams: list[Tensor]) -> list[Tensor]:
    """The lower level solved by PyTorch's L-BFGS, in float32."""
    params = [torch.zeros(20).requires_grad_()]
    optimiser = torch.optim.LBFGS(
        params, max_iter=1000, tolerance_grad=0, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = inner_loss(params, hparams)
        loss.backward(inputs=params)
        return loss

    optimiser.step(closure)
    return params


def exactly(hparams: list[Tensor]) -> bc.Problem:
    """The same problem in float64: what float32 rounds away counts as an error of g."""
    start, lam = [torch.zeros(20, dtype=torch.float64)], [hparams[0].detach().double()]
    inner, outer = losses(torch.float64)
    return bc.adapters.hypertorch.problem(start, lam, None, outer, inner_loss=inner)


def audit(setting: str, problem: bc.Problem, g: Any, w: list[Tensor]) -> None:
    """A line of the table, for a hypergradient of float32."""
    row(setting, problem, [g[0].detach().double()], [w[0].detach().double()])


def outer_run(steps: int) -> list[Tensor]:
    """The hyperparameters after some steps of the notebook's own loop."""
    hparams = [torch.ones(20).requires_grad_()]
    optimiser = torch.optim.SGD(hparams, lr=1.0, momentum=0.9)
    for _ in range(steps):
        history = iterates(hparams, T)
        optimiser.zero_grad()
        hypergrad.reverse(history[-K - 1 :], hparams, [fp_map] * K, val_loss)
        optimiser.step()
        hparams[0].data.clamp_(min=1e-8)
    return hparams


def few_eigenvalues() -> None:
    """A quadratic whose Hessian has two different eigenvalues: conjugate gradient needs two steps."""
    eigenvalues = torch.tensor([1.0, 1.0, 0.25, 0.25], dtype=torch.float64)
    hparams = [torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)]

    def step(params: list[Tensor], hparams: list[Tensor]) -> list[Tensor]:
        return [params[0] - 0.5 * (eigenvalues * params[0] - hparams[0])]

    def distance(params: list[Tensor], hparams: list[Tensor]) -> Tensor:
        return ((params[0] - 1) ** 2).sum() / 2

    w = [(hparams[0] / eigenvalues).detach()]
    problem = bc.adapters.hypertorch.problem(w, hparams, step, distance)
    title("hypertorch, a quadratic with two different eigenvalues, w in closed form")
    for label, solve, options in (
        ("CG, K = 10", hypergrad.CG, {"K": 10}),
        ("CG, K = 2, tol = 0", hypergrad.CG, {"K": 2, "tol": 0}),
        ("fixed_point, K = 200", hypergrad.fixed_point, {"K": 200}),
    ):
        g = solve(w, hparams, fp_map=step, outer_loss=distance, set_grad=False, **options)
        row(label, problem, [g[0].detach()], w)


def main() -> None:
    """The table at the start of the notebook's run, and after 100 of its steps."""
    for steps in (0, 100):
        hparams = outer_run(steps)
        problem, history = exactly(hparams), iterates(hparams, T)
        last = history[-1]
        title(f"hypertorch, logistic regression, after {steps} outer steps", "scikit-learn")
        g = hypergrad.reverse(history[-K - 1 :], hparams, [fp_map] * K, val_loss, set_grad=False)
        audit(f"reverse, T = {T}, K = {K} (the notebook)", problem, g, last)
        g = hypergrad.fixed_point(last, hparams, K, fp_map, val_loss, set_grad=False)
        audit(f"fixed_point, T = {T}, K = {K}", problem, g, last)
        g = hypergrad.CG(last, hparams, K, fp_map, val_loss, set_grad=False)
        audit(f"CG, T = {T}, K = {K}", problem, g, last)
        g = hypergrad.reverse(history, hparams, [fp_map] * T, val_loss, set_grad=False)
        audit(f"reverse, T = K = {T}", problem, g, last)
        solved = minimised(hparams)
        g = hypergrad.CG(solved, hparams, 10 * K, fp_map, val_loss, set_grad=False)
        audit(f"w by L-BFGS, CG, K = {10 * K}", problem, g, solved)


if __name__ == "__main__":
    main()
    few_eigenvalues()
