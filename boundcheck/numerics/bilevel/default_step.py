"""The step size of a loss for which the user gives none."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.numerics.bilevel.derivatives import extreme_curvature, jacobian
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.recorded_program import Declined

Loss = Callable[[Tensor, Tensor], Tensor]  # of w and λ
TRIALS, STEPS = 8, 100  # steps that are tried, and gradient steps with each
SETTLE = 20  # steps of half the size, where those of a trial swing to and fro
NEWTON = 6  # Newton steps at most from there to the solution
LARGER_BY = 1e-6  # relative; a smaller increase of curvature does not count
LARGEST_PROVED_DIM = 400  # entries of w up to which curvature over a ball is proved
SHARE = 0.95  # of 2/L, where μ is not known or the loss is not strictly convex, so that 2/(μ+L) is at the very edge
WIDER = 1.2  # than the ball from the start to where the steps lead
LARGEST_RATIO = 4  # a proved L is used if it is at most this many times the curvature at the points that were tried


@torch.no_grad()
def default_step(loss: Loss, w0: Tensor, lam: Tensor) -> float:
    """2/(μ+L) with the curvature over the balls in which the iterates stay, where the program proves it.

    First 2/(μ+L) of the Hessian at the start, and of every point to which gradient descent with that step leads: where
    the Hessian at their end is larger, or they leave the finite numbers, the step gets smaller and is tried again. A
    step that is too long for the solution makes gradient descent swing around it, through points of smaller curvature;
    so shorter steps follow, and the Hessian is looked at where they lead. If the program of the loss then bounds the
    Hessian over the whole ball by not much more, that bound is taken, so that the step contracts not only at the points
    that were looked at.
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
        w, alpha = w0, _best(mu, L)
        before = after = w0
        for _ in range(STEPS):
            before, after = after, slope(w)
            w = w - alpha * after
        if not bool(torch.isfinite(w).all()):
            mu, L = 0.0, 2 * L
            continue
        curvature = extreme_curvature(at_lam, w)
        if not float(curvature.L) > L * (1 + LARGER_BY) and bool(before @ after < 0) and _moves(w, alpha * after):
            curvature = extreme_curvature(at_lam, settled(slope, w, alpha))
        if not float(curvature.L) > L * (1 + LARGER_BY):
            break
        mu, L = min(mu, float(curvature.mu.clamp(min=0))), float(curvature.L)
    if not bool(torch.isfinite(w).all()):
        return _best(mu, L)
    return _proved(loss, w0, lam, w, mu, L)


def _best(mu: float, L: float) -> float:
    return 2 / (mu + L) if mu > 0 else SHARE * 2 / L


def _moves(w: Tensor, step: Tensor) -> bool:
    """Whether a step is more than rounding."""
    return bool(step.norm() > torch.finfo(w.dtype).eps ** 0.5 * w.norm())


def settled(slope: Callable[[Tensor], Tensor], w: Tensor, alpha: float) -> Tensor:
    """Where shorter steps lead from w: to the solution, if Newton's method finds it from there, or else near it."""
    for _ in range(SETTLE):
        w = w - alpha / 2 * slope(w)
    if w.numel() > LARGEST_PROVED_DIM:
        return w
    size = slope(w).norm()
    for _ in range(NEWTON):
        H = jacobian(slope, w)
        factor, failed = torch.linalg.cholesky_ex((H + H.T) / 2)
        nearer = w - torch.cholesky_solve(slope(w)[:, None], factor)[:, 0]
        new_size = slope(nearer).norm()
        if bool(failed) or not bool(new_size < size):
            break
        w, size = nearer, new_size
        if not _moves(w, alpha * slope(w)):
            break
    return w


def _proved(loss: Loss, w0: Tensor, lam: Tensor, end: Tensor, mu: float, L: float) -> float:
    """The step for the curvature over the balls around `end` and 0; that for μ and L where nothing better is proved."""
    if w0.numel() > LARGEST_PROVED_DIM:
        return _best(mu, L)
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
    return _best(mu, L)
