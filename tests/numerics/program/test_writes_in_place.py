"""Code that writes in place is recorded as what it computes, whichever view is written and whichever is read."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

import boundcheck as bc
from boundcheck.numerics.program.batched_losses import batchable
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.replay import differs, replay

FLOAT64 = torch.float64
W, LAM = torch.tensor([0.4, 1.2, -0.7, 0.3], dtype=FLOAT64), torch.tensor([0.3, 0.5], dtype=FLOAT64)
DATA = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=FLOAT64)
SIGNS = torch.tensor([True, False, True, False])
Function = Callable[[Tensor, Tensor], Tensor]


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


def scalar(f: Function) -> Function:
    def loss(w: Tensor, lam: Tensor) -> Tensor:
        y = f(w, lam)
        return (y * torch.arange(1, y.numel() + 1, dtype=FLOAT64).reshape(y.shape)).sum() ** 2

    return loss


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_record_is_the_function(name: str) -> None:
    f = scalar(FOLLOWED[name])
    program = capture(f, W, LAM, EXPANSIONS)
    assert differs(program, f, W, LAM) == ""
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        w, lam = (torch.randn(k, generator=generator, dtype=FLOAT64) for k in (4, 2))
        torch.testing.assert_close(replay(program, w, lam), f(w, lam), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in FOLLOWED if name != "rms_norm"])
def test_the_bounds_are_those_of_the_function(name: str) -> None:
    f = scalar(FOLLOWED[name])
    bounds = ScalarBounds(capture(f, W, LAM, EXPANSIONS), W, LAM, 0.0)
    H = torch.func.hessian(f)(W, LAM)
    assert bounds.largest == pytest.approx(float(torch.linalg.eigvalsh(H)[-1]), rel=1e-6)
    assert bounds.gradient == pytest.approx(float(torch.func.grad(f)(W, LAM).norm()), rel=1e-9)


class Module(torch.nn.Module):
    """With a buffer that is not the function's own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("space", zeros(4))


MODULE, SPACE = Module(), zeros(4)


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
    "a part of it": (lambda w, lam: (SPACE[1:].add_(w[0]) ** 2).sum(), "memory that the function did not take"),
    "a buffer": (lambda w, lam: MODULE.space.copy_(w).sum(), "memory that the function did not take"),
    "detach": (through_detach, "cut off"),
    "data": (through_data, "cut off"),
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


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_not_sure_is_declined(name: str) -> None:
    f, words = DECLINED[name]
    with pytest.raises(Declined, match=r"test_writes_in_place\.py:\d+") as why:
        ScalarBounds(capture(f, W, LAM, EXPANSIONS), W, LAM, 0.1)
    assert words in str(why.value)


def test_buffers_that_are_filled_can_be_batched() -> None:
    X = torch.arange(15, dtype=FLOAT64).reshape(5, 3).sin()

    def f(w: Tensor, lam: Tensor) -> Tensor:
        y, z, start = torch.zeros(5, 2, dtype=w.dtype), X.clone(), torch.empty(2, dtype=w.dtype)
        for k in range(2):
            y[:, k] = X @ w[k]
        z += w.sum() * lam.sum()
        start[0], start[1] = w.sum(), lam.sum()
        return (y**2).sum() * lam.exp().sum() + (z**2).sum() + start.prod()

    w, lam = X[:4].repeat(1, 2).reshape(4, 2, 3), X[:2, :2]
    g = batchable(f)
    g(w[0], lam[0])

    def second(w: Tensor, lam: Tensor) -> Tensor:
        return torch.func.jacrev(torch.func.grad(g), argnums=1)(w, lam)

    both = vmap(vmap(second, in_dims=(0, None)), in_dims=(None, 0))(w, lam)
    torch.testing.assert_close(both[1, 2], torch.func.jacrev(torch.func.grad(f), argnums=1)(w[2], lam[1]))


def test_what_was_computed_from_data_alone_is_not_written_into_in_a_batch() -> None:
    X = torch.ones(3, 2, dtype=FLOAT64)

    def inner(w: Tensor, lam: Tensor) -> Tensor:
        y = X @ X.T
        y += w.sum()
        return (y**2).sum() + (lam * w**2).sum()

    with pytest.raises(bc.UserCodeError, match="may not write in place into a tensor of data"):
        bc.check(bc.Problem.from_loss(inner, lambda w, lam: w.sum(), W[:2], LAM), t=3)


def random_program(seed: int) -> Function:
    """Some tensors, views of views of them, and writes through any of these."""

    def f(w: Tensor, lam: Tensor) -> Tensor:
        draw = random.Random(seed)
        seen = [torch.outer(w, lam), torch.zeros(4, 2, dtype=FLOAT64), w * 3, torch.ones(2, dtype=FLOAT64)]
        for _ in range(12):
            x, y = draw.choice(seen), draw.choice(seen)
            step = draw.randrange(10)
            if step < 5 and x.dim():
                k = draw.randrange(x.shape[0])
                views = (x[k], x[k:], x[::2], x.t() if x.dim() == 2 else x[None], x.unsqueeze(-1), x.narrow(0, k, 1))
                seen.append(draw.choice(views))
            elif step < 6:
                seen.append(x.clone() if x.dim() else x + 1)
            elif step < 7:
                x.mul_(1.5)
            elif step < 8:
                x.fill_(draw.random())
            elif step < 9:
                x.add_(y.sum())
            else:
                x[...] = w[draw.randrange(4)] + y.sum()
        return torch.stack(
            [(x * (i + 1)).sum() + (x[..., -1:] * 7).sum() if x.dim() else x for i, x in enumerate(seen)]
        )

    return f


@pytest.mark.parametrize("seed", range(60))
def test_random_views_and_writes(seed: int) -> None:
    f = scalar(random_program(seed))
    program = capture(f, W, LAM, EXPANSIONS)
    if seed not in (0, 26, 27, 57):  # PyTorch takes their views for leaves, and refuses a derivative
        assert differs(program, f, W, LAM) == ""
    for point in (-W.flip(0), W**2, 10 * W):
        torch.testing.assert_close(replay(program, point, LAM**2), f(point, LAM**2), rtol=1e-10, atol=1e-10)
