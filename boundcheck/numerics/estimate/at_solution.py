"""Constants at the fixed point: norms of matrices, which need no supremum.

Small matrices are enclosed in balls (`rounding_proof_matrices`), and their norms are certified by Cholesky. Such a
constant is exact, or an upper bound if the rounding is not negligible. For larger matrices up to d = `DENSE`, rounding
is not proved, and the constants are estimates. Above `DENSE`, norms come from Golub-Kahan with a random start and are
certified with probability 1 − δ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from boundcheck.constants import Constant
from boundcheck.numerics.bilevel.derivatives import (
    DENSE,
    MATRIX,
    LamLinearisation,
    Linearisation,
    gradient,
    jacobian,
    rows,
    rows_d2,
    used,
)
from boundcheck.numerics.bilevel.prepared import Prepared
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.estimate import lanczos, rounding_proof_matrices
from boundcheck.numerics.estimate.effort import Spend, constant_of, provenance_of
from boundcheck.numerics.estimate.program_at_point import AtPoint
from boundcheck.numerics.estimate.rounding_proof import NoProof
from boundcheck.numerics.estimate.rounding_proof_matrices import OfPhi
from boundcheck.numerics.estimate.step_constant import NOTHING
from boundcheck.numerics.solvers.reference import ReferenceSolution
from boundcheck.side import Side

STEPS = 200  # the most steps of Golub-Kahan
TOO_LARGE = "the matrices are too large"
ROUNDED = torch.finfo(torch.float64).eps


def forms_matrices(problem: Problem) -> bool:
    """Return whether norms at w* are computed from dense matrices."""
    return problem.d <= DENSE


def from_program(problem: Problem, point: AtPoint) -> Iterator[Constant]:
    """Yield q*, L_Φ*, W and g* from derivatives that are proved from the program."""
    d = problem.d
    Y = torch.eye(d, dtype=torch.float64) - point.A.value
    off = point.A.off + ROUNDED * (d**0.5 + float(Y.norm()))
    yield from _enclosed(problem, Y, off, point.Z.value, point.Z.off)
    size = float(point.of_w.value.norm())
    yield proved_constant("g_star", size, point.of_w.off, "‖∇₁E(w*)‖ at the computed w*", problem, products=1)


def at_solution(
    problem: Problem, prepared: Prepared, solution: ReferenceSolution, spend: Spend, of_phi: OfPhi | NoProof | None
) -> Iterator[Constant]:
    """Yield those of q*, L_Φ*, W and g* that can be computed. `prepared` has one row, the λ of the problem.

    `of_phi` contains the balls of ∂₁Φ and ∂₂Φ, or the reason for having none. It is None if the matrices are too large.
    """
    w, ready = solution.w[0], prepared.leaves.at(0)
    if isinstance(of_phi, OfPhi):
        Y, Z = of_phi.d1, of_phi.d2
        yield from _enclosed(problem, Y.mid, float(Y.rad.norm()), Z.mid, float(Z.rad.norm()))
    elif problem.d <= DENSE:
        why = f"rounding not proved: {TOO_LARGE if of_phi is None else of_phi.reason}"
        for constant in _dense(problem, prepared, w):
            how = f"{constant.provenance.how}; {why}"
            yield replace(constant, side=Side.LOWER, provenance=replace(constant.provenance, how=how))
    else:
        yield from _by_products(problem, prepared, w, spend)
    yield gradient_norm("g_star", problem, w, ready, "‖∇₁E(w*)‖ at the computed w*")


def gradient_norm(name: str, problem: Problem, w: Tensor, ready: Ready, how: str) -> Constant:
    """Return ‖∇₁E(w)‖. Its rounding is proved if every operation of E has a rule."""
    ball = rounding_proof_matrices.of_outer(problem, w, hessian=False)
    if isinstance(ball, NoProof):
        value = float(gradient(problem.outer_at)(w, ready).norm())
        return Constant(
            name, value, Side.LOWER, provenance_of(f"{how}; rounding not proved: {ball.reason}", problem, products=1)
        )
    return proved_constant(name, float(ball.d1.mid.norm()), float(ball.d1.rad.norm()), how, problem, products=1)


def proved_constant(
    name: str, value: float, rounding: float, how: str, problem: Problem, products: int | None = None
) -> Constant:  # fmt: skip
    """Return the constant value + rounding: exact if the rounding is negligible, otherwise an upper bound."""
    top = (value + rounding) * (1 + 4 * ROUNDED)
    side = Side.EXACT if rounding <= NOTHING * value else Side.UPPER
    return Constant(name, top, side, provenance_of(how, problem, products=products))


def _enclosed(problem: Problem, Y: Tensor, off_Y: float, Z: Tensor, off_Z: float) -> Iterator[Constant]:
    """Yield q*, L_Φ* and W, if ∂₁Φ and ∂₂Φ are within off_Y and off_Z of Y and Z in the Frobenius norm."""
    d = problem.d
    Y, Z = Y.contiguous(), Z.contiguous()

    def norm(name: str, M: Tensor, rounding: float, how: str) -> Constant:
        top = lanczos.dense_norm(M)
        if top.side is Side.LOWER:  # no factorisation certified it
            return constant_of(name, top, f"{how}, of the matrix", problem)
        return proved_constant(name, top.value, rounding, f"{how}, of the matrix", problem, min(M.shape))

    yield norm("q_star", Y, off_Y, "‖∂₁Φ(w*)‖")
    yield norm("L_Phi_star", Z, off_Z, "‖∂₂Φ(w*)‖")
    A = torch.eye(d, dtype=torch.float64) - Y
    inverse = torch.linalg.inv_ex(A).inverse
    X = inverse @ Z
    unit = (d + 4) * ROUNDED  # a product of matrices rounds by at most this times the product of their magnitudes
    of_A = off_Y + ROUNDED * float(A.norm())  # bound on ‖A − (I − ∂₁Φ)‖
    off = float((torch.eye(d, dtype=torch.float64) - inverse @ A).norm() + unit * (inverse.abs() @ A.abs()).norm())
    size = 1.001 * float(torch.linalg.matrix_norm(inverse, 2))
    off += size * of_A + unit * d**0.5
    if not off < 1:  # if off < 1, then A has an inverse, of norm at most ‖R‖/(1 − ‖I − RA‖)
        return
    residual = float((Z - A @ X).norm() + unit * ((A.abs() @ X.abs()).norm() + Z.norm())) + off_Z
    residual += of_A * float(X.norm())
    yield norm("W", X, size / (1 - off) * residual, "‖(I − ∂₁Φ)⁻¹∂₂Φ‖ at w*")


def _dense(problem: Problem, prepared: Prepared, w: Tensor) -> Iterator[Constant]:
    d, n, ready = problem.d, problem.n, prepared.leaves.at(0)

    def norm(name: str, M: Tensor, how: str) -> Constant:
        extreme = replace(lanczos.dense_norm(M), products=min(M.shape))
        return constant_of(name, extreme, f"{how}, of the matrix", problem)

    Y = jacobian(lambda x: problem.phi_at(x, ready), w)
    yield norm("q_star", Y, "‖∂₁Φ(w*)‖")
    if d * n <= MATRIX:
        leaves = used(prepared.leaves, rows(problem.phi_at), w[None, None])
        Z = rows_d2(problem.phi_at, w[None, None], prepared, leaves, d)[0, 0]
        if n > d:  # Z = RᵀQᵀ, and Qᵀ changes no norm
            Z = torch.linalg.qr(Z.T, mode="r").R.T
        yield norm("L_Phi_star", Z, "‖∂₂Φ(w*)‖")
        yield norm(
            "W", torch.linalg.solve(torch.eye(d, dtype=w.dtype, device=w.device) - Y, Z), "‖(I − ∂₁Φ)⁻¹∂₂Φ‖ at w*"
        )


def _by_products(problem: Problem, prepared: Prepared, w: Tensor, spend: Spend) -> Iterator[Constant]:
    ready = prepared.leaves.at(0)
    phi = Linearisation(problem.phi_at, w, ready)
    generator = torch.Generator(device="cpu").manual_seed(spend.seed)
    most = spend.steps(STEPS, products_per_step=4)
    norm = partial(lanczos.norm, delta=spend.half, most=most, generator=generator, dtype=w.dtype, device=w.device)
    q_star = norm(phi.d1_T if problem.symmetric else phi.d1, phi.d1_T, (problem.d, problem.d))
    yield constant_of("q_star", q_star, "‖∂₁Φ(w*)‖ by Golub-Kahan from a random start", problem, spend.seed)
    of_lam = LamLinearisation(problem.phi_at, w[None, None], prepared.leaves)

    def d2(x: Tensor) -> Tensor:
        return of_lam.d2(prepared.along(x[None]))[0, 0]

    def d2_T(v: Tensor) -> Tensor:
        return prepared.pull_back(of_lam.d2_T(v[None, None]))[0]

    L_Phi_star = norm(d2, d2_T, (problem.d, problem.n))
    yield constant_of("L_Phi_star", L_Phi_star, "‖∂₂Φ(w*)‖ by Golub-Kahan from a random start", problem, spend.seed)
