"""ITD at every t at once, forwards: S_t = dz_t/dλ is updated in each step, and gives S_tᵀ∇E(w_t) at every t.

S⁺ = ∂₁Ψ S + ∂₂Ψ is computed in one of two ways. `forward` takes n products in each step. It is for n small against T.
`dense` forms ∂₁Ψ as a matrix, for many t in one batch, and multiplies. It is for d small against T and n. Both form ∂₂Ψ
for many t in one batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vmap

from boundcheck.numerics.bilevel.derivatives import Function, jacobian, rows, rows_d2
from boundcheck.numerics.bilevel.prepared import Leaves
from boundcheck.numerics.bilevel.problem import Problem
from boundcheck.numerics.bilevel.problem_types import Ready
from boundcheck.numerics.curves import lambda_products
from boundcheck.numerics.curves.batch import Batch, pieces
from boundcheck.numerics.curves.jacobian import transposed
from boundcheck.numerics.curves.sizes import PASS, WIDTHS, D2Formula, Sizes, autograd_product, product
from boundcheck.progress import counted

SENSITIVITY_PASSES = 2  # passes over the state for each column of S in a step of `forward`
DOUBLE = 3  # cost of a forward product by autograd, with its graph, in transposed products
SENSITIVITIES = 4  # number of copies of S in memory
D2_MATRICES = 3  # number of copies of ∂₂Ψ in memory for each t for which it is formed
D1_MATRICES = 4  # number of copies of ∂₁Φ, in addition to ∂₁Ψ, for each t for which `dense` forms it
D1_WIDTHS = 2  # number of copies of the intermediate numbers of Φ for each column of ∂₁Ψ


def forward_arithmetic(sizes: Sizes) -> int:
    """Return the arithmetic of `forward`, for one λ."""
    step = sizes.lam.n * (graphs(sizes) * product(sizes) + SENSITIVITY_PASSES * PASS * sizes.state)
    return sizes.problem.T * (step + _d2_arithmetic(sizes))


def graphs(sizes: Sizes) -> int:
    """Return the cost of a product in a step of `forward`, in transposed products; by autograd it is a double one."""
    return 1 if sizes.product_by_formula else DOUBLE


def dense_arithmetic(sizes: Sizes) -> int:
    """Return the arithmetic of `dense`, for one λ."""
    d = sizes.problem.d
    matrix_product = 2 * sizes.state * d * sizes.lam.n
    return sizes.problem.T * (d * autograd_product(sizes) + _d2_arithmetic(sizes) + matrix_product)


def _d2_arithmetic(sizes: Sizes) -> int:
    """Return the arithmetic of forming ∂₂Ψ as a matrix."""
    d, n = sizes.problem.d, sizes.lam.n
    if sizes.lam.d2 is D2Formula.DIAGONAL:
        return PASS * d
    return PASS * n * d if sizes.leaves_like_lam else n * 2 * sizes.lam.leaves


def forward_numbers_held(sizes: Sizes, formed: int, rows: int) -> int:
    """Return the most numbers of `forward` in memory for one λ: ∂₂Ψ for `formed` t, S, and products for `rows` rows."""
    d, n = sizes.problem.d, sizes.lam.n
    carried = n * (SENSITIVITIES * sizes.state + sizes.width) + rows * WIDTHS * sizes.width
    return formed * D2_MATRICES * n * d + carried


def dense_numbers_held(sizes: Sizes, formed: int, rows: int) -> int:
    """Return the most numbers of `dense` in memory, for one λ; ∂₁Ψ is formed for `formed` t too."""
    d = sizes.problem.d
    jacobian = d * (sizes.state + D1_MATRICES * d + D1_WIDTHS * sizes.width)
    return formed * jacobian + forward_numbers_held(sizes, formed, rows)


def newest(problem: Problem) -> Function:
    """Return the part of Ψ that depends on λ directly, the newest iterate; the other iterates are copies."""

    def step(z: Tensor, ready: Ready) -> Tensor:
        return problem.dynamics.iterate(problem.psi_at(z, ready))

    return step


def _d2(batch: Batch, leaves: Leaves, z: Tensor) -> Tensor:
    """Return the part of ∂₂Ψ(z) for the newest iterate, as matrices of shape (λ, rows, d, n)."""
    problem = batch.problem
    if problem.dynamics.copies == 1:  # Ψ = Φ
        return lambda_products.d2phi(batch, leaves, z)
    return rows_d2(newest(problem), z, batch.prepared, leaves, problem.d)


def forward(batch: Batch, b: Tensor, leaves: Leaves, block: int, diagonals: int) -> Tensor:
    """Return (dw_t/dλ)ᵀ∇₁E(w_t) for t = 1 … T, of shape (λ, T, n).

    `block` is the number of t for which ∂₂Ψ is formed at once, and `diagonals` that number for a diagonal ∂₂Ψ.
    """
    problem, dynamics, ready = batch.problem, batch.problem.dynamics, batch.prepared.ready
    S = batch.laid_out(batch.z.new_zeros(len(b), problem.n, batch.z.shape[-1]))  # one row for each entry of λ
    derivatives = b.new_empty(len(b), batch.T, problem.n)
    step = vmap(lambda value, S, ready: dynamics.step(lambda _: value, S, ready))
    entries = lambda_products.diagonal(batch, batch.z[:, :-1]) if dynamics.copies == 1 else None
    for part in counted(pieces(0, batch.T, block if entries is None else diagonals), "itd at every t"):
        z = batch.z[:, part]
        D = _d2(batch, leaves, z) if entries is None else None
        w = rows(dynamics.point)(z, ready)
        for i, products in enumerate(batch.products_along(w, problem.n)):
            product = products.d1_T if problem.symmetric else products.d1
            if dynamics.copies > 1:
                S = step(product(vmap(dynamics.point)(S, ready)), S, ready)
            else:
                S = transposed(products, S, S) if problem.symmetric else product(S)
            if D is not None:
                S[..., : problem.d] += D[:, i].mT
            elif entries is not None:
                S.diagonal(dim1=-2, dim2=-1).add_(entries[:, part.start + i])
            derivatives[:, part.start + i] = (b[:, part.start + i, None] @ dynamics.iterate(S).mT)[:, 0]
    return derivatives


def dense(batch: Batch, b: Tensor, leaves: Leaves, block: int) -> Tensor:
    """Return the same as `forward`, but form ∂₁Ψ as matrices, by T·d transposed products."""
    problem, ready = batch.problem, batch.prepared.ready
    d, size = problem.d, batch.z.shape[-1]
    jacobians = rows(lambda z, ready: jacobian(lambda z: newest(problem)(z, ready), z))
    S = batch.z.new_zeros(len(b), size, problem.n)
    derivatives = b.new_empty(len(b), batch.T, problem.n)
    for start in counted(range(0, batch.T, block), "itd at every t"):
        z = batch.z[:, start : min(start + block, batch.T)]
        J, D = jacobians(z, ready), _d2(batch, leaves, z)
        for i in range(z.shape[1]):
            S = torch.cat((torch.baddbmm(D[:, i], J[:, i], S), S[:, : size - d]), dim=1)
            derivatives[:, start + i] = (b[:, start + i, None] @ S[:, :d])[:, 0]
    return derivatives
