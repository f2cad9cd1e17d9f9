"""Linear systems, inverses, Cholesky factors, determinants, and eigenvalues and singular values without vectors.

Each rule computes an approximate result with PyTorch, which may be wrong, and bounds its error by a residual in ball
arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boundcheck.numerics.program.rounding_rules.ball import Ball, Refusal, add, down, matmul, mul, point, sub, total, up
from boundcheck.numerics.program.rounding_rules.elementwise import exp, log

LARGEST_DEFECT = 0.5  # the largest ‖I − RA‖ with which a proof is tried


@dataclass(frozen=True, eq=False)
class Factors:
    """LU factors, represented by the matrix that they factorise."""

    matrix: Ball


def transpose(a: Ball) -> Ball:
    """Transpose each matrix of a stack."""
    return a.map(lambda t: t.mT)


def _full(a: Ball) -> Ball:
    return Ball(a.mid, a.rad.expand(a.shape))


def _row_norm(a: Ball) -> Tensor:
    """Return an upper bound of the largest row sum of |a| for each matrix of a stack, with both axes kept."""
    return up(a.size.sum(-1, keepdim=True).amax(-2, keepdim=True), a.shape[-1])


def frobenius(a: Ball) -> Tensor:
    """Return an upper bound of the Frobenius norm of each matrix of a stack, with both axes kept."""
    n = a.shape[-1] * a.shape[-2]
    return up((a.size**2).sum((-2, -1), keepdim=True).sqrt(), n) + 1e-150 * n


def _eye(a: Ball) -> Ball:
    return point(torch.eye(a.shape[-1], dtype=torch.float64))


def solve(a: Ball, b: Ball) -> Ball:
    """A⁻¹B, from approximations R of A⁻¹ and X̃ of the solution X.

    If G = I − RA has ‖G‖ < 1, then X − X̃ = (I − G)⁻¹e with e = R(B − AX̃). So |X − X̃| ≤ |e| + ‖e‖‖G‖/(1 − ‖G‖) for each
    column, in the norm of the largest row sum.
    """
    inverse, info = torch.linalg.inv_ex(a.mid)
    if bool(info.any()):
        raise Refusal("a matrix is singular in floating point")
    R = point(inverse)
    beta = _row_norm(sub(_eye(a), matmul(R, _full(a))))
    if not bool((beta < LARGEST_DEFECT).all()):
        raise Refusal("a matrix is too close to a singular one for a proof in floating point")
    x = inverse @ b.mid
    for _ in range(2):  # two refinements reduce the rounding error of the product
        x = x + inverse @ (b.mid - a.mid @ x)
    e = matmul(R, _full(sub(b, matmul(_full(a), point(x))))).size
    rad = up(e + e.amax(-2, keepdim=True) * up(beta / down(1 - beta)))
    return Ball(x, rad)


def _solve_ex(a: Ball, b: Ball, *, left: bool = True, check_errors: bool = False) -> tuple[Ball, None, None, None]:
    vector = b.mid.dim() == 1 or (a.mid.dim() - 1 == b.mid.dim() and b.shape == a.shape[:-1])
    column = b.map(lambda t: t.expand(b.shape).unsqueeze(-1)) if vector else b
    x = _sided(a, column, left or vector)
    return (x.map(lambda t: t.squeeze(-1)) if vector else x), None, None, None


def _sided(a: Ball, b: Ball, left: bool) -> Ball:
    """A⁻¹B if `left`, else BA⁻¹."""
    return solve(a, _full(b)) if left else transpose(solve(transpose(a), transpose(_full(b))))


def _lu_solve(lu: Any, pivots: Tensor, b: Ball, *, left: bool = True, adjoint: bool = False) -> Ball:
    if not isinstance(lu, Factors):
        raise Refusal("LU factors that do not come from a factorisation in this program")
    return _sided(transpose(lu.matrix) if adjoint else lu.matrix, b, left)


def matrix_of(a: Ball, lu: Tensor, pivots: Tensor) -> Factors:
    """Return A or Aᵀ, whichever PyTorch factorised; a ball around both if they are close to each other."""
    transposed = transpose(_full(a))
    difference, scale = float((a.mid - transposed.mid).abs().max()), float(a.mid.abs().max())
    if difference <= 1e-3 * scale:
        return Factors(Ball(a.mid, up(torch.maximum(a.rad, transposed.rad) + (a.mid - transposed.mid).abs())))
    P, L, U = torch.lu_unpack(lu.detach().double(), pivots)
    product = P @ L @ U
    for candidate in (_full(a), transposed):
        if float((product - candidate.mid).abs().max()) <= 1e-4 * scale:
            return Factors(candidate)
    raise Refusal("LU factors of another matrix")


def _inverse(a: Ball, *, check_errors: bool = False) -> tuple[Ball, None]:
    return solve(a, _full(_eye(a)).map(lambda t: t.expand(a.shape))), None


def _triangle(a: Ball, upper: bool, diagonal: int = 0) -> Ball:
    return _full(a).map((lambda t: t.triu(diagonal)) if upper else (lambda t: t.tril(-diagonal)))


def _symmetric(a: Ball, upper: bool) -> Ball:
    """Return the symmetric matrix with this triangle."""
    return add(_triangle(a, upper), transpose(_triangle(a, upper, 1)))


def cholesky(a: Ball, *, upper: bool = False, check_errors: bool = False) -> tuple[Ball, None]:
    """L with LLᵀ = A, from an approximation L̃.

    Let L̃⁻¹AL̃⁻ᵀ = I + F and ε = ‖F‖_F ≤ 0.4. Let low(S) be the lower triangle of S with half of the diagonal. The map
    G ↦ low(F − GGᵀ) takes the set ‖G‖_F ≤ ε into itself, as ‖low(S)‖_F ≤ ‖S‖_F/√2. At its fixed point,
    (I + G)(I + G)ᵀ = I + F. So L = L̃(I + G), and an entry in row i differs by at most ε‖row i of L̃‖.
    """
    A = _symmetric(a, upper)
    factor, info = torch.linalg.cholesky_ex(A.mid)
    if bool(info.any()):
        raise Refusal("a matrix is not positive definite in floating point")
    L = point(factor)
    half = solve(_full(L), A)  # L̃⁻¹A, and L̃⁻¹(L̃⁻¹A)ᵀ
    eps = frobenius(sub(solve(_full(L), transpose(half)), _eye(a)))
    if not bool((eps <= 0.4).all()):
        raise Refusal("a matrix is too close to a singular one for a proof in floating point")
    rows = up((factor**2).sum(-1, keepdim=True).sqrt(), factor.shape[-1]) + 1e-150
    result = Ball(factor, up(rows * eps).expand(factor.shape).tril())
    return transpose(result) if upper else result, None


def _triangular(a: Ball, b: Ball, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Ball:
    matrix = add(_triangle(a, upper, 1), _eye(a)) if unitriangular else _triangle(a, upper)
    return _sided(matrix, b, left)


def _matrix_of_factor(factor: Ball, upper: bool) -> Ball:
    """LLᵀ, from a Cholesky factor."""
    L = _triangle(factor, upper)
    L = transpose(L) if upper else L
    return matmul(L, transpose(L))


def _cholesky_inverse(factor: Ball, upper: bool = False) -> Ball:
    return _inverse(_matrix_of_factor(factor, upper))[0]


def _log_determinant(a: Ball) -> tuple[Tensor, Ball]:
    """Return the sign of det A, and log |det A|, from the factorisation PLU of the midpoints.

    A = PLU(I − G) with G = (PLU)⁻¹(PLU − A). The spectral radius of G is at most β = ‖G‖ < 1, so
    |log det(I − G)| ≤ −n log(1 − β), and I − tG is not singular for any t in [0, 1].
    """
    P, L, U = torch.linalg.lu(a.mid)
    product = matmul(matmul(point(P), point(L)), point(U))
    beta = _row_norm(solve(product, _full(sub(product, a))))[..., 0, 0]
    if not bool((beta < LARGEST_DEFECT).all()):
        raise Refusal("a matrix is too close to a singular one for a proof in floating point")
    diagonal = U.diagonal(dim1=-2, dim2=-1)
    log_abs = total(log(point(diagonal.abs())), -1)
    error = up(-1.01 * a.shape[-1] * torch.log1p(-beta))
    sign = diagonal.sign().prod(-1) * torch.linalg.det(P).round()
    return sign, Ball(log_abs.mid, up(log_abs.rad + error))


def _slogdet(a: Ball) -> tuple[Ball, Ball, None, None]:
    sign, log_abs = _log_determinant(a)
    return point(sign), log_abs, None, None


def _determinant(a: Ball) -> tuple[Ball, None, None]:
    sign, log_abs = _log_determinant(a)
    return mul(point(sign), exp(log_abs)), None, None


def _defect(Q: Ball) -> Tensor:
    """Return δ ≥ ‖QᵀQ − I‖."""
    defect = frobenius(sub(matmul(transpose(Q), Q), _eye(Q)))
    if not bool((defect < LARGEST_DEFECT).all()):
        raise Refusal("eigenvectors are not orthogonal")
    return defect


def _near(values: Tensor, residual: Ball, defect: Tensor) -> Ball:
    """Return balls of the eigenvalues of a symmetric A near `values`, in order.

    Λ is the diagonal matrix of `values`, and the columns of Q are approximate eigenvectors with ‖QᵀQ − I‖ ≤ δ.
    All: the eigenvalues of QᵀAQ are within ε = ‖QᵀAQ − Λ‖ ≤ ‖Q‖‖AQ − QΛ‖ + δ‖Λ‖ of Λ (Weyl). They are the eigenvalues
    of A times factors in 1 ± δ (Ostrowski), so |λ − λ̃| ≤ ε + δ|λ| with |λ| ≤ (|λ̃| + ε)/(1 − δ). Single: A has an
    eigenvalue within ‖Aq − λ̃q‖/‖q‖ of λ̃. If λ̃ is far from its neighbours, λ is this eigenvalue.
    """
    delta = defect[..., 0]
    most = values.abs().amax(-1, keepdim=True)
    eps = up((1 + delta) * frobenius(residual)[..., 0] + delta * most)
    bound_of_all = up(eps + delta * (values.abs() + eps) / (1 - delta))
    single = up((residual.size**2).sum(-2).sqrt(), residual.shape[-2]) / (1 - delta) * 1.001 + 1e-150
    infinite = torch.full_like(most, torch.inf)
    gaps = torch.cat((infinite, values.diff(dim=-1).abs(), infinite), -1)
    is_isolated = torch.minimum(gaps[..., 1:], gaps[..., :-1]) > 2.01 * bound_of_all.amax(-1, keepdim=True)
    return Ball(values, torch.where(is_isolated, torch.minimum(single, bound_of_all), bound_of_all))


def eigenvalues(a: Ball, uplo: str = "L", compute_v: bool = True) -> tuple[Ball, None]:
    """Eigenvalues of a symmetric matrix. For the eigenvectors, None is returned."""
    A = _symmetric(a, uplo == "U")
    values, vectors = torch.linalg.eigh(A.mid)
    Q = point(vectors)
    residual = sub(matmul(A, Q), mul(Q, point(values.unsqueeze(-2))))
    return _near(values, residual, _defect(Q)), None


def _singular_values(a: Ball, full: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    """Singular values: the largest eigenvalues of [0 A; Aᵀ 0], in descending order."""
    m, n = a.shape[-2:]
    A = _full(a)
    both = torch.zeros(*a.shape[:-2], m + n, m + n, dtype=torch.float64)
    mid, rad = both, both.clone()
    for block_matrix, part in ((mid, A.mid), (rad, A.rad)):
        block_matrix[..., :m, m:], block_matrix[..., m:, :m] = part, part.mT
    values = eigenvalues(Ball(mid, rad))[0].map(lambda t: t.flip(-1)[..., : min(m, n)])
    return None, Ball(values.mid.clamp(min=0), values.rad), None


RULES: dict[str, Callable[..., Any]] = {
    "_linalg_solve_ex": _solve_ex,
    "linalg_lu_factor_ex": lambda a, **options: (None, None, None),
    "linalg_lu_solve": _lu_solve,
    "linalg_inv_ex": _inverse,
    "linalg_cholesky_ex": cholesky,
    "linalg_solve_triangular": _triangular,
    "cholesky_solve": lambda b, factor, upper=False: _sided(_matrix_of_factor(factor, upper), b, True),
    "cholesky_inverse": _cholesky_inverse,
    "_linalg_slogdet": _slogdet,
    "_linalg_det": _determinant,
    "_linalg_eigh": eigenvalues,
    "_linalg_svd": _singular_values,
}
LU = {"_linalg_solve_ex": (1, 2), "linalg_lu_factor_ex": (0, 1), "_linalg_slogdet": (2, 3), "_linalg_det": (1, 2)}
