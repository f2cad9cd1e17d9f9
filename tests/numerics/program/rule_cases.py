"""One call of each operation that has a rule: float tensors become balls, everything else stays as it is."""

from __future__ import annotations

from typing import Any

import torch
from pieces import normal
from torch import Tensor

aten = torch.ops.aten
Call = tuple[tuple[Any, ...], dict[str, Any]]


def of(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def positive(*shape: int, seed: int = 0) -> Tensor:
    return normal(*shape, seed=seed).abs() + 0.2


def unit(*shape: int, seed: int = 0) -> Tensor:
    """Between 0.1 and 0.9."""
    return 0.5 + 0.4 * normal(*shape, seed=seed).tanh()


def definite(n: int) -> Tensor:
    A = normal(n, n, seed=7)
    return A @ A.T + torch.eye(n, dtype=torch.float64)


X, Y, v = normal(3, 4), normal(3, 4, seed=1), normal(4, seed=2)
M, S = normal(4, 4, seed=3) + 4 * torch.eye(4, dtype=torch.float64), definite(4)
index = torch.tensor([2, 0, 2])
image, kernel = normal(2, 2, 6, 6, seed=4), normal(3, 2, 3, 3, seed=5)
grad_image = normal(2, 3, 4, 4, seed=6)
pooled = aten.max_pool2d_with_indices(image, [2, 2], [2, 2])
target = torch.tensor([1, 3, 0])
scale, middle = positive(3, 1), normal(3, 1, seed=8)
mask = X > 0
L = torch.linalg.cholesky(S)

SMOOTH = (
    "neg", "square", "exp", "exp2", "expm1", "sin", "cos", "atan", "asinh", "sinh", "cosh", "tanh", "sigmoid",
    "erf", "erfc", "gelu", "silu", "abs", "relu", "sign", "sgn", "floor", "ceil", "trunc", "softplus",
    "log_sigmoid_forward", "clone", "t_copy", "leaky_relu", "elu", "isnan", "isinf", "logical_not", "hardtanh",
    "round",
)  # fmt: skip
CALLS: dict[str, list[Call]] = {name: [of(2 * X)] for name in SMOOTH}
CALLS |= {name: [of(positive(3, 4))] for name in ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal")}
CALLS |= {name: [of(X, Y)] for name in ("mul", "maximum", "minimum", "gt", "ge", "lt", "le", "eq", "ne", "logaddexp")}
CALLS |= {name: [of(X)] for name in ("alias_copy", "zero", "_to_copy")}
CALLS |= {
    "log1p": [of(unit(3, 4) - 0.6)],
    "add": [of(X, Y), of(X, Y, alpha=3), of(X, 2.5)],
    "sub": [of(X, Y), of(X, Y, alpha=3)],
    "rsub": [of(X, 0.3), of(X, Y, alpha=0.7)],
    "div": [of(X, positive(3, 4)), of(X, 3.0), of(X, 4.0)],
    "addcmul": [of(X, Y, v, value=0.3)],
    "addcdiv": [of(X, Y, positive(4), value=0.3)],
    "lerp": [of(X, Y, 0.3), of(X, Y, unit(3, 4))],
    "pow": [
        of(X, 2), of(X, 3), of(X, -2), of(positive(3, 4), 0.5), of(positive(3, 4), 1.7), of(positive(3, 4), -1.5),
        of(2.5, X), of(positive(3, 4), Y), of(X, 0), of(X, 1),
    ],
    "tanh_backward": [of(X, unit(3, 4))],
    "sigmoid_backward": [of(X, unit(3, 4))],
    "gelu": [of(X), of(X, approximate="tanh")],
    "gelu_backward": [of(Y, X), of(Y, X, approximate="tanh")],
    "silu_backward": [of(Y, X)],
    "threshold_backward": [of(Y, X, 0)],
    "elu_backward": [of(Y, 0.7, 1.1, 0.9, False, X)],
    "leaky_relu_backward": [of(Y, X, 0.1, False)],
    "hardtanh_backward": [of(Y, X, -0.5, 0.5)],
    "clamp": [of(X, -0.5, 0.5), of(X, None, 0.1), of(X, Y - 1, Y + 1)],
    "clamp_min": [of(X, 0.1)],
    "clamp_max": [of(X, 0.1)],
    "amax": [of(X, [1]), of(X, [0, 1], True)],
    "amin": [of(X, [1]), of(X, [0, 1], True)],
    "argmax": [of(X), of(X, 1), of(X, 0, True)],
    "argmin": [of(X), of(X, 1)],
    "max": [of(X), of(X, 1), of(X, Y)],
    "min": [of(X), of(X, 1), of(X, Y)],
    "sort": [of(X), of(X, 0, True)],
    "topk": [of(X, 2), of(X, 2, 0, False)],
    "max_pool2d_with_indices": [of(image, [2, 2], [2, 2]), of(image, [3, 3], [2, 2], [1, 1]), of(image[0], [2, 2])],
    "max_pool2d_with_indices_backward": [
        of(pooled[0], image, [2, 2], [2, 2], [0, 0], [1, 1], False, pooled[1]),
        of(*(lambda p: (p[0], image, [3, 3], [1, 1], [1, 1], [1, 1], False, p[1]))(
            aten.max_pool2d_with_indices(image, [3, 3], [1, 1], [1, 1]))),
    ],
    "where": [of(mask, X, Y)],
    "sum": [of(X), of(X, [0]), of(X, [1], True)],
    "mean": [of(X), of(X, [0]), of(X, [1], True)],
    "var": [of(X), of(X, [1]), of(X, [0], correction=0, keepdim=True)],
    "std": [of(X), of(X, [1], correction=0)],
    "var_mean": [of(X, [1])],
    "prod": [of(X), of(X, 1), of(X, 0, True)],
    "cumprod": [of(X, 1)],
    "cumsum": [of(X, 1)],
    "linalg_vector_norm": [of(X), of(X, 2, [1]), of(X, 1, [1], True), of(X, float("inf"))],
    "norm": [of(X, 2), of(X, 2, [1], True)],
    "cat": [of([X, Y], 1)],
    "stack": [of([X, Y], 1)],
    "index": [of(X, [None, index])],
    "_unsafe_index": [of(X, [None, index])],
    "index_select": [of(X, 1, index)],
    "gather": [of(X, 1, target[:, None])],
    "select_backward": [of(v, [3, 4], 0, 1)],
    "slice_backward": [of(X[:, 1:3], [3, 4], 1, 1, 3, 1)],
    "select_scatter": [of(X, v, 0, 1)],
    "slice_scatter": [of(X, Y[:, 1:3], 1, 1, 3)],
    "diagonal_scatter": [of(M, v)],
    "diagonal_backward": [of(v, [4, 4], 0, 0, 1)],
    "flip": [of(X, [1])],
    "roll": [of(X, [1], [1])],
    "repeat": [of(X, [2, 1])],
    "repeat_interleave": [of(X, 2, 1)],
    "tril": [of(M), of(M, -1)],
    "triu": [of(M), of(M, 1)],
    "diag_embed": [of(v)],
    "masked_select": [of(X, mask)],
    "masked_scatter": [of(X, mask, Y)],
    "masked_fill": [of(X, mask, 2.5)],
    "take": [of(X, index)],
    "constant_pad_nd": [of(X, [1, 2], 3.5), of(X, [1, 0])],
    "embedding": [of(X, index)],
    "permute_copy": [of(X, [1, 0])],
    "view_copy": [of(X, [2, 6])],
    "expand_copy": [of(v, [3, 4])],
    "squeeze_copy": [of(X[None])],
    "unsqueeze_copy": [of(X, 0)],
    "transpose_copy": [of(X, 0, 1)],
    "slice_copy": [of(X, 1, 0, 2)],
    "select_copy": [of(X, 0, 1)],
    "pixel_shuffle": [of(normal(1, 4, 2, 2), 2)],
    "pixel_unshuffle": [of(normal(1, 1, 4, 4), 2)],
    "reflection_pad1d": [of(X, [1, 1])],
    "reflection_pad2d": [of(image, [1, 1, 1, 1])],
    "replication_pad1d": [of(X, [1, 1])],
    "replication_pad2d": [of(image, [1, 1, 1, 1])],
    "scatter": [of(X, 1, target[:, None], Y), of(X, 1, target[:, None], 2.5)],
    "_unsafe_view": [of(X, [4, 3])],
    "im2col": [of(image, [2, 2], [1, 1], [0, 0], [1, 1])],
    "unfold_copy": [of(v, 0, 2, 1)],
    "lift_fresh_copy": [of(X)],
    "index_add": [of(X, 1, index, Y[:, :3]), of(X, 1, index, Y[:, :3], alpha=0.3)],
    "scatter_add": [of(X, 1, torch.tensor([[0, 0, 0, 1]] * 3), Y)],
    "index_put": [of(X, [None, index], Y[:, :3], True), of(X, [None, torch.tensor([1, 3])], Y[:, :2])],
    "embedding_dense_backward": [of(X, index, 5, -1, False)],
    "unfold_backward": [of(normal(3, 2), [4], 0, 2, 1)],
    "col2im": [of(normal(1, 4, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])],
    "avg_pool2d": [of(image, [2, 2]), of(image, [3, 3], [1, 1], [1, 1])],
    "avg_pool2d_backward": [of(normal(2, 2, 3, 3), image, [2, 2], [2, 2], [0, 0], False, True, None)],
    "trace": [of(M)],
    "_cdist_forward": [of(X, Y, 2.0, None), of(X, Y[:2], 2.0, 2)],
    "_cdist_backward": [of(normal(3, 2), X, Y[:2], 2.0, torch.cdist(X, Y[:2]))],
    "fill": [of(X, 2.5), of(X, v[0])],
    "copy": [of(X, v)],
    "mm": [of(X, M)],
    "mv": [of(X, v)],
    "bmm": [of(image[0], image[1])],
    "dot": [of(v, X[0])],
    "vdot": [of(v, X[0])],
    "addmm": [of(Y, X, M), of(v, X, M, beta=0.3, alpha=0.7), of(v, X, M, beta=0)],
    "addmv": [of(X[:, 0], X, v, beta=0.3, alpha=0.7)],
    "baddbmm": [of(image[0], image[0], image[1])],
    "addr": [of(X, X[:, 0], v, beta=0.3, alpha=0.7)],
    "convolution": [
        of(image, kernel, v[:3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        of(image, kernel, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
        of(grad_image, kernel, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1),
        of(X[:, None], normal(2, 1, 2), None, [1], [0], [1], False, [0], 1),
    ],
    "convolution_backward": [
        of(grad_image, image, kernel, [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]),
        of(grad_image, image, kernel, [0], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]),
    ],
    "softplus": [of(X), of(30 * X + 1, 0.9, 15)],
    "softplus_backward": [of(Y, X, 1, 20), of(Y, 30 * X + 1, 0.9, 15)],
    "log_sigmoid_backward": [of(Y, X, X.abs().neg().exp())],
    "_softmax": [of(X, 1, False)],
    "_log_softmax": [of(X, 0, False)],
    "logsumexp": [of(X, [1]), of(X, [0, 1]), of(X, [1], True)],
    "xlogy": [of(X, positive(3, 4))],
    "_softmax_backward_data": [of(Y, X.softmax(1), 1, torch.float64)],
    "_log_softmax_backward_data": [of(Y, X.log_softmax(1), 1, torch.float64)],
    "mse_loss": [of(X, Y), of(X, Y, 2), of(X, Y, 0)],
    "mse_loss_backward": [of(v[0], X, Y, 1), of(v[0], X, Y, 2), of(Y, X, Y, 0)],
    "huber_loss": [of(2 * X, Y), of(2 * X, Y, 0, 0.5)],
    "huber_loss_backward": [of(v[0], 2 * X, Y, 1, 1.0), of(Y, 2 * X, Y, 0, 0.5)],
    "smooth_l1_loss": [of(2 * X, Y), of(2 * X, Y, 2, 0.5), of(X, Y, 1, 0.0)],
    "smooth_l1_loss_backward": [of(v[0], 2 * X, Y, 1, 1.0), of(Y, 2 * X, Y, 0, 0.5), of(v[0], X, Y, 2, 0.0)],
    "binary_cross_entropy": [of(unit(3, 4), unit(3, 4, seed=1)), of(unit(3, 4), unit(3, 4, seed=1), positive(4), 2)],
    "binary_cross_entropy_backward": [
        of(v[0], unit(3, 4), unit(3, 4, seed=1)), of(Y, unit(3, 4), unit(3, 4, seed=1), positive(4), 0),
    ],
    "nll_loss_forward": [
        of(X, target, None, 1, -100), of(X, target, positive(4), 1, 3), of(X, target, positive(4), 2, -100),
        of(X, target, None, 0, 1),
    ],
    "nll_loss_backward": [
        of(v[0], X, target, None, 1, -100, torch.tensor(3.0).double()),
        of(v[0], X, target, positive(4), 2, 3, positive(4)[target[[0, 2]]].sum()),
        of(v[:3], X, target, None, 0, -100, torch.tensor(0.0).double()),
    ],
    "nll_loss2d_forward": [of(image, torch.arange(72).reshape(2, 6, 6) % 2, None, 1, -100)],
    "nll_loss2d_backward": [
        of(v[0], image, torch.arange(72).reshape(2, 6, 6) % 2, None, 1, -100, torch.tensor(72.0).double())
    ],
    "native_layer_norm": [of(X, [4], None, None, 1e-5), of(image, [6, 6], normal(6, 6), normal(6, 6, seed=3), 0.1)],
    "_linalg_solve_ex": [of(M, v), of(M, normal(4, 2)), of(M, X, left=False), of(M.expand(2, 4, 4), normal(2, 4, 1))],
    "linalg_inv_ex": [of(M)],
    "linalg_cholesky_ex": [of(S), of(S, upper=True)],
    "linalg_solve_triangular": [
        of(M, normal(4, 2), upper=True), of(M, X, upper=False, left=False),
        of(M / 4, normal(4, 2), upper=True, unitriangular=True),
    ],
    "cholesky_solve": [of(normal(4, 2), L), of(normal(4, 2), L.T, True)],
    "cholesky_inverse": [of(L)],
    "_linalg_slogdet": [of(M), of(M[[1, 0, 2, 3]])],
    "_linalg_det": [of(M), of(M[[1, 0, 2, 3]])],
    "_linalg_eigh": [of(S), of(S, "U")],
    "_linalg_svd": [of(X), of(X.T), of(M)],
}  # fmt: skip
_norm = aten.native_layer_norm(X, [4], v, None, 1e-5)
CALLS |= {
    "native_layer_norm_backward": [of(Y, X, [4], _norm[1], _norm[2], v, v, [True, True, True])],
    "_unsafe_index_put": CALLS["index_put"],
}
# these need more than one call: LU factors come from a factorisation, the weights of bags are stored
ELSEWHERE = {
    "linalg_lu_factor_ex", "linalg_lu_solve", "_embedding_bag", "_embedding_bag_forward_only", "_index_put_impl",
}  # fmt: skip
