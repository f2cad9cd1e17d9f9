"""Products with a sparse matrix that can be differentiated any number of times, and batched.

Torch's CSR tensors fail under `torch.func` ("do not have strides"). So the matrix is a plain object that autograd does
not see, and the derivative of W ↦ XW is the same product with Xᵀ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from boundcheck.errors import InputError
from boundcheck.numerics.program.recorder import recorded_product


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A sparse matrix X whose products ``X @ W`` can be differentiated and batched.

    X and its transpose are both stored by rows (CSR), so that products are fast. There are no derivatives by X.

    Attributes
    ----------
    X : Tensor of shape (m, p)
        The matrix, as a CSR tensor.
    X_T : Tensor of shape (p, m)
        The transpose, as a CSR tensor.
    dense : bool
        Whether both are stored as dense tensors; False by default.

    Examples
    --------
    >>> import scipy.sparse, torch
    >>> import boundcheck as bc
    >>> X = bc.SparseMatrix.from_scipy(scipy.sparse.eye(3), dtype=torch.float64)
    >>> X @ torch.ones(3, dtype=torch.float64)
    tensor([1., 1., 1.], dtype=torch.float64)
    """

    X: Tensor
    X_T: Tensor
    dense: bool = False

    @classmethod
    def from_scipy(cls, X: Any, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> SparseMatrix:
        """Return a matrix from any sparse matrix of scipy.

        Parameters
        ----------
        X : scipy sparse matrix or array
            The matrix; duplicate entries are summed.
        dtype : torch.dtype
            The precision of the entries.
        device : torch.device or str
            The device of the entries; "cpu" by default.

        Returns
        -------
        SparseMatrix
            The same matrix.
        """
        rows = X.tocsr(copy=True)
        rows.sum_duplicates()
        return cls(_csr(rows, dtype, device), _csr(rows.T.tocsr(), dtype, device))

    @classmethod
    def full(cls, X: Tensor) -> SparseMatrix:
        """Return a matrix with the same products as a dense X.

        Under `vmap`, its products become one product, while `vmap` would multiply rows one by one.

        Parameters
        ----------
        X : Tensor of shape (m, p)
            The matrix.

        Returns
        -------
        SparseMatrix
            The same matrix, stored as a dense tensor.
        """
        return cls(X, X.T, dense=True)

    @property
    def shape(self) -> torch.Size:
        """The shape (m, p) of X."""
        return self.X.shape

    @property
    def T(self) -> SparseMatrix:
        """The transpose of X, without a copy."""
        return SparseMatrix(self.X_T, self.X, self.dense)

    def row_norms(self) -> Tensor:
        """Return the Euclidean lengths of the rows of X.

        Returns
        -------
        Tensor of shape (m,)
            A length for each row.
        """
        crow, values = self.X.crow_indices().long(), self.X.values()
        row = torch.repeat_interleave(torch.arange(len(crow) - 1, device=crow.device), crow.diff())
        return values.new_zeros(len(crow) - 1).index_add_(0, row, values**2).sqrt()

    def matmul(self, W: Tensor) -> Tensor:
        """Return the product XW.

        Parameters
        ----------
        W : Tensor of shape (p,) or (p, c)
            A vector, or a matrix of c columns.

        Returns
        -------
        Tensor of shape (m,) or (m, c)
            The product.

        Raises
        ------
        InputError
            If W has another shape.
        """
        if W.dim() not in (1, 2) or W.shape[0] != self.shape[1]:
            raise InputError(
                f"W has shape {tuple(W.shape)} and X {tuple(self.shape)}; give W of shape ({self.shape[1]},) or "
                f"({self.shape[1]}, c)"
            )
        product = recorded_product(self, W, _product)
        return _product(W, self) if product is None else product

    def by_rows(self) -> scipy.sparse.csr_matrix | np.ndarray:
        """Return X in float64, for scipy and numpy; dense if it is stored as a dense tensor.

        Returns
        -------
        scipy.sparse.csr_matrix or numpy.ndarray
            The matrix.
        """
        X = self.X.detach().cpu().double()
        if self.dense:
            full: np.ndarray = X.numpy()
            return full
        parts = X.values().numpy(), X.col_indices().numpy(), X.crow_indices().numpy()
        return scipy.sparse.csr_matrix(parts, shape=tuple(X.shape))

    __matmul__ = matmul


def _product(W: Tensor, matrix: SparseMatrix) -> Tensor:
    product: Tensor = _Product.apply(W, matrix)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """The linear map W ↦ XW. Every derivative of it is such a product again."""

    @staticmethod
    def forward(W: Tensor, matrix: SparseMatrix) -> Tensor:
        if W.dim() == 1:
            return _multiply(matrix, W[:, None])[:, 0]
        return _multiply(matrix, W)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, SparseMatrix], output: Tensor) -> None:
        ctx.matrix = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.T.matmul(grad), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        product: Tensor = ctx.matrix.matmul(tangent)
        return product

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], W: Tensor, matrix: SparseMatrix) -> tuple[Tensor, int]:
        W = W.movedim(in_dims[0], 1)  # p × batch (× c): the batch becomes more columns of one product
        product = matrix.matmul(W.flatten(1))
        return product.reshape(len(product), *W.shape[1:]), 1


def _multiply(matrix: SparseMatrix, W: Tensor) -> Tensor:
    X = matrix.X
    if matrix.dense:
        # For few columns this order takes half the time, and for products with Xᵀ and ten columns an eighth.
        return (W.T @ X.T).T
    if W.dtype == torch.float32 and W.device.type == "cpu" and W.shape[1] > 1:
        # Embeddings sum weighted rows of W; their single-precision kernel is 2-4 times faster.
        return embedding_bag(
            X.col_indices(), W, X.crow_indices(), mode="sum", per_sample_weights=X.values(), include_last_offset=True
        )
    # X @ W would first create zeros of the size of the result. With W by columns it takes up to twice as long.
    return torch.addmm(W.new_zeros(1, W.shape[1]), X, W.contiguous(), beta=0)


def _csr(X: Any, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    index = torch.int32 if max(X.nnz, *X.shape) < 2**31 else torch.int64  # the faster kernels need int32
    crow, col = (torch.from_numpy(x.astype(np.int64)).to(index) for x in (X.indptr, X.indices))
    values = torch.from_numpy(X.data.astype(np.float64)).to(dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state", category=UserWarning)
        return torch.sparse_csr_tensor(
            crow, col, values, size=X.shape, dtype=dtype, device="cpu", check_invariants=True
        ).to(device)


def squared_norm_bound(X: Any, iterations: int = 10) -> float:
    """Return an upper bound of λmax(XᵀX) for a scipy sparse matrix, which is close if no entry is negative.

    Collatz and Wielandt: λmax(A) ≤ max_i (Av)_i/v_i for every A ≥ 0 and v > 0. Here A = |X||X|ᵀ, and v is from power
    iteration. A sum of n numbers without cancellation has an error of at most n roundings, which the last factor
    includes.
    """
    A = abs(X.tocsr()).astype(np.float64)
    A_T, terms = A.T.tocsr(), int(sum(A.shape))
    v = np.ones(A.shape[0])
    least = float("inf")
    for _ in range(iterations):
        Av = A @ (A_T @ v)
        top = float(Av.max())
        if top == 0:
            return 0.0
        least = min(least, float((Av / v).max()))
        v = Av / top
        v[v == 0] = 1.0  # for an empty row, or after underflow; the bound is valid for any positive number
    return least * (1 + 2 * terms * 2.0**-52)


def perron_bound(product: Callable[[Tensor], Tensor], v: Tensor, iterations: int = 30) -> Tensor:
    """Return a close upper bound of λmax(M) for a symmetric M without negative entries, from products v ↦ Mv.

    Collatz and Wielandt, as above: max_i (Mv)_i/v_i is a bound for any v > 0; power iteration starts from `v`. Very
    small entries are raised, so that they stay positive and their quotients stay small. A Ritz value would be a lower
    bound.
    """
    least = v.new_tensor(float("inf"))
    for _ in range(iterations):
        Mv = product(v)
        top = Mv.max()
        if not bool(top > 0):
            return top
        least = torch.minimum(least, (Mv / v).max())
        v = (Mv / top).clamp(min=1e-30)
    return least


def squared_gram_bound(matrix: SparseMatrix, block: int = 128) -> Tensor:
    """Return a close upper bound of λmax(G∘G), G = XXᵀ, from dense blocks of rows of X. The memory is n² numbers."""
    X, (n, p) = matrix.X, matrix.shape
    crow, col, values = X.crow_indices().long(), X.col_indices().long(), X.values()
    row = torch.repeat_interleave(torch.arange(n, device=crow.device), crow.diff())
    squares = values.new_empty(n, n)
    for start in range(0, n, block):
        stop = min(start + block, n)
        entries = slice(int(crow[start]), int(crow[stop]))
        rows = values.new_zeros(p, stop - start)
        rows[col[entries], row[entries] - start] = values[entries]
        squares[start:stop] = matrix.matmul(rows).square_().T
    return perron_bound(lambda v: squares @ v, values.new_ones(n))
