"""Evidence against constants that a user claims: values at w* that a true constant cannot contradict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from boundcheck.constants import NAMES, Constant, Constants, Provenance
from boundcheck.errors import UnknownNameError
from boundcheck.numerics.bilevel.derivatives import DENSE, MATRIX, gradient, jacobian, rows_d2
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.side import Side

# If α is held fixed, each value is α times its key.
PER_STEP = {"hat_rho_1": "nu_1", "hat_rho_2": "nu_2", "L_ell": "L_Phi_star"}
OF_MATRICES = ("q_star", "L_Phi_star", "W")
ROUNDED = 256  # units of the dtype


def tolerance(problem: Problem) -> float:
    """Return the relative difference between a claim and a computed value that rounding can explain."""
    return max(1e-9, ROUNDED * torch.finfo(problem.dtype).eps / 2)


def at_one_point(problem: Problem) -> tuple[str, ...]:
    """Return the names of the constants that are computed at one point. W is one if its matrices are formed."""
    formed = problem.d <= DENSE and problem.d * problem.n <= MATRIX
    return ("D", "r_0", "q_star", "L_Phi_star", "g_star") + ("W",) * formed


def evidence(
    problem: Problem, prepared: Prepared, solution: ReferenceSolution, ours: Mapping[str, Constant], claimed: Constants
) -> Iterator[Constant]:
    """Yield bounds on the claimed constants that `ours` does not contain.

    D and r_0 are at least the distances to the computed w*, minus the error of w*. If `ours` has only upper bounds on
    q*, L_Φ* and W, they are at least the norms at w*, minus their rounding. μ_λ is at most the smallest singular value
    of I − ∂₁Φ(w*), κ is at least its condition number, and the eigenvalues of ∇²₁ℓ(w*) are between μ and L. ρ̂₁, ρ̂₂
    and L_ℓ are ν₁, ν₂ and L_Φ* divided by α.
    """
    if unknown := sorted(set(claimed) - NAMES):
        raise UnknownNameError.among("constant", unknown[0], NAMES)
    w = solution.w[0]
    for name, distance in (("D", w.norm()), ("r_0", (problem.w0 - w).norm())):
        if name in claimed and name in ours:
            off = max(ours[name].value - float(distance), tolerance(problem) * float(w.norm()))
            yield Constant(name, max(float(distance) - off, 0.0), Side.LOWER, Provenance("the computed w*"))
    uncertain = [n for n in OF_MATRICES if n in claimed and (n not in ours or ours[n].side is Side.UPPER)]
    if uncertain and problem.d <= DENSE and problem.d * problem.n <= MATRIX:
        for name, (value, rounding) in _norms(problem, prepared, w).items():
            rounding = max(rounding, abs(ours[name].value - value) if name in ours else 0.0)
            if name in uncertain and value > rounding:
                yield Constant(name, value - rounding, Side.LOWER, Provenance("the matrices at w*, less rounding"))
    if {"mu_inv", "kappa"} & set(claimed):
        values = _singular_values(problem, prepared, solution)
        low, high = float(values.min()), float(values.max())
        where = "the singular values of I − ∂₁Φ(w*)"
        yield Constant("mu_inv", low, Side.UPPER, Provenance(where))
        if low > 0 and ("kappa" not in ours or ours["kappa"].is_safe):
            yield Constant("kappa", max(high / low, 1.0), Side.LOWER, Provenance(where))
    if {"mu", "L"} & set(claimed) and problem.inner_at is not None and problem.d <= DENSE:
        slope = gradient(problem.inner_at)
        H = jacobian(lambda x: slope(x, prepared.leaves.at(0)), w).double()
        ends, where = torch.linalg.eigvalsh((H + H.T) / 2), "the Hessian of ℓ at w*"
        yield Constant("mu", float(ends[0]), Side.UPPER, Provenance(where))
        yield Constant("L", float(ends[-1]), Side.LOWER, Provenance(where))
    alpha = ours.get("alpha")
    for name, source in PER_STEP.items():
        if name in claimed and source in ours and alpha is not None and problem.frozen_step:
            ours_per_step = ours[source]
            if ours_per_step.side in (Side.EXACT, Side.LOWER):
                how = Provenance(f"{source}/α: {ours_per_step.provenance.how}")
                yield Constant(name, ours_per_step.value / alpha.value, Side.LOWER, how)


def _norms(problem: Problem, prepared: Prepared, w: Tensor) -> dict[str, tuple[float, float]]:
    """Return the computed q*, L_Φ* and W, each with an estimate of its rounding."""
    unit = ROUNDED * torch.finfo(w.dtype).eps
    Y = jacobian(lambda x: problem.phi_at(x, prepared.leaves.at(0)), w).double()
    Z = rows_d2(problem.phi_at, w[None, None], prepared, prepared.leaves, problem.d)[0, 0].double()
    A = torch.eye(problem.d, dtype=Y.dtype, device=Y.device) - Y
    q_star, L_Phi_star = (float(torch.linalg.matrix_norm(M, 2)) for M in (Y, Z))
    norms = {"q_star": (q_star, unit * max(q_star, 1.0)), "L_Phi_star": (L_Phi_star, unit * L_Phi_star)}
    X, info = torch.linalg.solve_ex(A, Z)
    if not int(info):
        W = float(torch.linalg.matrix_norm(X, 2))
        norms["W"] = W, unit * float(torch.linalg.cond(A)) * W
    return norms


def _singular_values(problem: Problem, prepared: Prepared, solution: ReferenceSolution) -> Tensor:
    """Return the singular values of I − ∂₁Φ(w*); if d > `DENSE`, one number between the smallest and the largest."""
    w = solution.w[0]
    if problem.d > DENSE:
        v = solution.v[0]
        b = torch.func.grad(problem.outer_at)(w, prepared.leaves.at(0))
        between: Tensor = (b.norm() / v.norm())[None]  # ‖(I − ∂₁Φᵀ)v‖/‖v‖
        return between
    Y = jacobian(lambda x: problem.phi_at(x, prepared.leaves.at(0)), w)
    values: Tensor = torch.linalg.svdvals(torch.eye(problem.d, dtype=w.dtype, device=w.device) - Y)
    return values
