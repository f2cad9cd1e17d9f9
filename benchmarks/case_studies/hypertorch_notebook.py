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
        longer = iterates(hparams, 10 * T)[-1]
        g = hypergrad.CG(longer, hparams, 2 * K, fp_map, val_loss, set_grad=False)
        audit(f"CG, T = {10 * T}, K = {2 * K}", problem, g, longer)


if __name__ == "__main__":
    main()
