"""Norms of a product of two tensors that both vary: entry by entry, and by the derivatives of rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.numerics.program.enclosure.intervals import UP
from boundcheck.numerics.program.enclosure.sparse_derivative import Sparse
from boundcheck.numerics.program.enclosure.value import Slope, Value, rounding

Product = Callable[[Tensor, Tensor], Tensor]
# products of vectors and matrices, over the last axis of the first factor
MATRICES = frozenset(getattr(torch.ops.aten, name).default for name in ("mm", "mv", "dot", "vdot", "bmm", "matmul"))
MOST_LINES = 1_000  # largest number of lines of a sparse derivative; each costs a product of matrices
MOST_IN_PARTS = 40_000_000  # numbers in the parts of a second derivative; for a larger one, only its size is stored


@dataclass(frozen=True, eq=False)
class JointNorms:
    """Upper bounds of the norm of Σ_k Dp_k⊗Dq_k (`whole`) and of its uncertain part (`loose`), for each entry."""

    whole: Tensor
    loose: Tensor


def joint_norms(B: Product, q: Value, one: Slope, two: Slope) -> JointNorms | None:
    """Bound ‖Σ_k Dp_k⊗Dq_k‖ ≤ ‖Dp‖‖Dq‖, with the derivatives of a row of p and a column of q.

    None if B is not a matrix product.
    """
    if B not in MATRICES:
        return None
    axis = -2 if len(q.shape) > 1 else -1
    (F, R), (G, S) = of_lines(one, -1), of_lines(two, axis)
    F, R = F.unsqueeze(-1), R.unsqueeze(-1)
    G, S = G.unsqueeze(axis), S.unsqueeze(axis)
    return JointNorms(B(F + R, G + S) * UP, (B(F, S) + B(R, G + S)) * UP)


def size_of_pair(B: Product, q: Value, one: Slope, two: Slope) -> Tensor:
    """Return upper bounds of the norm of the bilinear form B(Dp, Dq), for each entry."""
    size, joint = B(one.reach, two.reach), joint_norms(B, q, one, two)
    return size if joint is None else torch.minimum(size, joint.whole)


def of_lines(slope: Slope, axis: int) -> tuple[Tensor, Tensor]:
    """Return upper bounds of ‖F‖ and ‖J − F‖ for the entries along an axis together.

    ‖F‖² is at most the largest row sum of |FFᵀ|.
    """
    norms, rows = slope.norms.movedim(axis, -1), slope.rows.movedim(axis, -1)
    count = norms.shape[-1]
    squares = (norms**2).sum(-1)
    if isinstance(slope.held, Sparse):
        line_norms = slope.held.line_norms(axis, MOST_LINES)
        squares = squares if line_norms is None else torch.minimum(squares, line_norms)
    elif slope.k * norms.numel() * count <= MOST_IN_PARTS:
        lines = slope.held.movedim(axis, -1)
        grams = torch.einsum("k...i,k...j->...ij", lines, lines).abs()
        error = rounding(lines.shape[0]) * norms.unsqueeze(-1) * norms.unsqueeze(-2)
        squares = torch.minimum(squares, (grams + error).sum(-1).amax(-1))
    loss = UP + rounding(count)
    return (squares * loss).sqrt() * UP, (rows**2).sum(-1).sqrt() * loss
