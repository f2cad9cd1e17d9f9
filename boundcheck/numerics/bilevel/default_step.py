"""The step size of a loss for which the user gives none."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.derivatives import extreme_curvature
from boundcheck.numerics.program.capture import Declined, capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds

Loss = Callable[[Tensor, Tensor], Tensor]  # of w and λ
TRIALS, STEPS = 8, 100  # steps that are tried, and gradient steps with each
LARGER_BY = 1e-6  # relative; a smaller increase of curvature does not count
LARGEST_PROVED_DIM = 400  # entries of w up to which curvature over a ball is proved
WIDER = 1.2  # than the ball from the start to where the steps lead
LARGEST_RATIO = 4  # a proved L is used if it is at most this many times the curvature at the points that were tried


@torch.no_grad()
def default_step(loss: Loss, w0: Tensor, lam: Tensor) -> float:
    """2/(μ+L) with the curvature over the balls in which the iterates stay, where the program proves it.

    First 2/(μ+L) of the Hessian at the start, and of every point to which gradient descent with that step leads: where
    the Hessian at their end is larger, or they leave the finite numbers, the step gets smaller and is tried again. If
    the program of the loss then bounds the Hessian over the whole ball by not much more, that bound is taken, so that
    the step contracts not only at the points that were looked at.
    """
    at_lam = lambda w: loss(w, lam)  # noqa: E731
    slope = torch.func.grad(at_lam)
    curvature = extreme_curvature(at_lam, w0)
    if not float(curvature.L) > 0:
        raise InputError(
            f"the Hessian of inner_loss at params has largest eigenvalue {float(curvature.L):.3g}, so no step size "
            "follows from it; give step_size=…"
        )
    mu, L, w = float(curvature.mu.clamp(min=0)), float(curvature.L), w0
    for _ in range(TRIALS):
        w, alpha = w0, 2 / (mu + L)
        for _ in range(STEPS):
            w = w - alpha * slope(w)
        if not bool(torch.isfinite(w).all()):
            mu, L = 0.0, 2 * L
            continue
        curvature = extreme_curvature(at_lam, w)
        if not float(curvature.L) > L * (1 + LARGER_BY):
            break
        mu, L = min(mu, float(curvature.mu.clamp(min=0))), float(curvature.L)
    if not bool(torch.isfinite(w).all()):
        return 2 / (mu + L)
    return _proved(loss, w0, lam, w, mu, L)


def _proved(loss: Loss, w0: Tensor, lam: Tensor, end: Tensor, mu: float, L: float) -> float:
    """The step for the curvature over the balls around `end` and 0; that for μ and L where nothing better is proved."""
    if w0.numel() > LARGEST_PROVED_DIM:
        return 2 / (mu + L)
    balls = ((end, float((w0 - end).norm())), (torch.zeros_like(end), 2 * float(end.norm())))
    try:
        program = capture(loss, w0, lam, EXPANSIONS)
        for centre, radius in balls:
            bounds = ScalarBounds(program, centre, lam, WIDER * radius, with_lam=False)
            if L < bounds.largest <= LARGEST_RATIO * L:
                L = bounds.largest
            mu = min(mu, max(bounds.smallest, 0.0)) if bounds.smallest > 0 else mu
    except Declined:
        pass
    return 2 / (mu + L)
