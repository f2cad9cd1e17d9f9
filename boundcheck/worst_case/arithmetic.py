"""Two arithmetics for the same code: differentiable batches of doubles in torch, and 50 digits in mpmath.

Arrays are torch tensors or numpy arrays of mpf. Operators and methods that both have are not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mpmath.ctx_mp import MPContext

Array = Any  # torch.Tensor, or np.ndarray of mpf
DIGITS = 50


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """The functions that differ between torch and mpmath. Reductions are along the last axis."""

    minimum: Callable[[Array, Array], Array]
    maximum: Callable[[Array, Array], Array]
    positive: Callable[[Array], Array]  # max(x, 0)
    largest: Callable[[Array], Array]
    norm: Callable[[Array], Array]
    sqrt: Callable[[Array], Array]
    cos: Callable[[Array], Array]
    sin: Callable[[Array], Array]
    stack: Callable[[Sequence[Array]], Array]
    solve: Callable[[Array, Array], Array]
    divide: Callable[[Array, Array], Array]  # 0 where the denominator is 0


def times(M: Array, x: Array) -> Array:
    """Return the product of each matrix of a stack with its vector."""
    return M[..., 0] * x if x.shape[-1] == 1 else (M @ x[..., None])[..., 0]


def turned(M: Array) -> Array:
    """Return a stack with each matrix transposed."""
    return M.swapaxes(-1, -2)


def dot(x: Array, y: Array) -> Array:
    return (x * y).sum(-1)


def _divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    nonzero = b != 0
    return torch.where(nonzero, a / torch.where(nonzero, b, 1.0), 0.0)


DOUBLE = Arithmetic(
    torch.minimum,
    torch.maximum,
    torch.relu,
    lambda x: x.amax(-1),
    lambda x: torch.linalg.vector_norm(x, dim=-1),
    torch.sqrt,
    torch.cos,
    torch.sin,
    lambda parts: torch.stack(list(parts), dim=-1),
    lambda A, b: torch.linalg.solve(A, b[..., None])[..., 0],
    _divide,
)

_MP = MPContext()  # our own context, because the user may set the precision of the global one
_MP.dps = DIGITS


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[object])


def _solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.empty_like(b)
    for index in np.ndindex(b.shape[:-1]):
        x[index] = list(_MP.lu_solve(_MP.matrix(A[index].tolist()), _MP.matrix(b[index].tolist())))
    return x


DECIMAL = Arithmetic(
    np.minimum,
    np.maximum,
    lambda x: np.maximum(x, 0 * x),
    lambda x: x.max(-1),
    lambda x: _each(_MP.sqrt)((x * x).sum(-1)),
    _each(_MP.sqrt),
    _each(_MP.cos),
    _each(_MP.sin),
    lambda parts: np.stack(list(parts), axis=-1),
    _solve,
    _each(lambda a, b: a / b if b else _MP.mpf(0)),
)


def decimal(value: Any) -> np.ndarray:
    """Return doubles as the same numbers in mpmath."""
    return np.asarray(_each(lambda x: _MP.mpf(float(x)))(np.asarray(value, dtype=float)), dtype=object)


def rotation(ops: Arithmetic, angles: Array, d: int) -> Array:
    """Return the product of the plane rotations by these angles, one for each pair of axes. It is orthogonal."""
    ones = 1 + 0 * angles.sum(-1)  # with the shape of the batch
    rows = [[ones if i == j else 0 * ones for j in range(d)] for i in range(d)]
    planes = [(i, j) for i in range(d) for j in range(i + 1, d)]
    for number, (i, j) in enumerate(planes):
        c, s = ops.cos(angles[..., number]), ops.sin(angles[..., number])
        rows[i], rows[j] = (
            [c * a - s * b for a, b in zip(rows[i], rows[j], strict=True)],
            [s * a + c * b for a, b in zip(rows[i], rows[j], strict=True)],
        )
    return turned(ops.stack([ops.stack(row) for row in rows]))
