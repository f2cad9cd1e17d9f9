"""Code that writes in place is recorded as what it computes, whichever view is written and whichever is read."""

from __future__ import annotations

import random

import pytest
import torch
from in_place_programs import DECLINED, FLOAT64, FOLLOWED, Function
from torch import Tensor
from torch.func import vmap

import boundcheck as bc
from boundcheck.numerics.program.batched_losses import batchable
from boundcheck.numerics.program.capture import capture
from boundcheck.numerics.program.enclosure.expansions import EXPANSIONS
from boundcheck.numerics.program.enclosure.scalar import ScalarBounds
from boundcheck.numerics.program.recorded_program import Declined
from boundcheck.numerics.program.replay import differs, replay

W, LAM = torch.tensor([0.4, 1.2, -0.7, 0.3], dtype=FLOAT64), torch.tensor([0.3, 0.5], dtype=FLOAT64)


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


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_not_sure_is_declined(name: str) -> None:
    f, words = DECLINED[name]
    with pytest.raises(Declined, match=r"in_place_programs\.py:\d+") as why:
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
