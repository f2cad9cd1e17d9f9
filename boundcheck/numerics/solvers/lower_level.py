"""The lower-level iteration, which computes z_t from z_0 by the problem's dynamics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.errors import DivergenceError
from boundcheck.numerics.bilevel.dynamics import FIXED_POINT
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready


@dataclass(frozen=True, eq=False)
class Lower:
    """The state z_t after t steps."""

    z: Tensor
    t: int
    stopped: str = ""  # why it stopped early; empty if it did all steps


def run(problem: Problem, ready: Ready, z: Tensor, t: int, tol: float | None = None) -> Lower:
    """Do t steps. If `tol` is given, stop when a step moves w by at most tol·max(1, ‖w‖)."""
    with torch.no_grad():
        if tol is None:
            step = step_of(problem)
            for _ in range(t):
                z = step(z, ready)
            return Lower(z, t)
        for done in range(t):
            w_before, z = problem.dynamics.iterate(z), problem.psi_at(z, ready)
            w = problem.dynamics.iterate(z)
            if bool((w - w_before).norm() <= tol * w.norm().clamp(min=1)):
                return Lower(z, done + 1, f"step below tol = {tol:g} at t = {done + 1}")
    return Lower(z, t)


def step_of(problem: Problem) -> Callable[[Tensor, Ready], Tensor]:
    """Return the function that does one step of the dynamics; for plain iterations, Φ itself without a wrapper."""
    return problem.phi_at if problem.dynamics.step is FIXED_POINT.step else problem.psi_at


TOGETHER = 10  # number of steps in one call of `vmap`


def many(problem: Problem, prepared: Prepared, z: Tensor, t: int) -> Iterator[Tensor]:
    """Yield the states after 1 … t steps for several λ, one in each row. A single λ runs without `vmap`."""
    single = len(z) == 1
    ready = prepared.leaves.at(0) if single else prepared.ready
    z, step = z[0] if single else z, step_of(problem)
    for done in range(0, t, TOGETHER):

        def steps(z: Tensor, ready: Ready, count: int = min(TOGETHER, t - done)) -> list[Tensor]:
            states = [z]
            for _ in range(count):
                states.append(step(states[-1], ready))
            return states[1:]

        with torch.no_grad():
            states = steps(z, ready) if single else vmap(steps)(z, ready)
        still = z.device.type == "cpu" and torch.equal(states[-1], states[-2] if len(states) > 1 else z)
        z = states[-1]
        yield from (z[None] for z in states) if single else states
        if still:  # the last step changed no bit, so no later step does
            yield from [z[None] if single else z] * (t - done - len(states))
            return


def residual(problem: Problem, ready: Ready, w: Tensor) -> Tensor:
    """Return ‖w − Φ(w)‖."""
    with torch.no_grad():
        return length(w - problem.phi_at(w, ready))


def length(x: Tensor) -> Tensor:
    """Return ‖x‖ without overflow or underflow of the squares."""
    largest = x.abs().max()
    scale = torch.where(largest > 0, largest, 1)
    norm: Tensor = scale * (x / scale).norm()
    return norm


def explain_divergence(problem: Problem, ready: Ready, z: Tensor, t: int) -> DivergenceError:
    """Run the iteration again, and return an error that names the first step whose result is not finite."""
    with torch.no_grad():
        for done in range(1, t + 1):
            z = problem.psi_at(z, ready)
            if not bool(torch.isfinite(z).all()):
                return DivergenceError(
                    f"{problem.name}: the lower-level iteration ({problem.dynamics.name}) left the finite numbers at "
                    f"t = {done} of {t}; reduce the step size, or check that Φ is a contraction"
                )
    return DivergenceError(
        f"{problem.name}: the derivative of the iteration left the finite numbers within t = {t} steps"
    )
