"""One row for each operation that the enclosures know: a new rule is a new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Shape = tuple[int, ...]
INDEX = torch.tensor([1, 0, 1])
MASK = torch.tensor([True, False, True, True])
SQUARE = torch.tensor([[True, False], [False, True]])
TARGET = torch.tensor([2, 0])


@dataclass(frozen=True)
class Case:
    """An operation on tensors of these shapes that all vary; `low` keeps them above it.

    `composite`: PyTorch runs other operations in its place, or the result is the same memory.
    """

    name: str
    apply: Callable[..., Tensor]
    shapes: tuple[Shape, ...] = ((4,),)
    low: float | None = None
    composite: bool = False
    size: float = 1.0
    label: str = ""

    @property
    def id(self) -> str:
        """For pytest."""
        return f"{self.name} {self.label}".strip()


V, M, MM, T = ((4,),), ((2, 3),), ((2, 2),), ((2, 2, 2),)


def numbers(*shape: int, seed: int = 7) -> Tensor:
    """Data of a program, the same in float32."""
    count = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (1.5 * torch.sin(2.4 * count + seed)).float().double().reshape(shape)


def like(x: Tensor, *shape: int) -> Tensor:
    """Data in the precision of a tensor."""
    return numbers(*shape).to(x.dtype)


MOVES = [
    Case("view", lambda x: x.view(2, 2)),
    Case("_unsafe_view", lambda x: torch.ops.aten._unsafe_view(x, [2, 2])),
    Case("reshape", lambda x: x.reshape(2, 2), composite=True),
    Case("_reshape_alias", lambda x: torch.ops.aten._reshape_alias(x, [2, 2], [2, 1])),
    Case("permute", lambda x: x.permute(1, 0), M),
    Case("transpose", lambda x: x.transpose(0, 2), T),
    Case("t", lambda x: x.t(), M),
    Case("squeeze", lambda x: x.squeeze(0), ((1, 3),)),
    Case("squeeze", lambda x: (2 * x).squeeze_(0), ((1, 3),), label="in place"),
    Case("unsqueeze", lambda x: x.unsqueeze(1)),
    Case("unsqueeze", lambda x: (2 * x).unsqueeze_(1), label="in place"),
    Case("t", lambda x: (2 * x).t_(), M, label="in place"),
    Case("expand", lambda x: x.expand(3, 4)),
    Case("select", lambda x: x[1], M),
    Case("slice", lambda x: x[1::2]),
    Case("split", lambda x: x.split(2)[1]),
    Case("split_with_sizes", lambda x: x.split([1, 3])[1]),
    Case("unbind", lambda x: x.unbind(0)[1], M),
    Case("chunk", lambda x: x.chunk(2)[0], composite=True),
    Case("clone", lambda x: x.clone()),
    Case("alias", lambda x: torch.ops.aten.alias(x), composite=True),
    Case("contiguous", lambda x: x.t().contiguous(), M, composite=True),
    Case("_to_copy", lambda x: torch.ops.aten._to_copy(x, dtype=torch.float64)),
    Case("lift_fresh", lambda x: torch.ops.aten.lift_fresh(x), composite=True),
    Case("cat", lambda x, y: torch.cat([x, like(x, 2), y, x]), ((4,), (2,))),
    Case("cat", lambda x: torch.cat([x, torch.tensor([3, 4])]), label="whole numbers"),
    Case("stack", lambda x, y: torch.stack([x, y, x], 1), ((3,), (3,))),
    Case("stack", lambda x: torch.stack([x, torch.arange(4)]), label="whole numbers"),
    Case("index", lambda x: x[INDEX]),
    Case("index", lambda x: x[MASK], label="mask"),
    Case("index_select", lambda x: x.index_select(0, INDEX)),
    Case("gather", lambda x: x.gather(1, TARGET[:, None]), M),
    Case("diagonal", lambda x: x.diagonal(), M),
    Case("flip", lambda x: x.flip(0)),
    Case("roll", lambda x: x.roll(1)),
    Case("tril", lambda x: x.tril(), MM),
    Case("triu", lambda x: x.triu(1), MM),
    Case("diag", lambda x: x.diag(), composite=True),
    Case("diag_embed", lambda x: torch.diag_embed(x), ((2,),)),
    Case("repeat", lambda x: x.repeat(2, 1)),
    Case("movedim", lambda x: x.movedim(0, 1), M, composite=True),
    Case("flatten", lambda x: x.flatten(), M, composite=True),
    Case("where", lambda x, y: torch.where(MASK, x, y), ((4,), (4,))),
    Case("where", lambda x: torch.where(MASK, like(x, 4), x), label="numbers"),
    Case("where", lambda x: torch.where(MASK, x, torch.arange(4)), label="whole numbers"),
    Case("where", lambda x: torch.where(MASK, x, 2.5), label="one number"),
    Case("take", lambda x: x.take(INDEX), M),
    Case("rot90", lambda x: x.rot90(), M),
    Case("unflatten", lambda x: x.unflatten(0, (2, 2)), composite=True),
    Case("narrow", lambda x: x.narrow(0, 1, 2), composite=True),
    Case("constant_pad_nd", lambda x: F.pad(x, (1, -1, 0, 2)), M),
    Case("unfold", lambda x: x.unfold(0, 3, 1)),
    Case("im2col", lambda x: F.unfold(x.reshape(1, 1, 2, 3), 2, padding=1), M),
    Case("select_scatter", lambda x, y: x.select_scatter(y, 0, 1), ((2, 3), (3,))),
    Case("slice_scatter", lambda x, y: x.slice_scatter(y, 0, 1, 3), ((4,), (2,))),
    Case("slice_scatter", lambda x: like(x, 4).slice_scatter(x, 0, 1, 3), ((2,),), label="into numbers"),
]

SUMS = [
    Case("sum", lambda x: x.sum()),
    Case("sum", lambda x: x.sum(1, keepdim=True), M, label="axis"),
    Case("mean", lambda x: x.mean(0), M),
    Case("cumsum", lambda x: x.cumsum(0)),
    Case("trace", lambda x: x.trace(), MM),
    Case("add", lambda x, y: x + y, ((2, 3), (3,))),
    Case("add", lambda x, y: torch.add(x, y, alpha=-1.7), ((4,), (4,)), label="alpha"),
    Case("add", lambda x: torch.add(x, like(x, 4), alpha=0.3), label="number, alpha"),
    Case("add", lambda x: torch.add(like(x, 4), x, alpha=0.3), label="to a number, alpha"),
    Case("add", lambda x: x + like(x, 3, 4), label="broadcast"),
    Case("sub", lambda x, y: x - y, ((4,), (1,))),
    Case("sub", lambda x: like(x, 4) - x, label="from a number"),
    Case("sub", lambda x: torch.sub(like(x, 4), x, alpha=2.5), label="from a number, alpha"),
    Case("rsub", lambda x: torch.rsub(x, 2.0, alpha=3)),
    Case("rsub", lambda x: torch.rsub(x, 1.5), label="plain"),
    Case("rsub", lambda x, y: torch.rsub(x, y, alpha=3), ((4,), (4,)), label="two"),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x.reshape(1, 1, 2, 3), 2, 1), M),
    Case("_adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, 2, 3), (1, 2)), M),
    Case("index_add", lambda x, y: x.index_add(0, INDEX, y), ((2,), (3,))),
    Case("index_add", lambda x: like(x, 2).index_add(0, INDEX, x), ((3,),), label="to numbers"),
    Case("scatter_add", lambda x, y: x.scatter_add(0, INDEX, y), ((2,), (3,))),
    Case("neg", lambda x: -x),
    Case("div", lambda x: x / 3.0),
    Case("div", lambda x: x / (like(x, 4).abs() + 0.1), label="numbers"),
    Case("div", lambda x: x / 4.0, label="power of two"),
    Case("div", lambda x: like(x, 4) / x, low=0.5, label="a number over"),
    Case("div", lambda x, y: x / y, ((4,), (1,)), low=0.7, label="two"),
    Case("mul", lambda x: x * like(x, 3, 4), label="numbers"),
    Case("mul", lambda x: x * 0.1, label="one number"),
]

ELEMENTARY = [
    Case("exp", torch.exp),
    Case("expm1", torch.expm1),
    Case("log", torch.log, low=0.3),
    Case("log1p", torch.log1p, low=-0.6),
    Case("sqrt", torch.sqrt, low=0.3),
    Case("rsqrt", torch.rsqrt, low=0.3),
    Case("reciprocal", torch.reciprocal, low=0.4),
    Case("reciprocal", lambda x: torch.reciprocal(-x), low=0.4, label="below 0"),
    Case("square", torch.square, composite=True),
    Case("sigmoid", torch.sigmoid, size=3.0),
    Case("log_sigmoid", F.logsigmoid, size=3.0, composite=True),
    Case("tanh", torch.tanh, size=1.5),
    Case("atan", torch.atan, size=1.5),
    Case("erf", torch.erf, size=1.5),
    Case("sinh", torch.sinh),
    Case("cosh", torch.cosh),
    Case("abs", torch.abs),
    Case("abs", torch.abs, low=0.3, label="above 0"),
    Case("sign", torch.sign),
    Case("sign", torch.sign, low=0.3, label="above 0"),
    Case("sgn", torch.sgn),
    Case("relu", torch.relu),
    Case("relu", torch.relu, low=0.3, label="above 0"),
    Case("sin", torch.sin),
    Case("sin", torch.sin, size=20.0, label="many waves"),
    Case("cos", torch.cos),
    Case("cos", torch.cos, size=20.0, label="many waves"),
    Case("exp2", torch.exp2),
    Case("log2", torch.log2, low=0.3),
    Case("log10", torch.log10, low=0.3),
    Case("asinh", torch.asinh, size=1.5),
    Case("erfc", torch.erfc, size=1.5),
    Case("leaky_relu", F.leaky_relu),
    Case("leaky_relu", lambda x: F.leaky_relu(-x, 0.3), low=0.3, label="below 0"),
    Case("clamp", lambda x: x.clamp(-0.4, 0.7)),
    Case("clamp", lambda x: x.clamp(0.2, 50.0), low=0.3, label="inside"),
    Case("clamp_min", lambda x: x.clamp_min(0.1)),
    Case("clamp_max", lambda x: x.clamp_max(0.1)),
    Case("hardtanh", F.hardtanh),
    Case("hardtanh", F.relu6, label="relu6"),
    Case("elu", F.elu),
    Case("elu", F.selu, label="selu"),
    Case("elu", lambda x: F.elu(-x, 0.3), low=0.3, label="below 0"),
    Case("celu", lambda x: F.celu(x, 2.0)),
    Case("max", lambda x: (x + 9 * torch.arange(4, dtype=x.dtype)).max()),
    Case("max", lambda x: (x + 99 * torch.arange(3, dtype=x.dtype)).max(1, keepdim=True)[0], M, label="axis"),
    Case("amax", lambda x: (x - 99 * torch.arange(3, dtype=x.dtype)).amax(1), M),
    Case("min", lambda x: (x + 99 * torch.arange(3, dtype=x.dtype)).min(1)[0], M),
    Case("amin", lambda x: (x - 9 * torch.arange(4, dtype=x.dtype)).amin()),
    Case("pow", lambda x: x**2, label="2"),
    Case("pow", lambda x: x**3, label="3"),
    Case("pow", lambda x: x**4.0, label="4"),
    Case("pow", lambda x: x**1, label="1"),
    Case("pow", lambda x: x**2.5, low=0.3, label="2.5"),
    Case("pow", lambda x: x**1.3, low=0.3, label="1.3"),
    Case("pow", lambda x: x**-1.5, low=0.3, label="-1.5"),
    Case("pow", lambda x: x**-3, low=0.5, label="-3"),
    Case("softplus", F.softplus, size=2.0),
    Case("softplus", lambda x: F.softplus(x, 3.0), label="beta"),
    Case("log_sigmoid_forward", F.logsigmoid),
    Case("huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.7), ((4,), (4,))),
    Case("huber_loss", lambda x: F.huber_loss(x, like(x, 4), reduction="none", delta=0.4), label="each"),
    Case("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", beta=0.3), ((4,), (4,))),
]

CHAINS = [  # functions of one number that are made of several
    Case("chain", lambda x: torch.log(1 + torch.exp(-x)), composite=True, label="log(1 + e^-x)"),
    Case("chain", lambda x: x * torch.sigmoid(x), composite=True, label="x σ(x)"),
    Case("chain", lambda x: torch.sqrt(x * x + 0.1), composite=True, label="root"),
    Case("chain", lambda x: x / (1 + x**2), composite=True, label="x/(1 + x²)"),
    Case("chain", lambda x: x**2 - torch.tanh(2 * x), composite=True, label="x² − tanh 2x"),
    Case("chain", lambda x: torch.exp(-(x**2) / 2), composite=True, label="Gauss"),
    Case("chain", lambda x: torch.relu(x) ** 2, composite=True, label="relu²"),
    Case("chain", lambda x: (1 - 2 * x).clamp(min=0).pow(3), composite=True, label="clamp³"),
    Case("chain", lambda x: F.relu(0.2 - x).square().square(), composite=True, label="relu⁴"),
    Case("chain", lambda x: (x - 0.1).abs() ** 3, composite=True, label="|x|³"),
    Case("chain", lambda x: torch.sign(x) * torch.relu(x.abs() - 0.3), composite=True, label="soft threshold"),
    Case(
        "chain",
        lambda x, t: (x.abs() - t.exp()).clamp(min=0) * x.sgn(),
        ((4,), (1,)),
        composite=True,
        label="a threshold that varies",
    ),
    Case("chain", lambda x: torch.sign(x) * torch.relu(x.abs() + 0.3), composite=True, label="a jump"),
    Case("chain", lambda x: x.abs() ** 2 + x.abs() * torch.relu(x) ** 5, composite=True, label="folds"),
    Case("chain", lambda x: (3 - x) * torch.atan(x / 3) * x, composite=True, label="three factors"),
    Case("chain", lambda x: torch.sub(torch.exp(x), x, alpha=0.5), composite=True, label="e^x − x/2"),
]

PRODUCTS = [
    Case("mul", torch.mul, ((2, 3), (3,))),
    Case("mul", lambda x: x * x, label="with itself"),
    Case("mul", torch.mul, ((3, 1), (1, 2)), label="column times row"),
    Case("mm", torch.mm, ((2, 3), (3, 2))),
    Case("mm", lambda x: x @ x, MM, label="with itself"),
    Case("mm", lambda x: x @ like(x, 3, 2), M, label="with numbers"),
    Case("mm", lambda x: like(x, 2, 2) @ x, M, label="numbers first"),
    Case("mv", torch.mv, ((2, 3), (3,))),
    Case("mv", lambda x: like(x, 2, 4) @ x, label="with numbers"),
    Case("mv", lambda x: x @ like(x, 3), M, label="numbers last"),
    Case("mm", lambda x, y: x @ y, ((2,), (2, 3)), label="vector first"),
    Case("dot", torch.dot, ((3,), (3,))),
    Case("dot", lambda x: x @ x, label="with itself"),
    Case("dot", lambda x: x @ like(x, 4), label="with numbers"),
    Case("vdot", torch.vdot, ((3,), (3,))),
    Case("bmm", torch.bmm, ((2, 1, 2), (2, 2, 1))),
    Case("bmm", lambda x: torch.bmm(x, like(x, 2, 2, 1)), T, label="with numbers"),
    Case("matmul", torch.matmul, ((2, 1, 2), (2, 1)), composite=True),
    Case("outer", torch.outer, ((2,), (3,)), composite=True),
    Case("convolution", F.conv1d, ((1, 1, 4), (2, 1, 2))),
    Case("convolution", F.conv_transpose1d, ((1, 2, 2), (2, 1, 2)), label="transposed"),
    Case("convolution", lambda x: F.conv1d(x, like(x, 2, 1, 2), like(x, 2)), ((1, 1, 4),), label="with numbers"),
    Case("convolution", lambda x: F.conv1d(like(x, 1, 1, 5), x), ((2, 1, 2),), label="of numbers"),
    Case("convolution", lambda x: F.conv2d(x, like(x, 1, 1, 2, 2)), ((1, 1, 2, 3),), label="two axes"),
]

LOG_SUM_EXP = [
    Case("logsumexp", lambda x: torch.logsumexp(x, 0)),
    Case("logsumexp", lambda x: torch.logsumexp(x, 0, keepdim=True), M, label="first axis"),
    Case("logsumexp", lambda x: torch.logsumexp(x, 1), ((2, 1),), label="one entry"),
    Case("logsumexp", lambda x: torch.logsumexp(x, 1), ((2, 3),), size=20.0, label="far apart"),
]


def _standardised(x: Tensor) -> Tensor:
    """Layer norm as people write it, with the mean taken twice."""
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-3)


NORMS = [  # several operations that are one quotient x/√(sΣx² + ε)
    Case("norm", _standardised, M, composite=True, label="by hand"),
    Case("norm", lambda x: x / torch.linalg.vector_norm(x), composite=True, label="x/‖x‖"),
    Case("norm", lambda x: x * torch.rsqrt((x * x).mean(0, keepdim=True) + 0.1), M, composite=True, label="rms"),
    Case(
        "norm", lambda x: x / (2 * (x**2).sum((0, 2), keepdim=True) + 0.1) ** 0.5, T, composite=True, label="two axes"
    ),
    Case("norm", lambda x, y: x / torch.sqrt((y * y).sum() + 0.1), ((4,), (4,)), composite=True, label="of another"),
]

EXPANSIONS = [
    Case("_log_softmax", lambda x: F.log_softmax(x, -1), M),
    Case("_softmax", lambda x: torch.softmax(x, 0), M),
    Case("nll_loss_forward", lambda x: F.nll_loss(x, TARGET), M),
    Case("nll_loss_forward", lambda x: F.nll_loss(x, TARGET, like(x, 3).abs()), M, label="weights"),
    Case("nll_loss_forward", lambda x: F.cross_entropy(x, TARGET, reduction="sum"), M, label="cross entropy"),
    Case("nll_loss_forward", lambda x: F.nll_loss(x, TARGET, like(x, 3).abs(), reduction="none"), M, label="each"),
    Case("mse_loss", F.mse_loss, ((4,), (4,))),
    Case("mse_loss", lambda x: F.mse_loss(x, like(x, 4), reduction="sum"), label="sum"),
    Case("binary_cross_entropy_with_logits", lambda x: F.binary_cross_entropy_with_logits(x, like(x, 4).sigmoid())),
    Case("binary_cross_entropy_with_logits",
         lambda x, y: F.binary_cross_entropy_with_logits(x, y, like(x, 4).abs(), pos_weight=like(x, 4).abs()),
         ((4,), (4,)), label="weights"),
    Case("binary_cross_entropy", lambda x: F.binary_cross_entropy(torch.sigmoid(x), like(x, 4).sigmoid())),
    Case("binary_cross_entropy",
         lambda x: F.binary_cross_entropy(torch.sigmoid(x), like(x, 4).sigmoid(), like(x, 4).abs(), reduction="sum"),
         label="weights"),
    Case("addmm", lambda x, y, z: torch.addmm(z, x, y, beta=0.5, alpha=2.0), ((2, 2), (2, 2), (2,))),
    Case("addmm", lambda x, y: F.linear(x, y, like(x, 2)), ((2, 2), (2, 2)), label="linear"),
    Case("addmv", lambda x, y: torch.addmv(like(x, 2), x, y), ((2, 2), (2,))),
    Case("baddbmm", lambda x, y: torch.baddbmm(like(x, 2, 1, 1), x, y), ((2, 1, 2), (2, 2, 1))),
    Case("addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), ((4,), (4,))),
    Case("silu", F.silu),
    Case("gelu", F.gelu),
    Case("gelu", lambda x: F.gelu(x, approximate="tanh"), label="tanh"),
    Case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x), low=0.2),
    Case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True), M, low=0.2, label="axis"),
    Case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, keepdim=True), M, low=0.2, label="keepdim"),
    Case("logaddexp", torch.logaddexp, ((4,), (4,))),
    Case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 1, dim=1), M, low=0.2, label="1"),
    Case("linalg_vector_norm", lambda x: x.norm() ** 2, label="square"),
    Case("linalg_vector_norm", lambda x: x.norm(dim=1) ** 2, M, label="squares"),
    Case("maximum", torch.maximum, ((4,), (4,))),
    Case("maximum", lambda x: torch.maximum(x, 0.1 * x), low=0.1, label="above"),
    Case("minimum", lambda x: torch.minimum(x, like(x, 4))),
    Case("std", lambda x: torch.std(x) + torch.std(x + torch.arange(4, dtype=x.dtype))),
    Case("var_mean", lambda x: torch.stack(torch.var_mean(x, 1)), M),
    Case("xlogy", torch.xlogy, ((4,), (4,)), low=0.3),
    Case("lerp", lambda x, y: torch.lerp(x, y, 0.3), ((4,), (4,))),
    Case("lerp", torch.lerp, ((4,), (4,), (4,)), label="weight"),
    Case("addcdiv", lambda x, y: torch.addcdiv(x, x, y, value=0.5), ((4,), (4,)), low=0.4),
    Case("index_put", lambda x, y: x.index_put((INDEX[:2],), y), ((4,), (2,))),
    Case("index_put", lambda x, y: x.index_put((INDEX,), y, accumulate=True), ((4,), (3,)), label="sum"),
    Case("masked_fill", lambda x: x.masked_fill(MASK, 2.5)),
    Case("masked_fill", lambda x, y: x.masked_fill(MASK, y[0]), ((4,), (1,)), label="varying"),
    Case("var", lambda x: torch.var(x)),
    Case("var", lambda x: torch.var(x, 1, correction=0, keepdim=True), M, label="axis"),
]  # fmt: skip


def slope(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The gradient of Σf³, by a backward pass."""
    return lambda x: torch.func.grad(lambda t: (f(t) ** 3).sum())(x)


BACKWARD = [
    Case("tanh_backward", slope(torch.tanh)),
    Case("sigmoid_backward", slope(torch.sigmoid)),
    Case("log_sigmoid_backward", slope(F.logsigmoid)),
    Case("_softmax_backward_data", slope(lambda x: torch.softmax(x, 1)), M),
    Case("_log_softmax_backward_data", slope(lambda x: F.log_softmax(x, 0)), M),
    Case("mse_loss_backward", slope(lambda x: F.mse_loss(x, like(x, 4)))),
    Case("mse_loss_backward", slope(lambda x: F.mse_loss(x, like(x, 4), reduction="none")), label="each"),
    Case("nll_loss_backward", slope(lambda x: F.cross_entropy(x, TARGET)), M),
    Case("nll_loss_backward", slope(lambda x: F.nll_loss(x, TARGET, reduction="none")), M, label="each"),
    Case("nll_loss_backward", slope(lambda x: F.nll_loss(x, TARGET, reduction="sum")), M, label="sum"),
]

LAYERS = [
    Case("native_layer_norm", lambda x: F.layer_norm(x, (3,), eps=0.1), M),
    Case("native_layer_norm", lambda x, y, z: F.layer_norm(x, (3,), y, z, 0.1), ((2, 3), (3,), (3,)), label="affine"),
    Case("native_group_norm", lambda x: F.group_norm(x, 2, like(x, 4), like(x, 4), 0.1), ((1, 4, 2),)),
    Case("native_batch_norm", lambda x: F.batch_norm(x, like(x, 3), like(x, 3).abs(), like(x, 3), like(x, 3)), M),
    Case("native_batch_norm", lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), M, label="of the batch"),
    Case("convolution", lambda x, y, z: F.conv1d(x, y, z), ((1, 1, 4), (2, 1, 2), (2,)), label="bias"),
    Case("embedding", lambda x: F.embedding(INDEX, x), M),
    Case("constant_pad_nd", lambda x: F.pad(x, (1, 2), value=1.5), label="a number"),
    Case("nll_loss2d_forward", lambda x: F.cross_entropy(x[:, :, None], TARGET[:, None]), M),
    Case("soft_margin_loss", lambda x: F.soft_margin_loss(x, like(x, 4).sign())),
    Case("_safe_softmax", lambda x: torch.ops.aten._safe_softmax(x, 1), M),
    Case("mish", F.mish),
    Case("glu", F.glu),
    Case("hypot", torch.hypot, ((4,), (4,)), low=0.2),
    Case("logit", lambda x: torch.logit(0.1 + 0.8 * torch.sigmoid(x))),
    Case("addbmm", lambda x, y: torch.addbmm(like(x, 1, 1), x, y, alpha=0.5), ((2, 1, 2), (2, 2, 1))),
]
