"""The sparse product against the dense one: values, derivatives of every kind, batches, and no dense copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from pieces import normal
from torch import Tensor
from torch.func import grad, jacrev, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from boundcheck.errors import InputError
from boundcheck.problems.parts.sparse_matrix import SparseMatrix, perron_bound, squared_gram_bound, squared_norm_bound

DTYPES = (torch.float64, torch.float32)
N, P, C = 23, 41, 3
forward_mode = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """On matrices this small, threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sample(rows: int = N, columns: int = P, density: float = 0.15, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.4, 0.6, (rows, columns)) * (rng.random((rows, columns)) < density)
    X[2] = 0.0  # an empty row
    return scipy.sparse.csr_matrix(X)


def both(dtype: torch.dtype) -> tuple[SparseMatrix, Tensor]:
    X = sample()
    return SparseMatrix.from_scipy(X, dtype=dtype), torch.from_numpy(X.toarray()).to(dtype)


def close(a: Tensor, b: Tensor) -> None:
    """Entries are sums of at most P terms of size about 1, so P roundings each; twice that after a second product."""
    assert a.dtype == b.dtype
    torch.testing.assert_close(
        a, b, rtol=0, atol=2 * P * torch.finfo(a.dtype).eps * max(1.0, float(b.detach().abs().max()))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(P,), (P, 1), (P, C)])
def test_value_and_transpose(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    matrix, X = both(dtype)
    W = normal(*shape, dtype=dtype)
    R = normal(N, *shape[1:], dtype=dtype)
    close(matrix @ W, X @ W)
    close(matrix.T @ R, X.T @ R)
    assert matrix.shape == X.shape
    assert matrix.T.shape == X.T.shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_in_any_memory_order(dtype: torch.dtype) -> None:
    matrix, X = both(dtype)
    W = normal(C, P, dtype=dtype).T
    assert not W.is_contiguous()
    close(matrix @ W, X @ W)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(P,), (P, C)])
def test_gradient_and_double_backward(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    matrix, X = both(dtype)
    W = normal(*shape, dtype=dtype).requires_grad_()
    u = normal(*shape, dtype=dtype, seed=2)
    found = []
    for product in (matrix.matmul, lambda W: X @ W):
        first = torch.autograd.grad(torch.tanh(product(W)).sum(), W, create_graph=True)[0]
        found.append((first, torch.autograd.grad(first, W, u)[0]))
    for sparse, dense in zip(*found, strict=True):
        close(sparse, dense)


@forward_mode
def test_against_finite_differences() -> None:
    matrix = SparseMatrix.from_scipy(sample(5, 4, 0.5), dtype=torch.float64)
    W = normal(4, 2).requires_grad_()
    assert torch.autograd.gradcheck(matrix.matmul, W, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda W: torch.tanh(matrix @ W), W)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(P,), (P, C)])
def test_batches(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    matrix, X = both(dtype)
    one, two = normal(4, *shape, dtype=dtype), normal(2, 4, *shape, dtype=dtype)
    close(vmap(matrix.matmul)(one), vmap(lambda W: X @ W)(one))
    close(vmap(matrix.matmul, in_dims=1)(one.movedim(0, 1)), vmap(lambda W: X @ W)(one))
    close(vmap(vmap(matrix.matmul))(two), vmap(vmap(lambda W: X @ W))(two))


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_of_batches_and_batches_of_derivatives(dtype: torch.dtype) -> None:
    matrix, X = both(dtype)
    W = normal(4, P, C, dtype=dtype)

    def loss(product: Any) -> Any:
        return lambda W: torch.tanh(product(W)).pow(2).sum()

    sparse, dense = loss(matrix.matmul), loss(lambda W: X @ W)
    close(vmap(grad(sparse))(W), vmap(grad(dense))(W))
    close(grad(lambda W: vmap(sparse)(W).sum())(W), grad(lambda W: vmap(dense)(W).sum())(W))
    close(jacrev(grad(lambda w: sparse(w)))(W[0, :, 0]), jacrev(grad(lambda w: dense(w)))(W[0, :, 0]))


@forward_mode
@pytest.mark.parametrize("shape", [(P,), (P, C)])
def test_forward_mode(shape: tuple[int, ...]) -> None:
    matrix, X = both(torch.float64)
    W, V = normal(*shape), normal(*shape, seed=2)

    def double(product: Any) -> Any:
        return lambda W: jvp(lambda W: torch.tanh(product(W)), (W,), (V,))[1]

    for sparse, dense in zip(
        jvp(double(matrix.matmul), (W,), (V,)), jvp(double(lambda W: X @ W), (W,), (V,)), strict=True
    ):
        close(sparse, dense)


class Largest(TorchDispatchMode):
    """The largest dense tensor, and the number of sparse products, that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numel, self.products = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.products += "addmm" in str(func) or "embedding_bag" in str(func)
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
                self.numel = max(self.numel, leaf.numel())
        return result


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_dense_copy_and_no_loop(dtype: torch.dtype) -> None:
    rows, columns, batch = 5000, 100_000, 6
    rng = np.random.default_rng(0)
    place = (rng.integers(0, rows, 20_000), rng.integers(0, columns, 20_000))
    X = scipy.sparse.coo_matrix((rng.normal(size=20_000), place), shape=(rows, columns))
    with Largest() as seen:
        matrix = SparseMatrix.from_scipy(X, dtype=dtype)
        W = torch.ones(batch, columns, 2, dtype=dtype, requires_grad=True)
        value = vmap(matrix.matmul)(W)
        value.sum().backward()
    assert seen.products == 2  # one product there and one back, for the whole batch
    assert seen.numel <= W.numel()
    assert W.grad is not None
    expected = torch.from_numpy(np.asarray(X.sum(0)).ravel()).to(dtype)
    torch.testing.assert_close(W.grad[3, :, 1], expected)


def test_wrong_shape_is_named() -> None:
    matrix, _ = both(torch.float64)
    with pytest.raises(
        InputError, match=r"W has shape \(23, 3\) and X \(23, 41\); give W of shape \(41,\) or \(41, c\)"
    ):
        matrix @ normal(N, C)


@pytest.mark.parametrize("seed", range(5))
def test_squared_norm_bound_is_valid_and_tight(seed: int) -> None:
    signed = sample(60, 80, 0.05, seed)
    for X, slack in ((abs(signed), 1.05), (signed, float("inf"))):
        true = float(np.linalg.norm(X.toarray(), 2)) ** 2
        assert true <= squared_norm_bound(X, 40) <= slack * true
    assert squared_norm_bound(signed, 40) <= squared_norm_bound(signed, 2)
    assert squared_norm_bound(scipy.sparse.csr_matrix((3, 4))) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [1, 7, N, 100])
def test_squared_gram_bound_is_above_and_close(dtype: torch.dtype, block: int) -> None:
    matrix, X = both(dtype)
    exact = float(torch.linalg.eigvalsh((X @ X.T) ** 2)[-1])
    found = float(squared_gram_bound(matrix, block))
    assert exact <= found * (1 + 100 * torch.finfo(dtype).eps)  # N terms, then P: a Collatz-Wielandt quotient is exact
    assert found <= exact * 1.01


def test_perron_bound_of_blocks_and_of_nothing() -> None:
    M = torch.block_diag(torch.ones(3, 3), torch.ones(2, 2), torch.zeros(1, 1)).double()
    assert float(perron_bound(lambda v: M @ v, torch.ones(6, dtype=torch.float64))) == pytest.approx(3, rel=1e-12)
    assert float(perron_bound(lambda v: 0 * v, torch.ones(6, dtype=torch.float64))) == 0


def test_row_norms() -> None:
    matrix, X = both(torch.float64)
    close(matrix.row_norms(), X.norm(dim=1))


def test_a_dense_matrix_takes_a_batch_in_one_product() -> None:
    X, W = normal(N, P, dtype=torch.float64), normal(5, P, C, dtype=torch.float64, seed=1)
    matrix, sizes = SparseMatrix.full(X), []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
            if function in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default):
                sizes.append(tuple(arguments[0].shape))
            return function(*arguments, **(options or {}))

    with Seen():
        found = vmap(matrix.matmul)(W)
    assert sizes == [(5 * C, P)]
    torch.testing.assert_close(found, X @ W)
    gradient = vmap(grad(lambda w: (matrix @ w).square().sum()))(W)
    torch.testing.assert_close(gradient, 2 * X.T @ (X @ W))
