"""The reference: w(λ) and ∇f(λ) to machine precision, with residuals that show the accuracy.

w(λ) is computed by Newton's method on w − Φ(w) = 0, from the closed form if there is one. Then (I − ∂₁Φᵀ)v = ∇₁E is
solved. Up to d = `DENSE`, this uses dense matrices, for many λ at once. For larger d it is matrix-free, with CG, or CG
on the normal equations unless ∂₁Φ is symmetric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.errors import AssumptionError, DivergenceError
from boundcheck.numerics.bilevel.derivatives import (
    DENSE,
    Linearisation,
    jacobian,
    outer_gradients,
    rows_d2_T,
    rows_outer,
)
from boundcheck.numerics.bilevel.formulas import DataMatrix, for_columns
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers import conjugate_gradient, lower_level, normal_equations
from boundcheck.numerics.solvers.linear_systems import Dense, FewData, System
from boundcheck.numerics.solvers.result import Certificate
from boundcheck.progress import doing

NEWTON = 100  # the most Newton steps
LOOSE = 0.3  # the largest tolerance of a matrix-free Newton step; it falls on the way to w*
SHORTEST = 2**-12  # the smallest part of a Newton step that is tried
LEFT_OVER = 1e-3  # tolerance of the second solve for v, which corrects the rounding of the first
KRYLOV = 20_000  # the most steps of CG, if matrix-free
START = 100  # steps of the dynamics before Newton
FARTHER = 1e3  # a residual above FARTHER times that at w_0 means divergence; momentum overshoots by less
PLAIN = 50  # steps of Φ if a Newton step does not help


class SingularError(DivergenceError):
    """w(λ) has no derivative, because I − ∂₁Φ is singular there."""


@dataclass(frozen=True, eq=False)
class ReferenceSolution:
    """One row for each λ: ∇f, w(λ), v, and the residuals ‖w − Φ(w)‖ and ‖(I − ∂₁Φᵀ)v − ∇₁E‖."""

    value: Tensor
    w: Tensor
    v: Tensor
    residual_w: Tensor
    residual_v: Tensor

    @classmethod
    def of(cls, several: Sequence[ReferenceSolution]) -> ReferenceSolution:
        """Join the rows of several solutions."""
        return cls(*(torch.cat([getattr(solution, field.name) for solution in several]) for field in fields(cls)))

    def row(self, i: int) -> ReferenceSolution:
        """Return the solution of the i-th λ only."""
        return ReferenceSolution(*(getattr(self, field.name)[i : i + 1] for field in fields(self)))


@torch.no_grad()
def reference(
    problem: Problem, lams: Tensor, prepared: Prepared | None = None, path: Tensor | None = None
) -> ReferenceSolution:
    """Compute the exact hypergradient at every row of `lams`.

    If Φ has several fixed points, the result is for one near the iterate after `START` steps of the dynamics.

    Parameters
    ----------
    problem : Problem
        The problem.
    lams : Tensor of shape (λ, n)
        One λ in each row.
    prepared : Prepared, optional
        The prepared values for `lams`. They are not used if d > `DENSE`.
    path : Tensor of shape (λ, steps, state), optional
        The states z_0, z_1, … of the dynamics, if they are known.

    Returns
    -------
    ReferenceSolution
        One row for each λ.

    Raises
    ------
    DivergenceError
        If no fixed point is found, or if ∇f is not defined there.
    """
    if problem.d > DENSE:
        paths = [None if path is None else path[i : i + 1] for i in range(len(lams))]
        return ReferenceSolution.of([_matrix_free(problem, lam, path) for lam, path in zip(lams, paths, strict=True)])
    prepared = prepared or Prepared(problem, lams)
    ready = prepared.ready
    phi = vmap(problem.phi_at)

    def differentiate(w: Tensor) -> System:
        """Return I − ∂₁Φ at each w."""
        eye = torch.eye(problem.d, dtype=w.dtype, device=w.device)
        d1phi = None
        if (formula := for_columns(problem.d1phi_T_at)) is not None:
            d1phi = formula(w.mT[..., None], prepared.leaves.for_columns())
        if (few_data := FewData.of(d1phi, len(w))) is not None:
            return few_data
        if isinstance(d1phi, DataMatrix) and _shares_data(d1phi):
            return Dense(eye - d1phi.matrices()[:, 0])
        return Dense(eye - vmap(lambda w, ready: jacobian(lambda x: problem.phi_at(x, ready), w))(w, ready))

    start = vmap(problem.solution)(ready) if problem.solution else _start(problem, prepared, path)
    w, A = _newton(problem.name, lambda w: w - phi(w, ready), differentiate, start)
    return reference_at(problem, prepared, w, A)


def _shares_data(d1phi: DataMatrix) -> bool:
    """Return whether all λ have the same data U, and each column has its own `weight` and `diagonal`."""
    one_U = d1phi.U.dim() == 2  # (data, d)
    own_weight, own_diagonal = d1phi.weight.dim() == 3, d1phi.diagonal.dim() == 3  # (…, λ, 1)
    return one_U and own_weight and own_diagonal


def reference_at(problem: Problem, prepared: Prepared, w: Tensor, A: System) -> ReferenceSolution:
    """Return the reference for fixed points w, one in each row, with A = I − ∂₁Φ. Residuals show the accuracy of w."""
    outer = rows_outer(problem, w[:, None], prepared.leaves)
    b = outer.w[:, 0]
    v = A.solve_T(b)
    residual_v = (b - A.product_T(v)).norm(dim=-1)
    if not bool(torch.isfinite(b).all()):
        raise DivergenceError(f"{problem.name}: ∇₁E is not finite at the fixed point; E has no gradient there")
    if not bool(torch.isfinite(residual_v).all()) or A.is_singular():
        raise SingularError(
            f"{problem.name}: I − ∂₁Φ is singular at the fixed point, so w(λ) has no derivative there; "
            "add a penalty to the lower level, or change lam"
        )
    parts = rows_d2_T(problem.phi_at, w[:, None], prepared.leaves, v[:, None, None])
    total = tuple(x[:, 0] + y[:, 0, 0] for x, y in zip(outer.lam, parts, strict=True))
    residual_w = (w - vmap(problem.phi_at)(w, prepared.ready)).norm(dim=-1)
    return ReferenceSolution(prepared.pull_back(total), w, v, residual_w, residual_v)


def _start(problem: Problem, prepared: Prepared, path: Tensor | None) -> Tensor:
    """Do `START` steps of the dynamics from w_0, as a start for Newton's method; return w_0 if they diverge."""
    w0 = problem.w0.expand(len(prepared.lams), -1)
    if path is not None and path.shape[1] > START:
        z = path[:, START]
    else:
        *_, z = lower_level.many(problem, prepared, problem.dynamics.start(w0), START)
    w, phi = problem.dynamics.iterate(z), vmap(problem.phi_at)
    excess, before = ((x - phi(x, prepared.ready)).norm(dim=-1, keepdim=True) for x in (w, w0))
    return torch.where(excess <= FARTHER * before, w, w0)  # w_0 too if `excess` is NaN


def _newton(
    name: str, excess: Callable[[Tensor], Tensor], differentiate: Callable[[Tensor], System], w: Tensor
) -> tuple[Tensor, System]:
    """Return a zero of w − Φ(w) for each row of w, and the derivative there.

    A row takes the largest tested part of the Newton step that lowers the residual, or `PLAIN` steps of Φ if no part
    does. It is done when neither lowers the residual.
    """
    F = excess(w)
    tight = 4 * torch.finfo(w.dtype).eps
    for _ in range(NEWTON):
        A = differentiate(w)
        step, part = A.solve(F), torch.ones_like(w[:, :1])  # the step is not finite if A is singular, hence not better
        near = F.norm(dim=-1) <= 1e3 * tight * w.norm(dim=-1).clamp(min=1)
        while True:
            F_trial = excess(w_trial := w - part * step)
            better = F_trial.norm(dim=-1) < F.norm(dim=-1)
            if bool((better | near | (part[:, 0] <= SHORTEST)).all()):
                break
            part = torch.where((better | near)[:, None], part, part / 2)
        converged = F.norm(dim=-1) <= tight * w.norm(dim=-1)
        if not bool((better & ~converged).any()):
            if bool(near.all()):
                return w, A
            w_trial = w
            for _ in range(PLAIN):
                w_trial = w_trial - excess(w_trial)
            F_trial = excess(w_trial)
            better = F_trial.norm(dim=-1) < F.norm(dim=-1)
            if not bool(better.any()):
                break
        take = better[:, None]
        w, F = torch.where(take, w_trial, w), torch.where(take, F_trial, F)
    raise _not_found(name, F)


def _not_found(name: str, F: Tensor) -> DivergenceError:
    worst = float(F.norm(dim=-1).max())
    return DivergenceError(
        f"{name}: no fixed point found: ‖w − Φ(w)‖ = {worst:.2e} at best; check that Φ is a contraction at this lam"
    )


def _matrix_free(problem: Problem, lam: Tensor, path: Tensor | None) -> ReferenceSolution:
    prepared = Prepared(problem, lam)
    ready = prepared.ready
    eps = torch.finfo(lam.dtype).eps
    w = problem.solution(ready) if problem.solution else _start(problem, Prepared(problem, lam[None]), path)[0]

    def excess(w: Tensor) -> Tensor:
        return w - problem.phi_at(w, ready)

    w, F = _inexact_newton(problem, excess, ready, w)
    linearisation = Linearisation(problem.phi_at, w, ready, prepared.leaves)
    outer = outer_gradients(problem, w, prepared.leaves)
    v = krylov(problem, linearisation, outer.w, 4 * eps, transposed=True)
    v = v + krylov(problem, linearisation, outer.w - (v - linearisation.d1_T(v)), LEFT_OVER, transposed=True)
    residual_v = (outer.w - (v - linearisation.d1_T(v))).norm()
    if not bool(residual_v <= 1e6 * eps * outer.w.norm()):
        raise DivergenceError(
            f"{problem.name}: the linear system is solved to {float(residual_v):.2e} only, after {KRYLOV} steps; "
            "it is too ill-conditioned for the matrix-free reference"
        )
    total = tuple(x + y for x, y in zip(outer.lam, linearisation.d2_T(v), strict=True))
    return ReferenceSolution(*(x[None] for x in (prepared.pull_back(total), w, v, F.norm(), residual_v)))


def _inexact_newton(
    problem: Problem, excess: Callable[[Tensor], Tensor], ready: Any, w: Tensor
) -> tuple[Tensor, Tensor]:
    """Return a zero of w − Φ(w), and the residual there.

    The tolerance of a Newton step is the square root of the residual relative to ‖w‖. The step is halved until the
    residual falls. If no part of the step helps, `PLAIN` steps of Φ are tried.
    """
    eps = torch.finfo(w.dtype).eps
    F = excess(w)
    for number in range(NEWTON):
        doing(f"solving for w*: Newton step {number + 1}, residual {float(F.norm()):.1e}")
        if bool(F.norm() <= 4 * eps * w.norm()):
            return w, F
        tol = min(LOOSE, float(F.norm() / w.norm().clamp(min=1)) ** 0.5)
        step = krylov(problem, Linearisation(problem.phi_at, w, ready), F, tol, transposed=False)
        part = 1.0
        F_trial = excess(w_trial := w - step)
        while part > SHORTEST and not bool(F_trial.norm() < (1 - 1e-4 * part) * F.norm()):
            part /= 2
            F_trial = excess(w_trial := w - part * step)
        if not bool(F_trial.norm() < F.norm()):
            if bool(F.norm() <= 4e3 * eps * w.norm().clamp(min=1)):
                return w, F
            w_trial = w
            for _ in range(PLAIN):
                w_trial = w_trial - excess(w_trial)
            F_trial = excess(w_trial)
            if not bool(F_trial.norm() < F.norm()):
                break
        w, F = w_trial, F_trial
    if bool(F.norm() <= 4e3 * eps * w.norm().clamp(min=1)):
        return w, F
    raise _not_found(problem.name, F)


def krylov(problem: Problem, linearised: Linearisation, b: Tensor, tol: float, *, transposed: bool) -> Tensor:
    """Return (I − ∂₁Φᵀ)⁻¹b or, unless `transposed`, (I − ∂₁Φ)⁻¹b, with a residual of at most tol‖b‖ if possible."""
    symmetric = problem.symmetric
    if symmetric is None:
        symmetric = _is_symmetric(linearised, problem)
    if symmetric:
        try:
            return conjugate_gradient.solve(linearised.d1_T, b, KRYLOV, None, tol).v
        except AssumptionError:  # symmetric but not definite: use the normal equations
            return normal_equations.solve(linearised.d1_T, linearised.d1_T, b, KRYLOV, None, tol).v
    if transposed:
        return normal_equations.solve(linearised.d1_T, linearised.d1, b, KRYLOV, None, tol).v
    return normal_equations.solve(linearised.d1, linearised.d1_T, b, KRYLOV, None, tol).v


def _is_symmetric(linearised: Linearisation, problem: Problem) -> bool:
    try:
        conjugate_gradient.refuse_unless_symmetric(linearised, problem)
    except AssumptionError:
        return False
    return True


def certificate(problem: Problem, solution: ReferenceSolution, lam: Tensor) -> Certificate | None:
    """Return bounds on the distances to the exact solutions, if the contraction constant of Φ is known."""
    if problem.contraction is None:
        return None
    gap = float(1 - problem.contraction(problem.prepare(lam)))
    if gap <= 0:
        return None
    return Certificate(float(solution.residual_w[0]) / gap, float(solution.residual_v[0]) / gap)
