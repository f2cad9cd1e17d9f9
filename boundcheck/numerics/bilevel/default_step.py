"""The default step size for a loss."""

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
TRIALS, STEPS = 8, 100  # number of step sizes that are tried, and of gradient steps with each
SETTLE = 20  # number of half steps if the steps of a trial oscillate
NEWTON = 6  # the most Newton steps after them
LARGER_BY = 1e-6  # a relative increase of curvature up to this is ignored
LARGEST_PROVED_DIM = 400  # the most entries of w for which curvature over a ball is proved
SHARE = 0.95  # the step is this times 2/L if μ is unknown or 0, because 2/(μ+L) would be the stability limit
WIDER = 1.2  # factor on the radius of the ball between the start and the last iterate
LARGEST_RATIO = 4  # a proved L is used if it is at most this many times the curvature at the tested points


@torch.no_grad()
def default_step(loss: Loss, w0: Tensor, lam: Tensor) -> float:
    """Return 2/(μ+L) for the curvature of the loss, over the balls of the iterates if the program proves it.

    The first trial uses the Hessian at the start. If gradient descent with this step leads to a point of larger
    curvature, or overflows, a smaller step is tried. If the step is too long near the solution, the iterates oscillate
    around it at points of smaller curvature. In this case half steps follow, and the curvature at their end counts.
    Finally, if the program of the loss gives a bound on the Hessian over the whole ball that is not much larger, this
    bound is used. Then the step contracts on the whole ball, not only at the tested points.
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
            curvature = extreme_curvature(at_lam, near_solution(slope, w, alpha))
        if not float(curvature.L) > L * (1 + LARGER_BY):
            break
        mu, L = min(mu, float(curvature.mu.clamp(min=0))), float(curvature.L)
    if not bool(torch.isfinite(w).all()):
        return _best(mu, L)
    return _proved(loss, w0, lam, w, mu, L)


def _best(mu: float, L: float) -> float:
    return 2 / (mu + L) if mu > 0 else SHARE * 2 / L


def _moves(w: Tensor, step: Tensor) -> bool:
    """Return whether a step is more than rounding."""
    return bool(step.norm() > torch.finfo(w.dtype).eps ** 0.5 * w.norm())


def near_solution(slope: Callable[[Tensor], Tensor], w: Tensor, alpha: float) -> Tensor:
    """Take half steps and then Newton steps from w, and return a point near the solution."""
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
    """Return the step for the proved curvature over the balls around `end` and 0, or the step for μ and L."""
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
