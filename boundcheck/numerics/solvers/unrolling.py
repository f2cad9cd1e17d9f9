"""Iterative differentiation: the derivative of E(w_t(λ), λ) through the last K of t steps (all of them for ITD).

Reverse mode runs in segments. One segment is plain back-propagation. With checkpoints, about √K segments of √K steps
store only the states from which they start and recompute the others. This costs one more forward pass, and needs memory
for 2√K states in place of K. If a problem has a formula for ∂₁Φ, back-propagation needs only the states.
Forward mode computes (dw_t/dλ)e_i along the run for each direction e_i in turn. It stores nothing, and costs n runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.numerics.bilevel.derivatives import Linearisation, outer_gradients, push_forward
from boundcheck.numerics.bilevel.formulas import D1, DataMatrix, for_columns, summed
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.solvers import lower_level


@dataclass(frozen=True, eq=False)
class Iterated:
    """The derivative, and the iterate w_t at which E was evaluated."""

    value: Tensor
    w: Tensor


def reverse(problem: Problem, prepared: Prepared, z: Tensor, t: int, through: int, *, checkpoint: bool) -> Iterated:
    """Back-propagate through the last `through` of t steps from the state z."""
    ready = prepared.ready
    d1 = problem.d1phi_T_at
    if not checkpoint and through and problem.dynamics.copies == 1 and d1 is not None:
        return _by_formula(problem, prepared, d1, _steps(problem, z, ready, t - through), through)
    length = max(1, math.isqrt(through)) if checkpoint else max(1, through)
    starts, done = [], t - through
    z = _steps(problem, z, ready, done)
    while t - done > length:
        starts.append(z)
        z, done = _steps(problem, z, ready, length), done + length
    linearised = _differentiable_steps(problem, z, prepared, t - done)
    w = problem.dynamics.iterate(linearised.y.detach())
    gradients = outer_gradients(problem, w, prepared.leaves)
    v, total = problem.dynamics.lift(gradients.w), gradients.lam
    while True:
        v, parts = linearised.transposed(v)
        total = tuple(a + b for a, b in zip(total, parts, strict=True))
        if not starts:
            return Iterated(prepared.pull_back(total), w)
        linearised = _differentiable_steps(problem, starts.pop(), prepared, length)


def _by_formula(problem: Problem, prepared: Prepared, d1: D1, w: Tensor, steps: int) -> Iterated:
    """Compute Σ_p ∂₂Φ(w_p)ᵀa for the adjoints a ← ∂₁Φ(w_p)ᵀa, which start from a = ∇₁E(w_t)."""
    ready, path = prepared.ready, [w]
    with torch.no_grad():
        for _ in range(steps):
            path.append(problem.phi_at(path[-1], ready))
    points = torch.stack(path[:-1])
    columns = for_columns(d1)
    matrices = None if columns is None else columns(points.mT, prepared.leaves.for_points())
    gradients = outer_gradients(problem, path[-1], prepared.leaves)
    backwards, a = [], gradients.w
    products = matrices.points(steps) if isinstance(matrices, DataMatrix) else None
    for p in reversed(range(steps)):
        backwards.append(a)
        a = (d1(path[p], ready) if products is None else products[p])(a)
    adjoints = torch.stack(backwards[::-1])
    if problem.d2phi_T_at is not None:
        total = prepared.pull_back(gradients.lam) + summed(problem.d2phi_T_at(points, ready), adjoints)
        return Iterated(total, path[-1])
    tensors = tuple(leaf.detach().requires_grad_() for leaf in prepared.leaves.tensors)
    if not tensors:
        return Iterated(prepared.pull_back(gradients.lam), path[-1])
    with torch.enable_grad():  # all points at once, because they share λ
        y = vmap(problem.phi_at, in_dims=(0, None))(points, prepared.leaves.ready(tensors))
    parts = torch.autograd.grad(y, tensors, adjoints, materialize_grads=True) if y.requires_grad else gradients.lam
    if y.requires_grad:
        parts = tuple(a + b for a, b in zip(gradients.lam, parts, strict=True))
    return Iterated(prepared.pull_back(parts), path[-1])


def forward(problem: Problem, prepared: Prepared, z: Tensor, t: int, through: int) -> Iterated:
    """Compute (dE/dλ)_i = (∇₂E)_i + ∇₁Eᵀ(dw_t/dλ)e_i from n runs with one tangent each."""
    ready = prepared.ready
    start = _steps(problem, z, ready, t - through)
    columns, end = [], start
    for i in range(problem.n):
        tangents = prepared.push_forward(i)
        end, tangent = start, torch.zeros_like(start)
        for _ in range(through):
            end, tangent = push_forward(problem.psi_at, end, prepared.leaves, tangent, tangents)
        columns.append(problem.dynamics.iterate(tangent))
    w = problem.dynamics.iterate(end)
    gradients = outer_gradients(problem, w, prepared.leaves)
    return Iterated(prepared.pull_back(gradients.lam) + torch.stack(columns) @ gradients.w, w)


def _steps(problem: Problem, z: Tensor, ready: Ready, count: int) -> Tensor:
    with torch.no_grad():
        step = lower_level.step_of(problem)
        for _ in range(count):
            z = step(z, ready)
    return z


def _differentiable_steps(problem: Problem, z: Tensor, prepared: Prepared, count: int) -> Linearisation:
    step = lower_level.step_of(problem)

    def steps(z: Tensor, ready: Ready) -> Tensor:
        for _ in range(count):
            z = step(z, ready)
        return z

    return Linearisation(steps, z, prepared.ready, prepared.leaves)
