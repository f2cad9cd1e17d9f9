"""Functions of w and λ that write in place, and what is followed or declined in them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

FLOAT64 = torch.float64
Function = Callable[[Tensor, Tensor], Tensor]
DATA = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=FLOAT64)
SIGNS = torch.tensor([True, False, True, False])


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=FLOAT64)


def plus_equals(w: Tensor, lam: Tensor) -> Tensor:
    x = w * 2
    x += lam.sum()
    x *= w
    x -= 1
    x /= 3
    return x


def functions(w: Tensor, lam: Tensor) -> Tensor:
    return (w * 2).neg_().add_(1).mul_(3).tanh_() + (w**2).add_(1).sqrt_() * (w * 2).square_() + (w * 1).exp_()


def rows(w: Tensor, lam: Tensor) -> Tensor:
    x = zeros(3, 4)
    for i in range(3):
        x[i] = w ** (i + 1)
    return x


def columns(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.empty(4, 2, dtype=FLOAT64)
    x[:, 1], x[:, 0] = w, w**2 * lam[0]
    return x


def a_view_made_before(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.outer(w, lam)
    before, turned = x[1], x.t()
    x.mul_(3)
    before.add_(lam)
    return before * turned[0, 1] + turned[1, 1] * x.reshape(-1)[3]


def a_view_of_a_view(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.outer(w, lam)
    x.t()[1, 1:3].copy_(w[:2])
    x.view(-1)[::3] *= 2
    return x


def whole_through_a_view(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.outer(w, lam)
    x.view(-1).exp_()
    return x


def a_copy_stays(w: Tensor, lam: Tensor) -> Tensor:
    x = w * 2
    copy = x.clone()
    x += 1
    return x * copy


def numbers_that_are_read_first(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.ones(4, dtype=FLOAT64)
    first = w + x
    x += w
    x[0] = 5.0
    second = w + x
    x.fill_(2.0)
    return first + second**2 + w**2 * x


def numbers_again(w: Tensor, lam: Tensor) -> Tensor:
    x = zeros(4)
    x.copy_(w)
    kept = x[2:]
    x.zero_()
    x[1] += 1
    return x * w + kept.sum()


def masks(w: Tensor, lam: Tensor) -> Tensor:
    x = w**2
    x[SIGNS] = w[SIGNS] * lam
    x[torch.tensor([3, 1])] *= 2
    x.masked_fill_(~SIGNS, 0.5)
    return x


def added_up(w: Tensor, lam: Tensor) -> Tensor:
    x = zeros(3).index_add_(0, torch.tensor([0, 2, 2, 0]), w)
    x.index_put_((torch.tensor([1, 1]),), lam, accumulate=True)
    return x.scatter_add_(0, torch.tensor([0, 1]), lam**2)


def reshaped(w: Tensor, lam: Tensor) -> Tensor:
    x = (w * 2).unsqueeze_(0)
    x += 1
    x.squeeze_(0).mul_(w)
    return x


def a_sum(w: Tensor, lam: Tensor) -> Tensor:
    loss = (w**2).sum()
    loss += lam.exp().sum()
    for x in w:
        loss += x**3
    return loss


def parts(w: Tensor, lam: Tensor) -> Tensor:
    x = zeros(2, 2)
    x[0] = DATA[0]
    x[1] = lam
    y = x.sum(0) + w[:2]
    x[0] += lam
    return y**2 + w[2:] @ x


def like(w: Tensor, lam: Tensor) -> Tensor:
    x = torch.zeros_like(w)
    x[1:3] = lam
    y = w.new_ones(4)
    y[0] = w[0] * lam[1]
    return x * y + torch.full_like(w, 2.0) * torch.ones_like(w) * w


FOLLOWED: dict[str, Function] = {
    f.__name__: f
    for f in (
        plus_equals, functions, rows, columns, a_view_made_before, a_view_of_a_view, whole_through_a_view,
        a_copy_stays, numbers_that_are_read_first, numbers_again, masks, added_up, reshaped, a_sum, parts, like,
    )
} | {
    "rms_norm": lambda w, lam: F.rms_norm(w, (4,)),
    "label smoothing": lambda w, lam: F.cross_entropy(w[None], torch.tensor([2]), label_smoothing=0.1),
}  # fmt: skip


class Module(torch.nn.Module):
    """With a buffer that is not the function's own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("space", zeros(4))


def through_detach(w: Tensor, lam: Tensor) -> Tensor:
    x = w * 2
    x.detach().mul_(3)
    return x.sum()


def through_data(w: Tensor, lam: Tensor) -> Tensor:
    x = zeros(4)
    x.data[:2] = w[:2]
    return (x * w).sum()


def shifted(w: Tensor, lam: Tensor) -> Tensor:
    x = w * 2
    x[1:].addmv_(torch.eye(3, dtype=FLOAT64), x[:-1])
    return x.sum()


def without_gradient(w: Tensor, lam: Tensor) -> Tensor:
    x = w * 2
    with torch.no_grad():
        x.mul_(3)
    return x.sum()


DECLINED: dict[str, tuple[Function, str]] = {
    "user's data": (
        lambda w, lam: SPACE.copy_(w).sum(),
        "copy_.default writes in place, into memory that the function",
    ),
    "a part of it": (lambda w, lam: (SPACE[1:].add_(w[0]) ** 2).sum(), "memory that the function did not allocate"),
    "a buffer": (lambda w, lam: MODULE.space.copy_(w).sum(), "memory that the function did not allocate"),
    "detach": (through_detach, "result of detach()"),
    "data": (through_data, "result of detach()"),
    "overlap": (shifted, "entries that share memory"),
    "expanded": (lambda w, lam: (w * 2)[:1].expand(3).add_(w[:3]).sum(), "entries that share memory"),
    "no_grad": (without_gradient, "under no_grad"),
    "out": (lambda w, lam: torch.mul(w, w, out=zeros(4)).sum(), "aten.mul.out writes in place"),
    "order": (lambda w, lam: (w * 2).index_copy_(0, torch.tensor([0, 1]), lam).sum(), "index_copy_.default writes in"),
    "cosine": (lambda w, lam: F.cosine_similarity(w[:2], lam, dim=0), "aten.clamp_min_.Tensor under no_grad"),
    "float32": (lambda w, lam: torch.zeros(4).copy_(w).sum(), "aten._to_copy to torch.float32"),
    "two for one place": (lambda w, lam: (w * 2).index_put_((torch.tensor([0, 0]),), lam).sum(), "index_put"),
    "several": (lambda w, lam: torch._foreach_add_([w * 2], 1.0) or w.sum(), "_foreach_add_"),
    "resize": (lambda w, lam: (w * 2).resize_(2).sum(), "resize_"),
    "random": (lambda w, lam: (w * 2).normal_().sum(), "random numbers"),
}

MODULE, SPACE = Module(), zeros(4)
